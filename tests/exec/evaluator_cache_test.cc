// Compiled binaries that outlive the evaluator that made them.
#include <gmock/gmock.h>

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "server/base/mutex.h"
#include "tests/exec/evaluator_fixture.h"
#include "tests/fakes/log_capture.h"

namespace tunefarm {
namespace {

class EvaluatorCacheTest : public EvaluatorTest {
 protected:
  EvaluatorCacheTest() { options_.cache_directory = directory_.File("cache"); }

  void Restart() { evaluator_.reset(); }
  int64_t Compiles() { return evaluator()->stats().compiles_ok; }
};

// Of the other machines of a farm.
class PlayedOthers : public SharedBinaries {
 public:
  void Find(const Digest& key, std::function<void(std::optional<CompileResult>)> done) override {
    MutexLock lock(&mutex_);
    ++asked_;
    const auto found = binaries_.find(key);
    if (found == binaries_.end()) return done(std::nullopt);
    done(found->second);
  }
  void Keep(const Digest& key, const CompileResult& result) override {
    MutexLock lock(&mutex_);
    ++kept_;
    binaries_[key] = result;
  }
  int asked() {
    MutexLock lock(&mutex_);
    return asked_;
  }
  int kept() {
    MutexLock lock(&mutex_);
    return kept_;
  }

