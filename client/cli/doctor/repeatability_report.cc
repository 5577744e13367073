#include "client/cli/doctor/repeatability_report.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "server/base/format.h"
#include "server/measure/statistics.h"

namespace tunefarm::cli {
namespace {

// A smaller difference than this is rarely worth a choice, and larger ones must be told apart.
constexpr double kHalfWidthWanted = 0.005;

// What to do about what was found; one sentence each.
std::vector<std::string> Advice(const RepeatabilityFindings& findings, const Repeatability& found) {
  std::vector<std::string> advice;
  if (found.pairs == 0) {
    advice.emplace_back("No pair could be measured: tunefarm run with the same kernel says why.");
    return advice;
  }
  if (!found.is_honest()) {
    advice.emplace_back(
        "Equal configs differ more often than chance allows: something disturbs the measurements. Look for other "
        "processes on the device, and measure with more rounds (--rounds 16).");
  }
  if (found.median_half_width > kHalfWidthWanted) {
    advice.push_back(
        fmt::format("Differences below {:.1f} % cannot be told: more rounds (--measure final_rounds=16) or --policy "
                    "rigorous narrow "
                    "the intervals of a tuning's final.",
                    found.median_half_width * 100));
  }
  if (findings.throttled > 0) {
    advice.emplace_back("The device was slowed down while it measured: check its cooling and its power limit.");
  }
  if (findings.contended > 0) advice.emplace_back("Others used the device meanwhile: stop them for stable times.");
  return advice;
}

std::string Verdict(const RepeatabilityFindings& findings, const Repeatability& found) {
  if (found.pairs == 0) return "nothing measured";
  if (!found.is_honest()) return "the intervals are too narrow: do not trust small differences";
  const std::string share = fmt::format("{:.2f} %", found.median_half_width * 100);
  if (findings.failed_pairs > 0) return "the intervals are what they say, but some pairs failed";
  return "the intervals are what they say; differences above about " + share + " can be told apart";
}

std::string JsonStrings(const std::set<std::string>& strings) {
  std::string json, separator;
  for (const std::string& one : strings) json += std::exchange(separator, ", ") + JsonString(one);
  return json;
}

}  // namespace

std::string ReportText(const RepeatabilityFindings& findings, const Repeatability& found) {
  std::string text =
      fmt::format("A/A test of {} on {}\n  config      {}\n", findings.kernel, findings.device, findings.config);
  if (!findings.medians.empty()) {
    text += fmt::format("  time        {} median; {}\n", FormatDuration(Median(findings.medians)), findings.method);
  }
  text += fmt::format("  pairs       {} of {} rounds", found.pairs, findings.rounds);
  if (findings.failed_pairs > 0) text += fmt::format(", {} more could not be measured", findings.failed_pairs);
  const double pairs = static_cast<double>(std::max<uint64_t>(found.pairs, 1));
  text += fmt::format(
      "\n  excluded 1  {} of {} stated 95 % intervals ({:.1f} %; about 5 % expected, at most {} allowed)\n",
      found.excluding_one, found.pairs, 100 * static_cast<double>(found.excluding_one) / pairs, found.excluding_max);
  text += fmt::format("  half-width  ±{:.2f} % of the ratio at the median\n", found.median_half_width * 100);
  const double bias = found.pairs == 0 ? 0 : found.median_ratio - 1;
  text += fmt::format("  bias        {:+.2f} % of the first of a pair\n", bias * 100);
  const Drift drift = DriftOf(findings.round_ns);
  text += fmt::format(
      "  drift       {:.1f} % between the fastest and the slowest round, {:+.1f} % from first half to "
      "second\n",
      drift.range * 100, drift.trend * 100);
  std::string clock = "unknown";
  if (!findings.clocks.empty()) {
    const auto [low, high] = std::minmax_element(findings.clocks.begin(), findings.clocks.end());
    clock = fmt::format("{:.0f} to {:.0f} MHz", *low, *high);
    if (findings.power_watts > 0) clock += fmt::format(", up to {:.0f} W", findings.power_watts);
    if (findings.temperature_c > 0) clock += fmt::format(", up to {} °C", findings.temperature_c);
  }
  for (const std::string& reason : findings.reasons) clock += ", held down by: " + reason;
  std::string discarded = FormatCount(findings.discarded, "sample") + " discarded";
  if (!findings.discard_reasons.empty()) {
    discarded += fmt::format(" ({})", fmt::join(findings.discard_reasons, "; "));
  }
  text += fmt::format("  clock       {}; {}, {} of {} throttled, {} shared\n", clock, discarded, findings.throttled,
                      FormatCount(findings.measured, "measurement"), findings.contended);
  text += "verdict       " + Verdict(findings, found) + "\n";
  for (const std::string& line : Advice(findings, found)) text += "advice        " + line + "\n";
  return text;
}

std::string ReportJson(const RepeatabilityFindings& findings, const Repeatability& found) {
  const Drift drift = DriftOf(findings.round_ns);
  std::string json = "{\n";
  if (!findings.problem.empty()) {
    json += fmt::format("  \"problem\": {}, \"bound\": {}, \"failure\": {},\n", JsonString(findings.problem),
                        JsonString(findings.bound), JsonString(findings.failure));
  }
  json += fmt::format(
      "  \"kernel\": {}, \"device\": {}, \"config\": {}, \"measured\": {},\n  \"pairs\": {}, \"rounds\": {}, "
      "\"failed_pairs\": {},\n  \"excluding_one\": {}, \"excluding_one_max\": {}, \"median_half_width\": {:.6f}, "
      "\"median_ratio\": {:.6f},\n  \"median_ns\": {:.1f}, \"drift_range\": {:.6f}, \"drift_trend\": {:.6f},\n",
      JsonString(findings.kernel), JsonString(findings.device), JsonString(findings.config),
      JsonString(findings.method), found.pairs, findings.rounds, findings.failed_pairs, found.excluding_one,
      found.excluding_max, found.median_half_width, found.median_ratio,
      findings.medians.empty() ? 0 : Median(findings.medians), drift.range, drift.trend);
  const double clock = findings.clocks.empty() ? 0 : Median(findings.clocks);
  json += fmt::format(
      "  \"clock_mhz\": {:.0f}, \"power_watts\": {:.1f}, \"temperature_c\": {}, \"discarded_samples\": {}, "
      "\"throttled\": {}, \"contended\": {}, \"duty_cycle\": {:.4f},\n  \"discard_reasons\": [{}], \"ratios\": [",
      clock, findings.power_watts, findings.temperature_c, findings.discarded, findings.throttled, findings.contended,
      findings.duty_cycles.empty() ? 0 : Median(findings.duty_cycles), JsonStrings(findings.discard_reasons));
  for (size_t i = 0; i < findings.pairs.size(); ++i) {
    const Comparison& pair = findings.pairs[i];
    json += fmt::format("{}[{:.6f}, {:.6f}, {:.6f}]", i == 0 ? "" : ", ", pair.ratio, pair.ratio_interval.low,
                        pair.ratio_interval.high);
  }
  json += "],\n  \"honest\": " + std::string(found.is_honest() ? "true" : "false") +
          ", \"verdict\": " + JsonString(Verdict(findings, found)) + ",\n  \"advice\": [";
  std::string separator;
  for (const std::string& line : Advice(findings, found)) json += std::exchange(separator, ", ") + JsonString(line);
  return json + "]\n}\n";
}

Table SuiteTable(std::span<const RepeatabilityFindings> suite) {
  Table table({{"PROBLEM"},
               {"BOUND"},
               {"TIME", true},
               {"PAIRS", true},
               {"EXCLUDED 1", true},
               {"HALF-WIDTH", true},
               {"DRIFT", true},
               {"CLOCK", true},
               {"POWER", true},
               {"DISCARDED", true},
               {"DUTY CYCLE", true},
               {"VERDICT"}});
  const auto unless_unknown = [](bool is_known, std::string text) { return is_known ? std::move(text) : "-"; };
  for (const RepeatabilityFindings& findings : suite) {
    if (!findings.failure.empty()) {
      table.AddRow({findings.problem, findings.bound, "-", "0", "-", "-", "-", "-", "-", "-", "-", findings.failure});
      continue;
    }
    const Repeatability found = JudgeRepeatability(findings.pairs);
    const double clock = findings.clocks.empty() ? 0 : Median(findings.clocks);
    const double duty_cycle = findings.duty_cycles.empty() ? 0 : Median(findings.duty_cycles);
    table.AddRow({findings.problem, findings.bound,
                  unless_unknown(!findings.medians.empty(),
                                 findings.medians.empty() ? "" : FormatDuration(Median(findings.medians))),
                  std::to_string(found.pairs), fmt::format("{} (at most {})", found.excluding_one, found.excluding_max),
                  unless_unknown(found.pairs > 0, fmt::format("±{:.2f} %", found.median_half_width * 100)),
                  fmt::format("{:.1f} %", DriftOf(findings.round_ns).range * 100),
                  unless_unknown(clock > 0, fmt::format("{:.0f} MHz", clock)),
                  unless_unknown(findings.power_watts > 0, fmt::format("{:.0f} W", findings.power_watts)),
                  std::to_string(findings.discarded),
                  unless_unknown(duty_cycle > 0, fmt::format("{:.0f} %", duty_cycle * 100)),
                  found.pairs == 0            ? "nothing measured"
                  : !found.is_honest()        ? "too narrow"
                  : findings.failed_pairs > 0 ? "some pairs failed"
                                              : "ok"});
  }
  return table;
}

std::string SuiteJson(std::span<const RepeatabilityFindings> suite) {
  std::string json;
  for (const RepeatabilityFindings& findings : suite) {
    json += json.empty() ? "[\n" : ",\n";
    json += ReportJson(findings, JudgeRepeatability(findings.pairs));
    json.pop_back();  // the line feed
  }
  return json + "\n]\n";
}

std::string SuiteText(std::span<const RepeatabilityFindings> suite, const Repeatability& found) {
  // Conditions of all of them, for the advice.
  RepeatabilityFindings all;
  for (const RepeatabilityFindings& findings : suite) {
    all.throttled += findings.throttled;
    all.contended += findings.contended;
    all.failed_pairs += findings.failed_pairs;
  }
  std::string text = fmt::format(
      "\nexcluded 1    {} of {} stated 95 % intervals of all problems (about 5 % expected, at most {} "
      "allowed)\n",
      found.excluding_one, found.pairs, found.excluding_max);
  text += "verdict       " + Verdict(all, found) + "\n";
  for (const std::string& line : Advice(all, found)) text += "advice        " + line + "\n";
  return text;
}

}  // namespace tunefarm::cli
