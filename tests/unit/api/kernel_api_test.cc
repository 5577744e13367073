// Who may store and delete kernels, and what is left of a deleted one.
#include "server/api/kernel_api.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/base/status.h"
#include "tests/unit/jobs/farm.h"

namespace tunefarm {
namespace {

using testing::HasSubstr;

class KernelApiTest : public testing::Test {
 protected:
  static Principal Token(const std::string& name, const std::string& roles = "submit,kernels") {
    return {name, PrincipalKind::kToken, *ParseRoles(roles)};
  }
  absl::StatusOr<v1::Kernel> Create(const Principal& principal, const std::string& name) {
    v1::CreateKernelRequest request;
    *request.mutable_kernel() = TestKernel(false, name);
    ASSIGN_OR_RETURN(const auto response, farm_.service().kernel_api().CreateKernel(principal, request));
    return response.kernel();
  }
  absl::Status Delete(const Principal& principal, const std::string& name) {
    v1::DeleteKernelRequest request;
    request.set_name(name);
    return farm_.service().kernel_api().DeleteKernel(principal, request).status();
  }

  TemporaryDirectory directory_;
  Farm farm_{directory_.path()};
};

TEST_F(KernelApiTest, OnlyItsOwnerAndAdministratorsDeleteAKernel) {
  const std::string first = Create(Token("alice"), "first")->name();
  EXPECT_EQ(ReasonOf(Delete(Token("bob"), first)), "KERNEL_OWNER");
  EXPECT_EQ(ReasonOf(Delete(ClientSocket(), first)), "KERNEL_OWNER");
  // Who submits it later does not own it.
  ASSERT_TRUE(Create(Token("bob"), "first").ok());
  EXPECT_EQ(ReasonOf(Delete(Token("bob"), first)), "KERNEL_OWNER");
  EXPECT_TRUE(Delete(Token("alice"), first).ok());
  EXPECT_EQ(ReasonOf(farm_.service().GetKernel(first).status()), "KERNEL_NOT_FOUND");
  EXPECT_EQ(ReasonOf(farm_.service().GetKernel("first").status()), "KERNEL_NOT_FOUND");
  EXPECT_EQ(ReasonOf(Delete(Token("alice"), first)), "KERNEL_NOT_FOUND");
  EXPECT_TRUE(Delete(AdminSocket(), Create(Token("alice"), "second")->name()).ok());
  EXPECT_TRUE(Delete(ClientSocket(), Create(ClientSocket(), "third")->name()).ok());
  EXPECT_EQ(ReasonOf(Delete(AdminSocket(), "third")), "NAME_INVALID");
  EXPECT_EQ(ReasonOf(Delete(AdminSocket(), "kernels/")), "NAME_INVALID");
}

TEST_F(KernelApiTest, JobsAndBestsOfADeletedKernelStayReadable) {
  farm_.evaluator().set_scripter(Bowl);
  const std::string job = farm_.SubmitJob({1024});
  const std::string kernel = farm_.service().GetKernel("scale")->name();
  const absl::Status active = Delete(AdminSocket(), kernel);
  EXPECT_EQ(ReasonOf(active), "KERNEL_IN_USE");
  EXPECT_THAT(std::string(MessageOf(active)), HasSubstr("has not ended"));
  ASSERT_TRUE(farm_.Finish(job));
  const v1::Job before = farm_.Job(job);
  ASSERT_TRUE(Delete(AdminSocket(), kernel).ok());
  const v1::Job after = farm_.Job(job);
  EXPECT_EQ(after.state(), v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(after.kernel_name(), "scale");
  EXPECT_EQ(after.studies(0).best().config().DebugString(), before.studies(0).best().config().DebugString());
  v1::ListBestConfigsRequest list;
  list.set_kernel("scale");
  EXPECT_EQ(farm_.service().lookup_api().ListBestConfigs(list)->bests_size(), 1);
  v1::ListBestConfigChangesRequest changes;
  changes.set_kernel("scale");
  EXPECT_GE(farm_.service().catalog_api().ListBestConfigChanges(changes)->changes_size(), 1);
  // By its id the kernel is said to be gone; the definition restores it, and its bests answer again.
  const absl::Status gone = farm_.service().GetKernel(kernel).status();
  EXPECT_EQ(ReasonOf(gone), "KERNEL_DELETED");
  EXPECT_THAT(std::string(MessageOf(gone)), HasSubstr("was deleted"));
  ASSERT_TRUE(farm_.service().CreateKernel(TestKernel()).ok());
  v1::LookupConfigRequest lookup;
  lookup.set_kernel("scale");
  *lookup.mutable_problem() = TestProblem(1024);
  EXPECT_EQ(farm_.service().lookup_api().LookupConfig(lookup)->match(), v1::MATCH_EXACT);
}

TEST_F(KernelApiTest, APrincipalStoresSoManyKernels) {
  farm_.limits.kernels.kernels_max = 2;
  farm_.Crash();
  farm_.Boot();
  for (const Principal& principal : {Token("alice"), ClientSocket()}) {
    const auto first = Create(principal, "first_" + std::string(principal.kind == PrincipalKind::kSocket ? "s" : "t"));
    ASSERT_TRUE(first.ok()) << first.status();
    ASSERT_TRUE(Create(principal, first->display_name() + "2").ok());
    const absl::Status refused = Create(principal, first->display_name() + "3").status();
    EXPECT_EQ(ReasonOf(refused), "KERNEL_QUOTA");
    EXPECT_THAT(std::string(MessageOf(refused)), HasSubstr("tunefarm kernels delete"));
    // With a job too.
    v1::CreateJobRequest request;
    *request.mutable_kernel_definition() = TestKernel(false, first->display_name() + "4");
    *request.mutable_job()->add_problems() = TestProblem(1024);
    EXPECT_EQ(ReasonOf(farm_.service().tuning_api().CreateJob(principal, request).status()), "KERNEL_QUOTA");
    // One that is stored is not one more, and a deleted one makes room.
    EXPECT_TRUE(Create(principal, first->display_name()).ok());
    ASSERT_TRUE(Delete(principal, first->name()).ok());
    EXPECT_TRUE(Create(principal, first->display_name() + "3").ok());
  }
}

}  // namespace
}  // namespace tunefarm