 private:
  Mutex mutex_;
  int asked_ GUARDED_BY(mutex_) = 0, kept_ GUARDED_BY(mutex_) = 0;
  std::map<Digest, CompileResult> binaries_ GUARDED_BY(mutex_);
};

TEST_F(EvaluatorCacheTest, WhatOthersHaveCompiledIsNotCompiledHere) {
  plan_ = FakeKernelPlan("LANGUAGE_CUDA");
  PlayedOthers others;
  options_.shared_binaries = &others;
  const CompileResult first = Compile("ok");
  EXPECT_EQ(others.asked(), 1);
  EXPECT_EQ(others.kept(), 1);
  EXPECT_EQ(Compiles(), 1);
  // A machine that has nothing.
  Restart();
  options_.cache_directory = directory_.File("other-cache");
  const CompileResult second = Compile("ok");
  EXPECT_EQ(second.artifact->bytes, first.artifact->bytes);
  EXPECT_EQ(Compiles(), 0);
  EXPECT_EQ(evaluator()->stats().binaries_from_others.load(), 1);
  // From now on it is in its own cache.
  Compile("ok");
  EXPECT_EQ(others.asked(), 2);
  // Whoever is asked for it anew may offer it to others, too.
  EXPECT_EQ(others.kept(), 2);
}

TEST_F(EvaluatorCacheTest, BinariesForACpuAreItsMachinesOwn) {
  PlayedOthers others;
  options_.shared_binaries = &others;
  EXPECT_EQ(Compile("ok").outcome, tunefarm::v1::OUTCOME_OK);
  EXPECT_EQ(others.asked() + others.kept(), 0);
}

TEST_F(EvaluatorCacheTest, ABinarySurvivesARestart) {
  const CompileResult first = Compile("ok", 1);
  EXPECT_FALSE(first.from_cache);
  EXPECT_EQ(Compiles(), 1);
  EXPECT_EQ(evaluator()->stats().cache_misses.load(), 1);
  Restart();
  const CompileResult second = Compile("ok", 2);
  EXPECT_TRUE(second.from_cache);
  EXPECT_EQ(Compiles(), 0);
  EXPECT_EQ(evaluator()->stats().cache_hits.load(), 1);
  EXPECT_GT(evaluator()->stats().cache_bytes.load(), 0);
  EXPECT_EQ(second.artifact->bytes, first.artifact->bytes);
  EXPECT_EQ(second.artifact->lowered_names, first.artifact->lowered_names);
  EXPECT_EQ(first.artifact->compile_options, std::vector<std::string>{"--fast"});
  EXPECT_EQ(second.artifact->compile_options, first.artifact->compile_options);
  EXPECT_FALSE(first.toolchain.empty());
  EXPECT_EQ(second.toolchain, first.toolchain);
  EXPECT_EQ(second.compile_ms, first.compile_ms);
  EXPECT_EQ(Run("ok").outcome, tunefarm::v1::OUTCOME_OK);
}

TEST_F(EvaluatorCacheTest, PtxIsNotTakenForTheBinaryThatRuns) {
  EXPECT_EQ(Compile("ok").outcome, tunefarm::v1::OUTCOME_OK);
  CompileRequest ptx = CompileOf("ok");
  ptx.ptx = true;
  CompileResult result;
  Notification done;
  evaluator()->Compile(std::move(ptx), [&](CompileResult compiled) {
    result = std::move(compiled);
    done.Notify();
  });
  done.WaitForNotification();
  // The worker of this test has none.
  EXPECT_EQ(result.outcome, tunefarm::v1::OUTCOME_COMPILE_ERROR);
  EXPECT_EQ(result.message, "only kernels in CUDA have PTX");
  EXPECT_TRUE(Compile("ok").from_cache);
}

TEST_F(EvaluatorCacheTest, ProblemsThatDifferInTheirInputsShareABinary) {
  tunefarm::v1::Kernel definition = plan_->kernel();
  tunefarm::v1::Dim* const draw = definition.add_dims();
  draw->set_name("draw");
  for (const char* const value : {"even", "skew"}) draw->add_values()->set_string_value(value);
  draw->mutable_default_value()->set_string_value("even");
  draw->set_inputs_only(true);
  const auto plan = KernelPlan::Compile(definition);
  TUNEFARM_CHECK_OK(plan);
  plan_ = *plan;
  const auto compile = [&](const std::string& value) {
    tunefarm::v1::Problem problem;
    (*problem.mutable_dims())["draw"].set_string_value(value);
    const auto resolved = plan_->ResolveProblem(problem);
    TUNEFARM_CHECK_OK(resolved);
    CompileRequest request = CompileOf("ok");
    request.problem = std::make_shared<const ResolvedProblem>(*resolved);
    CompileResult result;
    Notification done;
    evaluator()->Compile(std::move(request), [&](CompileResult compiled) {
      result = std::move(compiled);
      done.Notify();
    });
    done.WaitForNotification();
    return result;
  };
  const CompileResult even = compile("even"), skew = compile("skew");
  EXPECT_EQ(even.outcome, tunefarm::v1::OUTCOME_OK) << even.message;
  ASSERT_NE(skew.artifact, nullptr);
  EXPECT_EQ(skew.artifact->bytes, even.artifact->bytes);
  EXPECT_EQ(Compiles(), 1);
}

TEST_F(EvaluatorCacheTest, ManyThatComeBeforeAnyWorkerIsReadyAreAllFound) {
  const std::vector<std::string> compilable = {"ok", "wrong_result", "damaged", "nan_time"};
  for (const std::string& behave : compilable) EXPECT_EQ(Compile(behave).outcome, tunefarm::v1::OUTCOME_OK);
  Restart();
  int left = 40;  // Evaluator's thread only.
  Notification done;
  for (int i = 0; i < 40; ++i) {
    evaluator()->Compile(CompileOf(compilable[static_cast<size_t>(i) % 4], i), [&](const CompileResult& result) {
      EXPECT_EQ(result.outcome, tunefarm::v1::OUTCOME_OK);
      EXPECT_TRUE(result.from_cache);
      if (--left == 0) done.Notify();
    });
  }
  done.WaitForNotification();
  EXPECT_EQ(Compiles(), 0);
}

TEST_F(EvaluatorCacheTest, AnotherCompilerCompilesAgainAndEachFindsItsOwn) {
  EXPECT_FALSE(Compile("ok").from_cache);
  Restart();
  options_.extra_worker_arguments = {"--fake-toolchain=fake 2.0"};
  EXPECT_FALSE(Compile("ok").from_cache);
  Restart();
  EXPECT_TRUE(Compile("ok").from_cache);
  Restart();
  options_.extra_worker_arguments.clear();
  EXPECT_TRUE(Compile("ok").from_cache);
}

TEST_F(EvaluatorCacheTest, ADamagedBinaryIsCompiledAgain) {
  LogCapture log;
  Compile("ok");
  Restart();
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(options_.cache_directory)) {
    ASSERT_EQ(truncate(entry.path().c_str(), 100), 0);
    ++files;
  }
  EXPECT_EQ(files, 1);
  const CompileResult again = Compile("ok");
  EXPECT_FALSE(again.from_cache);
  EXPECT_EQ(again.outcome, tunefarm::v1::OUTCOME_OK);
  EXPECT_EQ(evaluator()->stats().cache_corrupt.load(), 1);
  Restart();
  EXPECT_TRUE(Compile("ok").from_cache);
}

TEST_F(EvaluatorCacheTest, CompileErrorsAreForgottenAtARestart) {
  EXPECT_FALSE(Compile("compile_error").from_cache);
  EXPECT_TRUE(Compile("compile_error").from_cache);
  Restart();
  EXPECT_FALSE(Compile("compile_error").from_cache);
}

TEST_F(EvaluatorCacheTest, AnUnusableDirectoryCostsNoTrial) {
  LogCapture log;
  ASSERT_TRUE(WriteFileAtomically(options_.cache_directory, "a file in its place").ok());
  EXPECT_EQ(Compile("ok").outcome, tunefarm::v1::OUTCOME_OK);
  EXPECT_TRUE(Compile("ok", 1).from_cache);
  int warnings = 0;
  for (const LogCapture::Line& line : log.lines()) warnings += line.message.find("in memory only") != std::string::npos;
  EXPECT_EQ(warnings, 1);
}

TEST_F(EvaluatorCacheTest, NothingIsLeftUnansweredWhenItEndsDuringLookups) {
  Compile("ok");
  Restart();
  int answers = 0;  // Evaluator's thread only, and read after it has ended.
  for (int i = 0; i < 100; ++i) {
    const Evaluator::Id id =
        evaluator()->Compile(CompileOf(i % 2 == 0 ? "ok" : "damaged", i), [&](const CompileResult&) { ++answers; });
    if (i % 3 == 0) evaluator()->Cancel(id);
  }
  Restart();
  EXPECT_EQ(answers, 100);
}

}  // namespace
}  // namespace tunefarm
