#include "client/cli/studies/failure_table.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "client/cli/options/problem_options.h"
#include "client/cli/studies/progress.h"
#include "server/base/format.h"

namespace tunefarm::cli {
namespace {

constexpr size_t kOutcomesMax = 5;

struct Failure {
  int64_t count = 0;
  const v1::Trial* first = nullptr;
};

}  // namespace

std::string FailuresText(const Session& session, const std::vector<v1::Trial>& trials) {
  std::map<v1::Outcome, Failure> by_outcome;
  for (const v1::Trial& trial : trials) {
    const v1::Outcome outcome = trial.outcome();
    if (outcome == v1::OUTCOME_OK || outcome == v1::OUTCOME_UNSPECIFIED || outcome == v1::OUTCOME_PRUNED) continue;
    Failure& failure = by_outcome[outcome];
    ++failure.count;
    if (failure.first == nullptr || trial.ordinal() < failure.first->ordinal()) failure.first = &trial;
  }
  if (by_outcome.empty()) return "";
  std::vector<Failure> failures;
  for (const auto& [outcome, failure] : by_outcome) failures.push_back(failure);
  std::stable_sort(failures.begin(), failures.end(), [](const Failure& a, const Failure& b) {
    return a.count != b.count ? a.count > b.count : a.first->ordinal() < b.first->ordinal();
  });
  Table table({{"failure", false}, {"count", true}, {"first message", false}, {"first config", false}});
  for (size_t i = 0; i < std::min(failures.size(), kOutcomesMax); ++i) {
    const v1::Trial& first = *failures[i].first;
    table.AddRow({OutcomeText(first.outcome()), FormatCount(failures[i].count),
                  first.message().substr(0, first.message().find('\n')), ConfigText(first.config())},
                 Style::kRed);
  }
  std::string text = "\n" + table.ToText(session.has_color(), session.columns);
  if (failures.size() > kOutcomesMax) text += fmt::format("... and {} more\n", failures.size() - kOutcomesMax);
  if (by_outcome.count(v1::OUTCOME_RUN_TIMEOUT) > 0) {
    text +=
        "RUN_TIMEOUT: the limits are the daemon's launch_timeout_ms (tunefarmd --launch-timeout-ms, "
        "TUNEFARM_LAUNCH_TIMEOUT_MS) and, for inputs and reference, prepare_timeout_ms (--prepare-timeout-ms, "
        "TUNEFARM_PREPARE_TIMEOUT_MS); with --retry-poisoned a later job runs these configs again\n";
  }
  if (by_outcome.count(v1::OUTCOME_COMPILE_TIMEOUT) > 0) {
    text +=
        "COMPILE_TIMEOUT: the daemon's compile_timeout_ms is the limit (tunefarmd --compile-timeout-ms, "
        "TUNEFARM_COMPILE_TIMEOUT_MS)\n";
  }
  return text;
}

}  // namespace tunefarm::cli
