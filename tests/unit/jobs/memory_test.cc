// Jobs that start from what the store knows: which results guide them, that a restart changes nothing, and that what
// was measured is not measured again.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "server/base/file_set.h"
#include "server/records/resource_names.h"
#include "server/store/job_store.h"
#include "server/store/study_store.h"
#include "tests/unit/jobs/farm.h"

namespace tunefarm {
namespace {

using testing::IsEmpty;
using testing::SizeIs;
using tunefarm::v1::Trial;

// Four parameters of `values` values each.
// The best is where A, B, C and D are 6, 3, 5 and 2, whatever the problem; problems differ in speed. A=8 with B=8
// crashes.
FakeEvaluator::Script FourParameterBowl(const FakeEvaluator::Question& question) {
  FakeEvaluator::Script script;
  const auto config = Config::FromText(question.config);
  if (!config.ok() || config->size() != 4) return script;
  const auto value = [&](const char* name) { return static_cast<double>(config->Find(name)->int_value()); };
  const double distance = std::pow(value("A") - 6, 2) + 2 * std::pow(value("B") - 3, 2) + std::pow(value("C") - 5, 2) +
                          3 * std::pow(value("D") - 2, 2);
  const double size = question.problem.find("N=4096") != std::string::npos ? 3 : 1;
  script.median_ns = size * (1000 + 40 * distance);
  if (question.is_run && value("A") == 8 && value("B") == 8) script.run = tunefarm::v1::OUTCOME_RUN_CRASH;
  return script;
}

tunefarm::v1::Job Search(int64_t trials, const std::string& strategy = "default") {
  tunefarm::v1::Job job;
  job.mutable_strategy()->set_strategy_name(strategy);
  job.mutable_budget()->set_max_trials(trials);
  return job;
}

class Memory : public testing::Test {
 protected:
  Memory() {
    farm_.scripter = FourParameterBowl;
    farm_.evaluator().set_scripter(FourParameterBowl);
  }
  static std::vector<std::string> Proposals(Farm& farm, const std::string& job) {
    std::vector<std::string> configs;
    for (const Trial& trial : farm.Trials(job)) {
      if (trial.purpose() != tunefarm::v1::TRIAL_PURPOSE_SEARCH) continue;
      std::map<std::string, int64_t> values;
      for (const auto& [name, value] : trial.config().values()) values[name] = value.int_value();
      std::string text = std::to_string(trial.ordinal());
      for (const auto& [name, value] : values) text += " " + name + std::to_string(value);
      configs.push_back(text);
    }
    return configs;
  }
  // How often something of the search was run, by config and problem.
  static std::map<std::string, int> RunsOf(Farm& farm, size_t from = 0) {
    std::map<std::string, int> counts;
    const auto runs = farm.evaluator().runs();
    for (size_t i = from; i < runs.size(); ++i) ++counts[runs[i].problem + " " + runs[i].config];
    return counts;
  }

