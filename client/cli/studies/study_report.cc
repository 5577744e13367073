#include "client/cli/studies/study_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "client/cli/options/problem_options.h"
#include "client/cli/studies/progress.h"
#include "server/base/format.h"

namespace tunefarm::cli {
namespace {

constexpr size_t kTextColumns = 80;
// Of a study's reasons, those that the table shows.
constexpr int kReasonsShown = 10;

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
    text += fmt::format("  ... and {} for other reasons; --output csv has them\n", FormatCount(more, "trial"));
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
                    "  fitted to {}{}. It predicts {} of the variance of\n"
                    "  configs that it has not seen (cross-validated R² {:.2f}).\n",
                    is_sample ? FormatCount(importance.rows()) + " drawn of " : "",
                    FormatCount(importance.rows_of(), "measured config"), Percent(importance.r_squared()),
                    importance.r_squared());
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
  if (effect.values_left_out() > 0) line += fmt::format(" · {} others", FormatCount(effect.values_left_out()));
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
    text += fmt::format("  The fastest {} {}\n",
                        shared.empty() ? FormatCount(top.count(), "config has", "configs have")
                                       : FormatCount(top.count(), "config has", "configs all have"),
                        shared.empty() ? "no value in common" : shared);
  }
  return text;
}

}  // namespace

std::string AnalysisText(const v1::StudyAnalysis& analysis) {
  std::string text =
      fmt::format("\n{}  on  {}\n{}, {} measured\n", analysis.problem_key(), analysis.device_class_name(),
                  FormatCount(analysis.evaluations(), "trial"), FormatCount(analysis.measured()));
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
      if (effect.values_left_out() > 0)
        add("values", effect.parameter(), "left_out", std::to_string(effect.values_left_out()));
    }
    if (study.top().count() > 0) {
      add("top", "", "configs", std::to_string(study.top().count()));
      add("top", "", "shared", ConfigText(study.top().shared()));
    }
  }
  return table;
}

}  // namespace tunefarm::cli
