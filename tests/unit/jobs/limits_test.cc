// Bounds of a job and of the machine: budgets, space, retention, many jobs.
#include <sys/mount.h>
#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/base/file.h"
#include "server/base/format.h"
#include "server/base/status.h"
#include "server/base/thread.h"
#include "server/sanitizers.h"
#include "server/store/job_rows.h"
#include "server/store/store_maintenance.h"
#include "server/upkeep/retention.h"
#include "server/upkeep/space_floor.h"
#include "tests/fakes/permitted.h"
#include "tests/unit/jobs/farm.h"

namespace tunefarm {
namespace {

using testing::HasSubstr;

class LimitsTest : public testing::Test {
 protected:
  TemporaryDirectory directory_;
};

// Each config a little slower than the one before it, so that the first is the best; each run takes `run_seconds`.
FakeEvaluator::Scripter Worsening(int run_seconds = 0) {
  return [run_seconds](const FakeEvaluator::Question& question) {
    FakeEvaluator::Script script;
    const int a = question.config[2] - '0', b = question.config[6] - '0';
    script.median_ns = question.config == "baseline" ? 5000 : 1000 + 100 * a + 10 * b;
    if (question.is_run && run_seconds > 0) script.run_time = std::chrono::seconds(run_seconds);
    return script;
  };
}

tunefarm::v1::Kernel KernelWithWork() {
  tunefarm::v1::Kernel kernel = TestKernel();
  kernel.set_bytes("N * 8");  // at 8.192 GB/s, HostDevice's, 1000 ns for N=1024
  return kernel;
}

int64_t RunsWithPurpose(Farm& farm, const std::string& name, tunefarm::v1::TrialPurpose purpose) {
  int64_t count = 0;
  for (const auto& trial : farm.Trials(name)) count += trial.purpose() == purpose;
  return count;
}

TEST_F(LimitsTest, PatienceEndsTheSearchAndTheFinalFollows) {
  Farm farm(directory_.path());
  farm.evaluator().set_scripter(Worsening(1));
  tunefarm::v1::Job job;
  job.mutable_budget()->set_max_trials_without_gain(3);
  const std::string name = farm.SubmitJob({1024}, TestKernel(), job);
  ASSERT_TRUE(farm.Finish(name));
  const auto study = farm.Job(name).studies(0);
  EXPECT_GE(study.progress().done(), 4);
  EXPECT_LE(study.progress().done(), 6) << "what was open is taken back";
  EXPECT_EQ(study.search_ended_because(), "3 trials without a better one");
  EXPECT_TRUE(study.has_best());
  EXPECT_GT(RunsWithPurpose(farm, name, tunefarm::v1::TRIAL_PURPOSE_FINALIST), 0);
}

TEST_F(LimitsTest, SpacesBeyondAllIntegersAreCountedAsTheLargestOne) {
  tunefarm::v1::Kernel kernel = TestKernel();
  for (int i = 0; i < 8; ++i) {
    tunefarm::v1::Parameter* const parameter = kernel.add_parameters();
    parameter->set_name("Q" + std::to_string(i));
    parameter->mutable_range()->set_first(1);
    parameter->mutable_range()->set_last(1000);
  }
  Farm farm(directory_.path());
  FakeEvaluator::Script slow;
  slow.run_time = std::chrono::seconds(5);
  farm.evaluator().set_scripter([slow](const FakeEvaluator::Question&) { return slow; });
  // Two problems, and no number of trials after which to end: twice the largest number.
  tunefarm::v1::Job patient;
  patient.mutable_budget()->set_max_trials_without_gain(1000);
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  const std::string name = farm.SubmitJob({1024, 2048}, kernel, patient);
  EXPECT_EQ(farm.Job(name).progress().total(), kMost) << "as it is stored, before it is driven";
  ASSERT_TRUE(farm.RunUntil([&] { return farm.Job(name).progress().done() >= 4; }));
  const tunefarm::v1::Job job = farm.Job(name);
  EXPECT_EQ(job.studies(0).progress().total(), kMost);
  EXPECT_EQ(job.progress().total(), kMost);
  EXPECT_EQ(job.progress().eta_ms(), kMost);
}

TEST_F(LimitsTest, TheRooflineFloorEndsTheSearch) {
  Farm farm(directory_.path());
  farm.evaluator().set_scripter(Worsening());
  tunefarm::v1::Job job;
  job.mutable_budget()->set_stop_within_floor(0.2);  // the first config has 1110 ns
  const std::string name = farm.SubmitJob({1024}, KernelWithWork(), job);
  ASSERT_TRUE(farm.Finish(name));
  const auto study = farm.Job(name).studies(0);
  EXPECT_EQ(study.floor_ns(), 1000);
  EXPECT_LT(study.progress().done(), 11);
  EXPECT_THAT(study.search_ended_because(), HasSubstr("within 20 % of the roofline floor"));
  EXPECT_TRUE(study.has_best());
}

// Of TestKernel's configs the fastest takes 400 ns in finals, less than half of the floor of KernelWithWork.
class ImplausibleTest : public LimitsTest {
 protected:
  // The best config's text, after a job in which caches are cold.
  std::string BestOf(bool self_judged) {
    Farm farm(directory_.path());
    farm.evaluator().set_scripter([self_judged](const FakeEvaluator::Question& question) {
      FakeEvaluator::Script script = Bowl(question);
      if (question.config == "A=4,B=2") script.median_ns = 400;
      script.cold_cache = true;
      script.self_judged = self_judged;
      return script;
    });
    const std::string name = farm.SubmitJob({1024}, KernelWithWork());
    const auto watch = farm.service().Watch(
        name, 0,
        [this](const tunefarm::v1::JobEvent& event) {
          if (!event.message().empty()) messages_.push_back(event.message());
        },
        [](const absl::Status&) {});
    EXPECT_TRUE(farm.Finish(name));
    farm.RunFor(std::chrono::seconds(1));
    const auto job = farm.Job(name);
    if (job.studies_size() != 1 || !job.studies(0).has_best()) return "none";
    const auto& values = job.studies(0).best().config().values();
    return "A=" + std::to_string(values.at("A").int_value()) + ",B=" + std::to_string(values.at("B").int_value());
  }

