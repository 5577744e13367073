#include "server/access/gate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "server/base/file.h"
#include "server/base/status.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/temporary_directory.h"

namespace tunefarm {
namespace {

using testing::HasSubstr;

Principal WithRoles(const std::string& roles) { return PrincipalOfUri("tunefarm://" + roles + "/x").value(); }

TEST(GateTest, EveryCallIsOpenToThoseWithItsRightAlone) {
  const Gate gate{GateOptions{}};
  int refused = 0;
  for (const CallRule& rule : AllCallRules()) {
    for (const char* const roles : {"lookup", "submit", "kernels", "agent", "submit+kernels", "admin"}) {
      const Principal principal = WithRoles(roles);
      Caller caller;
      caller.identity = &principal;
      const auto admitted = gate.Admit(caller, rule.call);
      EXPECT_EQ(admitted.ok(), principal.Has(rule.right)) << roles << " " << rule.call;
      if (admitted.ok()) continue;
      ++refused;
      EXPECT_EQ(admitted.status().code(), absl::StatusCode::kPermissionDenied);
      EXPECT_EQ(ReasonOf(admitted.status()), rule.right == Right::kAdmin ? "ADMIN_ONLY" : "RIGHT_MISSING");
    }
  }
  EXPECT_GT(refused, 100);
}

TEST(GateTest, ACallThatNobodyKnowsIsRefusedToAll) {
  const Gate gate{GateOptions{}};
  const Principal admin = AdminSocket();
  Caller caller;
  caller.identity = &admin;
  EXPECT_EQ(ReasonOf(gate.Admit(caller, "tunefarm.v1.TuningService/Nothing").status()), "CALL_UNKNOWN");
}

TEST(GateTest, WithoutAnIdentityNothingIsOpen) {
  const Gate gate{GateOptions{}};
  for (const CallRule& rule : AllCallRules()) {
    EXPECT_EQ(ReasonOf(gate.Admit(Caller(), rule.call).status()), "IDENTITY_MISSING");
  }
  // A certificate that nothing judges is none.
  Caller caller;
  caller.certificate = "-----BEGIN CERTIFICATE-----";
  EXPECT_EQ(ReasonOf(gate.Admit(caller, "tunefarm.v1.DeviceService/ListDevices").status()), "IDENTITY_MISSING");
}

TEST(GateTest, WhoShowsNothingIsTheOtherwiseOfACallThatHasOne) {
  const Gate gate{GateOptions{}};
  const Principal visitor = Visitor();
  Caller caller;
  caller.otherwise = &visitor;
  EXPECT_EQ(gate.Admit(caller, "tunefarm.v1.AccessService/CreateSession")->kind, PrincipalKind::kVisitor);
  const Principal socket = ClientSocket();
  caller.identity = &socket;
  EXPECT_EQ(gate.Admit(caller, "tunefarm.v1.AccessService/CreateSession")->kind, PrincipalKind::kSocket);
  caller.authorization = "Bearer tft_abc";
  EXPECT_EQ(ReasonOf(gate.Admit(caller, "tunefarm.v1.AccessService/CreateSession").status()), "TOKEN_UNKNOWN");
}

TEST(GateTest, ATokenComesBeforeTheSocketAndIsNeverTakenInPlainText) {
  const Gate gate{GateOptions{}};
  const Principal socket = ClientSocket();
  Caller caller;
  caller.identity = &socket;
  EXPECT_TRUE(gate.Admit(caller, "tunefarm.v1.DeviceService/ListDevices").ok());
  caller.authorization = "Basic abc";
  EXPECT_EQ(ReasonOf(gate.Admit(caller, "tunefarm.v1.DeviceService/ListDevices").status()), "TOKEN_INVALID");
  caller.authorization = "Bearer tft_abc";
  EXPECT_EQ(ReasonOf(gate.Admit(caller, "tunefarm.v1.DeviceService/ListDevices").status()), "TOKEN_UNKNOWN");
  caller.is_readable = true;
  EXPECT_EQ(ReasonOf(gate.Admit(caller, "tunefarm.v1.DeviceService/ListDevices").status()), "TOKEN_IN_PLAINTEXT");
}

TEST(GateTest, RefusalsAndChangesAreWrittenDownReadsAreNot) {
  TemporaryDirectory directory;
  FakeClock clock;
  AuditOptions options;
  options.path = directory.File("audit.log");
  options.clock = &clock;
  auto audit = AuditLog::Open(options).value();
  GateOptions with;
  with.audit = audit.get();
  const Gate gate(with);
  const Principal look = WithRoles("lookup");
  Caller caller;
  caller.identity = &look;
  caller.peer = "ipv4:10.0.0.7:1";
  EXPECT_TRUE(gate.Admit(caller, "tunefarm.v1.DeviceService/ListDevices").ok());
  EXPECT_FALSE(gate.Admit(caller, "tunefarm.v1.TuningService/CreateJob").ok());
  EXPECT_FALSE(gate.Admit(Caller(), "tunefarm.v1.TuningService/CreateJob").ok());
  gate.Record(look, "p", "tunefarm.v1.DeviceService/ListDevices", "", absl::OkStatus());
  gate.Record(look, "p", "tunefarm.v1.TuningService/CancelJob", "jobs/1", absl::OkStatus());
  gate.Record(look, "p", "tunefarm.v1.TuningService/CancelJob", "jobs/2", NotFound("none"));
  gate.Record(look, "p", "tunefarm.v1.TuningService/CreateJob", "", WithReason(ResourceExhausted("full"), "JOB_QUOTA"));
  gate.RecordHandshake("plain text");
  audit.reset();
  const std::string text = ReadFile(directory.File("audit.log"), 1 << 20).value();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 5);
  EXPECT_THAT(text, HasSubstr("RIGHT_MISSING"));
  EXPECT_THAT(text, HasSubstr("IDENTITY_MISSING"));
  EXPECT_THAT(text, HasSubstr("jobs/1"));
  EXPECT_THAT(text, testing::Not(HasSubstr("jobs/2")));
  EXPECT_THAT(text, HasSubstr("JOB_QUOTA"));
  EXPECT_THAT(text, HasSubstr("HANDSHAKE_FAILED"));
}

}  // namespace
}  // namespace tunefarm
