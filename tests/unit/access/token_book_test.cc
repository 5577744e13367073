#include "server/access/token_book.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "server/base/status.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/fake_entropy.h"

namespace tunefarm {
namespace {

using testing::MatchesRegex;

constexpr int64_t kDayMs = 24 * 3600 * 1000;

class MemoryTokens : public TokenStore {
 public:
  absl::Status PutToken(const TokenRow& token) override {
    MutexLock lock(&mutex_);
    rows_[token.digest] = token;
    return absl::OkStatus();
  }
  absl::StatusOr<std::vector<TokenRow>> ListTokens() override {
    MutexLock lock(&mutex_);
    std::vector<TokenRow> list;
    for (const auto& [digest, row] : rows_) list.push_back(row);
    return list;
  }
  absl::StatusOr<std::optional<TokenRow>> FindToken(std::string_view digest) override {
    MutexLock lock(&mutex_);
    ++finds_;
    if (is_away_) return Unavailable("away");
    const auto row = rows_.find(std::string(digest));
    if (row == rows_.end()) return std::nullopt;
    return row->second;
  }
  absl::StatusOr<TokenRow> RevokeToken(std::string_view name, int64_t now_ms) override {
    MutexLock lock(&mutex_);
    for (auto& [digest, row] : rows_) {
      if (row.name != name) continue;
      row.revoked_at_ms = now_ms;
      return row;
    }
    return NotFound("none");
  }
  absl::Status TouchToken(std::string_view digest, int64_t used_at_ms) override {
    MutexLock lock(&mutex_);
    rows_[std::string(digest)].last_used_at_ms = used_at_ms;
    return absl::OkStatus();
  }
  int finds() {
    MutexLock lock(&mutex_);
    return finds_;
  }
  void SetAway(bool is_away) {
    MutexLock lock(&mutex_);
    is_away_ = is_away;
  }

 private:
  Mutex mutex_;
  std::map<std::string, TokenRow> rows_ GUARDED_BY(mutex_);
  int finds_ GUARDED_BY(mutex_) = 0;
  bool is_away_ GUARDED_BY(mutex_) = false;
};

class TokenBookTest : public testing::Test {
 protected:
  MemoryTokens store_;
  FakeEntropy entropy_;
  FakeClock clock_;
  std::unique_ptr<TokenBook> book_ = std::make_unique<TokenBook>(&store_, &entropy_, &clock_);
};

TEST_F(TokenBookTest, OnlyTheDigestIsStored) {
  const NewToken made = book_->Create("ci", "submit,kernels", 0).value();
  EXPECT_THAT(made.token, MatchesRegex("tft_[0-9a-f]{64}"));
  const std::vector<TokenRow> rows = store_.ListTokens().value();
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].digest, Sha256(made.token).Hex());
  EXPECT_EQ(rows[0].expires_at_ms - rows[0].created_at_ms, 90 * kDayMs);
  const Principal ci = book_->Find(made.token).value();
  EXPECT_EQ(ci.name, "ci");
  EXPECT_EQ(ci.kind, PrincipalKind::kToken);
  EXPECT_TRUE(ci.Has(Right::kKernels));
  EXPECT_FALSE(ci.Has(Right::kAdmin));
  EXPECT_EQ(ci.token, rows[0].digest);
  EXPECT_NE(book_->Create("other", "lookup", 0)->token, made.token);
}

TEST_F(TokenBookTest, ANewTokenWithTheNameOfARevokedOneIsAnotherIdentity) {
  const NewToken first = book_->Create("ci", "kernels", 0).value();
  const std::string earlier = book_->Find(first.token)->token;
  ASSERT_TRUE(book_->Revoke("ci").ok());
  const NewToken second = book_->Create("ci", "kernels", 0).value();
  EXPECT_EQ(book_->Find(second.token)->name, "ci");
  EXPECT_NE(book_->Find(second.token)->token, earlier);
}