  std::vector<std::string> messages_;
};

TEST_F(ImplausibleTest, ATimeThatTheKernelTookItselfIsNotKept) {
  EXPECT_EQ(BestOf(true), "A=4,B=1") << "the next ones take 1010 ns";
  EXPECT_THAT(messages_, testing::Contains(testing::AllOf(HasSubstr("400 ns of trial "),
                                                          HasSubstr("less than half of the roofline's floor, 1.00 µs"),
                                                          HasSubstr("the kernel took it itself, and it is not kept"))));
}

TEST_F(ImplausibleTest, ATimeThatAnotherProcessTookIsKeptAndDoubted) {
  EXPECT_EQ(BestOf(false), "A=4,B=2");
  EXPECT_THAT(messages_, testing::Contains(testing::AllOf(HasSubstr("less than half of the roofline's floor"),
                                                          HasSubstr("flops or bytes may be declared too high"))));
}

TEST_F(LimitsTest, AFloorThatIsNotKnownIsRefusedAtOnce) {
  Farm farm(directory_.path());
  tunefarm::v1::Job job;
  job.mutable_budget()->set_stop_within_floor(0.05);
  *job.add_problems() = TestProblem(1024);
  const auto refused = farm.service().Submit(job, TestKernel(), "", false);
  EXPECT_EQ(ReasonOf(refused.status()), "BUDGET_INVALID");
  EXPECT_THAT(std::string(MessageOf(refused.status())), HasSubstr("flops or bytes"));
}

TEST_F(LimitsTest, DeviceTimeIsCountedOverAllStudiesAndEndsTheirSearches) {
  Farm farm(directory_.path());
  farm.evaluator().set_scripter(Worsening(1));
  tunefarm::v1::Job job;
  job.mutable_budget()->set_max_device_seconds(6);
  const std::string name = farm.SubmitJob({1024, 2048}, TestKernel(), job);
  ASSERT_TRUE(farm.Finish(name));
  const auto ended = farm.Job(name);
  int64_t done = 0;
  for (const auto& study : ended.studies()) {
    done += study.progress().done();
    EXPECT_THAT(study.search_ended_because(), HasSubstr("devices have worked for 6"));
  }
  EXPECT_TRUE(ended.studies(0).has_best());
  EXPECT_GE(done, 6);
  EXPECT_LE(done, 8) << "what was in hand may end";
  // The finals are measured all the same, and counted.
  const auto finals = static_cast<double>(RunsWithPurpose(farm, name, tunefarm::v1::TRIAL_PURPOSE_FINALIST));
  EXPECT_GT(finals, 0);
  EXPECT_GE(ended.device_busy_ms(), 6000 + 1000 * finals);
  // An ended job is read from the store: it says the same after a restart.
  farm.Crash();
  farm.Boot();
  EXPECT_EQ(farm.Job(name).device_busy_ms(), ended.device_busy_ms());
  EXPECT_EQ(farm.Job(name).studies(0).search_ended_because(), ended.studies(0).search_ended_because());
}

TEST_F(LimitsTest, TheEndsThatAreNoBudgetHaveTheirReasonsToo) {
  Farm farm(directory_.path());
  farm.evaluator().set_scripter(Worsening());
  const std::string whole = farm.SubmitJob({1024});
  ASSERT_TRUE(farm.Finish(whole));
  EXPECT_EQ(farm.Job(whole).studies(0).search_ended_because(), "every config tried");
  tunefarm::v1::Job job;
  job.mutable_budget()->set_max_trials(5);
  const std::string some = farm.SubmitJob({2048}, TestKernel(), job);
  ASSERT_TRUE(farm.Finish(some));
  EXPECT_EQ(farm.Job(some).studies(0).progress().done(), 5);
  EXPECT_EQ(farm.Job(some).studies(0).search_ended_because(), "5 trials, as many as were asked for");
}

TEST_F(LimitsTest, ARestartComesToTheSameDecision) {
  // Crashes after every few steps from the moment on at which the rule has fired.
  for (const int steps_between : {7, 23, 61}) {
    TemporaryDirectory own;
    Farm farm(own.path());
    farm.scripter = Worsening(1);
    farm.evaluator().set_scripter(farm.scripter);
    tunefarm::v1::Job job;
    job.mutable_budget()->set_max_trials_without_gain(3);
    const std::string name = farm.SubmitJob({1024}, TestKernel(), job);
    ASSERT_TRUE(farm.RunUntil([&] { return farm.Trials(name).size() >= 4; }));
    for (int crash = 0; crash < 8 && !farm.Ended(name); ++crash) {
      int left = steps_between;
      farm.RunUntil([&] { return left-- == 0 || farm.Ended(name); });
      farm.Crash();
      farm.Boot();
    }
    ASSERT_TRUE(farm.Finish(name));
    const auto study = farm.Job(name).studies(0);
    EXPECT_EQ(study.search_ended_because(), "3 trials without a better one");
    EXPECT_GE(study.progress().done(), 4);
    EXPECT_LE(study.progress().done(), 6);
    EXPECT_TRUE(study.has_best());
  }
}

TEST_F(LimitsTest, WithoutSpaceJobsPauseWithAReasonAndGoOnByThemselves) {
  Farm farm(directory_.path());
  farm.evaluator().set_scripter(Worsening(1));
  const std::string running = farm.SubmitJob({1024});
  const std::string by_hand = farm.SubmitJob({2048});
  ASSERT_TRUE(farm.service().Pause(by_hand).ok());
  ASSERT_TRUE(farm.RunUntil([&] { return farm.Trials(running).size() >= 2; }));
  farm.service().scheduler().Suspend("0.9 GB free, the floor is 1 GB");
  EXPECT_EQ(farm.Job(running).state(), tunefarm::v1::JOB_STATE_PAUSED);
  EXPECT_EQ(farm.Job(running).state_reason(), "0.9 GB free, the floor is 1 GB");
  EXPECT_EQ(farm.Job(running).error(), "");
  tunefarm::v1::Job job;
  *job.add_problems() = TestProblem(4096);
  const auto refused = farm.service().Submit(job, TestKernel(), "", false);
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status()));
  EXPECT_EQ(ReasonOf(refused.status()), "LOW_SPACE");
  EXPECT_THAT(std::string(MessageOf(refused.status())), HasSubstr("0.9 GB free"));
  EXPECT_EQ(ReasonOf(farm.service().Resume(running).status()), "LOW_SPACE");

