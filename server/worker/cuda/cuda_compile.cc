#include "server/worker/cuda/cuda_compile.h"

#include <fmt/core.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <set>
#include <utility>

#include "server/base/clock.h"
#include "server/base/file_set.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/definition/source_includes.h"
#include "server/worker/cuda/ptxas_log.h"
#include "server/worker/cuda/standard_headers.h"
#include "server/worker/cuda/toolkit_headers.h"

namespace tunefarm::cuda {
namespace {

using tunefarm::worker::v1::Result;

constexpr size_t kLogBytesMax = 32 * 1024;
constexpr const char* kDetails = "--ptxas-options=-v";
// No source of a definition can have this path.
constexpr const char* kConfigHeaderPath = "../tunefarm_config.h";

constexpr Sequence kSequences[] = {Sequence::kLaunches, Sequence::kPreparePerProblem, Sequence::kPreparePerConfig,
                                   Sequence::kReference, Sequence::kBaseline};

// Whether an option that begins so (with one dash or two) is among them.
bool HasOption(const std::vector<std::string>& options, std::string_view name) {
  return std::any_of(options.begin(), options.end(), [name](std::string_view option) {
    option.remove_prefix(std::min(option.find_first_not_of('-'), option.size()));
    return option.substr(0, name.size()) == name;
  });
}

void AddIfMissing(std::vector<std::string>* options, std::string_view name, std::string option) {
  if (!HasOption(*options, name)) options->push_back(std::move(option));
}

// Whether NVRTC's own first lines, or the toolkit's headers, may ask for a macro of this name.
bool ConfiguresLibraries(std::string_view macro) {
  return macro == "NDEBUG" || macro.front() == '_' || macro.substr(0, 2) == "CU" || macro.substr(0, 2) == "NV";
}

// What the binary needs: the largest of the launches' entries.
void SetResources(const PreparedKernel& kernel, const NvrtcOutput& output, v1::ResourceUse* resources) {
  const std::map<std::string, PtxasUse> uses = ParsePtxasLog(output.log);
  PtxasUse largest;
  for (const std::string& entry : kernel.plan->Entries(Sequence::kLaunches)) {
    const auto lowered = output.lowered_names.find(entry);
    const auto use = lowered == output.lowered_names.end() ? uses.end() : uses.find(lowered->second);
    if (use == uses.end()) continue;
    largest.registers = std::max(largest.registers, use->second.registers);
    largest.spill_bytes = std::max(largest.spill_bytes, use->second.spill_bytes);
    largest.stack_bytes = std::max(largest.stack_bytes, use->second.stack_bytes);
    largest.static_shared_bytes = std::max(largest.static_shared_bytes, use->second.static_shared_bytes);
  }
  resources->set_registers(largest.registers);
  resources->set_spill_bytes(largest.spill_bytes);
  resources->set_local_bytes(largest.stack_bytes);
  resources->set_static_shared_bytes(largest.static_shared_bytes);
  resources->set_binary_bytes(static_cast<int64_t>(output.binary.size()));
}

// The next `seconds` of processor time are all that is left; the one after ends this process with SIGXCPU.
void LimitProcessorTime(int seconds) {
  rusage used;
  rlimit limit;
  if (seconds <= 0 || getrusage(RUSAGE_SELF, &used) != 0 || getrlimit(RLIMIT_CPU, &limit) != 0) return;
  const rlim_t end = static_cast<rlim_t>(used.ru_utime.tv_sec + used.ru_stime.tv_sec + seconds);
  limit.rlim_cur = std::min(limit.rlim_max, end);
  (void)setrlimit(RLIMIT_CPU, &limit);
}

class CudaCompileBackend final : public CompileBackend {
 public:
  CudaCompileBackend(std::unique_ptr<Nvrtc> nvrtc, int compile_seconds)
      : nvrtc_(std::move(nvrtc)), toolkit_headers_(nvrtc_->include_directories()), compile_seconds_(compile_seconds) {}

