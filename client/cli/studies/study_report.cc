#include "client/cli/studies/study_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "client/cli/options/problem_options.h"
#include "client/cli/studies/progress.h"
#include "server/analysis/convergence.h"
#include "server/analysis/importance.h"
#include "server/analysis/value_effects.h"
#include "server/base/format.h"
#include "server/definition/value_proto.h"

namespace tunefarm::cli {
namespace {

constexpr size_t kTextColumns = 80;
constexpr double kConvergenceShares[] = {0.10, 0.05, 0.01};
// Of a study's reasons, those that the table shows.
constexpr int kReasonsShown = 10;

v1::Config ToProtoConfig(const Config& config) {
  v1::Config proto;
  for (const auto& [name, value] : config) (*proto.mutable_values())[name] = definition::ToProto(value);
  return proto;
}

void AddConvergence(const StudyTrials& trials, v1::StudyAnalysis* analysis) {
  const StudyHistory& history = trials.history;
  if (history.best().has_value()) {
    const Evaluation& best = history[*history.best()];
    analysis->mutable_best()->set_median_ns(best.objective_ns);
    analysis->mutable_best()->set_ordinal(best.ordinal);
    *analysis->mutable_best()->mutable_config() = ToProtoConfig(history.ConfigOf(*history.best()));
  }
  for (const Convergence& found : ConvergenceOf(history, kConvergenceShares)) {
    v1::ConvergenceStep* step = analysis->add_convergence();
    step->set_within(found.within);
    step->set_evaluations(found.step.evaluation);
    step->set_seconds(static_cast<double>(std::max<int64_t>(0, found.step.ended_ms - trials.start_ms)) / 1e3);
  }
}

void AddOutcomes(const StudyTrials& trials, v1::StudyAnalysis* analysis) {
  if (const auto& measured = trials.history.measured(); !measured.empty()) {
    v1::OutcomeReason* ok = analysis->add_outcomes();
    ok->set_outcome(v1::OUTCOME_OK);
    ok->set_count(static_cast<int64_t>(measured.size()));
    int64_t first = trials.history[measured[0]].ordinal;
    for (const uint32_t at : measured) first = std::min(first, trials.history[at].ordinal);
    ok->set_example_ordinal(first);
  }
  for (const OutcomeReasons::Row& row : trials.reasons.Rows()) {
    v1::OutcomeReason* reason = analysis->add_outcomes();
    reason->set_outcome(static_cast<v1::Outcome>(row.outcome));
    reason->set_reason(row.reason);
    reason->set_count(row.count);
    reason->set_example_ordinal(row.example_ordinal);
  }
}

void AddImportance(const StudyHistory& history, uint64_t seed, v1::StudyAnalysis* analysis) {
  ImportanceOptions options;
  options.seed = seed;
  const Importance importance = ImportanceOf(history, options);
  v1::ParameterImportance* out = analysis->mutable_importance();
  out->set_unusable_because(importance.unusable_because);
  out->set_rows(static_cast<int64_t>(importance.rows));
  out->set_rows_of(static_cast<int64_t>(importance.rows_of));
  out->set_r_squared(importance.r_squared);
  for (const ParameterImportance& one : importance.parameters) {
    v1::ParameterShare* share = out->add_parameters();
    share->set_parameter(history.parameter_name(one.parameter));
    share->set_alone(one.alone);
    share->set_total(one.total);
  }
  for (const PairImportance& one : importance.pairs) {
    v1::PairShare* pair = out->add_pairs();
    pair->set_first(history.parameter_name(one.first));
    pair->set_second(history.parameter_name(one.second));
    pair->set_share(one.share);
  }
}

void AddParameters(const StudyHistory& history, const std::vector<size_t>& order, v1::StudyAnalysis* analysis) {
  const std::vector<ParameterEffect> effects = EffectsOf(history);
  for (const size_t p : order) {
    v1::ParameterEffect* out = analysis->add_parameters();
    out->set_parameter(history.parameter_name(p));
    for (size_t v = 0; v < effects[p].values.size(); ++v) {
      const ValueEffect& effect = effects[p].values[v];
      v1::ValueEffect* value = out->add_values();
      *value->mutable_value() = definition::ToProto(history.values(p)[v]);
      value->set_measured(effect.measured);
      value->set_failed(effect.failed);
      value->set_best_ns(effect.best_ns);
      value->set_good_ns(effect.good_ns);
    }
  }
  const TopShare top = TopShareOf(history);
  analysis->mutable_top()->set_count(static_cast<int64_t>(top.count));
  for (size_t p = 0; p < history.parameter_count(); ++p) {
    if (!top.shared[p].has_value()) continue;
    (*analysis->mutable_top()->mutable_shared()->mutable_values())[history.parameter_name(p)] =
        definition::ToProto(history.values(p)[*top.shared[p]]);
  }
}

std::string Percent(double share) { return fmt::format("{:.0f} %", 100 * share); }

std::string Indented(const Table& table) {
  std::string text;
  for (const char c : table.ToText()) {
    if (text.empty() || text.back() == '\n') text += "  ";
    text += c;
  }
  return text;
}

std::string ConvergenceText(const v1::StudyAnalysis& analysis) {
  std::string text =
      fmt::format("best of the search  {}  trial {}\n  {}\n", FormatDuration(analysis.best().median_ns()),
                  analysis.best().ordinal(), ConfigText(analysis.best().config()));
  Table table({{"within", true}, {"evaluations", true}, {"after", true}});
  for (const v1::ConvergenceStep& step : analysis.convergence()) {
    table.AddRow({Percent(step.within()), FormatCount(step.evaluations()), FormatDuration(step.seconds() * 1e9)});
  }
  return text + "\nConvergence: when the search was first so near to its best\n" + Indented(table);
}

std::string OutcomesTable(const v1::StudyAnalysis& analysis) {
  Table table({{"trials", true}, {"share", true}, {"outcome", false}, {"such as", true}, {"why", false}});
  int64_t more = 0;
  for (int i = 0; i < analysis.outcomes_size(); ++i) {
    const v1::OutcomeReason& reason = analysis.outcomes(i);
    if (i >= kReasonsShown) {
      more += reason.count();
      continue;
    }
    table.AddRow({FormatCount(reason.count()),
                  Percent(static_cast<double>(reason.count()) / static_cast<double>(analysis.evaluations())),
                  OutcomeText(reason.outcome()), std::to_string(reason.example_ordinal()), reason.reason()});
  }
  std::string text = "\nOutcomes\n" + Indented(table);
  if (more > 0)
    text += fmt::format("  ... and {} trials for other reasons; --output csv has them\n", FormatCount(more));
  return text;
}

std::string ImportanceText(const v1::ParameterImportance& importance) {
  std::string text = "\nImportance: what the time depends on\n";
  if (!importance.unusable_because().empty())
    return text + "  nothing can be said: " + importance.unusable_because() + "\n";
  Table table({{"parameter", false}, {"alone", true}, {"with others", true}});
  for (const v1::ParameterShare& share : importance.parameters()) {
    table.AddRow({share.parameter(), Percent(share.alone()), Percent(share.total())});
  }
  text += Indented(table);
  if (!importance.pairs().empty()) {
    text += "  together:";
    for (const v1::PairShare& pair : importance.pairs()) {
      text += fmt::format("{} {} and {} {}", &pair == &importance.pairs(0) ? "" : ",", pair.first(), pair.second(),
                          Percent(pair.share()));
    }
    text += "\n";
  }
  const bool is_sample = importance.rows() < importance.rows_of();
  return text + fmt::format(
                    "  Shares of the variance of log(time), by functional ANOVA of a random forest\n"
                    "  fitted to {}{} measured configs. It predicts {} of the variance of\n"
                    "  configs that it has not seen (cross-validated R² {:.2f}).\n",
                    is_sample ? FormatCount(importance.rows()) + " drawn of " : "", FormatCount(importance.rows_of()),
                    Percent(importance.r_squared()), importance.r_squared());
}

// "8192 41.9 µs · 4096 1.46x · 256 3.34x · 64 failed", from the best value to the worst.
std::string ValuesText(const v1::ParameterEffect& effect, size_t indent) {
  std::vector<const v1::ValueEffect*> order;
  for (const v1::ValueEffect& value : effect.values()) order.push_back(&value);
  std::stable_sort(order.begin(), order.end(), [](const v1::ValueEffect* a, const v1::ValueEffect* b) {
    if ((a->good_ns() > 0) != (b->good_ns() > 0)) return a->good_ns() > 0;
    return a->good_ns() < b->good_ns();
  });
  std::string text, line;
  for (const v1::ValueEffect* value : order) {
    std::string part = ValueText(value->value()) + " ";
    if (value->good_ns() <= 0) {
      part += "failed";
    } else if (value == order[0]) {
      part += FormatDuration(value->good_ns());
    } else {
      part += fmt::format("{:.2f}x", value->good_ns() / order[0]->good_ns());
    }
    if (!line.empty() && indent + TextWidth(line) + 3 + TextWidth(part) > kTextColumns) {
      text += line + "\n" + std::string(indent, ' ');
      line.clear();
    }
    line += (line.empty() ? "" : " · ") + part;
  }
  return text + line;
}

std::string ParametersText(const v1::StudyAnalysis& analysis) {
  size_t widest = 0;
  std::string fixed;
  for (const v1::ParameterEffect& effect : analysis.parameters()) {
    if (effect.values_size() > 1) widest = std::max(widest, effect.parameter().size());
  }
  std::string text = "\nValues, best first: the median of the fastest tenth with each\n";
  for (const v1::ParameterEffect& effect : analysis.parameters()) {
    if (effect.values_size() == 1) {
      fixed += fmt::format(" {}={}", effect.parameter(), ValueText(effect.values(0).value()));
      continue;
    }
    text += fmt::format("  {:<{}}  {}\n", effect.parameter(), widest, ValuesText(effect, widest + 4));
  }
  if (!fixed.empty()) text += "  never varied:" + fixed + "\n";
  const v1::TopConfigs& top = analysis.top();
  if (top.count() > 0) {
    const std::string shared = ConfigText(top.shared());
    text += fmt::format("  The fastest {} configs all have {}\n", FormatCount(top.count()),
                        shared.empty() ? "no value in common" : shared);
  }
  return text;
}

}  // namespace

v1::StudyAnalysis Analyze(const StudyTrials& trials, const std::optional<v1::Kernel>& kernel, uint64_t seed) {
  v1::StudyAnalysis analysis;
  analysis.set_study(trials.study.name());
  analysis.set_problem_key(trials.study.problem().key());
  analysis.set_device_class_name(trials.study.device_class_name());
  analysis.set_evaluations(static_cast<int64_t>(trials.history.size()));
  analysis.set_measured(static_cast<int64_t>(trials.history.measured().size()));
  AddConvergence(trials, &analysis);
  AddOutcomes(trials, &analysis);
  AddImportance(trials.history, seed, &analysis);
  AddParameters(trials.history, ParametersInOrder(kernel, trials.history), &analysis);
  return analysis;
}

std::string AnalysisText(const v1::StudyAnalysis& analysis) {
  std::string text =
      fmt::format("\n{}  on  {}\n{} trials, {} measured\n", analysis.problem_key(), analysis.device_class_name(),
                  FormatCount(analysis.evaluations()), FormatCount(analysis.measured()));
  if (analysis.evaluations() == 0) return text;
  if (analysis.measured() > 0) text += ConvergenceText(analysis);
  text += OutcomesTable(analysis);
  if (analysis.measured() == 0) return text;
  return text + ImportanceText(analysis.importance()) + ParametersText(analysis);
}

Table AnalysisRows(const v1::JobAnalysis& analysis) {
  Table table({{"study", false}, {"table", false}, {"row", false}, {"column", false}, {"value", false}});
  for (const v1::StudyAnalysis& study : analysis.studies()) {
    const std::string number = study.study().substr(study.study().rfind('/') + 1);
    const auto add = [&](const char* name, const std::string& row, const char* column, const std::string& value) {
      table.AddRow({number, name, row, column, value});
    };
    const auto real = [](double value) { return fmt::format("{:.6g}", value); };
    const auto share_text = [](double value) { return fmt::format("{:.3f}", value); };
    add("study", study.problem_key(), "evaluations", std::to_string(study.evaluations()));
    add("study", study.problem_key(), "measured", std::to_string(study.measured()));
    if (study.has_best()) {
      add("best", ConfigText(study.best().config()), "median_ns", real(study.best().median_ns()));
      add("best", ConfigText(study.best().config()), "ordinal", std::to_string(study.best().ordinal()));
    }
    for (const v1::ConvergenceStep& step : study.convergence()) {
      add("convergence", real(step.within()), "evaluations", std::to_string(step.evaluations()));
      add("convergence", real(step.within()), "seconds", real(step.seconds()));
    }
    for (const v1::OutcomeReason& reason : study.outcomes()) {
      const std::string row = OutcomeText(reason.outcome()) + (reason.reason().empty() ? "" : ": ") + reason.reason();
      add("outcomes", row, "trials", std::to_string(reason.count()));
      add("outcomes", row, "example_ordinal", std::to_string(reason.example_ordinal()));
    }
    const v1::ParameterImportance& importance = study.importance();
    if (!importance.unusable_because().empty())
      add("importance", "", "unusable_because", importance.unusable_because());
    add("importance", "", "rows", std::to_string(importance.rows()));
    add("importance", "", "rows_of", std::to_string(importance.rows_of()));
    add("importance", "", "r_squared", share_text(importance.r_squared()));
    for (const v1::ParameterShare& share : importance.parameters()) {
      add("importance", share.parameter(), "alone", share_text(share.alone()));
      add("importance", share.parameter(), "total", share_text(share.total()));
    }
    for (const v1::PairShare& pair : importance.pairs())
      add("importance", pair.first() + " " + pair.second(), "together", share_text(pair.share()));
    for (const v1::ParameterEffect& effect : study.parameters()) {
      for (const v1::ValueEffect& value : effect.values()) {
        const std::string row = effect.parameter() + "=" + ValueText(value.value());
        add("values", row, "measured", std::to_string(value.measured()));
        add("values", row, "failed", std::to_string(value.failed()));
        add("values", row, "best_ns", value.measured() > 0 ? real(value.best_ns()) : "");
        add("values", row, "good_ns", value.measured() > 0 ? real(value.good_ns()) : "");
      }
    }
    if (study.top().count() > 0) {
      add("top", "", "configs", std::to_string(study.top().count()));
      add("top", "", "shared", ConfigText(study.top().shared()));
    }
  }
  return table;
}

}  // namespace tunefarm::cli