  farm.RunFor(std::chrono::seconds(5));
  const size_t runs = farm.evaluator().runs().size();
  farm.RunFor(std::chrono::minutes(2));
  EXPECT_EQ(farm.evaluator().runs().size(), runs) << "nothing runs meanwhile";

  farm.service().scheduler().Unsuspend();
  EXPECT_EQ(farm.Job(running).state_reason(), "");
  ASSERT_TRUE(farm.Finish(running));
  EXPECT_EQ(farm.Job(running).studies(0).progress().done(), 11);
  EXPECT_EQ(farm.Job(by_hand).state(), tunefarm::v1::JOB_STATE_PAUSED) << "somebody wants that";
  ASSERT_TRUE(farm.service().Resume(by_hand).ok());
  EXPECT_TRUE(farm.Finish(by_hand));
}

TEST_F(LimitsTest, ASuspensionOutlivesTheDaemonAndAPauseOnRequestOutlivesTheSuspension) {
  Farm farm(directory_.path());
  farm.scripter = Worsening(1);
  farm.evaluator().set_scripter(farm.scripter);
  const std::string first = farm.SubmitJob({1024});
  const std::string second = farm.SubmitJob({2048});
  ASSERT_TRUE(farm.RunUntil([&] { return !farm.Trials(first).empty() && !farm.Trials(second).empty(); }));
  farm.service().scheduler().Suspend("little space");
  ASSERT_TRUE(farm.service().Pause(second).ok());
  EXPECT_EQ(farm.Job(second).state_reason(), "");
  farm.Crash();
  farm.Boot();
  EXPECT_EQ(farm.Job(first).state_reason(), "little space");
  farm.service().scheduler().Unsuspend();  // what the first check of the space does
  ASSERT_TRUE(farm.Finish(first));
  EXPECT_EQ(farm.Job(second).state(), tunefarm::v1::JOB_STATE_PAUSED);
}

