// export package: tuned kernels with their binaries, as a file that libtunefarm-launch launches.

#include "client/cli/export/export_package.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "client/cli/help_format.h"
#include "client/cli/options/best_filter.h"
#include "client/cli/options/kernel_argument.h"
#include "server/base/clock.h"
#include "server/base/format.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/definition/kernel_plan.h"
#include "server/definition/launch_sequence.h"
#include "server/definition/lookup_rules.h"
#include "server/package/package_writer.h"

namespace tunefarm::cli {
namespace {

using interchange::ExportedBest;

constexpr int kDevicesPerPage = 1000;
// More than the daemon's own.
constexpr Duration kBinaryPatience = std::chrono::seconds(120);

struct PackageOptions {
  BestFilter filter;
  std::string file;
};

// A device class, and how a call names it.
struct ClassOnCall {
  DeviceClass device_class;
  std::string selector;
};

// Compiles configs and gathers what became of them.
class Packager {
 public:
  Packager(Connection* connection, std::map<std::string, ClassOnCall> classes)
      : connection_(connection), classes_(std::move(classes)) {}

  // All bests of one kernel. What cannot be packaged is noted; an error ends the export.
  absl::StatusOr<PackagedKernel> Package(const v1::Kernel& definition, const std::vector<ExportedBest>& bests) {
    PackagedKernel kernel;
    ASSIGN_OR_RETURN(kernel.plan, KernelPlan::Compile(definition));
    std::set<std::string> tuned, defaults;
    for (const ExportedBest& best : ByPreference(kernel.plan->kernel(), bests)) {
      const std::string what = fmt::format("{} for {} on {}", best.best.kernel_name(), best.best.problem().key(),
                                           best.best.device_class_name());
      const auto found = classes_.find(best.best.device_class_id());
      if (best.best.program_digest() != kernel.plan->program_digest()) {
        LeaveOut(what, "it was found with another version of the kernel or of its data; tune it again");
      } else if (!best.best.problem().pinned().empty()) {
        LeaveOut(what, "its parameters were pinned, which a launch does not ask for");
      } else if (found == classes_.end()) {
        LeaveOut(what, "no device of its class is known here, so that nothing can be compiled for it");
      } else {
        RETURN_IF_ERROR(AddBest(what, best, found->second, &kernel, &tuned, &defaults));
      }
    }
    return kernel;
  }

  const std::vector<std::string>& left_out() const { return left_out_; }

