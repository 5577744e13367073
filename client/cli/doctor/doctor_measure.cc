#include "client/cli/doctor/doctor_measure.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "client/cli/data/upload.h"
#include "client/cli/doctor/twins.h"
#include "client/cli/options/kernel_argument.h"
#include "client/cli/studies/job_names.h"
#include "client/cli/studies/report.h"
#include "client/cli/studies/trial_pages.h"
#include "client/cli/studies/watch.h"
#include "server/base/format.h"
#include "server/base/random.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/measure/compare.h"
#include "server/measure/repeatability.h"
#include "server/measure/statistics.h"

namespace tunefarm::cli {
namespace {

// A smaller difference than this is rarely worth a choice, and larger ones must be told apart.
constexpr double kHalfWidthWanted = 0.005;
// A device that never rests waits for the host between blocks even so.
constexpr double kNoRest = 0.8;

struct Findings {
  std::string kernel, device, config;
  int rounds = 0;
  std::vector<Comparison> pairs;
  std::vector<double> round_ns;  // the device's pace: the median of all twins, round by round
  std::vector<double> medians;   // of all twins
  int64_t failed_pairs = 0, discarded = 0, throttled = 0, contended = 0, measured = 0;
  std::vector<double> clocks;
  double power_watts = 0;
  int temperature_c = 0;
  double duty_cycle = 1;  // the lowest
  std::set<std::string> reasons, discard_reasons;
  std::string method;
};

// *files: those that it names, where it is the user's.
absl::StatusOr<v1::Kernel> FetchDefinition(Session* session, const std::string& name,
                                           std::vector<DescribedFile>* files) {
  ASSIGN_OR_RETURN(KernelArgument argument, ResolveKernelWithoutData(name, session->environment));
  ASSIGN_OR_RETURN(*files, DescribeData(session, {}, &argument));
  if (argument.definition) return *std::move(argument.definition);
  ASSIGN_OR_RETURN(Connection* const connection, session->connection());
  v1::GetKernelRequest request;
  request.set_name(argument.name);
  request.set_include_sources(true);
  ASSIGN_OR_RETURN(v1::GetKernelResponse response,
                   Connection::Call(connection->kernels(), &v1::KernelService::StubInterface::GetKernel, request));
  return response.kernel();
}

absl::StatusOr<std::string> KernelFor(Session* session, const DoctorMeasureOptions& options) {
  if (!options.kernel.empty()) return options.kernel;
  ASSIGN_OR_RETURN(Connection* const connection, session->connection());
  ASSIGN_OR_RETURN(const v1::ListDevicesResponse devices,
                   Connection::Call(connection->devices(), &v1::DeviceService::StubInterface::ListDevices,
                                    v1::ListDevicesRequest()));
  const bool has_gpu = std::any_of(devices.devices().begin(), devices.devices().end(), [](const v1::Device& device) {
    return device.state() == v1::DEVICE_STATE_READY && device.device_class().kind() == v1::DEVICE_KIND_CUDA;
  });
  return std::string(has_gpu && options.device != "host" ? "matmul" : "matmul_host");
}

absl::StatusOr<v1::CreateJobRequest> MakeRequest(const DoctorMeasureOptions& options, const v1::Kernel& kernel,
                                                 int twins) {
  v1::CreateJobRequest request;
  *request.mutable_kernel_definition() = WithTwins(kernel, twins);
  v1::Job* const job = request.mutable_job();
  ASSIGN_OR_RETURN(const v1::Problem problem, MakeProblem(options.problem));
  ASSIGN_OR_RETURN(*job->add_problems(), PinnedToDefault(request.kernel_definition(), problem));
  job->set_device_selector(options.device);
  job->mutable_strategy()->set_strategy_name("exhaustive");
  ASSIGN_OR_RETURN(*job->mutable_policy(), MakePolicy(options.measure));
  v1::MeasurementPolicy* const policy = job->mutable_policy();
  policy->set_finalists(twins);
  policy->set_final_rounds(options.rounds);
  // As long for each, so that no round says when it has seen enough; and all have the same inputs and binary.
  if (policy->max_samples() == 0) policy->set_max_samples(std::max(policy->min_samples(), 50));
  if (policy->min_samples() == 0) policy->set_min_samples(policy->max_samples());
  policy->set_no_early_stop(true);
  policy->set_no_reuse(true);  // else a twin has no time of its own
  policy->set_no_second_inputs(true);
  job->set_label("doctor --repeatability");
  // A best among twins is of no use to anybody, and deleting a job does not take its best along.
  job->set_no_promotion(true);
  request.set_request_id(NewUuid(EntropySource::Real()));
  return request;
}

void NoteConditions(const v1::Measurement& m, Findings* findings) {
  ++findings->measured;
  findings->discarded += m.discarded_samples();
  findings->throttled += m.throttled();
  findings->contended += m.contended();
  if (m.clock_mhz() > 0) findings->clocks.push_back(m.clock_mhz());
  findings->power_watts = std::max(findings->power_watts, m.power_watts());
  findings->temperature_c = std::max(findings->temperature_c, m.temperature_c());
  if (!m.throttle_reason().empty()) findings->reasons.insert(m.throttle_reason());
  if (!m.discard_reason().empty()) findings->discard_reasons.insert(m.discard_reason());
  if (m.duty_cycle() > 0) findings->duty_cycle = std::min(findings->duty_cycle, m.duty_cycle());
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

// The twins of a job's final, by number; those without a time are left out.
absl::StatusOr<std::map<int, v1::Trial>> FetchTwins(Session* session, const std::string& job_name) {
  ASSIGN_OR_RETURN(Connection* const connection, session->connection());
  v1::ListTrialsRequest list;
  list.set_parent(job_name);
  list.set_purpose(v1::TRIAL_PURPOSE_FINALIST);
  ASSIGN_OR_RETURN(const std::vector<v1::Trial> listed, FetchTrials(session, list, 1000));
  std::map<int, v1::Trial> twins;
  for (const v1::Trial& trial : listed) {
    const int twin = TwinOf(trial.config());
    if (twin < 0 || trial.outcome() != v1::OUTCOME_OK) continue;
    v1::GetTrialRequest get;
    get.set_name(trial.name());
    ASSIGN_OR_RETURN(const v1::GetTrialResponse response,
                     Connection::Call(connection->tuning(), &v1::TuningService::StubInterface::GetTrial, get));
    twins[twin] = response.trial();
  }
  return twins;
}

void AddTwins(const std::map<int, v1::Trial>& twins, int pairs, Findings* findings) {
  std::map<int, std::vector<double>> rounds;
  for (const auto& [twin, trial] : twins) {
    const auto& kept = trial.measurement().sample_ns();
    rounds[twin] = RoundMedians(std::vector<double>(kept.begin(), kept.end()), static_cast<size_t>(findings->rounds));
    NoteConditions(trial.measurement(), findings);
  }
  for (int pair = 0; pair < pairs; ++pair) {
    const auto first = twins.find(2 * pair), second = twins.find(2 * pair + 1);
    if (first != twins.end() && second != twins.end()) {
      findings->pairs.push_back(
          CompareMeasurements(first->second.measurement(), second->second.measurement(), findings->rounds));
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

absl::Status Delete(Connection* connection, const std::string& job_name) {
  v1::DeleteJobRequest request;
  request.set_name(job_name);
  return Connection::Call(connection->tuning(), &v1::TuningService::StubInterface::DeleteJob, request).status();
}

// What to do about what was found; one sentence each.
std::vector<std::string> Advice(const Findings& findings, const Repeatability& found) {
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

std::string Verdict(const Findings& findings, const Repeatability& found) {
  if (found.pairs == 0) return "nothing measured";
  if (!found.is_honest()) return "the intervals are too narrow: do not trust small differences";
  const std::string share = fmt::format("{:.2f} %", found.median_half_width * 100);
  if (findings.failed_pairs > 0) return "the intervals are what they say, but some pairs failed";
  return "the intervals are what they say; differences above about " + share + " can be told apart";
}

std::string ReportText(const Findings& findings, const Repeatability& found) {
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
  text += fmt::format("  clock       {}; {} discarded, {} of {} throttled, {} shared\n", clock,
                      FormatCount(findings.discarded, "sample"), findings.throttled,
                      FormatCount(findings.measured, "measurement"), findings.contended);
  for (const std::string& reason : findings.discard_reasons) text += "  discarded   " + reason + "\n";
  if (findings.duty_cycle < kNoRest) {
    text += fmt::format("  duty cycle  {:.0f} %: the device rested between blocks, to stay below its power limit\n",
                        100 * findings.duty_cycle);
  }
  text += "verdict       " + Verdict(findings, found) + "\n";
  for (const std::string& line : Advice(findings, found)) text += "advice        " + line + "\n";
  return text;
}

std::string ReportJson(const Findings& findings, const Repeatability& found) {
  const Drift drift = DriftOf(findings.round_ns);
  std::string json = fmt::format(
      "{{\n  \"kernel\": {}, \"device\": {}, \"config\": {}, \"measured\": {},\n  \"pairs\": {}, \"rounds\": {}, "
      "\"failed_pairs\": {},\n  \"excluding_one\": {}, \"excluding_one_max\": {}, \"median_half_width\": {:.6f}, "
      "\"median_ratio\": {:.6f},\n  \"median_ns\": {:.1f}, \"drift_range\": {:.6f}, \"drift_trend\": {:.6f},\n",
      JsonString(findings.kernel), JsonString(findings.device), JsonString(findings.config),
      JsonString(findings.method), found.pairs, findings.rounds, findings.failed_pairs, found.excluding_one,
      found.excluding_max, found.median_half_width, found.median_ratio,
      findings.medians.empty() ? 0 : Median(findings.medians), drift.range, drift.trend);
  const double clock = findings.clocks.empty() ? 0 : Median(findings.clocks);
  json += fmt::format(
      "  \"clock_mhz\": {:.0f}, \"power_watts\": {:.1f}, \"temperature_c\": {}, \"discarded_samples\": {}, "
      "\"throttled\": {}, \"contended\": {}, \"duty_cycle\": {:.3f},\n  \"ratios\": [",
      clock, findings.power_watts, findings.temperature_c, findings.discarded, findings.throttled, findings.contended,
      findings.duty_cycle);
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

// One job of so many pairs; false when the user left.
absl::StatusOr<bool> MeasurePairs(Session* session, const DoctorMeasureOptions& options, const v1::Kernel& kernel,
                                  const std::vector<DescribedFile>& files, int pairs, Findings* findings) {
  ASSIGN_OR_RETURN(Connection* const connection, session->connection());
  ASSIGN_OR_RETURN(const v1::CreateJobRequest request, MakeRequest(options, kernel, 2 * pairs));
  ASSIGN_OR_RETURN(const v1::Job created, CreateJob(session, files, request));
  ASSIGN_OR_RETURN(const WatchOutcome outcome, WatchJob(session, created.name()));
  if (outcome.detached) return false;
  const v1::Job& job = outcome.job;
  ASSIGN_OR_RETURN(const auto twins, FetchTwins(session, job.name()));
  if (job.state() != v1::JOB_STATE_SUCCEEDED || twins.empty()) {
    ExplainEnd(*session, job);
    return FailedPrecondition("job {} measured nothing; look at it with tunefarm results {} --all",
                              JobNumber(job.name()), JobNumber(job.name()));
  }
  AddTwins(twins, pairs, findings);
  if (!twins.empty()) {
    findings->device = job.studies(0).device_class_name();
    findings->config = ConfigText(WithoutTwin(twins.begin()->second.config()));
  }
  RETURN_IF_ERROR(Delete(connection, job.name()));
  return true;
}

}  // namespace

void DoctorMeasureOptions::AddTo(CLI::App* command) {
  CLI::Option* const flag = command->add_flag(
      "--repeatability", wanted,
      "The A/A test: measure one config against itself, many times, and say whether the stated intervals hold.");
  command
      ->add_option("--kernel", kernel, "With --repeatability: the kernel (default: matmul, without a GPU matmul_host).")
      ->needs(flag);
  command->add_option("--device", device, "With --repeatability: as for tune.")->type_name("DEVICE")->needs(flag);
  command->add_option("--pairs", pairs, "With --repeatability: how many pairs (default 200).")
      ->check(CLI::Range(1, 10'000))
      ->needs(flag);
  command->add_option("--rounds", rounds, "With --repeatability: rounds of each pair (default 8).")
      ->check(CLI::Range(2, 64))
      ->needs(flag);
  AddListOption(command, "-d,--dim", &problem.dims, "With --repeatability: a dim of the problem. May be repeated.");
  AddListOption(command, "--pin", &problem.pins,
                "With --repeatability: another value than the default's. May be repeated.");
  command->add_option("--policy", measure.policy, "With --repeatability: fast, default or rigorous.")
      ->type_name("POLICY")
      ->check(CLI::IsMember({"fast", "default", "rigorous"}));
  AddListOption(command, "--measure", &measure.settings,
                "With --repeatability: a knob of the policy, as for tune. May be repeated.");
}

absl::StatusOr<ExitCode> DoctorMeasure(Session* session, const DoctorMeasureOptions& options) {
  ASSIGN_OR_RETURN(const OutputFormat format, session->format_without_csv());
  Findings findings;
  findings.rounds = options.rounds;
  ASSIGN_OR_RETURN(findings.kernel, KernelFor(session, options));
  std::vector<DescribedFile> files;
  ASSIGN_OR_RETURN(const v1::Kernel kernel, FetchDefinition(session, findings.kernel, &files));
  for (int left = options.pairs; left > 0;) {
    const int pairs = std::min(left, kTwinsMax / 2);
    ASSIGN_OR_RETURN(const bool done, MeasurePairs(session, options, kernel, files, pairs, &findings));
    if (!done) return kExitInterrupted;
    left -= pairs;
    session->Note(fmt::format("{} of {} pairs", options.pairs - left, options.pairs));
  }
  const Repeatability found = JudgeRepeatability(findings.pairs);
  session->Print(format == OutputFormat::kJson ? ReportJson(findings, found) : ReportText(findings, found));
  return found.is_honest() ? kExitOk : kExitFailed;
}

}  // namespace tunefarm::cli
