// What the calls about studies answer, and pages of filtered trials.
#include "server/results/study_answers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "server/base/random.h"
#include "server/base/status.h"
#include "server/results/trial_filter.h"
#include "server/results/trial_list.h"
#include "tunefarm/v1/trial.pb.h"

namespace tunefarm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

template <typename Number>
std::vector<Number> NumbersIn(const std::string& bytes) {
  std::vector<Number> numbers(bytes.size() / sizeof(Number));
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

class StudyAnswersTest : public testing::Test {
 protected:
  StudyAnswersTest() : data_({{"A", ValueType::kInt}, {"M", ValueType::kString}}, "A=2,M=64") {
    data_.BeginPass();
    view_.data = &data_;
    view_.revision = 7;
    view_.stored = 9;
    view_.is_open = true;
    view_.name = "jobs/1/studies/1";
    view_.problem_key = "N=1";
    view_.device_class_name = "CPU";
    view_.floor_ns = 10;
    view_.baseline_label = "library";
    view_.parameter_order = {"M", "A"};
  }
  void Add(int64_t ordinal, const std::string& config, double ns, const std::string& message = "",
           v1::TrialPurpose purpose = v1::TRIAL_PURPOSE_SEARCH) {
    v1::Trial detail;
    detail.set_message(message);
    detail.set_compile_ms(500);
    detail.set_run_ms(500);
    TrialColumns row;
    row.ordinal = ordinal;
    row.outcome = ns > 0 ? v1::OUTCOME_OK : v1::OUTCOME_WRONG_RESULT;
    row.purpose = purpose;
    row.config = config;
    row.median_ns = ns;
    row.ended_at_ms = 10'000 + 1000 * ordinal;
    row.detail = detail.SerializeAsString();
    ASSERT_TRUE(data_.Add(row).ok());
  }
  // Five trials of a search, then a final of two.
  void AddSome() {
    Add(0, "", 95, "", v1::TRIAL_PURPOSE_BASELINE);
    Add(1, "A=1,M=64", 50);
    Add(2, "A=2,M=64", 40);
    Add(3, "A=1,M=x", 0, "y[7] is 3");
    Add(4, "A=4,M=x", 20);
    Add(5, "A=2,M=x", 30);
    Add(6, "A=4,M=x", 21, "", v1::TRIAL_PURPOSE_FINALIST);
    Add(7, "A=2,M=64", 41, "", v1::TRIAL_PURPOSE_FINALIST);
    data_.Settle();
  }
  static void AddValues(v1::TrialFilter* filter, const std::string& parameter, const std::vector<std::string>& texts) {
    v1::ParameterValues* values = filter->add_parameters();
    values->set_parameter(parameter);
    for (const std::string& text : texts) values->add_values()->set_string_value(text);
  }

  StudyData data_;
  StudyView view_;
};

TEST_F(StudyAnswersTest, AChart) {
  AddSome();
  v1::GetStudyChartRequest request;
  request.set_columns(5);
  request.set_rows(3);
  const v1::GetStudyChartResponse chart = *ChartAnswer(view_, request);
  EXPECT_EQ(chart.coverage().revision(), 7);
  EXPECT_EQ(chart.coverage().read(), 5);
  EXPECT_EQ(chart.coverage().stored(), 9);
  EXPECT_EQ(chart.coverage().matching(), 5);
  EXPECT_TRUE(chart.coverage().is_open());
  EXPECT_EQ(chart.columns(), 5);
  EXPECT_EQ(chart.rows(), 3);
  EXPECT_EQ(chart.density().size(), 15u);
  EXPECT_EQ(chart.x_max(), 5);
  EXPECT_EQ(chart.y_min_ns(), 20);
  EXPECT_EQ(chart.y_max_ns(), 50);
  EXPECT_THAT(NumbersIn<double>(chart.best_x()), ElementsAre(1, 2, 4));
  EXPECT_THAT(NumbersIn<double>(chart.best_ns()), ElementsAre(50, 40, 20));
  EXPECT_THAT(NumbersIn<int64_t>(chart.best_ordinals()), ElementsAre(1, 2, 4));
  EXPECT_THAT(NumbersIn<int64_t>(chart.point_ordinals()), ElementsAre(1, 2, 4, 5));
  ASSERT_EQ(chart.failures_size(), 1);
  EXPECT_EQ(chart.failures(0).outcome(), v1::OUTCOME_WRONG_RESULT);
  EXPECT_THAT(NumbersIn<uint32_t>(chart.failures(0).counts()), ElementsAre(0, 0, 0, 1, 0));
  std::vector<std::string> levels;
  for (const v1::ChartLevel& level : chart.levels())
    levels.push_back(level.label() + " " + std::to_string(static_cast<int>(level.time_ns())));
  EXPECT_THAT(levels, ElementsAre("default config 41", "baseline: library 95", "roofline floor 10", "final 21"));

  request.set_x(v1::CHART_AXIS_SECONDS);
  EXPECT_THAT(NumbersIn<double>(ChartAnswer(view_, request)->best_x()), ElementsAre(1, 2, 4))
      << "the first trial took a second";
  view_.job_started_ms = 5000;
  EXPECT_THAT(NumbersIn<double>(ChartAnswer(view_, request)->best_x()), ElementsAre(6, 7, 9));
}

TEST_F(StudyAnswersTest, TrialsThatCannotBeReadAreTold) {
  AddSome();
  TrialColumns damaged;
  damaged.ordinal = 8;
  damaged.outcome = v1::OUTCOME_OK;
  damaged.config = "A=2,M=64";
  damaged.median_ns = 1;
  damaged.detail = "\xff";
  EXPECT_TRUE(absl::IsDataLoss(data_.Add(damaged)));
  data_.Settle();
  EXPECT_EQ(ChartAnswer(view_, {})->coverage().read(), 5);
  EXPECT_EQ(ChartAnswer(view_, {})->coverage().unreadable(), 1);
  EXPECT_EQ(AnalysisAnswer(view_, {})->coverage().unreadable(), 1);
}

TEST_F(StudyAnswersTest, NothingNewIsCoverageAlone) {
  AddSome();
  v1::GetStudyChartRequest chart;
  chart.set_known_revision(7);
  v1::AnalyzeStudyRequest analysis;
  analysis.set_known_revision(7);
  v1::GetParameterGridRequest grid;
  grid.set_known_revision(7);
  grid.set_column_parameter("A");
  grid.set_row_parameter("M");
  const v1::GetStudyChartResponse unchanged = *ChartAnswer(view_, chart);
  EXPECT_EQ(unchanged.coverage().matching(), 5);
  EXPECT_EQ(unchanged.density(), "");
  EXPECT_EQ(unchanged.levels_size(), 0);
  EXPECT_FALSE(AnalysisAnswer(view_, analysis)->has_analysis());
  EXPECT_EQ(GridAnswer(view_, grid)->cells_size(), 0);
  view_.revision = 8;
  EXPECT_NE(ChartAnswer(view_, chart)->density(), "");
  EXPECT_TRUE(AnalysisAnswer(view_, analysis)->has_analysis());
  EXPECT_GT(GridAnswer(view_, grid)->cells_size(), 0);
}

TEST_F(StudyAnswersTest, AnAnalysisOfWhatPasses) {
  AddSome();
  v1::AnalyzeStudyRequest request;
  request.set_without_importance(true);
  AddValues(request.mutable_filter(), "M", {"x"});
  const v1::AnalyzeStudyResponse response = *AnalysisAnswer(view_, request);
  EXPECT_EQ(response.coverage().matching(), 3);
  const v1::StudyAnalysis& analysis = response.analysis();
  EXPECT_EQ(analysis.study(), "jobs/1/studies/1");
  EXPECT_EQ(analysis.evaluations(), 3);
  EXPECT_EQ(analysis.measured(), 2);
  EXPECT_EQ(analysis.best().ordinal(), 4);
  EXPECT_EQ(analysis.best().config().values().at("M").string_value(), "x");
  EXPECT_EQ(analysis.convergence(0).evaluations(), 4) << "of all trials";
  EXPECT_FALSE(analysis.has_importance());
  ASSERT_EQ(analysis.outcomes_size(), 2);
  EXPECT_EQ(analysis.outcomes(0).count(), 2);
  EXPECT_EQ(analysis.outcomes(1).reason(), "y[#] is #");
  ASSERT_EQ(analysis.parameters_size(), 2);
  EXPECT_EQ(analysis.parameters(0).parameter(), "M") << "in the order of the definition";
  EXPECT_EQ(analysis.parameters(0).values(0).value().string_value(), "64");
  EXPECT_EQ(analysis.parameters(0).values(0).measured(), 0);
  EXPECT_EQ(analysis.parameters(1).values(0).failed(), 1);
}

TEST_F(StudyAnswersTest, TheImportanceNeedsNothingOfTheStudyAnyMore) {
  const v1::AnalyzeStudyRequest request;
  for (int i = 0; i < 64; ++i) {
    Add(i, "A=" + std::to_string(i % 8) + ",M=" + (i < 32 ? "x" : "y"), 100 * (1 + i % 8) + (i < 32 ? 0 : 10));
  }
  data_.Settle();
  const v1::AnalyzeStudyResponse expected = *AnalysisAnswer(view_, request);
  ASSERT_EQ(expected.analysis().importance().unusable_because(), "");
  EXPECT_EQ(expected.analysis().importance().parameters(0).parameter(), "A");
  StartedAnalysis started = *StartAnalysis(view_, request);
  EXPECT_FALSE(started.response.analysis().has_importance());
  data_ = StudyData();
  EXPECT_EQ(FinishAnalysis(std::move(started)).DebugString(), expected.DebugString());
}

TEST_F(StudyAnswersTest, AnAnalysisHasTheBestValuesAndSaysHowManyItLeavesOut) {
  v1::AnalyzeStudyRequest request;
  request.set_without_importance(true);
  for (int a = 0; a < 1000; ++a) Add(a, "A=" + std::to_string(a) + ",M=x", a == 7 ? 0 : 100 + a);
  data_.Settle();
  const v1::StudyAnalysis all = AnalysisAnswer(view_, request)->analysis();
  EXPECT_EQ(all.parameters(1).values_size(), 1000);
  EXPECT_EQ(all.parameters(1).values_left_out(), 0);
  Add(1000, "A=1000,M=x", 1100);
  Add(1001, "A=1001,M=x", 10);
  data_.Settle();
  const v1::StudyAnalysis bounded = AnalysisAnswer(view_, request)->analysis();
  const v1::ParameterEffect& effect = bounded.parameters(1);
  EXPECT_EQ(effect.values_left_out(), 2);
  ASSERT_EQ(effect.values_size(), 1000);
  EXPECT_EQ(effect.values(7).value().int_value(), 8) << "7 failed";
  EXPECT_EQ(effect.values(998).value().int_value(), 999) << "1000 is the slowest";
  EXPECT_EQ(effect.values(999).value().int_value(), 1001);
  EXPECT_EQ(bounded.parameters(0).values_left_out(), 0);
}

TEST_F(StudyAnswersTest, TheLastFinalCountsForTheDefaultConfig) {
  AddSome();
  EXPECT_EQ(data_.default_ns(), 41);
  Add(8, "A=2,M=64", 45, "", v1::TRIAL_PURPOSE_FINALIST);
  EXPECT_EQ(data_.default_ns(), 45);
}

TEST_F(StudyAnswersTest, AGrid) {
  AddSome();
  v1::GetParameterGridRequest request;
  request.set_column_parameter("A");
  request.set_row_parameter("M");
  const v1::GetParameterGridResponse grid = *GridAnswer(view_, request);
  ASSERT_EQ(grid.column_values_size(), 3);
  EXPECT_EQ(grid.column_values(2).int_value(), 4);
  ASSERT_EQ(grid.row_values_size(), 2);
  EXPECT_EQ(grid.row_values(0).string_value(), "64");
  ASSERT_EQ(grid.cells_size(), 5);
  EXPECT_EQ(grid.cells(4).column(), 2);
  EXPECT_EQ(grid.cells(4).row(), 1);
  EXPECT_EQ(grid.cells(4).effect().best_ns(), 20);
  EXPECT_EQ(grid.cells(4).example_ordinal(), 4);
  EXPECT_EQ(grid.cells(2).effect().failed(), 1);
  EXPECT_EQ(grid.cells(2).example_ordinal(), 3);

  request.set_row_parameter("A");
  EXPECT_EQ(ReasonOf(GridAnswer(view_, request).status()), "FILTER_INVALID");
  request.set_row_parameter("B");
  EXPECT_EQ(ReasonOf(GridAnswer(view_, request).status()), "FILTER_INVALID");
}

TEST_F(StudyAnswersTest, AGridHasSoManyPairs) {
  v1::GetParameterGridRequest request;
  request.set_column_parameter("A");
  request.set_row_parameter("M");
  int values = 0;
  const auto refused = [&](int until) {
    for (; values < until; ++values) Add(values, "A=" + std::to_string(values) + ",M=" + std::to_string(values), 50);
    data_.Settle();
    return std::string(GridAnswer(view_, request).status().message());
  };
  EXPECT_EQ(refused(316), "");
  EXPECT_THAT(refused(317), HasSubstr("100489 pairs of values, a grid shows 100000 at most"));
}

TEST_F(StudyAnswersTest, ChartSizes) {
  AddSome();
  const auto reason = [&](int columns, int rows) {
    v1::GetStudyChartRequest request;
    request.set_columns(columns);
    request.set_rows(rows);
    return ReasonOf(ChartAnswer(view_, request).status());
  };
  EXPECT_EQ(reason(1000, 400), "");
  EXPECT_EQ(reason(1001, 400), "CHART_SIZE_INVALID");
  EXPECT_EQ(reason(1000, 401), "CHART_SIZE_INVALID");
  EXPECT_EQ(reason(-1, 1), "CHART_SIZE_INVALID");
}

TEST_F(StudyAnswersTest, AStudyWithoutTrials) {
  data_.Settle();
  v1::GetStudyChartRequest chart;
  AddValues(chart.mutable_filter(), "not known yet", {"1"});
  const absl::StatusOr<v1::GetStudyChartResponse> empty = ChartAnswer(view_, chart);
  ASSERT_TRUE(empty.ok()) << empty.status();
  EXPECT_EQ(empty->columns(), 0);
  EXPECT_EQ(empty->levels_size(), 1);
  EXPECT_EQ(AnalysisAnswer(view_, {})->analysis().evaluations(), 0);
}

TEST_F(StudyAnswersTest, FiltersThatAreRefused) {
  AddSome();
  const auto message = [&](const v1::TrialFilter& filter) {
    const absl::Status status = ConditionsOf(filter, data_.columns(), 0).status();
    if (status.ok()) return std::string();
    EXPECT_EQ(ReasonOf(status), "FILTER_INVALID");
    return std::string(status.message());
  };
  EXPECT_EQ(message({}), "");
  v1::TrialFilter purpose;
  purpose.set_purpose(v1::TRIAL_PURPOSE_SEARCH);
  EXPECT_EQ(message(purpose), "");
  purpose.set_purpose(v1::TRIAL_PURPOSE_FINALIST);
  EXPECT_THAT(message(purpose), HasSubstr("only trials of the search"));
  v1::TrialFilter outcome;
  outcome.add_outcomes(v1::OUTCOME_OK);
  EXPECT_EQ(message(outcome), "");
  outcome.add_outcomes(v1::OUTCOME_UNSPECIFIED);
  EXPECT_THAT(message(outcome), HasSubstr("filter.outcomes"));
  v1::TrialFilter unknown;
  AddValues(&unknown, "B", {"1"});
  EXPECT_THAT(message(unknown), HasSubstr("filter.parameters[0]: no trial has a parameter 'B'"));
  v1::TrialFilter none;
  AddValues(&none, "A", {});
  EXPECT_THAT(message(none), HasSubstr("1 to 1000"));
  v1::TrialFilter many;
  for (int i = 0; i < 65; ++i) AddValues(&many, "A", {"1"});
  EXPECT_THAT(message(many), HasSubstr("64 are the most"));
  v1::TrialFilter limit;
  limit.mutable_median_ns()->set_max(std::numeric_limits<double>::quiet_NaN());
  EXPECT_THAT(message(limit), HasSubstr("median_ns"));
}

TEST_F(StudyAnswersTest, ValuesAreToldByTheirTexts) {
  AddSome();
  const auto matching = [&](const std::string& parameter, const v1::Value& value) {
    v1::TrialFilter filter;
    v1::ParameterValues* values = filter.add_parameters();
    values->set_parameter(parameter);
    *values->add_values() = value;
    return Selection(data_.columns(), *ConditionsOf(filter, data_.columns(), 0)).size();
  };
  v1::Value value;
  value.set_int_value(64);
  EXPECT_EQ(matching("M", value), 2u) << "a string that looks like a number";
  value.set_int_value(4);
  EXPECT_EQ(matching("A", value), 1u);
  value.set_string_value("4");
  EXPECT_EQ(matching("A", value), 1u);
  value.set_int_value(5);
  EXPECT_EQ(matching("A", value), 0u);
}

TEST(TrialList, PagesHoldEachTrialOnce) {
  StudyColumns columns;
  PhiloxStream random(9);
  struct Plain {
    double ns;
    int64_t ended_ms, ordinal;
  };
  std::vector<Plain> trials;
  for (int64_t i = 0; i < 200; ++i) {
    const Plain trial{random.UniformInt(3) == 0 ? 0 : 100.0 + static_cast<double>(random.UniformInt(20)),
                      static_cast<int64_t>(random.UniformInt(40)), i};
    trials.push_back(trial);
    ASSERT_TRUE(columns
                    .Add({.ordinal = i,
                          .ended_ms = trial.ended_ms,
                          .outcome = trial.ns > 0 ? 1 : 12,
                          .config = "A=1",
                          .objective_ns = trial.ns})
                    .ok());
  }
  columns.Settle();
  const Selection all(columns);
  for (const bool by_time : {false, true}) {
    std::vector<int64_t> expected;
    std::sort(trials.begin(), trials.end(), [&](const Plain& a, const Plain& b) {
      const auto time = [&](const Plain& t) {
        return !by_time ? static_cast<double>(t.ended_ms) : t.ns > 0 ? t.ns : INFINITY;
      };
      return std::pair(time(a), a.ordinal) < std::pair(time(b), b.ordinal);
    });
    for (const Plain& trial : trials) expected.push_back(trial.ordinal);
    for (const int size : {1, 7, 200, 1000}) {
      std::vector<int64_t> seen;
      PageRequest request;
      request.page_size = size;
      do {
        const TrialPage page = *PageOf(all, by_time, request, "query");
        seen.insert(seen.end(), page.ordinals.begin(), page.ordinals.end());
        request.page_token = page.next_page_token;
      } while (!request.page_token.empty() && seen.size() <= expected.size());
      EXPECT_EQ(seen, expected);
    }
  }
  PageRequest first;
  first.page_size = 1;
  PageRequest of_another;
  of_another.page_token = PageOf(all, false, first, "query")->next_page_token;
  EXPECT_EQ(ReasonOf(PageOf(all, false, of_another, "another query").status()), "PAGE_TOKEN_INVALID");
}

}  // namespace
}  // namespace tunefarm