  // With the file that the library's names lead to and its size: its version has no third number, and binaries are kept
  // for one compiler and its headers.
  std::string toolchain() const override {
    std::error_code error;
    const std::filesystem::path file = std::filesystem::canonical(nvrtc_->path(), error);
    if (error) return fmt::format("NVRTC {} ({})", nvrtc_->version(), nvrtc_->path());
    const uint64_t bytes = std::filesystem::file_size(file, error);
    return fmt::format("NVRTC {} ({}, {} bytes; headers {:08x})", nvrtc_->version(), file.string(), error ? 0 : bytes,
                       StandardHeadersVersion());
  }

  Result Compile(const PreparedKernel& kernel, const Config& config, PhaseReporter* reporter,
                 std::string* artifact) override {
    return CompileTo(Target::kCubin, kernel, config, reporter, artifact);
  }
  Result CompilePtx(const PreparedKernel& kernel, const Config& config, PhaseReporter* reporter,
                    std::string* artifact) override {
    return CompileTo(Target::kPtx, kernel, config, reporter, artifact);
  }

 private:
  Result CompileTo(Target target, const PreparedKernel& kernel, const Config& config, PhaseReporter* reporter,
                   std::string* artifact) {
    reporter->Begin(v1::PHASE_COMPILE);
    const MonotonicTime start = Clock::Real()->Now();
    LimitProcessorTime(compile_seconds_);
    Result result;
    result.set_phase(v1::PHASE_COMPILE);
    const absl::StatusOr<NvrtcInput> input =
        PlanCompile(kernel, config, nvrtc_->include_directories(), nvrtc_->major(), target);
    if (!input.ok()) {
      result.set_outcome(v1::OUTCOME_COMPILE_ERROR);
      result.set_message(std::string(MessageOf(input.status())));
      return result;
    }
    const int64_t begun_ms = Clock::Real()->WallMs();
    NvrtcOutput output = nvrtc_->Compile(*input);
    if (output.outcome == v1::OUTCOME_COMPILE_ERROR && FirstErrorLine(output.log).empty()) {
      // Asked for details, the assembler keeps its errors to itself.
      NvrtcInput terse = *input;
      terse.options.erase(std::remove(terse.options.begin(), terse.options.end(), kDetails), terse.options.end());
      output = nvrtc_->Compile(terse);
    }
    result.set_outcome(output.outcome);
    result.set_message(output.message);
    if (output.outcome == v1::OUTCOME_COMPILE_ERROR) {
      const auto constants = kernel.plan->Constants(kernel.problem, config, kernel.device_class);
      if (constants.ok()) {
        *result.mutable_message() += HintOfConstantsInLibraries(kernel.plan->kernel(), *constants, output.log);
      }
    }
    if (output.outcome == v1::OUTCOME_OK) {
      // PTX has no registers yet.
      if (target == Target::kCubin) SetResources(kernel, output, result.mutable_resources());
      result.mutable_compile_options()->Add(input->options.begin(), input->options.end());
      for (const auto& [name, lowered] : output.lowered_names) (*result.mutable_lowered_names())[name] = lowered;
      result.set_has_artifact(true);
      SetInputs(ReadFileSet(toolkit_headers_.ReachableFrom(*input), begun_ms), result.mutable_inputs());
      *artifact = std::move(output.binary);
    }
    std::string log = WithoutResourceLines(output.log);
    if (log.size() > kLogBytesMax) {
      log.resize(kLogBytesMax - 64);
      log += "\n(the log is longer; the rest was cut)\n";
    }
    result.set_log(std::move(log));
    result.set_compile_ms(std::chrono::duration<double, std::milli>(Clock::Real()->Now() - start).count());
    return result;
  }

