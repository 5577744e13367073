#include "client/cli/doctor/doctor_measure.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "client/cli/data/upload.h"
#include "client/cli/doctor/repeatability_findings.h"
#include "client/cli/doctor/repeatability_report.h"
#include "client/cli/doctor/repeatability_suite.h"
#include "client/cli/doctor/twins.h"
#include "client/cli/options/kernel_argument.h"
#include "client/cli/studies/job_names.h"
#include "client/cli/studies/report.h"
#include "client/cli/studies/trial_pages.h"
#include "client/cli/studies/watch.h"
#include "server/base/random.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/measure/policy.h"
#include "server/measure/repeatability.h"

namespace tunefarm::cli {
namespace {

constexpr int kSamplesAlone = 50;
// All samples of eight rounds are kept (4096).
constexpr int kSamplesMax = 500;
constexpr int kRoundMs = 30;

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

// Whether what is measured where no kernel is named is for GPUs: by the devices that the selector means, as the daemon
// understands it. Without one, GPUs come first.
absl::StatusOr<bool> IsForGpus(Session* session, const DoctorMeasureOptions& options) {
  const auto is_selected = [&options](const std::string& name) {
    return std::equal(name.begin(), name.end(), options.device.begin(), options.device.end(),
                      [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); });
  };
  if (is_selected("host")) return false;
  if (is_selected("cuda")) return true;
  ASSIGN_OR_RETURN(Connection* const connection, session->connection());
  ASSIGN_OR_RETURN(const v1::ListDevicesResponse devices,
                   Connection::Call(connection->devices(), &v1::DeviceService::StubInterface::ListDevices,
                                    v1::ListDevicesRequest()));
  const auto is_gpu = [](const v1::Device& device) { return device.device_class().kind() == v1::DEVICE_KIND_CUDA; };
  if (options.device.empty()) {
    return std::any_of(devices.devices().begin(), devices.devices().end(), [&is_gpu](const v1::Device& device) {
      return device.state() == v1::DEVICE_STATE_READY && is_gpu(device);
    });
  }
  for (const v1::Device& device : devices.devices()) {
    const v1::DeviceClass& its_class = device.device_class();
    if (device.uuid() == options.device || its_class.id() == options.device || is_selected(its_class.display_name())) {
      return is_gpu(device);
    }
  }
  return InvalidArgument(
      "'{}' is neither a device nor a class of devices here: name one of tunefarm devices, or the "
      "kernel with --kernel",
      options.device);
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
  // Where launches have neighbours, short ones need many samples and long ones few.
  const bool has_neighbours = kernel.language() == v1::LANGUAGE_CUDA || kernel.language() == v1::LANGUAGE_TRITON;
  if (has_neighbours && policy->time_budget_ms() == 0) policy->set_time_budget_ms(kRoundMs);
  const int samples = has_neighbours ? kSamplesMax : kSamplesAlone;
  if (policy->max_samples() == 0) policy->set_max_samples(std::max(policy->min_samples(), samples));
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

absl::Status Delete(Connection* connection, const std::string& job_name) {
  v1::DeleteJobRequest request;
  request.set_name(job_name);
  return Connection::Call(connection->tuning(), &v1::TuningService::StubInterface::DeleteJob, request).status();
}

// One job of so many pairs; false when the user left.
absl::StatusOr<bool> MeasurePairs(Session* session, const DoctorMeasureOptions& options, const v1::Kernel& kernel,
                                  const std::vector<DescribedFile>& files, int pairs, RepeatabilityFindings* findings) {
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

// All pairs of one problem; false when the user left.
absl::StatusOr<bool> MeasureProblem(Session* session, const DoctorMeasureOptions& options,
                                    RepeatabilityFindings* findings) {
  findings->rounds = options.rounds;
  findings->kernel = options.kernel;
  std::vector<DescribedFile> files;
  ASSIGN_OR_RETURN(const v1::Kernel kernel, FetchDefinition(session, findings->kernel, &files));
  for (int left = options.pairs; left > 0;) {
    const int pairs = std::min(left, kTwinsMax / 2);
    ASSIGN_OR_RETURN(const bool done, MeasurePairs(session, options, kernel, files, pairs, findings));
    if (!done) return false;
    left -= pairs;
    session->Note(fmt::format("{} of {} pairs", options.pairs - left, options.pairs));
  }
  return true;
}

absl::StatusOr<ExitCode> MeasureSuite(Session* session, const DoctorMeasureOptions& options, OutputFormat format) {
  if (!options.problem.dims.empty() || !options.problem.pins.empty()) {
    return InvalidArgument("--dim and --pin describe a problem of one kernel: name it with --kernel");
  }
  ASSIGN_OR_RETURN(const bool on_gpu, IsForGpus(session, options));
  const std::span<const SuiteProblem> problems = RepeatabilitySuite(on_gpu);
  const int count = static_cast<int>(problems.size());
  std::vector<RepeatabilityFindings> suite;
  std::vector<Comparison> pairs;
  bool failed = false;
  for (const SuiteProblem& problem : problems) {
    DoctorMeasureOptions one = options;
    one.kernel = problem.kernel;
    one.problem.dims = problem.dims;
    one.pairs = (options.pairs + count - 1) / count;
    RepeatabilityFindings& findings = suite.emplace_back();
    findings.problem = LabelOf(problem);
    findings.bound = problem.bound;
    session->Note(findings.problem);
    const absl::StatusOr<bool> done = MeasureProblem(session, one, &findings);
    if (done.ok() && !*done) return kExitInterrupted;
    if (!done.ok()) {
      findings.failure = std::string(MessageOf(done.status()));
      // The device is smaller than the one that the suite was made for.
      failed = failed || ReasonOf(done.status()) != "PROBLEM_TOO_LARGE";
    }
    pairs.insert(pairs.end(), findings.pairs.begin(), findings.pairs.end());
  }
  const Repeatability found = JudgeRepeatability(pairs);
  if (format == OutputFormat::kJson) {
    session->Print(SuiteJson(suite));
  } else {
    session->PrintTable(SuiteTable(suite), format);
    session->Print(SuiteText(suite, found));
  }
  return found.is_honest() && !failed ? kExitOk : kExitFailed;
}

}  // namespace

void DoctorMeasureOptions::AddTo(CLI::App* command) {
  CLI::Option* const flag = command->add_flag(
      "--repeatability", wanted,
      "The A/A test: measure one config against itself, many times, and say whether the stated intervals hold.");
  command
      ->add_option("--kernel", kernel,
                   "With --repeatability: the kernel (default: several problems from about 5 us to 10 ms, bound by "
                   "arithmetic or by memory, among which the pairs are divided).")
      ->needs(flag);
  command->add_option("--device", device, "With --repeatability: as for tune.")->type_name("DEVICE")->needs(flag);
  command->add_option("--pairs", pairs, "With --repeatability: how many pairs (default 200).")
      ->check(CLI::Range(1, 10'000))
      ->needs(flag);
  command->add_option("--rounds", rounds, "With --repeatability: rounds of each pair (default 8).")
      ->check(CLI::Range(2, kFinalRoundsMax))
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
  if (options.kernel.empty()) return MeasureSuite(session, options, format);
  RepeatabilityFindings findings;
  ASSIGN_OR_RETURN(const bool done, MeasureProblem(session, options, &findings));
  if (!done) return kExitInterrupted;
  const Repeatability found = JudgeRepeatability(findings.pairs);
  session->Print(format == OutputFormat::kJson ? ReportJson(findings, found) : ReportText(findings, found));
  return found.is_honest() ? kExitOk : kExitFailed;
}

}  // namespace tunefarm::cli
