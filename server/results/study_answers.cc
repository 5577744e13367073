#include "server/results/study_answers.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <tuple>
#include <utility>

#include "server/analysis/convergence.h"
#include "server/analysis/study_chart.h"
#include "server/analysis/value_effects.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/definition/value_proto.h"
#include "server/results/trial_filter.h"

namespace tunefarm {
namespace {

constexpr int kColumns = 600, kColumnsMax = 1000, kRows = 160, kRowsMax = 400;
constexpr size_t kGridValuesMax = 1000;
constexpr size_t kGridPairsMax = 100'000;  // as JSON some 15 MB
// Of an analysis: each takes some 100 bytes as JSON.
constexpr size_t kEffectValuesMax = 1000;         // of one parameter
constexpr size_t kEffectValuesOfAllMax = 20'000;  // of all parameters
constexpr double kConvergenceShares[] = {0.10, 0.05, 0.01};

static_assert(std::endian::native == std::endian::little, "numbers in bytes fields are little-endian");

template <typename Number>
void Append(Number number, std::string* bytes) {
  char raw[sizeof(number)];
  std::memcpy(raw, &number, sizeof(number));
  bytes->append(raw, sizeof(number));
}

void AppendPoints(const std::vector<ChartPoint>& points, std::string* x, std::string* ns, std::string* ordinals) {
  for (const ChartPoint& point : points) {
    Append(point.x, x);
    Append(point.ns, ns);
    Append(point.ordinal, ordinals);
  }
}

absl::StatusOr<Selection> Select(const StudyView& study, const v1::TrialFilter& filter) {
  const StudyColumns& columns = study.data->columns();
  ASSIGN_OR_RETURN(const TrialConditions conditions,
                   ConditionsOf(filter, columns, study.data->StartMs(study.job_started_ms)));
  return Selection(columns, conditions);
}

// Answers whether there is anything new to tell.
bool SetCoverage(const StudyView& study, const Selection& trials, int64_t known_revision, v1::StudyCoverage* coverage) {
  coverage->set_revision(study.revision);
  coverage->set_read(static_cast<int64_t>(study.data->columns().size()));
  coverage->set_stored(study.stored);
  coverage->set_unreadable(study.data->unreadable());
  coverage->set_matching(static_cast<int64_t>(trials.size()));
  coverage->set_is_open(study.is_open);
  coverage->set_is_cut(study.is_cut);
  coverage->set_is_behind(study.is_behind);
  return known_revision != study.revision;
}

void AddLevels(const StudyView& study, v1::GetStudyChartResponse* response) {
  const auto add = [&](const std::string& label, double ns) {
    if (ns <= 0) return;
    v1::ChartLevel* level = response->add_levels();
    level->set_label(label);
    level->set_time_ns(ns);
  };
  add("default config", study.data->default_ns());
  add(study.baseline_label.empty() ? "baseline" : "baseline: " + study.baseline_label, study.data->baseline_ns());
  add("roofline floor", study.floor_ns);
  add("final", study.data->final_ns());
}

v1::Config ToProtoConfig(const Config& config) {
  v1::Config proto;
  for (const auto& [name, value] : config) (*proto.mutable_values())[name] = definition::ToProto(value);
  return proto;
}

void FillEffect(const ValueEffect& effect, v1::ValueEffect* out) {
  out->set_measured(effect.measured);
  out->set_failed(effect.failed);
  out->set_best_ns(effect.best_ns);
  out->set_good_ns(effect.good_ns);
}

void AddConvergence(const Selection& trials, int64_t start_ms, v1::StudyAnalysis* analysis) {
  const StudyColumns& columns = trials.columns();
  if (trials.best().has_value()) {
    v1::BestOfSearch* best = analysis->mutable_best();
    best->set_median_ns(columns[*trials.best()].objective_ns);
    best->set_ordinal(columns[*trials.best()].ordinal);
    *best->mutable_config() = ToProtoConfig(columns.ConfigOf(*trials.best()));
  }
  for (const Convergence& found : ConvergenceOf(trials, kConvergenceShares)) {
    v1::ConvergenceStep* step = analysis->add_convergence();
    step->set_within(found.within);
    step->set_evaluations(found.step.evaluation);
    step->set_seconds(SecondsFrom(start_ms, found.step.ended_ms));
  }
}

void AddOutcomes(const Selection& trials, v1::StudyAnalysis* analysis) {
  const StudyColumns& columns = trials.columns();
  if (trials.measured_count() > 0) {
    v1::OutcomeReason* ok = analysis->add_outcomes();
    ok->set_outcome(v1::OUTCOME_OK);
    ok->set_count(static_cast<int64_t>(trials.measured_count()));
    uint32_t first = columns[*trials.best()].ordinal;
    trials.ForEach([&](uint32_t at) {
      if (columns[at].is_ok()) first = std::min(first, columns[at].ordinal);
    });
    ok->set_example_ordinal(first);
  }
  for (const ReasonCount& count : CountReasons(trials)) {
    v1::OutcomeReason* reason = analysis->add_outcomes();
    reason->set_outcome(static_cast<v1::Outcome>(count.outcome));
    reason->set_reason(count.reason);
    reason->set_count(count.count);
    reason->set_example_ordinal(count.example_ordinal);
  }
}

void FillImportance(const Importance& importance, const std::vector<std::string>& parameters,
                    v1::ParameterImportance* out) {
  out->set_unusable_because(importance.unusable_because);
  out->set_rows(static_cast<int64_t>(importance.rows));
  out->set_rows_of(static_cast<int64_t>(importance.rows_of));
  out->set_r_squared(importance.r_squared);
  for (const ParameterImportance& one : importance.parameters) {
    v1::ParameterShare* share = out->add_parameters();
    share->set_parameter(parameters[one.parameter]);
    share->set_alone(one.alone);
    share->set_total(one.total);
  }
  for (const PairImportance& one : importance.pairs) {
    v1::PairShare* pair = out->add_pairs();
    pair->set_first(parameters[one.first]);
    pair->set_second(parameters[one.second]);
    pair->set_share(one.share);
  }
}

// Parameters in the order of the definition; those that it lacks in the columns' own.
std::vector<size_t> ParametersInOrder(const StudyView& study) {
  const StudyColumns& columns = study.data->columns();
  std::vector<size_t> order;
  for (const std::string& name : study.parameter_order) {
    if (const auto parameter = columns.FindParameter(name)) order.push_back(*parameter);
  }
  for (size_t p = 0; p < columns.parameter_count(); ++p) {
    if (std::find(order.begin(), order.end(), p) == order.end()) order.push_back(p);
  }
  return order;
}

// Indices of values, ascending: all, or of more than `most` those whose fastest tenth is fastest, then those that
// failed most often.
std::vector<size_t> ValuesShown(const ParameterEffect& effect, size_t most) {
  std::vector<size_t> shown(effect.values.size());
  std::iota(shown.begin(), shown.end(), size_t{0});
  if (shown.size() <= most) return shown;
  const auto rank = [&](size_t v) {
    const ValueEffect& value = effect.values[v];
    return std::tuple(value.measured == 0, value.good_ns, -value.failed, v);
  };
  std::nth_element(shown.begin(), shown.begin() + static_cast<ptrdiff_t>(most), shown.end(),
                   [&](size_t a, size_t b) { return rank(a) < rank(b); });
  shown.resize(most);
  std::sort(shown.begin(), shown.end());
  return shown;
}

void AddParameters(const Selection& trials, const std::vector<size_t>& order, v1::StudyAnalysis* analysis) {
  const StudyColumns& columns = trials.columns();
  const std::vector<ParameterEffect> effects = EffectsOf(trials);
  const size_t most = std::min(kEffectValuesMax, kEffectValuesOfAllMax / std::max(effects.size(), size_t{1}));
  for (const size_t p : order) {
    v1::ParameterEffect* out = analysis->add_parameters();
    out->set_parameter(columns.parameter_name(p));
    const std::vector<size_t> shown = ValuesShown(effects[p], most);
    out->set_values_left_out(static_cast<int64_t>(effects[p].values.size() - shown.size()));
    for (const size_t v : shown) {
      v1::ValueEffect* value = out->add_values();
      *value->mutable_value() = definition::ToProto(columns.values(p)[v]);
      FillEffect(effects[p].values[v], value);
    }
  }
  const TopShare top = TopShareOf(trials);
  analysis->mutable_top()->set_count(static_cast<int64_t>(top.count));
  for (size_t p = 0; p < columns.parameter_count(); ++p) {
    if (!top.shared[p].has_value()) continue;
    (*analysis->mutable_top()->mutable_shared()->mutable_values())[columns.parameter_name(p)] =
        definition::ToProto(columns.values(p)[*top.shared[p]]);
  }
}

absl::StatusOr<size_t> CellsOf(const char* field, int asked, int by_default, int most) {
  if (asked == 0) return static_cast<size_t>(by_default);
  if (asked > 0 && asked <= most) return static_cast<size_t>(asked);
  return WithReason(InvalidArgument("{} is {}, 1 to {} are possible", field, asked, most), "CHART_SIZE_INVALID");
}

absl::StatusOr<size_t> GridParameter(const StudyColumns& columns, const char* field, const std::string& name) {
  const std::optional<size_t> parameter = columns.FindParameter(name);
  if (!parameter.has_value())
    return WithReason(InvalidArgument("{}: no trial has a parameter '{}'", field, name), "FILTER_INVALID");
  if (const size_t values = columns.values(*parameter).size(); values > kGridValuesMax) {
    return WithReason(
        InvalidArgument("{}: '{}' has {} values, a grid shows {} at most", field, name, values, kGridValuesMax),
        "FILTER_INVALID");
  }
  return *parameter;
}

}  // namespace

absl::StatusOr<v1::GetStudyChartResponse> ChartAnswer(const StudyView& study, const v1::GetStudyChartRequest& request) {
  StudyChartOptions options;
  ASSIGN_OR_RETURN(options.columns, CellsOf("columns", request.columns(), kColumns, kColumnsMax));
  ASSIGN_OR_RETURN(options.rows, CellsOf("rows", request.rows(), kRows, kRowsMax));
  options.by_seconds = request.x() == v1::CHART_AXIS_SECONDS;
  options.start_ms = study.data->StartMs(study.job_started_ms);
  options.is_logarithmic = request.is_logarithmic();
  ASSIGN_OR_RETURN(const Selection trials, Select(study, request.filter()));
  v1::GetStudyChartResponse response;
  if (!SetCoverage(study, trials, request.known_revision(), response.mutable_coverage())) return response;
  AddLevels(study, &response);
  if (trials.size() == 0) return response;
  const StudyChart chart = ChartOf(trials, options);
  response.set_columns(static_cast<int32_t>(options.columns));
  response.set_rows(static_cast<int32_t>(chart.rows));
  response.set_x_min(chart.x_min);
  response.set_x_max(chart.x_max);
  response.set_y_min_ns(chart.y_min_ns);
  response.set_y_max_ns(chart.y_max_ns);
  response.set_density(chart.density);
  AppendPoints(chart.best, response.mutable_best_x(), response.mutable_best_ns(), response.mutable_best_ordinals());
  AppendPoints(chart.points, response.mutable_point_x(), response.mutable_point_ns(),
               response.mutable_point_ordinals());
  for (const FailureColumns& failures : chart.failures) {
    v1::ChartFailures* out = response.add_failures();
    out->set_outcome(static_cast<v1::Outcome>(failures.outcome));
    out->set_count(failures.count);
    for (const uint32_t count : failures.counts) Append(count, out->mutable_counts());
  }
  return response;
}

absl::StatusOr<StartedAnalysis> StartAnalysis(const StudyView& study, const v1::AnalyzeStudyRequest& request) {
  ASSIGN_OR_RETURN(const Selection trials, Select(study, request.filter()));
  StartedAnalysis started;
  if (!SetCoverage(study, trials, request.known_revision(), started.response.mutable_coverage())) return started;
  v1::StudyAnalysis* analysis = started.response.mutable_analysis();
  analysis->set_study(study.name);
  analysis->set_problem_key(study.problem_key);
  analysis->set_device_class_name(study.device_class_name);
  analysis->set_evaluations(static_cast<int64_t>(trials.size()));
  analysis->set_measured(static_cast<int64_t>(trials.measured_count()));
  AddConvergence(trials, study.data->StartMs(study.job_started_ms), analysis);
  AddOutcomes(trials, analysis);
  AddParameters(trials, ParametersInOrder(study), analysis);
  if (request.without_importance()) return started;
  ImportanceOptions options;
  if (request.seed() != 0) options.seed = request.seed();
  started.importance.emplace(trials, options);
  const StudyColumns& columns = trials.columns();
  for (size_t p = 0; p < columns.parameter_count(); ++p) started.parameters.push_back(columns.parameter_name(p));
  return started;
}

v1::AnalyzeStudyResponse FinishAnalysis(StartedAnalysis analysis) {
  if (analysis.importance.has_value()) {
    FillImportance(analysis.importance->Compute(), analysis.parameters,
                   analysis.response.mutable_analysis()->mutable_importance());
  }
  return std::move(analysis.response);
}

absl::StatusOr<v1::AnalyzeStudyResponse> AnalysisAnswer(const StudyView& study,
                                                        const v1::AnalyzeStudyRequest& request) {
  ASSIGN_OR_RETURN(StartedAnalysis started, StartAnalysis(study, request));
  return FinishAnalysis(std::move(started));
}

absl::StatusOr<v1::GetParameterGridResponse> GridAnswer(const StudyView& study,
                                                        const v1::GetParameterGridRequest& request) {
  if (request.column_parameter() == request.row_parameter()) {
    return WithReason(
        InvalidArgument("column_parameter and row_parameter are both '{}', a grid needs two", request.row_parameter()),
        "FILTER_INVALID");
  }
  ASSIGN_OR_RETURN(const Selection trials, Select(study, request.filter()));
  v1::GetParameterGridResponse response;
  if (!SetCoverage(study, trials, request.known_revision(), response.mutable_coverage())) return response;
  const StudyColumns& columns = trials.columns();
  if (columns.size() == 0) return response;
  ASSIGN_OR_RETURN(const size_t column_parameter,
                   GridParameter(columns, "column_parameter", request.column_parameter()));
  ASSIGN_OR_RETURN(const size_t row_parameter, GridParameter(columns, "row_parameter", request.row_parameter()));
  if (const size_t pairs = columns.values(column_parameter).size() * columns.values(row_parameter).size();
      pairs > kGridPairsMax) {
    return WithReason(InvalidArgument("'{}' and '{}' have {} pairs of values, a grid shows {} at most",
                                      request.column_parameter(), request.row_parameter(), pairs, kGridPairsMax),
                      "FILTER_INVALID");
  }
  for (const Value& value : columns.values(column_parameter))
    *response.add_column_values() = definition::ToProto(value);
  for (const Value& value : columns.values(row_parameter)) *response.add_row_values() = definition::ToProto(value);
  for (const GridCell& cell : GridOf(trials, column_parameter, row_parameter)) {
    v1::GridCell* out = response.add_cells();
    out->set_column(cell.column);
    out->set_row(cell.row);
    FillEffect(cell.effect, out->mutable_effect());
    out->set_example_ordinal(cell.example_ordinal);
  }
  return response;
}

}  // namespace tunefarm
