#include "server/access/principal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/base/status.h"

namespace tunefarm {
namespace {

using testing::HasSubstr;

std::string Text(const absl::Status& status) { return std::string(MessageOf(status)); }

TEST(PrincipalTest, RolesAreSetsOfRights) {
  const Rights submit = ParseRoles("submit").value();
  EXPECT_TRUE(submit.Has(Right::kLookup));
  EXPECT_TRUE(submit.Has(Right::kSubmit));
  EXPECT_FALSE(submit.Has(Right::kKernels));
  EXPECT_FALSE(submit.Has(Right::kAgent));
  EXPECT_FALSE(submit.Has(Right::kAdmin));
  EXPECT_TRUE(ParseRoles("submit,kernels").value().Has(Right::kKernels));
  EXPECT_FALSE(ParseRoles("kernels").value().Has(Right::kSubmit));
  EXPECT_FALSE(ParseRoles("agent").value().Has(Right::kSubmit));
  for (const Right right : {Right::kLookup, Right::kSubmit, Right::kKernels, Right::kAdmin}) {
    EXPECT_TRUE(ParseRoles("admin").value().Has(right));
    EXPECT_FALSE(Rights().Has(right));
  }
  // To administer a farm is not to be a machine of it.
  EXPECT_FALSE(ParseRoles("admin").value().Has(Right::kAgent));
  EXPECT_TRUE(ParseRoles("admin,agent").value().Has(Right::kAgent));
  EXPECT_FALSE(ParseRoles("admin,agent").value().Without(Right::kAgent).Has(Right::kAgent));
}

TEST(PrincipalTest, WordsThatAreNoRolesAreNamed) {
  for (const char* const roles :
       {"", ",", "submit,", ",submit", "submit+kernels", "Admin", "submit submit", "submit,submit"}) {
    const auto parsed = ParseRoles(roles);
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument) << roles;
    EXPECT_EQ(ReasonOf(parsed.status()), "ROLE_UNKNOWN") << roles;
  }
  EXPECT_THAT(Text(ParseRoles("sumbit").status()), HasSubstr("did you mean 'submit'?"));
}

TEST(PrincipalTest, TheUriOfACertificateNamesRolesAndName) {
  const Principal alice = PrincipalOfUri("tunefarm://submit+kernels/alice").value();
  EXPECT_EQ(alice.name, "submit+kernels/alice");
  EXPECT_EQ(alice.kind, PrincipalKind::kCertificate);
  EXPECT_TRUE(alice.Has(Right::kKernels));
  EXPECT_EQ(alice.Text(), "the certificate submit+kernels/alice");
  EXPECT_EQ(UriOf("submit,kernels", "alice"), "tunefarm://submit+kernels/alice");
}

TEST(PrincipalTest, OtherUrisAreNoIdentity) {
  for (const std::string& uri :
       {std::string(), std::string("tunefarm://"), std::string("tunefarm://admin"), std::string("tunefarm://admin/"),
        std::string("tunefarm:///alice"), std::string("tunefarm://boss/alice"), std::string("tunefarm://admin/a/b"),
        std::string("tunefarm://admin/a b"), std::string("tunefarm://admin+/a"), std::string("https://admin/alice"),
        std::string("TUNEFARM://admin/alice"), std::string("tunefarm://admin/a\0b", 20),
        "tunefarm://admin/" + std::string(65, 'a'), "tunefarm://admin/" + std::string(1000, 'a')}) {
    const auto principal = PrincipalOfUri(uri);
    EXPECT_EQ(principal.status().code(), absl::StatusCode::kUnauthenticated) << uri;
    EXPECT_EQ(ReasonOf(principal.status()), "CERTIFICATE_IDENTITY") << uri;
  }
}

TEST(PrincipalTest, SocketsAreIdentities) {
  EXPECT_TRUE(AdminSocket().Has(Right::kAdmin));
  EXPECT_TRUE(ClientSocket().Has(Right::kKernels));
  EXPECT_FALSE(ClientSocket().Has(Right::kAdmin));
  EXPECT_FALSE(ClientSocket().Has(Right::kAgent));
  EXPECT_EQ(LoopbackListener().rights, ClientSocket().rights);
  EXPECT_NE(LoopbackListener().name, ClientSocket().name);
  EXPECT_TRUE(InsecureListener().Has(Right::kAgent));
  EXPECT_FALSE(InsecureListener().Has(Right::kAdmin));
}

TEST(PrincipalTest, AMissingRightIsNamed) {
  const absl::Status refused =
      CheckRight(PrincipalOfUri("tunefarm://submit/bob").value(), Right::kKernels, "store kernels");
  EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(ReasonOf(refused), "RIGHT_MISSING");
  EXPECT_EQ(Text(refused), "the certificate submit/bob may not store kernels: it needs the role kernels");
  const absl::Status of_admins = CheckRight(ClientSocket(), Right::kAdmin, "stop the daemon");
  EXPECT_EQ(ReasonOf(of_admins), "ADMIN_ONLY");
  EXPECT_THAT(Text(of_admins),
              testing::HasSubstr("may not stop the daemon: it needs the role admin, which the admin socket has"));
  EXPECT_EQ(ReasonOf(CheckRight(AdminSocket(), Right::kAgent, "be an agent")), "RIGHT_MISSING");
}

}  // namespace
}  // namespace tunefarm
