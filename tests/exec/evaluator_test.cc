#include <unistd.h>

#include <atomic>

#include "server/exec/frame_limits.h"
#include "server/exec/process_evaluator.h"
#include "tests/exec/evaluator_fixture.h"

namespace tunefarm {
namespace {

using testing::HasSubstr;

TEST_F(EvaluatorTest, ConstructedAndDestroyedUnused) { EXPECT_EQ(evaluator()->compile_slots(), 2); }

TEST_F(EvaluatorTest, CompilesThenRunsTheBinary) {
  const CompileResult compiled = Compile("ok");
  ASSERT_EQ(compiled.outcome, tunefarm::v1::OUTCOME_OK) << compiled.message << compiled.log;
  ASSERT_NE(compiled.artifact, nullptr);
  EXPECT_EQ(compiled.artifact->lowered_names.at("entry"), "_Z5entry");
  EXPECT_EQ(compiled.resources.binary_bytes(), static_cast<int64_t>(compiled.artifact->bytes.size()));
  RunRequest request = RunOf("ok");
  request.artifact = compiled.artifact;
  const RunResult run = Run(std::move(request));
  EXPECT_EQ(run.outcome, tunefarm::v1::OUTCOME_OK) << run.message << run.log;
  EXPECT_THAT(run.message, HasSubstr("artifact=" + compiled.artifact->bytes));
  EXPECT_EQ(run.measurement.samples(), 10);  // The preset was resolved on the way.
}

TEST_F(EvaluatorTest, WorkerStaysWarmAndPreparesOncePerProblem) {
  EXPECT_THAT(Run(RunOf("ok", 1)).message, HasSubstr("preparations=1 runs=1 "));
  EXPECT_THAT(Run(RunOf("ok", 2)).message, HasSubstr("preparations=1 runs=2 "));
  EXPECT_THAT(Run(RunOf("ok", 3, "device-0", 5)).message, HasSubstr("preparations=2 runs=3 "));
  RunRequest other_seed = RunOf("ok", 4, "device-0", 5);
  other_seed.input_seed = 2;
  EXPECT_THAT(Run(std::move(other_seed)).message, HasSubstr("preparations=3 runs=4 "));
}

TEST_F(EvaluatorTest, RunWorkersReadDataFilesByTheirDescriptors) {
  const std::string path = directory_.File("rows");
  TUNEFARM_CHECK_OK(WriteFileAtomically(path, "content"));
  const auto open_file = [&path](int mode) {
    return std::make_shared<const UniqueFd>(open(path.c_str(), mode | O_CLOEXEC));
  };
  RunRequest request = RunOf("ok");
  const auto file = open_file(O_RDONLY);
  for (size_t i = 0; i < kFrameDataFilesMax; ++i) request.data_files.push_back({fmt::format("{:064x}", i), 7, file});
  const RunResult run = Run(request);
  EXPECT_EQ(run.outcome, tunefarm::v1::OUTCOME_OK) << run.message;
  EXPECT_THAT(run.message, HasSubstr(fmt::format(" files={}:contentcontent", kFrameDataFilesMax)));
  request.data_files.push_back({std::string(64, 'f'), 7, file});
  request.problem = FakeProblem(*plan_, 5);
  const RunResult many = Run(request);
  EXPECT_EQ(many.outcome, tunefarm::v1::OUTCOME_LOST);
  EXPECT_THAT(many.message, HasSubstr("names 65 data files, the limit is 64"));
  // No worker may write to what others read.
  request.data_files = {{std::string(64, 'a'), 7, open_file(O_RDWR)}};
  const RunResult writable = Run(request);
  EXPECT_EQ(writable.outcome, tunefarm::v1::OUTCOME_LOST);
  EXPECT_THAT(writable.message, HasSubstr("aaaa is not open for reading alone"));
}

TEST_F(EvaluatorTest, EqualConstantsShareOneCompile) {
  const CompileResult first = Compile("ok", 1);
  EXPECT_FALSE(first.from_cache);
  const CompileResult second = Compile("ok", 2);
  EXPECT_TRUE(second.from_cache);
  EXPECT_EQ(first.artifact, second.artifact);
  EXPECT_FALSE(Compile("compile_error").from_cache);
  EXPECT_TRUE(Compile("compile_error").from_cache);
}

TEST_F(EvaluatorTest, CompilesInFlightAreJoined) {
  // The hanging one is joined by a second; cancelling one leaves the other waiting, cancelling both ends it.
  Notification first_done, second_done;
  CompileResult first, second;
  const Evaluator::Id a = evaluator()->Compile(CompileOf("hang", 1), [&](CompileResult result) {
    first = std::move(result);
    first_done.Notify();
  });
  const Evaluator::Id b = evaluator()->Compile(CompileOf("hang", 2), [&](CompileResult result) {
    second = std::move(result);
    second_done.Notify();
  });
  evaluator()->Cancel(a);
  first_done.WaitForNotification();
  EXPECT_EQ(first.outcome, tunefarm::v1::OUTCOME_LOST);
  EXPECT_EQ(Compile("ok").outcome, tunefarm::v1::OUTCOME_OK);
  EXPECT_FALSE(second_done.HasBeenNotified());
  evaluator()->Cancel(b);
  second_done.WaitForNotification();
  EXPECT_EQ(second.outcome, tunefarm::v1::OUTCOME_LOST);
}

TEST_F(EvaluatorTest, CancelKillsARunningTrialAndDropsAWaitingOne) {
  ASSERT_EQ(Run("ok").outcome, tunefarm::v1::OUTCOME_OK);
  Notification running_done, waiting_done;
  RunResult running, waiting;
  const Evaluator::Id a = evaluator()->Run(RunOf("hang"), [&](RunResult result) {
    running = std::move(result);
    running_done.Notify();
  });
  const Evaluator::Id b = evaluator()->Run(RunOf("hang", 1), [&](RunResult result) {
    waiting = std::move(result);
    waiting_done.Notify();
  });
  evaluator()->Cancel(b);
  waiting_done.WaitForNotification();
  EXPECT_EQ(waiting.outcome, tunefarm::v1::OUTCOME_LOST);
  EXPECT_FALSE(running_done.HasBeenNotified());
  evaluator()->Cancel(a);
  running_done.WaitForNotification();
  EXPECT_EQ(running.outcome, tunefarm::v1::OUTCOME_LOST);
  EXPECT_THAT(running.message, HasSubstr("cancelled"));
  evaluator()->Cancel(a);
  evaluator()->Cancel(12345);
  EXPECT_EQ(Run("ok").outcome, tunefarm::v1::OUTCOME_OK);
}

TEST_F(EvaluatorTest, DestructorAnswersEverything) {
  ASSERT_EQ(Run("ok").outcome, tunefarm::v1::OUTCOME_OK);
  Mutex mutex;
  std::vector<tunefarm::v1::Outcome> outcomes;
  for (int i = 0; i < 5; ++i) {
    evaluator()->Run(RunOf("hang", i), [&](const RunResult& run) {
      MutexLock lock(&mutex);
      outcomes.push_back(run.outcome);
    });
    evaluator()->Compile(CompileOf("hang", i), [&](const CompileResult& compiled) {
      MutexLock lock(&mutex);
      outcomes.push_back(compiled.outcome);
    });
  }
  evaluator_.reset();
  MutexLock lock(&mutex);
  EXPECT_THAT(outcomes, testing::AllOf(testing::SizeIs(10), testing::Each(tunefarm::v1::OUTCOME_LOST)));
}

TEST_F(EvaluatorTest, DestructorEndsWhatIsRunAgainWhenItIsLost) {
  ASSERT_EQ(Run("ok").outcome, tunefarm::v1::OUTCOME_OK);
  Evaluator* const evaluator = evaluator_.get();
  std::atomic<int> answers = 0;
  std::function<void(const RunResult&)> again = [&](const RunResult& run) {
    EXPECT_EQ(run.outcome, tunefarm::v1::OUTCOME_LOST);
    if (++answers < 1000) evaluator->Run(RunOf("hang"), again);
  };
  evaluator->Run(RunOf("hang"), again);
  evaluator_.reset();
  EXPECT_GE(answers, 1);
}

TEST_F(EvaluatorTest, QueueIsBounded) {
  options_.queue_max = 2;
  options_.exclusive_host_runs = false;
  options_.extra_worker_arguments = {"--fake-start=never"};  // Nothing is ever taken off the queue.
  Notification refused;
  RunResult result;
  for (int i = 0; i < 2; ++i) evaluator()->Run(RunOf("ok", i), [](const RunResult&) {});
  evaluator()->Run(RunOf("ok", 3), [&](RunResult run) {
    result = std::move(run);
    refused.Notify();
  });
  refused.WaitForNotification();
  EXPECT_EQ(result.outcome, tunefarm::v1::OUTCOME_LOST);
  EXPECT_THAT(result.message, HasSubstr("which is the limit"));
}

TEST_F(EvaluatorTest, StandbyTakesOver) {
  options_.standby_runners = ForDevices::kAll;
  EXPECT_EQ(Run("ok").outcome, tunefarm::v1::OUTCOME_OK);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(Run("crash").outcome, tunefarm::v1::OUTCOME_RUN_CRASH);
    EXPECT_EQ(Run("ok").outcome, tunefarm::v1::OUTCOME_OK);
  }
}

TEST_F(EvaluatorTest, CompileWorkersAreRecycled) {
  options_.compile_workers = 1;
  options_.recycle_after_compiles = 1;
  options_.artifact_cache_bytes = 0;
  for (int i = 0; i < 4; ++i) EXPECT_EQ(Compile("ok", i).outcome, tunefarm::v1::OUTCOME_OK);
}

TEST_F(EvaluatorTest, HostRunsAndCompilesBothGetTheirTurn) {
  constexpr int kEach = 20;
  options_.artifact_cache_bytes = 0;
  int left = 2 * kEach;  // Evaluator's thread only.
  Notification done;
  const auto count = [&](tunefarm::v1::Outcome outcome) {
    EXPECT_EQ(outcome, tunefarm::v1::OUTCOME_OK);
    if (--left == 0) done.Notify();
  };
  for (int i = 0; i < kEach; ++i) {
    evaluator()->Compile(CompileOf("ok", i), [&](const CompileResult& compiled) { count(compiled.outcome); });
    evaluator()->Run(RunOf("ok", i), [&](const RunResult& run) { count(run.outcome); });
  }
  done.WaitForNotification();
}

// A device has a pool for each kind of worker; of these one measures at a time.
TEST_F(EvaluatorTest, WorkersOfOneDeviceTakeTurnsWhateverTheyAreWrittenIn) {
  options_.python_interpreter = "/usr/bin/python3";  // The fake speaks for it.
  const std::shared_ptr<const KernelPlan> python = FakePythonPlan();
  const auto python_run = [&] {
    RunRequest request = RunOf("ok");
    request.plan = python;
    request.problem = FakeProblem(*python, 1);
    return request;
  };
  // Workers of both kinds are warm, so that only the other's work keeps one waiting.
  ASSERT_EQ(Run("ok").outcome, tunefarm::v1::OUTCOME_OK);
  ASSERT_EQ(Run(python_run()).outcome, tunefarm::v1::OUTCOME_OK);
  EXPECT_EQ(evaluator()->stats().runners_started, 2);
  Notification hung, ran;
  tunefarm::v1::Outcome outcome = tunefarm::v1::OUTCOME_UNSPECIFIED;
  const Evaluator::Id at_work = evaluator()->Run(RunOf("hang", 1), [&](const RunResult&) { hung.Notify(); });
  evaluator()->Run(python_run(), [&](const RunResult& result) {
    outcome = result.outcome;
    ran.Notify();
  });
  // Another device does not wait; by then this one would have run, too.
  EXPECT_EQ(Run(RunOf("ok", 2, "device-1")).outcome, tunefarm::v1::OUTCOME_OK);
  EXPECT_FALSE(ran.HasBeenNotified());
  evaluator()->Cancel(at_work);
  hung.WaitForNotification();
  ran.WaitForNotification();
  EXPECT_EQ(outcome, tunefarm::v1::OUTCOME_OK);
}

// In an interpreter foreign code runs in the worker itself: nothing of it may wait there for another kernel.
TEST_F(EvaluatorTest, AnInterpreterServesOneKernel) {
  options_.python_interpreter = "/usr/bin/python3";  // The fake speaks for it.
  const std::shared_ptr<const KernelPlan> kernels[] = {FakePythonPlan(), FakePythonPlan("another")};
  const auto trials_of_worker = [&](int kernel) {
    RunRequest request = RunOf("ok");
    request.plan = kernels[kernel];
    request.problem = FakeProblem(*request.plan, 1);
    const RunResult run = Run(std::move(request));
    EXPECT_EQ(run.outcome, tunefarm::v1::OUTCOME_OK) << run.message;
    return run.message.substr(run.message.find("runs="), 6);
  };
  EXPECT_EQ(trials_of_worker(0), "runs=1");
  EXPECT_EQ(trials_of_worker(0), "runs=2");
  EXPECT_EQ(trials_of_worker(1), "runs=1");
  EXPECT_EQ(trials_of_worker(0), "runs=1");
  EXPECT_EQ(trials_of_worker(0), "runs=2");
  EXPECT_EQ(evaluator()->stats().runners_started, 3);
}

TEST_F(EvaluatorTest, WithoutAnInterpreterPythonIsLostWithTheReason) {
  RunRequest request = RunOf("ok");
  request.plan = FakePythonPlan();
  request.problem = FakeProblem(*request.plan, 1);
  const RunResult result = Run(std::move(request));
  EXPECT_EQ(result.outcome, tunefarm::v1::OUTCOME_LOST);
  EXPECT_THAT(result.message, HasSubstr("python_interpreter"));
}

struct StartFault {
  const char* argument;
  const char* message;
};
class StartFaultTest : public EvaluatorTest, public testing::WithParamInterface<StartFault> {};

TEST_P(StartFaultTest, WaitingTrialsAreLostWithTheReason) {
  options_.extra_worker_arguments = {GetParam().argument};
  options_.deadlines.start_ms = std::string(GetParam().argument) == "--fake-start=never" ? 100 : kHangMs;
  const RunResult run = Run("ok");
  EXPECT_EQ(run.outcome, tunefarm::v1::OUTCOME_LOST);
  EXPECT_THAT(run.message, HasSubstr(GetParam().message));
  EXPECT_EQ(Compile("ok").outcome, tunefarm::v1::OUTCOME_LOST);
}

INSTANTIATE_TEST_SUITE_P(All, StartFaultTest,
                         testing::Values(StartFault{"--fake-start=never", "did not get ready within 100 ms"},
                                         StartFault{"--fake-start=crash", "ended before it was ready"},
                                         StartFault{"--fake-start=garbage", "no frame"},
                                         StartFault{"--fake-start=old_version", "version 2 of the protocol"},
                                         StartFault{"--fake-start=no_backend", "install one"},
                                         StartFault{"--nonsense", "unknown argument"}));

TEST_F(EvaluatorTest, MissingWorkerBinaryIsNamed) {
  options_.worker_binary = "/nonexistent/tunefarm-worker";
  const RunResult run = Run("ok");
  EXPECT_EQ(run.outcome, tunefarm::v1::OUTCOME_LOST);
  EXPECT_THAT(run.message, HasSubstr("/nonexistent/tunefarm-worker"));
}

TEST_F(EvaluatorTest, RecoversWhenWorkersCanBeStartedAgain) {
  const std::string file = directory_.File("broken");
  ASSERT_TRUE(WriteFileAtomically(file, "").ok());
  options_.extra_worker_arguments = {"--fake-fail-while=" + file};
  EXPECT_EQ(Run("ok").outcome, tunefarm::v1::OUTCOME_LOST);
  ASSERT_EQ(unlink(file.c_str()), 0);
  EXPECT_EQ(Run("ok").outcome, tunefarm::v1::OUTCOME_OK);
}

// The workers hold a lock while they measure, and die if another one has it.
TEST_F(EvaluatorTest, ProcessesThatMeasureOnTheCoresTakeTurns) {
  constexpr int kEach = 30;
  options_.lock_directory = directory_.File("locks");
  options_.sandbox = false;  // All of them must see the file.
  options_.extra_worker_arguments = {"--fake-device-file=" + directory_.File("device")};
  ProcessEvaluatorOptions second = options_;
  second.scratch_directory = directory_.File("scratch2");
  ProcessEvaluator other(second);
  Mutex mutex;
  std::map<tunefarm::v1::Outcome, int> outcomes;
  int left = 2 * kEach;
  Notification done;
  for (int i = 0; i < 2 * kEach; ++i) {
    ProcessEvaluator* const one = i % 2 == 0 ? evaluator() : &other;
    one->Run(RunOf("ok", i, i % 2 == 0 ? "cpu-of-one" : "cpu-of-the-other"), [&](const RunResult& run) {
      MutexLock lock(&mutex);
      ++outcomes[run.outcome];
      if (--left == 0) done.Notify();
    });
  }
  done.WaitForNotification();
  MutexLock lock(&mutex);
  EXPECT_EQ(outcomes[tunefarm::v1::OUTCOME_OK], 2 * kEach);
}

TEST_F(EvaluatorTest, TrialsWaitForAGpuThatAnotherProcessHolds) {
  options_.lock_directory = directory_.File("locks");
  plan_ = FakeKernelPlan("LANGUAGE_CUDA");
  ProcessEvaluatorOptions second = options_;
  second.scratch_directory = directory_.File("scratch2");
  std::vector<std::string> waits;  // The other's thread only, and read after its end.
  second.on_wait = [&](const std::string& device, const std::string& reason) {
    EXPECT_EQ(device, "device-0");
    waits.push_back(reason);
  };
  auto other = std::make_unique<ProcessEvaluator>(second);
  EXPECT_EQ(Run("ok").outcome, tunefarm::v1::OUTCOME_OK);
  std::atomic<bool> released = false;
  bool ran_early = false;
  RunResult result;
  Notification done;
  other->Run(RunOf("ok"), [&](RunResult run) {
    ran_early = !released;
    result = std::move(run);
    done.Notify();
  });
  // Several more on the device that is held: the other has had its chances.
  for (int i = 0; i < 10; ++i) EXPECT_EQ(Run("ok").outcome, tunefarm::v1::OUTCOME_OK);
  released = true;
  evaluator_.reset();
  done.WaitForNotification();
  EXPECT_FALSE(ran_early);
  EXPECT_EQ(result.outcome, tunefarm::v1::OUTCOME_OK) << result.message;
  other.reset();
  ASSERT_EQ(waits.size(), 2u);
  EXPECT_THAT(waits[0], HasSubstr("another process measures on it"));
  EXPECT_EQ(waits[1], "");
}

TEST_F(EvaluatorTest, AmongCompilesThatWaitTheLongestIsFirst) {
  options_.compile_workers = 1;
  Mutex mutex;
  std::vector<double> ended;
  int left = 6;
  Notification done;
  const auto submit = [&](const std::string& behave, double expected_ms) {
    CompileRequest request = CompileOf(behave);
    request.expected_ms = expected_ms;
    return evaluator()->Compile(std::move(request), [&, expected_ms](const CompileResult&) {
      MutexLock lock(&mutex);
      ended.push_back(expected_ms);
      if (--left == 0) done.Notify();
    });
  };
  ASSERT_EQ(Compile("ok").outcome, tunefarm::v1::OUTCOME_OK);
  const Evaluator::Id holds_the_worker = submit("hang", 0);
  submit("nan_time", 10);
  submit("no_time", 30);
  submit("damaged", 20);
  submit("flood", 40);
  submit("escape", 0);  // Unknown: others may wait for it.
  evaluator()->Cancel(holds_the_worker);
  done.WaitForNotification();
  MutexLock lock(&mutex);
  // The short one has then been passed over often enough for one worker.
  EXPECT_THAT(ended, testing::ElementsAre(0, 0, 40, 10, 30, 20));
}

TEST_F(EvaluatorTest, WorksWithoutSandbox) {
  options_.sandbox = false;
  EXPECT_EQ(Run("crash").outcome, tunefarm::v1::OUTCOME_RUN_CRASH);
  EXPECT_EQ(Run("ok").outcome, tunefarm::v1::OUTCOME_OK);
}

TEST_F(EvaluatorTest, ProbeSurvivesABackendThatDies) {
  const absl::StatusOr<ProbeResult> probe = ProbeDevices(options_);
  ASSERT_TRUE(probe.ok()) << probe.status().ToString();
  ASSERT_EQ(probe->devices.size(), 1u);
  EXPECT_EQ(probe->devices[0].uuid(), "fake-device");
  ASSERT_EQ(probe->notes.size(), 2u);
  EXPECT_THAT(probe->notes[0], HasSubstr("cuda: the probe of cuda gave no answer"));
  EXPECT_EQ(probe->notes[1], "a note?");
}

}  // namespace
}  // namespace tunefarm