TEST_F(LimitsTest, QueuedJobsStayQueuedWithoutSpaceAndCanBeCancelled) {
  Farm farm(directory_.path());
  farm.service().scheduler().Suspend("little space");
  farm.service().scheduler().Unsuspend();
  const std::string name = farm.SubmitJob({1024});
  farm.service().scheduler().Suspend("little space");
  farm.RunFor(std::chrono::minutes(1));
  EXPECT_EQ(farm.Job(name).state(), tunefarm::v1::JOB_STATE_QUEUED);
  EXPECT_TRUE(farm.evaluator().compiles().empty());
  ASSERT_TRUE(farm.service().Cancel(name).ok());
  EXPECT_TRUE(farm.Finish(name));
}

TEST_F(LimitsTest, JobsThatWaitForTheDriverCanBePausedResumedAndCancelledAndAllComeToAnEnd) {
  Farm farm(directory_.path());
  farm.scripter = Worsening();
  farm.evaluator().set_scripter(farm.scripter);
  tunefarm::v1::Job two_trials;
  two_trials.mutable_budget()->set_max_trials(2);
  std::vector<std::string> names;
  for (int i = 0; i < 80; ++i) names.push_back(farm.SubmitJob({1024 + i}, TestKernel(), two_trials));
  farm.RunControl();
  EXPECT_EQ(farm.store().maintenance()->Status()->active_jobs, 80);
  // Of those that wait, one is cancelled, one paused for good, one paused and resumed.
  ASSERT_TRUE(farm.service().Cancel(names[70]).ok());
  EXPECT_EQ(farm.Job(names[70]).state(), tunefarm::v1::JOB_STATE_CANCELLED);
  for (const size_t i : {71, 72}) {
    ASSERT_TRUE(farm.service().Pause(names[i]).ok());
    EXPECT_EQ(farm.Job(names[i]).state(), tunefarm::v1::JOB_STATE_PAUSED);
  }
  ASSERT_TRUE(farm.service().Resume(names[72]).ok());
  EXPECT_EQ(farm.Job(names[72]).state(), tunefarm::v1::JOB_STATE_QUEUED);
  size_t first_open = 0;
  const auto ended = [&](size_t count) {
    while (first_open < count && (first_open == 71 || farm.Ended(names[first_open]))) ++first_open;
    return first_open >= count;
  };
  ASSERT_TRUE(farm.RunUntil([&] { return ended(10); }, std::chrono::hours(1)));
  // A restart takes up what had begun, and the rest in turn.
  farm.Crash();
  farm.Boot();
  ASSERT_TRUE(farm.RunUntil([&] { return ended(names.size()); }, std::chrono::hours(1)));
  for (size_t i = 0; i < names.size(); ++i) {
    const auto expected = i == 70   ? tunefarm::v1::JOB_STATE_CANCELLED
                          : i == 71 ? tunefarm::v1::JOB_STATE_PAUSED
                                    : tunefarm::v1::JOB_STATE_SUCCEEDED;
    EXPECT_EQ(farm.Job(names[i]).state(), expected) << i;
  }
  ASSERT_TRUE(farm.service().Resume(names[71]).ok());
  EXPECT_TRUE(farm.Finish(names[71]));
}

