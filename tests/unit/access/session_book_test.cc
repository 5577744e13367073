#include "server/access/session_book.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "server/access/gate.h"
#include "server/base/status.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/fake_entropy.h"

namespace tunefarm {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;

// A store with one token, which can be revoked.
class OneToken : public TokenStore {
 public:
  absl::Status PutToken(const TokenRow& token) override {
    row_ = token;
    return absl::OkStatus();
  }
  absl::StatusOr<std::vector<TokenRow>> ListTokens() override { return std::vector<TokenRow>{row_}; }
  absl::StatusOr<std::optional<TokenRow>> FindToken(std::string_view digest) override {
    if (digest != row_.digest) return std::nullopt;
    return row_;
  }
  absl::StatusOr<TokenRow> RevokeToken(std::string_view /*name*/, int64_t now_ms) override {
    row_.revoked_at_ms = now_ms;
    return row_;
  }
  absl::Status TouchToken(std::string_view /*digest*/, int64_t /*used_at_ms*/) override { return absl::OkStatus(); }

 private:
  TokenRow row_;
};

class SessionBookTest : public testing::Test {
 protected:
  static Principal Named(const std::string& uri) { return PrincipalOfUri(uri).value(); }

  FakeClock clock_;
  FakeEntropy entropy_;
  OneToken store_;
  TokenBook tokens_{&store_, &entropy_, &clock_};
  SessionBook book_{&tokens_, &entropy_, &clock_};
};

TEST_F(SessionBookTest, ACodeBuysOneSession) {
  const NewLoginCode code = book_.CreateCode(AdminSocket(), "").value();
  EXPECT_THAT(code.code, MatchesRegex("[0-9a-f]{64}"));
  EXPECT_EQ(code.expires_at_ms, clock_.WallMs() + 120'000);
  const NewSession session = book_.Redeem(code.code).value();
  EXPECT_THAT(session.secret, MatchesRegex("tfs_[0-9a-f]{64}"));
  EXPECT_EQ(ReasonOf(book_.Redeem(code.code).status()), "LOGIN_CODE_INVALID");
  EXPECT_EQ(ReasonOf(book_.Redeem("").status()), "LOGIN_CODE_INVALID");
  const Principal found = book_.Find(session.secret).value();
  EXPECT_EQ(found.name, "admin.sock");
  EXPECT_EQ(found.kind, PrincipalKind::kSession);
  EXPECT_EQ(found.Text(), "the session of admin.sock");
  EXPECT_TRUE(found.IsOfSocket());
  EXPECT_EQ(found.expires_at_ms, clock_.WallMs() + 24 * 3'600'000);
  EXPECT_TRUE(found.Has(Right::kLookup));
  EXPECT_TRUE(found.Has(Right::kSubmit));
  EXPECT_FALSE(found.Has(Right::kAdmin));
  for (const std::string& wrong : {std::string(), std::string("tfs_"), session.secret + "0", code.code}) {
    EXPECT_EQ(ReasonOf(book_.Find(wrong).status()), "SESSION_INVALID") << wrong;
  }
}

TEST_F(SessionBookTest, ACodeIsOverAfterTwoMinutes) {
  const NewLoginCode early = book_.CreateCode(AdminSocket(), "").value();
  const NewLoginCode late = book_.CreateCode(AdminSocket(), "").value();
  clock_.Advance(std::chrono::seconds(119));
  EXPECT_TRUE(book_.Redeem(early.code).ok());
  clock_.Advance(std::chrono::seconds(1));
  EXPECT_EQ(ReasonOf(book_.Redeem(late.code).status()), "LOGIN_CODE_INVALID");
}

TEST_F(SessionBookTest, ASessionHasAtMostTheRightsOfItsMaker) {
  const auto rights = [this](const Principal& owner, const std::string& roles) -> std::string {
    const absl::StatusOr<NewLoginCode> code = book_.CreateCode(owner, roles);
    if (!code.ok()) return ReasonOf(code.status());
    const Principal session = book_.Redeem(code->code)->principal;
    std::string names;
    for (const Right right : {Right::kLookup, Right::kSubmit, Right::kKernels, Right::kAgent, Right::kAdmin}) {
      if (session.Has(right)) names += std::string(RightName(right)) + " ";
    }
    return names;
  };
  const Principal look = Named("tunefarm://lookup/look");
  EXPECT_EQ(rights(look, ""), "lookup ");
  EXPECT_EQ(rights(look, "submit"), "RIGHT_MISSING");
  EXPECT_EQ(rights(ClientSocket(), ""), "lookup submit ");
  EXPECT_EQ(rights(ClientSocket(), "lookup"), "lookup ");
  EXPECT_EQ(rights(ClientSocket(), "admin"), "RIGHT_MISSING");
  // An administrator has the right to bring kernels; a session of one has not.
  EXPECT_EQ(rights(AdminSocket(), "admin"), "lookup submit admin ");
  EXPECT_EQ(rights(AdminSocket(), "kernels"), "ROLE_UNKNOWN");
  EXPECT_EQ(rights(AdminSocket(), "admin,kernels"), "ROLE_UNKNOWN");
  EXPECT_EQ(rights(AdminSocket(), "agent"), "ROLE_UNKNOWN");
  EXPECT_EQ(rights(AdminSocket(), "root"), "ROLE_UNKNOWN");
  EXPECT_FALSE(book_.Open(ClientSocket())->principal.Has(Right::kKernels));
}

TEST_F(SessionBookTest, ASessionEndsWhenItIsIdleOrOld) {
  const std::string idle = book_.Open(AdminSocket())->secret;
  const std::string busy = book_.Open(AdminSocket())->secret;
  clock_.Advance(std::chrono::hours(11));
  EXPECT_TRUE(book_.Find(busy).ok());
  clock_.Advance(std::chrono::hours(1));
  EXPECT_EQ(ReasonOf(book_.Find(idle).status()), "SESSION_INVALID");
  clock_.Advance(std::chrono::hours(10));
  EXPECT_TRUE(book_.Find(busy).ok());
  clock_.Advance(std::chrono::hours(2));
  EXPECT_EQ(ReasonOf(book_.Find(busy).status()), "SESSION_INVALID");
}

TEST_F(SessionBookTest, ASessionEndsWithItsTokenAndByItsOwnCall) {
  const NewToken token = tokens_.Create("ci", "submit", 0).value();
  const Principal ci = tokens_.Find(token.token).value();
  const std::string opened = book_.Open(ci)->secret;
  const std::string bought = book_.Redeem(book_.CreateCode(ci, "lookup")->code)->secret;
  EXPECT_EQ(book_.Find(opened)->Text(), "the session of ci");
  EXPECT_FALSE(book_.Find(opened)->IsOfSocket());
  EXPECT_EQ(book_.Find(opened)->token, ci.token);
  EXPECT_EQ(book_.Find(bought)->token, ci.token);
  const Principal ended = book_.Open(ci)->principal;
  EXPECT_TRUE(book_.End(ended.session));
  EXPECT_FALSE(book_.End(ended.session));
  ASSERT_TRUE(tokens_.Revoke("ci").ok());
  EXPECT_EQ(ReasonOf(book_.Find(opened).status()), "TOKEN_REVOKED");
  EXPECT_EQ(ReasonOf(book_.Find(opened).status()), "SESSION_INVALID");
  EXPECT_EQ(ReasonOf(book_.Find(bought).status()), "TOKEN_REVOKED");
}

TEST_F(SessionBookTest, ASessionEndsWithItsCertificate) {
  Principal alice = Named("tunefarm://submit/alice");
  alice.expires_at_ms = clock_.WallMs() + 3'600'000;
  const NewSession opened = book_.Open(alice).value();
  const std::string code = book_.CreateCode(alice, "")->code;
  EXPECT_EQ(opened.principal.expires_at_ms, alice.expires_at_ms);
  clock_.Advance(std::chrono::minutes(1));
  const std::string bought = book_.Redeem(code)->secret;
  clock_.Advance(std::chrono::minutes(58));
  EXPECT_TRUE(book_.Find(opened.secret).ok());
  EXPECT_TRUE(book_.Find(bought).ok());
  clock_.Advance(std::chrono::minutes(1));
  EXPECT_EQ(ReasonOf(book_.Find(opened.secret).status()), "SESSION_INVALID");
  EXPECT_EQ(ReasonOf(book_.Find(bought).status()), "SESSION_INVALID");
}

TEST_F(SessionBookTest, ThereAreOnlySoMany) {
  const auto user = [](int i) { return Named("tunefarm://submit/user" + std::to_string(i)); };
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(book_.CreateCode(user(i / 20), "").ok());
  EXPECT_EQ(ReasonOf(book_.CreateCode(AdminSocket(), "").status()), "TOO_MANY_LOGIN_CODES");
  clock_.Advance(std::chrono::minutes(2));
  const NewLoginCode code = book_.CreateCode(AdminSocket(), "").value();
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(book_.Open(user(i / 200)).ok());
  EXPECT_EQ(ReasonOf(book_.Open(AdminSocket()).status()), "TOO_MANY_SESSIONS");
  EXPECT_EQ(ReasonOf(book_.Redeem(code.code).status()), "TOO_MANY_SESSIONS");
  clock_.Advance(std::chrono::hours(12));
  EXPECT_TRUE(book_.Open(AdminSocket()).ok());
}

TEST_F(SessionBookTest, OnePrincipalLeavesRoomForOthers) {
  const Principal busy = Named("tunefarm://submit/busy");
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(book_.CreateCode(busy, "").ok());
  EXPECT_EQ(ReasonOf(book_.CreateCode(busy, "").status()), "TOO_MANY_LOGIN_CODES");
  EXPECT_TRUE(book_.CreateCode(ClientSocket(), "").ok());
  const std::string other = book_.Open(ClientSocket())->secret;
  clock_.Advance(std::chrono::seconds(1));
  const std::string used = book_.Open(busy)->secret;
  const std::string unused = book_.Open(busy)->secret;
  clock_.Advance(std::chrono::seconds(1));
  EXPECT_TRUE(book_.Find(used).ok());
  for (int i = 2; i < 201; ++i) ASSERT_TRUE(book_.Open(busy).ok());
  EXPECT_EQ(ReasonOf(book_.Find(unused).status()), "SESSION_INVALID");
  EXPECT_TRUE(book_.Find(used).ok());
  EXPECT_TRUE(book_.Find(other).ok());
}

TEST_F(SessionBookTest, TheGateTakesASessionAsABearer) {
  GateOptions options;
  options.tokens = &tokens_;
  options.sessions = &book_;
  const Gate gate(options);
  Caller caller;
  caller.authorization = "Bearer " + book_.Open(ClientSocket())->secret;
  EXPECT_EQ(gate.Admit(caller, "tunefarm.v1.TuningService/CreateJob")->name, "client.sock");
  EXPECT_EQ(ReasonOf(gate.Admit(caller, "tunefarm.v1.KernelService/CreateKernel").status()), "RIGHT_MISSING");
  EXPECT_EQ(ReasonOf(gate.Admit(caller, "tunefarm.agent.v1.AgentService/Register").status()), "RIGHT_MISSING");
  EXPECT_EQ(ReasonOf(gate.Admit(caller, "tunefarm.v1.AccessService/CreateToken").status()), "ADMIN_ONLY");
  caller.authorization.back() = caller.authorization.back() == '0' ? '1' : '0';
  const auto refused = gate.Admit(caller, "tunefarm.v1.TuningService/GetJob");
  EXPECT_EQ(ReasonOf(refused.status()), "SESSION_INVALID");
  EXPECT_THAT(std::string(MessageOf(refused.status())), HasSubstr("log in again"));
  caller.is_readable = true;
  EXPECT_EQ(ReasonOf(gate.Admit(caller, "tunefarm.v1.TuningService/GetJob").status()), "TOKEN_IN_PLAINTEXT");
}

}  // namespace
}  // namespace tunefarm