  TemporaryDirectory directory_;
  Farm farm_{directory_.path()};
};

TEST_F(Memory, ASearchStartsFromTheNearestProblem) {
  ASSERT_TRUE(farm_.Finish(farm_.SubmitJob({512}, FourParameterKernel(), Search(60))));
  ASSERT_TRUE(farm_.Finish(farm_.SubmitJob({4096}, FourParameterKernel(), Search(120))));
  const std::string job = farm_.SubmitJob({1024}, FourParameterKernel(), Search(20));
  ASSERT_TRUE(farm_.Finish(job));
  const tunefarm::v1::Job ended = farm_.Job(job);
  ASSERT_THAT(ended.studies(), SizeIs(1));
  ASSERT_THAT(ended.studies(0).priors(), SizeIs(2));
  EXPECT_EQ(ended.studies(0).priors(0).difference(), "N=512 instead of 1024");
  EXPECT_EQ(ended.studies(0).priors(1).difference(), "N=4096 instead of 1024");
  const auto& nearest = ended.studies(0).priors(0);
  EXPECT_EQ(nearest.problem_key(), "N=512");
  EXPECT_EQ(nearest.studies(), 1);
  EXPECT_EQ(nearest.toolkit_version(), "12.2.0");
  // What was measured there and what crashed anywhere.
  EXPECT_LE(nearest.measured(), 60);
  EXPECT_GE(nearest.measured(), 50);
  // The best of the nearest problem is tried right after the default config.
  double best = 1e9;
  Trial winner;
  for (const Trial& trial : farm_.Trials("jobs/1")) {
    if (trial.purpose() != tunefarm::v1::TRIAL_PURPOSE_SEARCH || trial.outcome() != tunefarm::v1::OUTCOME_OK) continue;
    if (trial.measurement().median_ns() < best) winner = trial;
    best = std::min(best, trial.measurement().median_ns());
  }
  EXPECT_EQ(farm_.Trials(job)[1].purpose(), tunefarm::v1::TRIAL_PURPOSE_SEARCH);
  EXPECT_EQ(farm_.Trials(job)[1].config().DebugString(), winner.config().DebugString());
}

TEST_F(Memory, NobodyWhoWantsNoneHasPriors) {
  ASSERT_TRUE(farm_.Finish(farm_.SubmitJob({512}, FourParameterKernel(4), Search(60))));
  tunefarm::v1::Job cold = Search(20);
  cold.set_no_memory(true);
  for (const tunefarm::v1::Job& job : {cold, Search(20, "random"), Search(20, "exhaustive")}) {
    const std::string name = farm_.SubmitJob({1024}, FourParameterKernel(4), job);
    ASSERT_TRUE(farm_.Finish(name));
    EXPECT_THAT(farm_.Job(name).studies(0).priors(), IsEmpty()) << job.strategy().strategy_name();
  }
  // Another program knows nothing of this one.
  tunefarm::v1::Kernel other = FourParameterKernel(4);
  other.mutable_sources(0)->set_content("extern \"C\" void scale(const float*, float*) { }");
  const std::string name = farm_.SubmitJob({1024}, other, Search(20));
  ASSERT_TRUE(farm_.Finish(name));
  EXPECT_THAT(farm_.Job(name).studies(0).priors(), IsEmpty());
}

// The proposals of a second job while its daemon dies twice, and the job that it learned from is deleted in between.
TEST_F(Memory, ARestartSeesThePriorsThatTheStudyBeganWith) {
  const auto run = [](const std::string& directory, bool crashes, bool deletes) {
    Farm farm(directory);
    farm.scripter = FourParameterBowl;
    farm.evaluator().set_scripter(FourParameterBowl);
    EXPECT_TRUE(farm.Finish(farm.SubmitJob({512}, FourParameterKernel(), Search(80))));
    const std::string job = farm.SubmitJob({1024}, FourParameterKernel(), Search(150));
    const auto done = [&](int64_t trials) {
      return farm.RunUntil([&] { return farm.Job(job).progress().done() >= trials; });
    };
    EXPECT_TRUE(done(30));
    EXPECT_THAT(farm.Job(job).studies(0).priors(), SizeIs(1));
    for (int64_t trials = 60; crashes && trials < 150; trials += 40) {
      farm.Crash();
      farm.Boot();
      if (deletes && trials == 60) {
        EXPECT_TRUE(farm.service().Delete("jobs/1").ok());
      }
      EXPECT_TRUE(done(trials));
    }
    EXPECT_TRUE(farm.Finish(job));
    EXPECT_THAT(farm.Job(job).studies(0).priors(), SizeIs(1));
    EXPECT_THAT(farm.store().studies()->LoadPriors(2).value(), IsEmpty()) << "nobody needs them any more";
    return Proposals(farm, job);
  };
  TemporaryDirectory calm, kept, deleted;
  const std::vector<std::string> expected = run(kept.path(), true, false);
  EXPECT_THAT(expected, SizeIs(150));
  EXPECT_EQ(run(deleted.path(), true, true), expected);
  // Results that were in hand at a crash come later than they did in the calm, and so do the proposals that rest on
  // them: what was proposed until then is the same.
  const std::vector<std::string> in_calm = run(calm.path(), false, false);
  size_t same = 0;
  while (same < expected.size() && same < in_calm.size() && expected[same] == in_calm[same]) ++same;
  EXPECT_GE(same, 100u) << "30 had ended at the first crash, and some 80 more were proposed";
  EXPECT_EQ(std::set<std::string>(expected.begin(), expected.end()).size(), 150u);
}

TEST_F(Memory, LaterProblemsOfAJobLearnFromThoseBefore) {
  const std::string job = farm_.SubmitJob({512, 1024, 4096}, FourParameterKernel(), Search(100));
  // The second one has nothing proposed while the first has enough to do.
  ASSERT_TRUE(farm_.RunUntil([&] { return farm_.Job(job).progress().done() >= 10; }));
  EXPECT_EQ(farm_.store().jobs()->GetJob(1)->studies[1].next_ordinal, 0);
  ASSERT_TRUE(farm_.Finish(job));
  const tunefarm::v1::Job ended = farm_.Job(job);
  ASSERT_THAT(ended.studies(), SizeIs(3));
  EXPECT_THAT(ended.studies(0).priors(), IsEmpty());
  ASSERT_THAT(ended.studies(1).priors(), SizeIs(1));
  EXPECT_EQ(ended.studies(1).priors(0).problem_key(), "N=512");
  EXPECT_GE(ended.studies(1).priors(0).measured(), 70) << "all but what was still open";
  ASSERT_THAT(ended.studies(2).priors(), SizeIs(2));
  EXPECT_EQ(ended.studies(2).priors(0).problem_key(), "N=1024");
  for (const auto& study : ended.studies()) EXPECT_TRUE(study.has_best());
}

TEST_F(Memory, AJobOfManyProblemsGoesOnWhereItWas) {
  const std::string job = farm_.SubmitJob({512, 1024, 2048, 4096}, FourParameterKernel(), Search(40));
  for (int64_t done = 20; done < 160; done += 20) {
    ASSERT_TRUE(farm_.RunUntil([&] { return farm_.Job(job).progress().done() >= done; }));
    farm_.Crash();
    farm_.Boot();
  }
  ASSERT_TRUE(farm_.Finish(job));
  EXPECT_EQ(farm_.Job(job).state(), tunefarm::v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(farm_.Job(job).progress().done(), 160);
}

TEST_F(Memory, ProblemsThatNeverBeganEndWithTheirJob) {
  tunefarm::v1::Job job = Search(10'000);
  job.mutable_budget()->set_max_seconds(5);
  const std::string name = farm_.SubmitJob({512, 1024, 4096}, FourParameterKernel(), job);
  ASSERT_TRUE(farm_.Finish(name));
  EXPECT_EQ(farm_.Job(name).state(), tunefarm::v1::JOB_STATE_SUCCEEDED);
  EXPECT_TRUE(farm_.Job(name).studies(0).has_best());
  EXPECT_FALSE(farm_.Job(name).studies(2).has_best());
  const std::string cancelled = farm_.SubmitJob({512, 1024}, FourParameterKernel(), Search(100));
  ASSERT_TRUE(farm_.RunUntil([&] { return farm_.Job(cancelled).progress().done() >= 10; }));
  ASSERT_TRUE(farm_.service().Cancel(cancelled).ok());
  ASSERT_TRUE(farm_.Finish(cancelled));
}

TEST_F(Memory, WhatWasMeasuredIsNotMeasuredAgain) {
  const std::string first = farm_.SubmitJob({1024}, FourParameterKernel(3), Search(0, "exhaustive"));
  ASSERT_TRUE(farm_.Finish(first));
  const size_t before = farm_.evaluator().runs().size();
  // Another strategy over a grown space: 81 configs are known, 175 are new.
  const std::string second = farm_.SubmitJob({1024}, FourParameterKernel(4), Search(0, "random"));
  ASSERT_TRUE(farm_.Finish(second));
  std::set<std::string> known;
  for (const std::string& text : Proposals(farm_, first)) known.insert(text.substr(text.find(' ')));
  int reused = 0, new_ones = 0;
  for (const Trial& trial : farm_.Trials(second)) {
    if (trial.purpose() == tunefarm::v1::TRIAL_PURPOSE_FINALIST) {
      EXPECT_FALSE(trial.reused());
      continue;
    }
    if (trial.reused()) {
      ++reused;
      EXPECT_EQ(trial.reused_trial().rfind("jobs/1/studies/1/trials/", 0), 0u) << trial.reused_trial();
      EXPECT_GT(trial.measurement().median_ns(), 0);
      EXPECT_EQ(trial.device_uuid(), "HOST-1");
      EXPECT_EQ(trial.device_busy_ms(), 0);
    } else {
      ++new_ones;
    }
  }
  EXPECT_EQ(known.size(), 81u);
  EXPECT_EQ(reused, 81);
  EXPECT_EQ(new_ones, 175);
  EXPECT_EQ(farm_.Job(second).studies(0).reused_from_earlier(), 81);
  // Each of the new ones once; of the old ones only those in the final, which takes times of its own.
  for (const auto& [config, count] : RunsOf(farm_, before)) EXPECT_LE(count, 1 + 5) << config;
  const size_t search_runs = farm_.evaluator().runs().size() - before;
  EXPECT_LT(search_runs, 175u + 60u);
  EXPECT_TRUE(farm_.Job(second).studies(0).has_best());
}

// A time may change with the driver: the catalog calls a best of another one stale, and measuring again must measure.
TEST(MemoryOfDrivers, WhatAnotherDriverMeasuredIsMeasuredAgain) {
  TemporaryDirectory directory;
  std::string last;
  int drivers = 0;
  for (const char* driver : {"550.1", "560.2", "560.2"}) {
    tunefarm::v1::Device device = HostDevice();
    device.set_driver_version(driver);
    Farm farm(directory.path(), {device});
    for (int i = 0; i < drivers; ++i) NewUuid(&farm.entropy);  // jobs of other farms have those of its beginning
    ++drivers;
    const std::string job = farm.SubmitJob({1024}, TestKernel(), Search(0, "exhaustive"));
    ASSERT_TRUE(farm.Finish(job));
    EXPECT_EQ(farm.Job(job).studies(0).reused_from_earlier(), last == driver ? 11 : 0) << driver;
    last = driver;
  }
}

// A header of the system or of a toolkit, which no digest of the definition covers.
TEST_F(Memory, WhatOtherHeadersMadeIsMeasuredAgain) {
  const auto reused_with = [&](const FileSet& headers) {
    farm_.evaluator().set_scripter([headers](const FakeEvaluator::Question& question) {
      FakeEvaluator::Script script = FourParameterBowl(question);
      script.inputs = std::make_shared<const FileSet>(headers);
      return script;
    });
    const std::string name = farm_.SubmitJob({1024}, FourParameterKernel(3), Search(0, "exhaustive"));
    EXPECT_TRUE(farm_.Finish(name));
    int64_t reused = 0;
    for (const Trial& trial : farm_.Trials(name)) {
      EXPECT_EQ(trial.outcome(), tunefarm::v1::OUTCOME_OK);
      if (trial.purpose() != tunefarm::v1::TRIAL_PURPOSE_SEARCH) continue;
      EXPECT_EQ(trial.headers(), ChecksumOf(headers));
      EXPECT_EQ(trial.reused(), !trial.reused_trial().empty());
      if (!trial.reused()) continue;
      ++reused;
      EXPECT_GT(trial.measurement().median_ns(), 0);
      EXPECT_EQ(trial.device_busy_ms(), 0);
    }
    EXPECT_EQ(farm_.Job(name).studies(0).reused_from_earlier(), reused);
    return reused;
  };
  const FileSet before{PackPaths({"/usr/include/math.h"}), 1, 11};
  EXPECT_EQ(reused_with(before), 0);
  EXPECT_EQ(reused_with(before), 81);
  EXPECT_EQ(reused_with({before.packed_paths, 2, 11}), 81) << "written again with the same content";
  EXPECT_EQ(reused_with({before.packed_paths, 3, 12}), 0);
  EXPECT_EQ(reused_with({PackPaths({"/usr/include/tgmath.h"}), 3, 12}), 0);
  const FileSet unknown{before.packed_paths, 0, 0};
  EXPECT_EQ(reused_with(unknown), 0);
  EXPECT_EQ(reused_with(unknown), 0) << "not known, which equals nothing";
}

// The agent keeps a reference's binary for later jobs.
TEST_F(Memory, AReferenceIsCompiledAgainWhereHeadersHaveChanged) {
  const auto compiles_of_default = [&](const FileSet& headers) {
    farm_.evaluator().set_scripter([headers](const FakeEvaluator::Question&) {
      FakeEvaluator::Script script;
      script.inputs = std::make_shared<const FileSet>(headers);
      return script;
    });
    const auto count = [&] {
      const std::vector<std::string> compiles = farm_.evaluator().compiles();
      return std::count(compiles.begin(), compiles.end(), "A=1,B=1");
    };
    const auto before = count();
    tunefarm::v1::Job job = Search(0, "exhaustive");
    job.mutable_policy()->set_no_reuse(true);
    const std::string name = farm_.SubmitJob({1024}, TestKernel(), job);
    EXPECT_TRUE(farm_.Finish(name));
    for (const Trial& trial : farm_.Trials(name)) EXPECT_EQ(trial.outcome(), tunefarm::v1::OUTCOME_OK);
    return count() - before;
  };
  const FileSet old_headers{PackPaths({"/usr/include/math.h"}), 1, 11}, new_headers{old_headers.packed_paths, 3, 12};
  compiles_of_default(old_headers);
  const auto with_kept_reference = compiles_of_default(old_headers);
  EXPECT_EQ(compiles_of_default(new_headers), with_kept_reference + 1);
  EXPECT_EQ(compiles_of_default(new_headers), with_kept_reference);
}

TEST_F(Memory, OldResultsTakePartInTheFinal) {
  ASSERT_TRUE(farm_.Finish(farm_.SubmitJob({1024}, FourParameterKernel(3), Search(0, "exhaustive"))));
  tunefarm::v1::Job again = Search(0, "random");
  again.set_no_promotion(true);
  const std::string job = farm_.SubmitJob({1024}, FourParameterKernel(3), again);
  ASSERT_TRUE(farm_.Finish(job));
  int finalists = 0;
  double best = 1e9;
  for (const Trial& trial : farm_.Trials(job)) {
    if (trial.purpose() != tunefarm::v1::TRIAL_PURPOSE_FINALIST) {
      EXPECT_TRUE(trial.reused());
      best = std::min(best, trial.measurement().median_ns());
      continue;
    }
    ++finalists;
    EXPECT_FALSE(trial.reused());
  }
  EXPECT_GE(finalists, 5);
  EXPECT_EQ(farm_.Job(job).studies(0).incumbent().measurement().median_ns(), best);
}

TEST_F(Memory, MeasuringAgainCanBeAskedFor) {
  ASSERT_TRUE(farm_.Finish(farm_.SubmitJob({1024}, FourParameterKernel(3), Search(0, "exhaustive"))));
  const auto reused_by = [&](tunefarm::v1::Job job, int64_t n = 1024) {
    const std::string name = farm_.SubmitJob({n}, FourParameterKernel(3), std::move(job));
    EXPECT_TRUE(farm_.Finish(name));
    int64_t reused = 0;
    for (const Trial& trial : farm_.Trials(name)) reused += trial.reused();
    EXPECT_EQ(farm_.Job(name).studies(0).reused_from_earlier(), reused);
    return reused;
  };
  tunefarm::v1::Job asked = Search(0, "random");
  asked.mutable_policy()->set_no_reuse(true);
  EXPECT_EQ(reused_by(asked), 0);
  tunefarm::v1::Job otherwise = Search(0, "random");
  otherwise.mutable_policy()->set_warm_cache(true);
  EXPECT_EQ(reused_by(otherwise), 0) << "measured in another way";
  EXPECT_EQ(reused_by(Search(0, "random"), 2048), 0) << "another problem";
  tunefarm::v1::Job finals = Search(0, "random");
  finals.mutable_policy()->set_final_rounds(7);
  EXPECT_EQ(reused_by(finals), 81);
}

// Priors and reuse of the same results: a config is proposed once, runs never again, and is one result of its source.
TEST_F(Memory, TheSameProblemAgainIsOneSourceAndCostsNothing) {
  ASSERT_TRUE(farm_.Finish(farm_.SubmitJob({1024}, FourParameterKernel(3), Search(0, "exhaustive"))));
  for (int again = 0; again < 3; ++again) {
    const size_t before = farm_.evaluator().runs().size();
    const std::string job = farm_.SubmitJob({1024}, FourParameterKernel(3), Search(40));
    ASSERT_TRUE(farm_.Finish(job));
    const tunefarm::v1::Study study = farm_.Job(job).studies(0);
    EXPECT_EQ(study.reused_from_earlier(), 40);
    ASSERT_THAT(study.priors(), SizeIs(1)) << "copies are no source of their own";
    EXPECT_EQ(study.priors(0).difference(), "");
    EXPECT_EQ(study.priors(0).measured(), 81);
    std::set<std::string> finalists;
    for (const Trial& trial : farm_.Trials(job)) {
      if (trial.purpose() == tunefarm::v1::TRIAL_PURPOSE_FINALIST) finalists.insert(trial.config().DebugString());
    }
    EXPECT_LE(farm_.evaluator().runs().size() - before, finalists.size() * 16) << "only the final runs";
    EXPECT_LE(finalists.size(), 8u);
  }
}

}  // namespace
}  // namespace tunefarm