// A file system of its own that can be filled.
class SmallDisk {
 public:
  explicit SmallDisk(const std::string& path) : path_(path) {
    mkdir(path.c_str(), 0700);
    is_mounted_ = mount("tmpfs", path.c_str(), "tmpfs", 0, "size=16m") == 0;
  }
  ~SmallDisk() {
    if (is_mounted_) umount2(path_.c_str(), MNT_DETACH);
  }
  bool is_mounted() const { return is_mounted_; }

 private:
  const std::string path_;
  bool is_mounted_ = false;
};

TEST_F(LimitsTest, TheFloorOfARealDiskIsSeenFromBothSides) {
  const std::string path = directory_.path() + "/disk";
  const SmallDisk disk(path);
  if (!disk.is_mounted()) SKIP_NOT_PERMITTED("mounts are not permitted here");
  FakeClock clock;
  ManualExecutor executor(&clock);
  std::vector<std::string> calls;
  SpaceFloorOptions options;
  SpaceSource source;
  source.free_bytes = [&] { return FreeDiskBytes(path); };
  source.floor_bytes = 5 << 20;
  source.explain = [](int64_t free, int64_t floor) { return std::to_string(free < floor); };
  options.sources = {source};
  options.low = [&](const std::string& reason) { calls.push_back("low " + reason); };
  options.enough = [&] { calls.emplace_back("enough"); };
  options.executor = &executor;
  const auto floor = std::make_shared<SpaceFloor>(std::move(options));
  const auto check = [&] {
    calls.clear();
    clock.AdvanceTo(*executor.NextDue());
    while (executor.RunOne()) continue;
    return calls;
  };
  const auto fill = [&](size_t mebibytes) {
    ASSERT_TRUE(WriteFileAtomically(path + "/ballast", std::string(mebibytes << 20, 'b')).ok());
  };
  floor->Check();
  EXPECT_THAT(calls, testing::ElementsAre("enough"));
  floor->Start();
  EXPECT_THAT(check(), testing::IsEmpty());
  fill(12);
  EXPECT_THAT(check(), testing::ElementsAre("low 1"));
  EXPECT_THAT(check(), testing::ElementsAre("low 1")) << "said again, so that what failed is tried again";
  // Above the floor, but not by a tenth: it stays, lest it change with every file.
  ASSERT_EQ(remove((path + "/ballast").c_str()), 0);
  ASSERT_TRUE(WriteFileAtomically(path + "/ballast", std::string((10 << 20) + (700 << 10), 'b')).ok());
  EXPECT_THAT(check(), testing::ElementsAre("low 0"));
  ASSERT_EQ(remove((path + "/ballast").c_str()), 0);
  EXPECT_THAT(check(), testing::ElementsAre("enough"));
  EXPECT_THAT(check(), testing::IsEmpty());
  floor->Stop();
  EXPECT_FALSE(executor.NextDue().has_value());
}

TEST_F(LimitsTest, RetentionDeletesOldJobsKeepsLabelledOnesAndWhatBestsStandOn) {
  Farm farm(directory_.path());
  farm.evaluator().set_scripter(Worsening());
  const std::string old = farm.SubmitJob({1024});
  tunefarm::v1::Job labelled;
  labelled.set_label("keep");
  const std::string kept = farm.SubmitJob({2048}, TestKernel(), labelled);
  ASSERT_TRUE(farm.Finish(old));
  ASSERT_TRUE(farm.Finish(kept));
  const auto best = farm.Job(old).studies(0).best();
  const std::string winner = old + "/studies/1/trials/" + std::to_string(best.ordinal());
  const auto before = farm.service().GetTrial(winner);
  ASSERT_TRUE(before.ok()) << before.status();
  EXPECT_GT(before->measurement().sample_ns_size(), 0);

  ManualExecutor executor(&farm.clock);
  RetentionPolicy policy;
  policy.keep_jobs_days = 30;
  const auto retention = std::make_shared<Retention>(&farm.store(), &executor, policy);
  ASSERT_TRUE(retention->RunOnce().ok());
  EXPECT_EQ(retention->stats().jobs_deleted, 0);
  farm.clock.Advance(std::chrono::hours(24 * 31));
  const std::string young = farm.SubmitJob({4096});
  ASSERT_TRUE(farm.Finish(young));
  ASSERT_TRUE(retention->RunOnce().ok());
  EXPECT_EQ(retention->stats().jobs_deleted, 1);
  EXPECT_EQ(ReasonOf(farm.service().GetJob(old).status()), "JOB_NOT_FOUND");
  EXPECT_TRUE(farm.service().GetJob(kept).ok());
  EXPECT_TRUE(farm.service().GetJob(young).ok());
  const auto after = farm.service().GetTrial(winner);
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_EQ(after->DebugString(), before->DebugString());
  tunefarm::v1::LookupConfigRequest lookup;
  lookup.set_kernel("scale");
  *lookup.mutable_problem() = TestProblem(1024);
  const auto found = farm.service().lookup_api().LookupConfig(lookup);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->best().job(), old);
}

