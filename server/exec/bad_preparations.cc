#include "server/exec/bad_preparations.h"

#include <fmt/core.h>

namespace tunefarm {
namespace {

constexpr size_t kKeysMax = 256;

}  // namespace

void BadPreparations::Note(const std::string& key, const WorkerTaskEnd& end) {
  if (!end.preparing) {
    if (end.result.has_value()) failures_.erase(key);
    return;
  }
  const tunefarm::v1::Outcome outcome = end.verdict.outcome;
  if (outcome != tunefarm::v1::OUTCOME_RUN_CRASH && outcome != tunefarm::v1::OUTCOME_RUN_TIMEOUT &&
      outcome != tunefarm::v1::OUTCOME_INFEASIBLE_LAUNCH) {
    return;
  }
  if (failures_.size() >= kKeysMax) failures_.clear();
  Failures& failures = failures_[key];
  ++failures.count;
  failures.last = end.verdict;
}

std::optional<Verdict> BadPreparations::Refusal(const std::string& key) const {
  const auto found = failures_.find(key);
  if (found == failures_.end() || found->second.count < kFailuresMax) return std::nullopt;
  const auto& [count, last] = found->second;
  return Verdict{last.outcome,
                 fmt::format("not run: the reference or the inputs of this problem failed {} times in a row ({})",
                             count, last.message)};
}

}  // namespace tunefarm