 private:
  // As look-ups prefer bests. Of those that a launch cannot tell apart the first is taken, and of those that are
  // equally near the file's first answers.
  static std::vector<ExportedBest> ByPreference(const v1::Kernel& definition, std::vector<ExportedBest> bests) {
    const auto rank = [defaults = InputDefaults(definition)](const ExportedBest& best) {
      return std::make_tuple(!best.is_plain(), InputsOffDefault(defaults, best.dims), -best.best.promoted_at_ms(),
                             -best.best.revision());
    };
    std::stable_sort(bests.begin(), bests.end(), [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
    return bests;
  }

  absl::Status AddBest(const std::string& what, const ExportedBest& best, const ClassOnCall& device,
                       PackagedKernel* kernel, std::set<std::string>* tuned, std::set<std::string>* defaults) {
    const KernelPlan& plan = *kernel->plan;
    const absl::StatusOr<ResolvedProblem> resolved = plan.ResolveProblem(best.best.problem());
    const absl::StatusOr<Config> config = plan.ParseConfig(best.best.config());
    if (!resolved.ok() || !config.ok()) {
      LeaveOut(what, MessageOf(resolved.ok() ? config.status() : resolved.status()));
      return absl::OkStatus();
    }
    const ResolvedProblem& problem = *resolved;
    if (!tuned->insert(KeyOf(plan, problem, device, /*with_open=*/true)).second) {
      LeaveOut(what, "another best is of the same dims, and inputs alone make the difference");
      return absl::OkStatus();
    }
    PackagedChoice choice;
    choice.median_ns = best.best.measurement().median_ns();
    RETURN_IF_ERROR(AddChoice(what, problem, *config, device, std::move(choice), kernel));
    if (!defaults->insert(KeyOf(plan, problem, device, /*with_open=*/false)).second) return absl::OkStatus();
    PackagedChoice fallback;
    fallback.is_default = true;
    return AddChoice(fmt::format("the default config of {}", what), problem, plan.DefaultConfig(problem), device,
                     std::move(fallback), kernel);
  }

  // What a look-up can tell apart, with the dims that each launch gives or without.
  static std::string KeyOf(const KernelPlan& plan, const ResolvedProblem& problem, const ClassOnCall& device,
                           bool with_open) {
    Config dims;
    for (const v1::Dim& dim : plan.kernel().dims()) {
      if (!dim.inputs_only() && (with_open || !IsOpenDim(dim))) dims.Set(dim.name(), *problem.dims.Find(dim.name()));
    }
    return device.device_class.Id() + "|" + dims.ToText();
  }

  absl::Status AddChoice(const std::string& what, const ResolvedProblem& problem, const Config& config,
                         const ClassOnCall& device, PackagedChoice choice, PackagedKernel* kernel) {
    const KernelPlan& plan = *kernel->plan;
    // Before it is compiled, since what cannot be launched need not be.
    if (const absl::Status fits =
            MakeLaunchSequence(plan, problem, config, device.device_class, OwnNames(plan)).status();
        !fits.ok()) {
      LeaveOut(what, MessageOf(fits));
      return absl::OkStatus();
    }
    v1::CompileKernelRequest request;
    *request.mutable_kernel() = plan.kernel();
    *request.mutable_problem() = problem.ToProto();
    request.set_device_selector(device.selector);
    *request.add_configs() = plan.ToProto(config);
    request.set_with_binaries(true);
    ASSIGN_OR_RETURN(v1::CompileKernelResponse response,
                     Connection::Call(connection_->kernels(), &v1::KernelService::StubInterface::CompileKernel, request,
                                      kBinaryPatience));
    if (response.configs_size() != 1) {
      return Internal("the daemon answered for {} configs instead of one; is it of an older version?",
                      response.configs_size());
    }
    v1::ConfigCompile& compiled = *response.mutable_configs(0);
    if (compiled.outcome() != v1::OUTCOME_OK) {
      LeaveOut(what, compiled.message());
      return absl::OkStatus();
    }
    if (compiled.binary().empty()) return Internal("the daemon sent no binary; is it of an older version?");
    const std::map<std::string, std::string> symbols(compiled.lowered_names().begin(), compiled.lowered_names().end());
    ASSIGN_OR_RETURN(choice.sequence, MakeLaunchSequence(plan, problem, config, device.device_class, symbols));
    choice.device_class = device.device_class;
    choice.dims = problem.dims;
    choice.config = config;
    choice.binary = std::move(*compiled.mutable_binary());
    // Without where it lies on the machine that compiled.
    choice.toolchain = response.toolchain().substr(0, response.toolchain().rfind(" ("));
    kernel->choices.push_back(std::move(choice));
    return absl::OkStatus();
  }

  // Every entry under its own name: symbols are known only after compiling.
  static std::map<std::string, std::string> OwnNames(const KernelPlan& plan) {
    std::map<std::string, std::string> names;
    for (const Sequence sequence : {Sequence::kLaunches, Sequence::kPreparePerConfig}) {
      for (const std::string& entry : plan.Entries(sequence)) names.emplace(entry, entry);
    }
    return names;
  }

  void LeaveOut(std::string_view what, std::string_view why) { left_out_.push_back(fmt::format("{}: {}", what, why)); }

  Connection* const connection_;
  const std::map<std::string, ClassOnCall> classes_;
  std::vector<std::string> left_out_;
};

// By id: the classes of the daemon's devices, and those that are known without one.
absl::StatusOr<std::map<std::string, ClassOnCall>> ClassesById(Connection* connection) {
  std::map<std::string, ClassOnCall> classes;
  v1::ListDevicesRequest request;
  request.set_page_size(kDevicesPerPage);
  do {
    ASSIGN_OR_RETURN(const v1::ListDevicesResponse page,
                     Connection::Call(connection->devices(), &v1::DeviceService::StubInterface::ListDevices, request));
    for (const v1::Device& device : page.devices()) {
      ASSIGN_OR_RETURN(const DeviceClass device_class, DeviceClass::FromProto(device.device_class()));
      classes.insert_or_assign(device_class.Id(), ClassOnCall{device_class, device_class.Id()});
    }
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  for (const KnownClass& known : KnownClasses()) {
    classes.try_emplace(known.device_class.Id(), ClassOnCall{known.device_class, std::string(known.short_name)});
  }
  return classes;
}

// The definition with its sources: that of a path, else the stored one.
absl::StatusOr<v1::Kernel> DefinitionOf(Session* session, Connection* connection, const std::string& asked,
                                        const std::string& name) {
  std::string stored = name;
  if (!asked.empty()) {
    ASSIGN_OR_RETURN(const KernelArgument argument, ResolveKernelArgument(asked, session->environment));
    if (argument.definition.has_value() && !argument.is_built_in) return *argument.definition;
    stored = argument.name;
  }
  v1::GetKernelRequest request;
  request.set_name(stored);
  request.set_include_sources(true);
  ASSIGN_OR_RETURN(const v1::GetKernelResponse response,
                   Connection::Call(connection->kernels(), &v1::KernelService::StubInterface::GetKernel, request));
  return response.kernel();
}

absl::StatusOr<ExitCode> ExportPackage(Session* session, const PackageOptions& options) {
  RETURN_IF_ERROR(session->CheckOneForm());
  ASSIGN_OR_RETURN(const std::vector<ExportedBest> bests, FetchBests(session, options.filter));
  ASSIGN_OR_RETURN(Connection* const connection, session->connection());
  ASSIGN_OR_RETURN(auto classes, ClassesById(connection));
  std::map<std::string, std::vector<ExportedBest>> by_kernel;
  for (const ExportedBest& best : bests) by_kernel[best.best.kernel_name()].push_back(best);
  Packager packager(connection, std::move(classes));
  std::vector<PackagedKernel> kernels;
  int64_t tuned = 0;
  for (const auto& [name, own] : by_kernel) {
    ASSIGN_OR_RETURN(const v1::Kernel definition, DefinitionOf(session, connection, options.filter.kernel, name));
    ASSIGN_OR_RETURN(PackagedKernel kernel, packager.Package(definition, own));
    const int64_t of_kernel = std::count_if(kernel.choices.begin(), kernel.choices.end(),
                                            [](const PackagedChoice& choice) { return !choice.is_default; });
    tuned += of_kernel;
    if (of_kernel > 0) kernels.push_back(std::move(kernel));
  }
  for (const std::string& text : packager.left_out()) session->Note("Left out " + text);
  if (tuned == 0) {
    return FailedPrecondition("nothing can be packaged{}{}", packager.left_out().empty() ? "" : "; ",
                              packager.left_out().empty() ? "" : packager.left_out().front());
  }
  ASSIGN_OR_RETURN(const std::string bytes, WritePackage(kernels, Clock::Real()->WallMs()));
  RETURN_IF_ERROR(session->WriteFile(options.file, bytes));
  session->Note(fmt::format("Wrote {} best config{} of {} kernel{} to {} ({} bytes)", FormatCount(tuned),
                            tuned == 1 ? "" : "s", kernels.size(), kernels.size() == 1 ? "" : "s", options.file,
                            FormatCount(static_cast<int64_t>(bytes.size()))));
  return kExitOk;
}

}  // namespace

void AddExportPackage(CLI::App* command, Session* session) {
  auto options = std::make_shared<PackageOptions>();
  CLI::App* package = command->add_subcommand(
      "package", "Best configs with their binaries, as a file that libtunefarm-launch launches.");
  SetExample(package,
             "tunefarm export package matmul.tfpack --kernel matmul\n"
             "tunefarm export package moe.tfpack --kernel grouped_gemm_forward --device H100 --dim dtype=bf16");
  package->add_option("FILE,-f,--file", options->file, "The file to write, replaced as a whole; '-' is stdout.")
      ->required();
  options->filter.AddTo(package);
  package->callback([=] { session->command = [=] { return ExportPackage(session, *options); }; });
}

}  // namespace tunefarm::cli
