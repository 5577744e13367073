#include "client/cli/kernel_check.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "client/cli/data/upload.h"
#include "client/cli/options/kernel_argument.h"
#include "client/cli/sketch/signature_check.h"
#include "client/cli/studies/job_names.h"
#include "client/cli/studies/single_trials.h"
#include "client/cli/studies/watch.h"
#include "server/base/format.h"
#include "server/base/random.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/definition/kernel_plan.h"
#include "server/device/device_class.h"
#include "server/space/space_limit.h"

namespace tunefarm::cli {
namespace {

// Constraints are evaluated for so many valid configs and so much processor time at most.
constexpr uint64_t kConfigsChecked = 1'000'000;
constexpr Duration kCheckTimeMax = std::chrono::seconds(10);
// CUDA kernels are checked for this class where none is named.
constexpr std::string_view kClassChecked = "H100";
constexpr int kLogLinesShown = 8;
// More than the daemon's own.
constexpr Duration kCompilePatience = std::chrono::seconds(120);

bool NamesDevice(v1::Kernel kernel) {
  kernel.clear_sources();
  return kernel.SerializeAsString().find("device.") != std::string::npos;
}

// What the problem decides: every config is evaluated for a device of the kernel's kind. Nothing where a dim has no
// value. Of the host nothing is known here, so that what names it is left to the daemon.
absl::Status CheckProblem(const KernelPlan& plan, const v1::Problem& problem, const DeviceClass& device) {
  const bool has_all = std::all_of(plan.kernel().dims().begin(), plan.kernel().dims().end(), [&](const v1::Dim& dim) {
    return dim.has_default_value() || problem.dims().count(dim.name()) > 0;
  });
  if (!has_all) return absl::OkStatus();
  ASSIGN_OR_RETURN(const ResolvedProblem resolved, plan.ResolveProblem(problem));
  const bool is_known = device.kind == DeviceKind::kCuda;
  v1::Kernel without_rules = plan.kernel();
  without_rules.clear_constraints();
  if (!is_known && NamesDevice(std::move(without_rules))) return absl::OkStatus();
  RETURN_IF_ERROR(plan.CheckProblem(resolved, device));
  if (!is_known && NamesDevice(plan.kernel())) return absl::OkStatus();
  ASSIGN_OR_RETURN(const Space space,
                   plan.BuildSpace(resolved, device,
                                   {.limit = MakeSpaceLimit(plan.display_name(), {.processor_time = kCheckTimeMax})}));
  // A constraint that cannot be evaluated for some config, say a division by zero.
  const absl::Status counted = space.CountValid(kConfigsChecked).status();
  return absl::IsResourceExhausted(counted) ? absl::OkStatus() : counted;
}

std::vector<std::string> WarningsOf(const v1::CompileKernelResponse& response) {
  std::vector<std::string> warnings;
  for (const std::string& name : response.parameters_without_effect()) {
    warnings.push_back(fmt::format(
        "parameter {0} changes neither binary nor launch: its values that were compiled give what the default config "
        "gives. In an #if, test strings with defined({0}_VALUE).",
        name));
  }
  return warnings;
}

std::string CompileText(const v1::CompileKernelResponse& response) {
  const auto is_ok = [](const v1::ConfigCompile& one) { return one.outcome() == v1::OUTCOME_OK; };
  const auto good = std::count_if(response.configs().begin(), response.configs().end(), is_ok);
  std::string text = fmt::format("compiled {} of {} for {}\n", good, FormatCount(response.configs_size(), "config"),
                                 response.device_class_name());
  std::set<std::string> said;
  for (const v1::ConfigCompile& one : response.configs()) {
    if (is_ok(one)) continue;
    const std::string outcome = v1::Outcome_Name(one.outcome()).substr(std::string_view("OUTCOME_").size());
    text += fmt::format("\n{}  {}\n  {}\n", outcome, ConfigText(one.config()), one.message());
    // Most failures are one, seen again.
    if (!said.insert(one.message()).second || one.log().empty()) continue;
    std::string_view log = one.log();
    for (int line = 0; line < kLogLinesShown && !log.empty(); ++line) {
      text += fmt::format("    {}\n", log.substr(0, log.find('\n')));
      log.remove_prefix(std::min(log.size(), log.find('\n')));
      if (!log.empty()) log.remove_prefix(1);
    }
  }
  for (const std::string& warning : WarningsOf(response)) text += "\n" + warning + "\n";
  return text;
}

absl::StatusOr<v1::CompileKernelResponse> CompileSample(Session* session, const v1::Kernel& kernel,
                                                        const v1::Problem& problem, const std::string& device) {
  ASSIGN_OR_RETURN(Connection* const connection, session->connection());
  v1::CompileKernelRequest request;
  *request.mutable_kernel() = kernel;
  *request.mutable_problem() = problem;
  request.set_device_selector(device);
  return Connection::Call(connection->kernels(), &v1::KernelService::StubInterface::CompileKernel, request,
                          kCompilePatience);
}

// One trial, which no earlier result replaces. What counts is whether the config works: no time is too noisy for that.
absl::StatusOr<TriedConfigs> TryConfig(Session* session, const v1::Kernel& kernel,
                                       const std::vector<DescribedFile>& files, const v1::Problem& problem,
                                       const std::string& device) {
  v1::CreateJobRequest request;
  *request.mutable_kernel_definition() = kernel;
  request.set_request_id(NewUuid(EntropySource::Real()));
  v1::Job* const job = request.mutable_job();
  job->set_label("kernels check");
  *job->add_problems() = problem;
  job->set_device_selector(device);
  job->mutable_budget()->set_max_trials(1);
  job->set_no_promotion(true);
  job->set_no_memory(true);
  job->set_retry_poisoned(true);
  v1::MeasurementPolicy* const policy = job->mutable_policy();
  policy->set_preset(v1::MEASUREMENT_PRESET_FAST);
  policy->set_no_reuse(true);
  policy->set_noisy_relative_half_width(-1);
  policy->set_finalists(1);
  policy->set_final_rounds(1);
  ASSIGN_OR_RETURN(const v1::Job created, CreateJob(session, files, request));
  return FollowTrials(session, created.name());
}

std::string TriedText(const TriedConfigs& tried) {
  std::string text;
  for (const v1::Trial& trial : tried.trials) {
    const std::string study_name = trial.name().substr(0, trial.name().find("/trials/"));
    std::string device;
    for (const v1::Study& study : tried.job.studies()) {
      if (study.name() == study_name) device = study.device_class_name();
    }
    text += fmt::format("\ntried on {}, job {}\n{}", Visible(device), JobNumber(tried.job.name()), TrialText(trial));
  }
  return text;
}

}  // namespace

absl::StatusOr<ExitCode> CheckKernel(Session* session, const CheckOptions& options) {
  ASSIGN_OR_RETURN(const OutputFormat format, session->format_without_csv());
  ASSIGN_OR_RETURN(KernelArgument kernel, ResolveKernelWithoutData(options.kernel, session->environment));
  if (!kernel.definition) return NotFound("there is no kernel definition at {}", options.kernel);
  ASSIGN_OR_RETURN(const std::vector<DescribedFile> files,
                   DescribeDataFiles(&*kernel.definition, kernel.folder(), options.data));
  ASSIGN_OR_RETURN(const auto plan, KernelPlan::Compile(*kernel.definition));
  ASSIGN_OR_RETURN(const v1::Problem problem, MakeProblem(options.problem));
  DeviceClass device;
  device.kind = plan->device_kind();
  if (!options.device.empty() || device.kind == DeviceKind::kCuda) {
    // Other devices than known classes are the daemon's to know.
    const auto known = FindKnownClass(options.device.empty() ? kClassChecked : options.device);
    if (known.ok() && known->kind == device.kind) device = *known;
  }
  RETURN_IF_ERROR(CheckProblem(*plan, problem, device));
  const bool is_json = format == OutputFormat::kJson;
  v1::Kernel shown = plan->kernel();
  for (v1::SourceFile& source : *shown.mutable_sources()) source.clear_content();
  std::vector<std::pair<std::string, std::string>> json = {{"file", JsonString(kernel.file)},
                                                           {"kernel", ToJson(shown)}};
  const std::vector<std::string> mismatches = SignatureMismatches(*kernel.definition, kernel.folder());
  std::vector<std::string> warnings;
  const auto add_warnings = [&warnings](const std::vector<std::string>& more) {
    for (const std::string& warning : more) warnings.push_back(JsonString(warning));
  };
  add_warnings(mismatches);
  ExitCode code = kExitOk;
  if (!is_json) {
    session->Print(fmt::format("{}: OK\nkernel   kernels/{}\nprogram  {}\n", kernel.file, plan->kernel_id(),
                               plan->program_digest()));
    for (const DescribedFile& one : files) {
      session->Print(fmt::format("data     {}: {} bytes, SHA-256 {}\n", one.file.name(), FormatCount(one.file.bytes()),
                                 one.digest));
    }
    for (const std::string& mismatch : mismatches) session->Print(fmt::format("warning  {}\n", mismatch));
  }
  if (options.compile) {
    ASSIGN_OR_RETURN(const v1::CompileKernelResponse compiled,
                     CompileSample(session, *kernel.definition, problem, options.device));
    if (!is_json) session->Print(CompileText(compiled));
    json.emplace_back("compile", ToJson(compiled));
    add_warnings(WarningsOf(compiled));
    const bool is_good = std::all_of(compiled.configs().begin(), compiled.configs().end(),
                                     [](const v1::ConfigCompile& one) { return one.outcome() == v1::OUTCOME_OK; });
    if (!is_good) code = kExitFailed;
  }
  if (options.run) {
    ASSIGN_OR_RETURN(const TriedConfigs tried, TryConfig(session, *kernel.definition, files, problem, options.device));
    if (tried.detached) return kExitInterrupted;
    if (!is_json) session->Print(TriedText(tried));
    std::vector<std::string> trials;
    for (const v1::Trial& trial : tried.trials) {
      trials.push_back(ToJson(trial));
      add_warnings(WarningsOf(trial));
    }
    json.emplace_back("job", JsonString(tried.job.name()));
    json.emplace_back("trials", JsonList(trials));
    if (const ExitCode ended = ExplainEnd(*session, tried.job); ended != kExitOk) code = ended;
  }
  if (is_json) {
    json.emplace_back("warnings", JsonList(warnings));
    session->Print(JsonObject(json));
  }
  return code;
}

}  // namespace tunefarm::cli
