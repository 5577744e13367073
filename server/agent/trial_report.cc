#include "server/agent/trial_report.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "server/base/file_set.h"
#include "server/measure/kept_samples.h"
#include "server/measure/statistics.h"

namespace tunefarm {

using tunefarm::v1::Measurement;
using tunefarm::v1::Trial;

namespace {

constexpr size_t kMergedSamplesMax = 4096;

Trial Described(const TrialWork& work, std::string_view device_uuid) {
  Trial trial;
  trial.set_ordinal(work.spec.ordinal());
  trial.set_purpose(work.spec.purpose());
  trial.set_device_uuid(std::string(device_uuid));
  trial.set_attempt(std::max(1, work.spec.attempt()) + work.losses);
  trial.set_compile_ms(work.compile.compile_ms);
  trial.set_cached_binary(work.compile.from_cache);
  *trial.mutable_resources() = work.compile.resources;
  if (work.compile.inputs != nullptr) trial.set_headers(ChecksumOf(*work.compile.inputs));
  return trial;
}

// A round that kept no samples counts with its median.
std::vector<double> SamplesOf(const Measurement& round) {
  if (round.sample_ns_size() > 0) return {round.sample_ns().begin(), round.sample_ns().end()};
  return {round.median_ns()};
}

void AddBlocks(const Measurement& round, Measurement* merged) {
  for (const tunefarm::v1::MeasurementBlock& block : round.blocks()) {
    if (merged->blocks_size() < kBlocksMax) {
      *merged->add_blocks() = block;
      continue;
    }
    tunefarm::v1::MeasurementBlock& last = *merged->mutable_blocks(kBlocksMax - 1);
    last.set_samples(last.samples() + block.samples());
    last.set_discarded(last.discarded() + block.discarded());
  }
}

Measurement Merged(const std::vector<RunResult>& rounds, int input_sets) {
  if (rounds.size() == 1) return rounds[0].measurement;
  Measurement merged = rounds.back().measurement;
  merged.clear_sample_ns();
  merged.clear_yardstick_ns();
  merged.clear_blocks();
  std::vector<double> all;
  std::vector<std::vector<double>> by_set(static_cast<size_t>(std::max(1, input_sets)));
  bool converged = true;
  int discarded = 0;
  double busy_ms = 0, duty_cycle = 1;
  double clock_share = 0;  // of the highest clock, summed over the rounds in which it is known
  int clock_rounds = 0;
  for (size_t i = 0; i < rounds.size(); ++i) {
    const Measurement& round = rounds[i].measurement;
    const std::vector<double> samples = SamplesOf(round);
    all.insert(all.end(), samples.begin(), samples.end());
    auto& set = by_set[i % by_set.size()];
    set.insert(set.end(), samples.begin(), samples.end());
    converged = converged && round.converged();
    merged.set_throttled(merged.throttled() || round.throttled());
    merged.set_contended(merged.contended() || round.contended());
    merged.set_discarded_samples(discarded += round.discarded_samples());
    merged.set_device_busy_ms(busy_ms += round.device_busy_ms());
    merged.set_power_watts(std::max(merged.power_watts(), round.power_watts()));
    merged.set_temperature_c(std::max(merged.temperature_c(), round.temperature_c()));
    if (merged.throttle_reason().empty()) merged.set_throttle_reason(round.throttle_reason());
    if (merged.discard_reason().empty()) merged.set_discard_reason(round.discard_reason());
    duty_cycle = std::min(duty_cycle, round.duty_cycle());
    if (round.median_ns() > 0 && round.clock_normalized_ns() > 0) {
      clock_share += round.clock_normalized_ns() / round.median_ns();
      ++clock_rounds;
    }
    AddBlocks(round, &merged);
  }
  merged.set_duty_cycle(duty_cycle);
  // As many from every round, so that a comparison of rounds can tell them apart.
  size_t each = kMergedSamplesMax / rounds.size();
  for (const RunResult& round : rounds) each = std::min(each, SamplesOf(round.measurement).size());
  const bool has_yardstick = std::ranges::all_of(rounds, [](const RunResult& round) {
    return round.measurement.yardstick_ns_size() > 0 &&
           round.measurement.yardstick_ns_size() == round.measurement.sample_ns_size();
  });
  for (const RunResult& round : rounds) {
    const std::vector<double> samples = SamplesOf(round.measurement);
    for (size_t i = 0; i < each; ++i) {
      merged.add_sample_ns(static_cast<float>(samples[i]));
      if (has_yardstick) merged.add_yardstick_ns(round.measurement.yardstick_ns(static_cast<int>(i)));
    }
  }
  double medians = 0;
  int sets = 0;
  for (const auto& set : by_set) {
    if (set.empty()) continue;
    medians += Median(set);
    ++sets;
  }
  const SampleSummary summary = Summarize(all);
  merged.set_median_ns(sets == 1 ? summary.median : medians / sets);
  merged.set_clock_normalized_ns(clock_rounds > 0 ? merged.median_ns() * clock_share / clock_rounds : 0);
  // With several input sets the mean of medians need not lie within the interval of the median of all.
  merged.set_ci_low_ns(std::min(summary.median_interval.low, merged.median_ns()));
  merged.set_ci_high_ns(std::max(summary.median_interval.high, merged.median_ns()));
  merged.set_min_ns(summary.min);
  merged.set_max_ns(summary.max);
  merged.set_mean_ns(summary.mean);
  merged.set_stdev_ns(summary.stdev);
  merged.set_samples(static_cast<int32_t>(all.size()));
  merged.set_converged(converged);
  return merged;
}

// Bytes of the UTF-8 sequence at the start of `text`; 0 if there is none.
size_t SequenceLength(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xC2 && first <= 0xDF   ? 2
                        : first >= 0xE0 && first <= 0xEF ? 3
                        : first >= 0xF0 && first <= 0xF4 ? 4
                                                         : 0;
  if (length == 0 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  if ((first == 0xE0 && byte(1) < 0xA0) || (first == 0xED && byte(1) > 0x9F) || (first == 0xF0 && byte(1) < 0x90) ||
      (first == 0xF4 && byte(1) > 0x8F)) {
    return 0;
  }
  return length;
}

}  // namespace

std::string CleanText(std::string_view text, size_t bytes_max) {
  std::string clean;
  clean.reserve(std::min(text.size(), bytes_max));
  while (!text.empty()) {
    const size_t length = SequenceLength(text);
    const std::string_view piece = length == 0 ? std::string_view("?") : text.substr(0, length);
    if (clean.size() + piece.size() > bytes_max) break;
    clean += piece;
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return clean;
}

Trial TrialWithoutRun(const TrialWork& work, std::string_view device_uuid, tunefarm::v1::Outcome outcome,
                      tunefarm::v1::Phase phase, std::string_view message, std::string_view log) {
  Trial trial = Described(work, device_uuid);
  trial.set_outcome(outcome);
  trial.set_phase(phase);
  trial.set_message(CleanText(message, kTrialMessageBytesMax));
  trial.set_log(CleanText(log, kTrialLogBytesMax));
  return trial;
}

bool IsVerdict(const Trial& trial) {
  switch (trial.outcome()) {
    case tunefarm::v1::OUTCOME_OK:
      return !trial.measurement().throttled() && !trial.measurement().contended();
    case tunefarm::v1::OUTCOME_INFEASIBLE_LAUNCH:
    case tunefarm::v1::OUTCOME_LOAD_ERROR:
    case tunefarm::v1::OUTCOME_RUN_TIMEOUT:
    case tunefarm::v1::OUTCOME_RUN_CRASH:
    case tunefarm::v1::OUTCOME_OUT_OF_BOUNDS:
    case tunefarm::v1::OUTCOME_WRONG_RESULT:
    case tunefarm::v1::OUTCOME_SANDBOX_VIOLATION:
      // It came to the config itself: a reference that crashes says nothing about it.
      return trial.phase() != tunefarm::v1::PHASE_UNSPECIFIED;
    default:
      return false;
  }
}

Trial ReusedTrial(const TrialWork& work, const Trial& first) {
  Trial trial = Described(work, first.device_uuid());
  trial.set_outcome(first.outcome());
  trial.set_phase(first.phase());
  trial.set_message(first.message());
  trial.mutable_resources()->MergeFrom(first.resources());
  if (first.has_verification()) *trial.mutable_verification() = first.verification();
  if (first.has_measurement()) *trial.mutable_measurement() = first.measurement();
  trial.set_stopped_early(first.stopped_early());
  trial.set_reused(true);
  trial.set_reused_ordinal(first.ordinal());
  return trial;
}

std::optional<Trial> MeasuredBefore(const TrialWork& work) {
  const FileSet* const inputs = work.compile.inputs.get();
  if (!work.spec.has_measured() || inputs == nullptr || inputs->content == 0) return std::nullopt;
  const Trial& earlier = work.spec.measured();
  Trial trial = Described(work, earlier.device_uuid());
  if (trial.headers() != earlier.headers()) return std::nullopt;
  trial.MergeFrom(earlier);
  return trial;
}

Trial TrialFromRounds(const TrialWork& work, std::string_view device_uuid, int input_sets) {
  Trial trial = Described(work, device_uuid);
  const RunResult& last = work.rounds.back();
  trial.set_outcome(last.outcome);
  trial.set_phase(last.phase);
  trial.set_message(CleanText(last.message, kTrialMessageBytesMax));
  trial.set_log(CleanText(last.log, kTrialLogBytesMax));
  trial.mutable_resources()->MergeFrom(last.resources);
  *trial.mutable_verification() = last.verification;
  trial.set_run_ms(work.run_ms);
  trial.set_device_busy_ms(work.device_busy_ms);
  if (last.outcome != tunefarm::v1::OUTCOME_OK && last.outcome != tunefarm::v1::OUTCOME_NOISY) return trial;

  // One noisy round among good ones is what rounds are for.
  size_t noisy = 0;
  for (const RunResult& round : work.rounds) noisy += round.outcome == tunefarm::v1::OUTCOME_NOISY;
  trial.set_outcome(noisy * 2 > work.rounds.size() ? tunefarm::v1::OUTCOME_NOISY : tunefarm::v1::OUTCOME_OK);
  *trial.mutable_measurement() = Merged(work.rounds, input_sets);
  trial.set_stopped_early(trial.measurement().stop_reason() == tunefarm::v1::STOP_REASON_LOSING);
  const double median = trial.measurement().median_ns();
  if (trial.outcome() == tunefarm::v1::OUTCOME_OK && !(std::isfinite(median) && median > 0)) {
    trial.set_outcome(tunefarm::v1::OUTCOME_NOISY);
    trial.set_message("the worker reported a time that is not a positive number");
    trial.clear_measurement();
  }
  return trial;
}

}  // namespace tunefarm
