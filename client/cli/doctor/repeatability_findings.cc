#include "client/cli/doctor/repeatability_findings.h"

#include <algorithm>

#include "client/cli/options/measure_options.h"
#include "server/measure/statistics.h"

namespace tunefarm::cli {
namespace {

void NoteConditions(const v1::Measurement& m, RepeatabilityFindings* findings) {
  ++findings->measured;
  findings->discarded += m.discarded_samples();
  findings->throttled += m.throttled();
  findings->contended += m.contended();
  if (m.clock_mhz() > 0) findings->clocks.push_back(m.clock_mhz());
  if (m.duty_cycle() > 0) findings->duty_cycles.push_back(m.duty_cycle());
  findings->power_watts = std::max(findings->power_watts, m.power_watts());
  findings->temperature_c = std::max(findings->temperature_c, m.temperature_c());
  if (!m.throttle_reason().empty()) findings->reasons.insert(m.throttle_reason());
  if (!m.discard_reason().empty()) findings->discard_reasons.insert(m.discard_reason());
  findings->medians.push_back(m.median_ns());
  findings->method = ConditionsText([&m] {
    v1::Measurement how;
    how.set_method(m.method());
    how.set_cold_cache(m.cold_cache());
    how.set_input_copies(m.input_copies());
    how.set_launches_per_sample(m.launches_per_sample());
    return how;
  }());
}

}  // namespace

void AddTwins(const std::map<int, v1::Trial>& twins, int pairs, RepeatabilityFindings* findings) {
  std::map<int, std::vector<double>> rounds;
  for (const auto& [twin, trial] : twins) {
    const auto& kept = trial.measurement().sample_ns();
    rounds[twin] = RoundMedians(std::vector<double>(kept.begin(), kept.end()), static_cast<size_t>(findings->rounds));
    NoteConditions(trial.measurement(), findings);
  }
  for (int pair = 0; pair < pairs; ++pair) {
    const auto first = twins.find(2 * pair), second = twins.find(2 * pair + 1);
    Comparison compared;
    if (first != twins.end() && second != twins.end()) {
      compared = CompareMeasurements(first->second.measurement(), second->second.measurement(), findings->rounds);
    }
    // Without an interval a pair says nothing, as when the samples of one are fewer than the rounds.
    if (compared.ratio_interval.coverage > 0) {
      findings->pairs.push_back(compared);
    } else {
      ++findings->failed_pairs;
    }
  }
  for (size_t round = 0; round < static_cast<size_t>(findings->rounds); ++round) {
    std::vector<double> times;
    for (const auto& [twin, medians] : rounds) {
      if (round < medians.size()) times.push_back(medians[round]);
    }
    if (!times.empty()) findings->round_ns.push_back(Median(times));
  }
}

}  // namespace tunefarm::cli