TEST_F(LimitsTest, NearItsBoundTheDatabaseLosesLogsThenJobsAndNeverLabelledOnes) {
  Farm farm(directory_.path());
  farm.evaluator().set_scripter([](const FakeEvaluator::Question&) {
    FakeEvaluator::Script script;
    script.compile = tunefarm::v1::OUTCOME_COMPILE_ERROR;
    return script;
  });
  std::vector<std::string> names;
  for (int i = 0; i < 12; ++i) {
    tunefarm::v1::Job job;
    if (i == 0) job.set_label("keep");
    tunefarm::v1::Kernel kernel = TestKernel();
    kernel.mutable_sources(0)->mutable_content()->append("\n//" + std::string(50'000, static_cast<char>('a' + i)));
    names.push_back(farm.SubmitJob({1024}, kernel, job));
    ASSERT_TRUE(farm.Finish(names.back()));
  }
  const int64_t used = farm.store().maintenance()->Status()->used_bytes;
  ManualExecutor executor(&farm.clock);
  RetentionPolicy policy;
  policy.database_bytes_max = used * 2;
  const auto roomy = std::make_shared<Retention>(&farm.store(), &executor, policy);
  ASSERT_TRUE(roomy->RunOnce().ok());
  EXPECT_EQ(roomy->stats().jobs_deleted, 0);
  policy.database_bytes_max = used;
  const auto tight = std::make_shared<Retention>(&farm.store(), &executor, policy);
  ASSERT_TRUE(tight->RunOnce().ok());
  EXPECT_GT(tight->stats().jobs_deleted, 0);
  EXPECT_TRUE(farm.service().GetJob(names[0]).ok()) << "it has a label";
  EXPECT_FALSE(farm.service().GetJob(names[1]).ok()) << "the oldest without one";
  // The definitions of deleted jobs are what was large; they go when they are a week old.
  farm.clock.Advance(std::chrono::hours(24 * 8));
  ASSERT_TRUE(tight->RunOnce().ok());
  EXPECT_GT(tight->stats().kernels_deleted, 0);
  EXPECT_LT(farm.store().maintenance()->Status()->used_bytes, used);
  EXPECT_TRUE(farm.service().GetJob(names[0]).ok());
}

TEST_F(LimitsTest, NearItsBoundTheDatabaseLosesKernelsThatNothingRefersToFirst) {
  Farm farm(directory_.path());
  const std::string job = farm.SubmitJob({1024});
  ASSERT_TRUE(farm.Finish(job));
  for (int i = 0; i < 4; ++i) {
    tunefarm::v1::Kernel kernel = TestKernel(false, "stored_" + std::to_string(i));
    kernel.mutable_sources(0)->mutable_content()->append("\n//" + std::string(200'000, 'a'));
    ASSERT_TRUE(farm.service().CreateKernel(kernel).ok());
  }
  ManualExecutor executor(&farm.clock);
  RetentionPolicy policy;
  policy.database_bytes_max = farm.store().maintenance()->Status()->used_bytes;
  const auto retention = std::make_shared<Retention>(&farm.store(), &executor, policy);
  farm.clock.Advance(std::chrono::hours(2));
  ASSERT_TRUE(retention->RunOnce().ok());
  EXPECT_EQ(retention->stats().kernels_deleted, 4);
  EXPECT_EQ(retention->stats().jobs_deleted, 0);
  EXPECT_TRUE(farm.service().GetKernel("scale").ok());
  EXPECT_TRUE(farm.service().GetJob(job).ok());
}

TEST_F(LimitsTest, CountsForTheMetrics) {
  Farm farm(directory_.path());
  farm.evaluator().set_scripter(Worsening(1));
  EXPECT_EQ(farm.service().events().watchers(), 0);
  const std::string name = farm.SubmitJob({1024});
  const auto watch = farm.service().Watch(
      name, 0, [](const auto&) {}, [](absl::Status) {});
  ASSERT_TRUE(watch.ok());
  EXPECT_EQ(farm.service().events().watchers(), 1);
  ASSERT_TRUE(farm.Finish(name));
  tunefarm::v1::LookupConfigRequest lookup;
  lookup.set_kernel("scale");
  *lookup.mutable_problem() = TestProblem(1024);
  ASSERT_TRUE(farm.service().lookup_api().LookupConfig(lookup).ok());
  const TrialCounts counts = farm.service().tally().counts();
  const auto trials = static_cast<int64_t>(farm.Trials(name).size());
  EXPECT_EQ(counts.by_outcome.at(tunefarm::v1::OUTCOME_OK), trials);
  EXPECT_GE(counts.busy_ms_by_device.at("HOST-1"), 1000.0 * static_cast<double>(trials));
  EXPECT_EQ(counts.busy_ms_by_device.at("HOST-1"), farm.Job(name).device_busy_ms());
  EXPECT_EQ(counts.lookups, 1);
  EXPECT_EQ(counts.answers[tunefarm::v1::MATCH_EXACT], 1);
  EXPECT_EQ(farm.service().misses().stored(), 0);
  const QueueCounts queue = farm.store().maintenance()->CountQueue().value();
  EXPECT_EQ(queue.jobs[static_cast<size_t>(JobState::kSucceeded)], 1);
  EXPECT_EQ(queue.ready_units, 0);
}

TEST_F(LimitsTest, ThousandsOfJobsWaitInLittleMemoryAndTheNextIsRefused) {
  Farm farm(directory_.path());
  // The daemon's default is 10,000, which take 20 s here.
  constexpr int kClients = 16;
  const char* const nightly = std::getenv("TUNEFARM_NIGHTLY");
  const int jobs_each = std::string_view(nightly == nullptr ? "" : nightly) == "1" ? 625 : 125;
  farm.limits.active_jobs_max = kClients * jobs_each;
  farm.Crash();
  farm.Boot();
  tunefarm::v1::Job job;
  *job.add_problems() = TestProblem(1024);
  const auto kernel = farm.service().CreateKernel(TestKernel());
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  job.set_kernel(kernel->name());
  const auto submit = [&] { return farm.service().Submit(job, std::nullopt, "", false); };
  const auto resident = [] {
    const std::string statm = ReadFile("/proc/self/statm", 4096).value();
    return std::atoll(statm.c_str() + statm.find(' ')) * 4096;
  };
  for (int i = 0; i < kClients; ++i) ASSERT_TRUE(submit().ok());
  farm.RunControl();
  const int64_t before = resident();
  std::atomic<int> refused_early{0};
  {
    // Many at once, whose writes share commits.
    std::vector<Thread> clients;
    for (int i = 0; i < kClients; ++i) {
      clients.emplace_back("client", [&] {
        for (int k = 1; k < jobs_each; ++k) refused_early += submit().ok() ? 0 : 1;
      });
    }
    for (Thread& client : clients) client.Join();
  }
  EXPECT_EQ(refused_early, 0);
  farm.RunControl();
  const auto refused = submit();
  EXPECT_EQ(ReasonOf(refused.status()), "TOO_MANY_JOBS");
  EXPECT_THAT(std::string(MessageOf(refused.status())), HasSubstr(FormatCount(farm.limits.active_jobs_max)));
  const int64_t per_job = (resident() - before) / farm.limits.active_jobs_max;
  RecordProperty("bytes_per_job", std::to_string(per_job));
#if !TUNEFARM_ADDRESS_SANITIZER && !TUNEFARM_THREAD_SANITIZER  // They keep books on all memory.
  EXPECT_LT(per_job, 4'000) << "bytes of memory for one job that waits";
#endif
}

}  // namespace
}  // namespace tunefarm
