// Tokens in a store: found by digest alone, replaced only when they are over, revoked for good.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/base/status.h"
#include "server/store/token_store.h"
#include "tests/store/conformance.h"

namespace tunefarm {
namespace {

using testing::SizeIs;

TokenRow MakeToken(const std::string& name, char digit, int64_t created_at_ms = kNow) {
  TokenRow row;
  row.name = name;
  row.digest = std::string(64, digit);
  row.roles = "submit,kernels";
  row.created_at_ms = created_at_ms;
  row.expires_at_ms = created_at_ms + 1000;
  return row;
}

TEST_P(StoreConformance, TokensAreFoundByTheirDigestAlsoAfterARestart) {
  ASSERT_TRUE(store_->tokens()->PutToken(MakeToken("ci", 'a')).ok());
  ASSERT_TRUE(store_->tokens()->PutToken(MakeToken("alice", 'b')).ok());
  Reopen();
  const auto found = store_->tokens()->FindToken(std::string(64, 'a')).value();
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->name, "ci");
  EXPECT_EQ(found->roles, "submit,kernels");
  EXPECT_EQ(found->created_at_ms, kNow);
  EXPECT_EQ(found->expires_at_ms, kNow + 1000);
  EXPECT_EQ(found->last_used_at_ms, 0);
  EXPECT_EQ(found->revoked_at_ms, 0);
  EXPECT_FALSE(store_->tokens()->FindToken("ci").value().has_value());
  EXPECT_FALSE(store_->tokens()->FindToken(std::string(64, 'c')).value().has_value());
  const std::vector<TokenRow> list = store_->tokens()->ListTokens().value();
  ASSERT_THAT(list, SizeIs(2));
  EXPECT_EQ(list[0].name, "alice");
}

TEST_P(StoreConformance, ANameIsTakenUntilItsTokenIsOver) {
  TokenStore& tokens = *store_->tokens();
  ASSERT_TRUE(tokens.PutToken(MakeToken("ci", 'a')).ok());
  const absl::Status taken = tokens.PutToken(MakeToken("ci", 'b', kNow + 999));
  EXPECT_EQ(taken.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(ReasonOf(taken), "TOKEN_EXISTS");
  EXPECT_TRUE(tokens.PutToken(MakeToken("ci", 'b', kNow + 1000)).ok());
  EXPECT_FALSE(tokens.FindToken(std::string(64, 'a')).value().has_value());
  ASSERT_TRUE(tokens.RevokeToken("ci", kNow + 1100).ok());
  EXPECT_TRUE(tokens.PutToken(MakeToken("ci", 'c', kNow + 1100)).ok());
  EXPECT_THAT(tokens.ListTokens().value(), SizeIs(1));
}

TEST_P(StoreConformance, ARevocationKeepsItsFirstTimeAndAUseItsLast) {
  TokenStore& tokens = *store_->tokens();
  ASSERT_TRUE(tokens.PutToken(MakeToken("ci", 'a')).ok());
  EXPECT_EQ(ReasonOf(tokens.RevokeToken("none", kNow).status()), "TOKEN_NOT_FOUND");
  EXPECT_TRUE(tokens.TouchToken(std::string(64, 'a'), kNow + 20).ok());
  EXPECT_TRUE(tokens.TouchToken(std::string(64, 'a'), kNow + 10).ok());
  EXPECT_TRUE(tokens.TouchToken(std::string(64, 'f'), kNow + 10).ok());
  EXPECT_EQ(tokens.RevokeToken("ci", kNow + 30)->revoked_at_ms, kNow + 30);
  const TokenRow again = tokens.RevokeToken("ci", kNow + 40).value();
  EXPECT_EQ(again.revoked_at_ms, kNow + 30);
  EXPECT_EQ(again.last_used_at_ms, kNow + 20);
}

}  // namespace
}  // namespace tunefarm
