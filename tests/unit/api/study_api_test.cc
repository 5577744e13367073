// Charts, analyses and filtered lists of real studies, on the store that the daemon has.
#include "server/api/study_api.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/base/status.h"
#include "tests/unit/jobs/farm.h"

namespace tunefarm {
namespace {

class StudyApiTest : public testing::Test {
 protected:
  StudyApi& api() { return farm_.service().study_api(); }
  // Until all that is stored has been read.
  v1::AnalyzeStudyResponse Analyze(const std::string& study, const v1::TrialFilter& filter = {}) {
    v1::AnalyzeStudyRequest request;
    request.set_study(study);
    *request.mutable_filter() = filter;
    while (true) {
      auto response = api().AnalyzeStudy(request);
      TUNEFARM_CHECK_OK(response);
      if (response->coverage().read() == response->coverage().stored()) return *response;
    }
  }
  std::vector<v1::Trial> Search(const std::string& job) {
    std::vector<v1::Trial> trials = farm_.Trials(job);
    std::erase_if(trials, [](const v1::Trial& t) { return t.purpose() != v1::TRIAL_PURPOSE_SEARCH; });
    return trials;
  }
  // Page by page.
  std::vector<v1::Trial> List(v1::ListTrialsRequest request, int64_t* matching) {
    std::vector<v1::Trial> trials;
    request.set_page_size(2);
    do {
      const auto page = farm_.service().tuning_api().ListTrials(request);
      TUNEFARM_CHECK_OK(page);
      trials.insert(trials.end(), page->trials().begin(), page->trials().end());
      *matching = page->matching();
      request.set_page_token(page->next_page_token());
    } while (!request.page_token().empty());
    return trials;
  }