  const std::unique_ptr<Nvrtc> nvrtc_;
  ToolkitHeaders toolkit_headers_;
  const int compile_seconds_;
};

}  // namespace

std::string ArchitectureOf(const PreparedKernel& kernel, Target target) {
  const v1::ResourceEstimate& resources = kernel.plan->kernel().resources();
  // There are such targets from 9.0 on; a kernel that runs on older devices too is compiled for those as usual.
  const int capability = kernel.device_class.compute_capability;
  const bool specific = resources.architecture_specific() || resources.exact_compute_capability() != 0;
  return fmt::format("{}_{}{}", target == Target::kPtx ? "compute" : "sm", capability,
                     specific && capability >= 90 ? "a" : "");
}

absl::StatusOr<NvrtcInput> PlanCompile(const PreparedKernel& kernel, const Config& config,
                                       const std::vector<std::string>& include_directories, int nvrtc_major,
                                       Target target) {
  const KernelPlan& plan = *kernel.plan;
  if (plan.kernel().sources().empty()) return InvalidArgument("the definition has no source");
  ASSIGN_OR_RETURN(const auto constants, plan.Constants(kernel.problem, config, kernel.device_class));
  NvrtcInput input;
  const v1::Kernel& definition = plan.kernel();
  input.name = definition.sources(0).path();
  input.source = WithFullIncludePaths(definition, definition.sources(0));
  std::set<std::string_view> own = {definition.sources(0).path()};
  for (int i = 1; i < definition.sources_size(); ++i) {
    own.insert(definition.sources(i).path());
    input.headers.emplace_back(definition.sources(i).path(), WithFullIncludePaths(definition, definition.sources(i)));
  }
  for (const auto& [name, content] : StandardHeaders()) {
    if (own.count(name) == 0) input.headers.emplace_back(name, content);
  }
  // As options macros would come before NVRTC's own first lines and break them.
  std::string config_header;
  std::vector<std::string>& options = input.options;
  for (const std::string& option : definition.compile_options()) {
    const auto macro = MacroOfOption(option);
    if (macro.has_value() && !ConfiguresLibraries(macro->first)) {
      config_header += DefineLine(*macro);
    } else {
      options.push_back(option);
    }
  }
  config_header += ConfigHeader(definition, constants);
  input.headers.emplace_back(kConfigHeaderPath, std::move(config_header));
  options.push_back(fmt::format("--pre-include={}", kConfigHeaderPath));
  options.insert(options.end(), kernel.compile_options.begin(), kernel.compile_options.end());
  options.push_back("--gpu-architecture=" + ArchitectureOf(kernel, target));
  input.ptx = target == Target::kPtx;
  if (!input.ptx) options.push_back(kDetails);
  AddIfMissing(&options, "std=", "--std=c++20");
  AddIfMissing(&options, "default-device", "--device-as-default-execution-space");
  // Binaries are cached by content elsewhere, and a worker may write nowhere.
  if (nvrtc_major >= 13) options.push_back("--no-cache");
  for (const std::string& directory : include_directories) options.push_back("-I" + directory);

  // Entries of the reference too: the default config's binary serves as the reference's.
  std::set<std::string> names;
  for (const Sequence sequence : kSequences) {
    for (const std::string& entry : plan.Entries(sequence)) names.insert(entry);
  }
  // Naming a constant keeps it in the binary although nothing may read it. Mangled names cannot be written in C++.
  for (const v1::Argument& argument : plan.kernel().arguments()) {
    const std::string& symbol = argument.constant_symbol().symbol();
    if (argument.has_constant_symbol() && symbol.substr(0, 2) != "_Z") names.insert("&" + symbol);
  }
  input.name_expressions.assign(names.begin(), names.end());
  return input;
}

}  // namespace tunefarm::cuda

namespace tunefarm {

absl::StatusOr<std::unique_ptr<CompileBackend>> MakeCudaCompileBackend(const WorkerOptions& options) {
  ASSIGN_OR_RETURN(auto nvrtc, cuda::Nvrtc::Open(cuda::ProcessSearchPlaces(options.cuda_path)));
  return std::make_unique<cuda::CudaCompileBackend>(std::move(nvrtc), options.compile_seconds);
}

}  // namespace tunefarm
