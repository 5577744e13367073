// What CreateJob decides by its caller, and what may run on this daemon's workers.
#include "server/api/tuning_api.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/base/status.h"
#include "server/base/thread.h"
#include "tests/unit/jobs/farm.h"

namespace tunefarm {
namespace {

using testing::HasSubstr;

class TuningApiTest : public testing::Test {
 protected:
  static Principal Token(const std::string& name, const std::string& roles = "submit,kernels") {
    return {name, PrincipalKind::kToken, *ParseRoles(roles)};
  }
  absl::StatusOr<v1::CreateJobResponse> Create(const Principal& principal, bool validate_only = false) {
    v1::CreateJobRequest request;
    *request.mutable_kernel_definition() = TestKernel();
    *request.mutable_job()->add_problems() = TestProblem(1024);
    request.set_validate_only(validate_only);
    return farm_.service().tuning_api().CreateJob(principal, request);
  }
  void Reboot() {
    farm_.Crash();
    farm_.Boot();
  }

  TemporaryDirectory directory_;
  Farm farm_{directory_.path()};
};

TEST_F(TuningApiTest, ADefinitionNeedsTheRightToSubmitKernels) {
  EXPECT_EQ(ReasonOf(Create(Token("ci", "submit")).status()), "RIGHT_MISSING");
  ASSERT_TRUE(farm_.service().CreateKernel(TestKernel()).ok());
  v1::CreateJobRequest stored;
  stored.mutable_job()->set_kernel("scale");
  *stored.mutable_job()->add_problems() = TestProblem(1024);
  const auto created = farm_.service().tuning_api().CreateJob(Token("ci", "submit"), stored);
  ASSERT_TRUE(created.ok()) << created.status();
  EXPECT_EQ(created->job().submitted_by(), "ci");
  EXPECT_EQ(Create(ClientSocket())->job().submitted_by(), "");
}

TEST_F(TuningApiTest, JobsAreListedByKernelLabelSubmitterAndState) {
  const auto submit = [&](const std::string& kernel, const std::string& label, const Principal& principal) {
    v1::CreateJobRequest request;
    *request.mutable_kernel_definition() = TestKernel(false, kernel);
    *request.mutable_job()->add_problems() = TestProblem(1024);
    request.mutable_job()->set_label(label);
    TUNEFARM_CHECK_OK(farm_.service().tuning_api().CreateJob(principal, request));
  };
  submit("scale", "night", Token("ci"));
  submit("scale", "", Token("bob"));
  submit("other", "night", ClientSocket());
  ASSERT_TRUE(farm_.service().Cancel("jobs/2").ok());
  ASSERT_TRUE(farm_.Finish("jobs/2"));
  const auto list = [&](const std::string& kernel, const std::string& label, const std::string& submitter,
                        std::vector<v1::JobState> states = {}) {
    v1::ListJobsRequest request;
    request.set_kernel_name(kernel);
    request.set_label(label);
    request.set_submitted_by(submitter);
    for (const v1::JobState state : states) request.add_states(state);
    const auto response = farm_.service().tuning_api().ListJobs(request);
    TUNEFARM_CHECK_OK(response);
    std::vector<std::string> names;
    for (const v1::Job& job : response->jobs()) names.push_back(job.name());
    return names;
  };
  using testing::ElementsAre;
  EXPECT_THAT(list("", "", ""), ElementsAre("jobs/3", "jobs/2", "jobs/1"));
  EXPECT_THAT(list("scale", "", ""), ElementsAre("jobs/2", "jobs/1"));
  EXPECT_THAT(list("", "night", ""), ElementsAre("jobs/3", "jobs/1"));
  EXPECT_THAT(list("", "", "ci"), ElementsAre("jobs/1"));
  EXPECT_THAT(list("scale", "night", "ci"), ElementsAre("jobs/1"));
  EXPECT_THAT(list("other", "", "ci"), ElementsAre());
  EXPECT_THAT(list("scale", "", "", {v1::JOB_STATE_CANCELLED}), ElementsAre("jobs/2"));
}

TEST_F(TuningApiTest, APrincipalHasSoManyActiveJobs) {
  farm_.limits.jobs_per_principal_max = 2;
  Reboot();
  const Principal ci = Token("ci");
  ASSERT_TRUE(Create(ci, true).ok()) << "what is only checked does not count";
  const auto first = Create(ci);
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE(Create(ci).ok());
  const absl::Status refused = Create(ci).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonOf(refused), "JOB_QUOTA");
  EXPECT_EQ(MetadataOf(refused).at("retry_after_ms"), "1000");
  EXPECT_TRUE(Create(Token("other")).ok());
  EXPECT_TRUE(Create(ClientSocket()).ok()) << "sockets have no quota";
  // Jobs that end make room, also for a daemon that has not counted them in.
  ASSERT_TRUE(farm_.service().Cancel(first->job().name()).ok());
  ASSERT_TRUE(farm_.Finish(first->job().name()));
  farm_.clock.Advance(std::chrono::seconds(1));
  EXPECT_TRUE(Create(ci).ok());
  Reboot();
  EXPECT_EQ(ReasonOf(Create(ci).status()), "JOB_QUOTA");
}

// How many of many calls at the same time are accepted.
int Accepted(const std::function<absl::Status()>& create, const std::string& reason) {
  std::atomic<int> accepted{0};
  std::vector<Thread> clients;
  for (int i = 0; i < 8; ++i) {
    clients.emplace_back("client", [&] {
      for (int k = 0; k < 3; ++k) {
        const absl::Status status = create();
        accepted += status.ok() ? 1 : 0;
        EXPECT_EQ(ReasonOf(status), status.ok() ? "" : reason) << status;
      }
    });
  }
  for (Thread& client : clients) client.Join();
  return accepted;
}

TEST_F(TuningApiTest, CallsAtTheSameTimeGetNoMoreJobsThanThePrincipalMayHave) {
  farm_.limits.jobs_per_principal_max = 5;
  Reboot();
  EXPECT_EQ(Accepted([this] { return Create(Token("ci")).status(); }, "JOB_QUOTA"), 5);
}

TEST_F(TuningApiTest, CallsAtTheSameTimeGetNoMoreJobsThanThereMayBe) {
  farm_.limits.active_jobs_max = 5;
  Reboot();
  EXPECT_EQ(Accepted([this] { return Create(ClientSocket()).status(); }, "TOO_MANY_JOBS"), 5);
  // Those that are adopted count once, and those that have ended make room at once.
  farm_.RunControl();
  EXPECT_EQ(ReasonOf(Create(ClientSocket()).status()), "TOO_MANY_JOBS");
  ASSERT_TRUE(farm_.service().Cancel("jobs/1").ok());
  ASSERT_TRUE(farm_.Finish("jobs/1"));
  EXPECT_TRUE(Create(ClientSocket()).ok());
}

TEST_F(TuningApiTest, APlaceThatWasNotUsedIsGivenBack) {
  farm_.limits.jobs_per_principal_max = 1;
  farm_.limits.active_jobs_max = 1;
  Reboot();
  v1::CreateJobRequest bad;
  bad.mutable_job()->set_kernel("none");
  *bad.mutable_job()->add_problems() = TestProblem(1024);
  for (int i = 0; i < 3; ++i) {
    const absl::Status refused = farm_.service().tuning_api().CreateJob(Token("ci"), bad).status();
    EXPECT_EQ(ReasonOf(refused), "KERNEL_NOT_FOUND") << refused;
  }
  EXPECT_TRUE(Create(Token("ci")).ok());
}

TEST_F(TuningApiTest, ARequestIdIsThePrincipalsOwn) {
  v1::CreateJobRequest request;
  *request.mutable_kernel_definition() = TestKernel();
  *request.mutable_job()->add_problems() = TestProblem(1024);
  request.set_request_id("the-same");
  const auto create = [&](const Principal& principal) {
    return farm_.service().tuning_api().CreateJob(principal, request);
  };
  const auto first = create(Token("ci"));
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(create(Token("ci"))->job().name(), first->job().name());
  const auto others = create(Token("other"));
  ASSERT_TRUE(others.ok()) << others.status();
  EXPECT_NE(others->job().name(), first->job().name());
  EXPECT_NE(create(ClientSocket())->job().name(), first->job().name());
  // A certificate of a token's name is somebody else.
  EXPECT_NE(create({"ci", PrincipalKind::kCertificate, *ParseRoles("submit,kernels")})->job().name(),
            first->job().name());
  // With another body it is refused to its owner, and means nothing to others.
  *request.mutable_job()->mutable_problems(0) = TestProblem(2048);
  EXPECT_EQ(ReasonOf(create(Token("ci")).status()), "REQUEST_ID_REUSED");
  EXPECT_TRUE(create(Token("third")).ok());
}

TEST_F(TuningApiTest, ADaemonThatIsAboutToEndBeginsNothing) {
  const std::string job = farm_.SubmitJob({1024});
  farm_.service().calls().Refuse();
  EXPECT_EQ(ReasonOf(Create(AdminSocket()).status()), "DAEMON_ENDING");
  EXPECT_EQ(ReasonOf(farm_.service()
                         .Watch(
                             job, 0, [](const auto&) {}, [](absl::Status) {})
                         .status()),
            "DAEMON_ENDING");
  EXPECT_TRUE(farm_.service().GetJob(job).ok());
  EXPECT_TRUE(farm_.service().Cancel(job).ok());
}

TEST_F(TuningApiTest, JobsThatWorkersMayNotRunArePausedAtTheStart) {
  farm_.abilities.isolation.reached = "L1: everything";
  Reboot();
  v1::Job isolated;
  isolated.set_required_isolation("L1");
  const std::string job = farm_.SubmitJob({1024}, TestKernel(), isolated);
  const std::string other = farm_.SubmitJob({1024});
  farm_.abilities.isolation.reached = "L0: nothing; without namespaces";
  Reboot();
  EXPECT_EQ(farm_.Job(job).state(), v1::JOB_STATE_PAUSED);
  EXPECT_NE(farm_.Job(other).state(), v1::JOB_STATE_PAUSED);
  const absl::Status refused = farm_.service().Resume(job).status();
  EXPECT_EQ(ReasonOf(refused), "ISOLATION_NOT_REACHED");
  EXPECT_THAT(std::string(MessageOf(refused)), HasSubstr("without namespaces"));
  farm_.abilities.isolation.reached = "L1: everything";
  Reboot();
  const auto resumed = farm_.service().Resume(job);
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  EXPECT_EQ(resumed->state(), v1::JOB_STATE_QUEUED);
}

}  // namespace
}  // namespace tunefarm