  TemporaryDirectory directory_;
  Farm farm_{directory_.path()};
};

TEST_F(StudyApiTest, AStudyIsShownWhileItRunsAndAfterARestart) {
  const std::string job = farm_.SubmitJob({1024});
  const std::string study = job + "/studies/1";
  EXPECT_EQ(Analyze(study).analysis().evaluations(), 0);
  EXPECT_TRUE(Analyze(study).coverage().is_open());
  ASSERT_TRUE(farm_.RunUntil([&] { return Search(job).size() >= 3; }));
  const v1::AnalyzeStudyResponse early = Analyze(study);
  EXPECT_EQ(early.analysis().evaluations(), static_cast<int64_t>(Search(job).size()));
  ASSERT_TRUE(farm_.Finish(job));
  const v1::AnalyzeStudyResponse ended = Analyze(study);
  EXPECT_GT(ended.coverage().revision(), early.coverage().revision());
  EXPECT_FALSE(ended.coverage().is_open());
  const std::vector<v1::Trial> trials = Search(job);
  EXPECT_EQ(ended.analysis().evaluations(), static_cast<int64_t>(trials.size()));
  double fastest = trials[0].measurement().median_ns();
  for (const v1::Trial& trial : trials) fastest = std::min(fastest, trial.measurement().median_ns());
  EXPECT_EQ(ended.analysis().best().median_ns(), fastest);
  EXPECT_EQ(ended.analysis().parameters_size(), 2);

  v1::GetStudyChartRequest request;
  request.set_study(study);
  const v1::GetStudyChartResponse chart = *api().GetStudyChart(request);
  std::set<std::string> levels;
  for (const v1::ChartLevel& level : chart.levels()) levels.insert(level.label());
  EXPECT_TRUE(levels.contains("default config"));
  EXPECT_TRUE(levels.contains("final"));

  farm_.Crash();
  farm_.Boot();
  const v1::AnalyzeStudyResponse again = Analyze(study);
  EXPECT_EQ(again.analysis().SerializeAsString().size(), ended.analysis().SerializeAsString().size());
  EXPECT_EQ(again.analysis().best().ordinal(), ended.analysis().best().ordinal());
  EXPECT_FALSE(again.coverage().is_open());
}

TEST_F(StudyApiTest, FilteredListsHoldWhatPasses) {
  const std::string job = farm_.SubmitJob({1024});
  ASSERT_TRUE(farm_.Finish(job));
  v1::ListTrialsRequest request;
  request.set_parent(job + "/studies/1");
  v1::ParameterValues* values = request.mutable_filter()->add_parameters();
  values->set_parameter("A");
  values->add_values()->set_int_value(1);
  values->add_values()->set_int_value(4);
  Analyze(request.parent(), request.filter());  // all has been read
  std::set<int64_t> expected;
  for (const v1::Trial& trial : Search(job)) {
    const int64_t a = trial.config().values().at("A").int_value();
    if (a == 1 || a == 4) expected.insert(trial.ordinal());
  }
  ASSERT_EQ(expected.size(), 6u);
  for (const bool by_time : {false, true}) {
    request.set_order_by_time(by_time);
    int64_t matching = 0;
    const std::vector<v1::Trial> trials = List(request, &matching);
    EXPECT_EQ(matching, 6);
    std::set<int64_t> seen;
    for (size_t i = 0; i < trials.size(); ++i) {
      seen.insert(trials[i].ordinal());
      EXPECT_EQ(trials[i].name(), request.parent() + "/trials/" + std::to_string(trials[i].ordinal()));
      if (i == 0) continue;
      if (by_time) {
        EXPECT_LE(trials[i - 1].measurement().median_ns(), trials[i].measurement().median_ns());
      } else {
        EXPECT_LE(trials[i - 1].ended_at_ms(), trials[i].ended_at_ms());
      }
    }
    EXPECT_EQ(trials.size(), 6u);
    EXPECT_EQ(seen, expected);
  }
}

TEST_F(StudyApiTest, ADamagedTrialIsLeftOutOfListsAndCounted) {
  const std::string job = farm_.SubmitJob({1024});
  ASSERT_TRUE(farm_.Finish(job));
  const int64_t damaged = Search(job)[1].ordinal();
  const int readable = static_cast<int>(Search(job).size()) - 1;
  Analyze(job + "/studies/1");  // all has been read
  // In what lists read and columns do not.
  farm_.hooked_store->listed_trial = [&](TrialRow* row) {
    if (row->ordinal == damaged) row->detail = "\xff";
  };
  const auto list = [&](const v1::ListTrialsRequest& request) {
    const auto listed = farm_.service().tuning_api().ListTrials(request);
    ASSERT_TRUE(listed.ok()) << listed.status();
    EXPECT_EQ(listed->unreadable(), 1);
    EXPECT_EQ(listed->trials_size(), readable);
    for (const v1::Trial& trial : listed->trials()) {
      EXPECT_NE(trial.ordinal(), damaged);
      EXPECT_EQ(trial.name(), job + "/studies/1/trials/" + std::to_string(trial.ordinal()));
    }
  };
  v1::ListTrialsRequest request;
  request.set_page_size(1000);
  request.set_purpose(v1::TRIAL_PURPOSE_SEARCH);
  for (const char* parent : {"", "/studies/1"}) {
    request.set_parent(job + parent);
    list(request);
  }
  request.clear_purpose();
  request.mutable_filter();
  list(request);
}

TEST_F(StudyApiTest, WhatIsRefused) {
  const std::string job = farm_.SubmitJob({1024});
  ASSERT_TRUE(farm_.Finish(job));
  const auto reason = [&](const std::string& study) {
    v1::GetStudyChartRequest request;
    request.set_study(study);
    return ReasonOf(api().GetStudyChart(request).status());
  };
  EXPECT_EQ(reason(job + "/studies/1"), "");
  EXPECT_EQ(reason(job + "/studies/2"), "STUDY_NOT_FOUND");
  EXPECT_EQ(reason("jobs/99/studies/1"), "STUDY_NOT_FOUND");
  EXPECT_EQ(reason(job), "NAME_INVALID");
  EXPECT_EQ(reason("studies/1"), "NAME_INVALID");
  v1::ListTrialsRequest list;
  list.set_parent(job);
  list.mutable_filter();
  EXPECT_EQ(ReasonOf(farm_.service().tuning_api().ListTrials(list).status()), "NAME_INVALID");
  list.set_parent(job + "/studies/1");
  list.add_outcomes(v1::OUTCOME_OK);
  EXPECT_EQ(ReasonOf(farm_.service().tuning_api().ListTrials(list).status()), "FILTER_INVALID");
  list.clear_outcomes();
  list.set_page_size(-1);
  EXPECT_EQ(ReasonOf(farm_.service().tuning_api().ListTrials(list).status()), "PAGE_SIZE_INVALID");
}

}  // namespace
}  // namespace tunefarm