TEST_F(TokenBookTest, WhatMakesNoSenseIsRefused) {
  EXPECT_EQ(ReasonOf(book_->Create("a b", "lookup", 0).status()), "PRINCIPAL_NAME_INVALID");
  EXPECT_EQ(ReasonOf(book_->Create("a", "boss", 0).status()), "ROLE_UNKNOWN");
  EXPECT_EQ(ReasonOf(book_->Create("a", "agent", 0).status()), "ROLE_UNKNOWN");
  EXPECT_EQ(ReasonOf(book_->Create("a", "submit,agent", 0).status()), "ROLE_UNKNOWN");
  EXPECT_EQ(ReasonOf(book_->Create("a", "admin,agent", 0).status()), "ROLE_UNKNOWN");
  EXPECT_EQ(ReasonOf(book_->Create("a", "lookup", 367 * kDayMs).status()), "TOKEN_LIFE");
  EXPECT_EQ(ReasonOf(book_->Create("a", "lookup", -1).status()), "TOKEN_LIFE");
  for (const std::string& token :
       {std::string(), std::string("tft_"), std::string(68, 'a'), "tft_" + std::string(1000, '0')}) {
    EXPECT_EQ(ReasonOf(book_->Find(token).status()), "TOKEN_INVALID");
  }
  EXPECT_EQ(store_.finds(), 0);
  EXPECT_EQ(ReasonOf(book_->Find("tft_" + std::string(64, '0')).status()), "TOKEN_UNKNOWN");
}

TEST_F(TokenBookTest, ItEndsWithItsTimeAlsoWhileItIsRemembered) {
  const NewToken made = book_->Create("ci", "lookup", 5000).value();
  EXPECT_TRUE(book_->Find(made.token).ok());
  clock_.Advance(std::chrono::milliseconds(4999));
  EXPECT_TRUE(book_->Find(made.token).ok());
  clock_.Advance(std::chrono::milliseconds(1));
  const auto late = book_->Find(made.token);
  EXPECT_EQ(late.status().code(), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(ReasonOf(late.status()), "TOKEN_EXPIRED");
  EXPECT_EQ(store_.finds(), 1);
}

TEST_F(TokenBookTest, ARevocationHereIsKnownAtOnceAndElsewhereWithinTenSeconds) {
  const NewToken made = book_->Create("ci", "lookup", 0).value();
  TokenBook elsewhere(&store_, &entropy_, &clock_);
  EXPECT_TRUE(book_->Find(made.token).ok());
  EXPECT_TRUE(elsewhere.Find(made.token).ok());
  EXPECT_TRUE(book_->Revoke("ci").ok());
  EXPECT_EQ(ReasonOf(book_->Find(made.token).status()), "TOKEN_REVOKED");
  clock_.Advance(std::chrono::seconds(10));
  EXPECT_EQ(ReasonOf(elsewhere.Find(made.token).status()), "TOKEN_REVOKED");
}

TEST_F(TokenBookTest, TheStoreIsAskedOnceInTenSecondsAndMayBeAwayForAWhile) {
  const NewToken made = book_->Create("ci", "lookup", 0).value();
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(book_->Find(made.token).ok());
  EXPECT_EQ(store_.finds(), 1);
  store_.SetAway(true);
  clock_.Advance(std::chrono::minutes(9));
  EXPECT_TRUE(book_->Find(made.token).ok());
  clock_.Advance(std::chrono::minutes(1));
  EXPECT_EQ(book_->Find(made.token).status().code(), absl::StatusCode::kUnavailable);
  store_.SetAway(false);
  EXPECT_TRUE(book_->Find(made.token).ok());
}

TEST_F(TokenBookTest, GuessingIsSlow) {
  int refused = 0;
  for (int i = 0; i < 1000; ++i) {
    const auto found = book_->Find(fmt::format("tft_{:064x}", i));
    refused += ReasonOf(found.status()) == "RATE_LIMIT" ? 1 : 0;
  }
  EXPECT_EQ(refused, 800);
  EXPECT_EQ(store_.finds(), 200);
}

TEST_F(TokenBookTest, UsesAreNotedCoarsely) {
  const NewToken made = book_->Create("ci", "lookup", 0).value();
  EXPECT_TRUE(book_->Find(made.token).ok());
  book_ = std::make_unique<TokenBook>(&store_, &entropy_, &clock_);  // its thread has ended
  EXPECT_EQ(store_.ListTokens().value()[0].last_used_at_ms, clock_.WallMs());
  const int64_t noted = clock_.WallMs();
  clock_.Advance(std::chrono::minutes(1));
  EXPECT_TRUE(book_->Find(made.token).ok());
  book_.reset();
  EXPECT_EQ(store_.ListTokens().value()[0].last_used_at_ms, noted);
}

TEST(TokenBookWithoutStoreTest, SaysSo) {
  FakeEntropy entropy;
  FakeClock clock;
  TokenBook book(nullptr, &entropy, &clock);
  EXPECT_EQ(ReasonOf(book.Create("a", "lookup", 0).status()), "NO_TOKENS");
  EXPECT_EQ(ReasonOf(book.List().status()), "NO_TOKENS");
  EXPECT_EQ(ReasonOf(book.Find("tft_").status()), "NO_TOKENS");
}

}  // namespace
}  // namespace tunefarm
