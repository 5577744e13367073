#include "server/api/kernel_api.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/api/data_file_api.h"
#include "server/base/random.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/definition/kernel_plan.h"
#include "server/definition/launch_digest.h"
#include "server/definition/source_includes.h"
#include "server/definition/space_size.h"
#include "server/definition/value_proto.h"
#include "server/records/resource_names.h"
#include "server/space/space.h"
#include "server/space/space_limit.h"
#include "server/store/kernel_store.h"

namespace tunefarm {
namespace {

constexpr int kCompiledConfigsDefault = 16;
constexpr int kCompiledConfigsMax = 64;
// Each holds a thread of slow calls up.
constexpr int kCompileCallsMax = 2;
constexpr size_t kCompileLogBytesMax = 4096;
constexpr uint64_t kSampleSeed = 1;
// Of one answer, together.
constexpr uint64_t kBinariesBytesMax = 64ull << 20;
constexpr size_t kConfigTextMax = 1024;

// The stored kernel or the definition of a request.
template <typename Request>
absl::StatusOr<std::shared_ptr<const KernelPlan>> PlanOf(const Request& request, KernelRegistry* kernels) {
  if (request.has_kernel() == !request.name().empty()) {
    return WithReason(InvalidArgument("give either the name of a stored kernel or a definition"), "KERNEL_NOT_FOUND");
  }
  return request.has_kernel() ? KernelPlan::Compile(request.kernel()) : kernels->Get(request.name());
}

// Counts a call while it lasts.
class InFlight {
 public:
  explicit InFlight(std::atomic<int>* calls) : calls_(calls), number_(++*calls) {}
  ~InFlight() { --*calls_; }
  InFlight(const InFlight&) = delete;
  InFlight& operator=(const InFlight&) = delete;
  int number() const { return number_; }

 private:
  std::atomic<int>* const calls_;
  const int number_;
};

// The default config, which reference and baseline are compiled with, first; then valid configs only: those that differ
// from it in one parameter, the starting configs, and a sample.
absl::StatusOr<std::vector<Config>> ConfigsToCompile(const KernelPlan& plan, const ResolvedProblem& problem,
                                                     const Space& space, size_t configs_max) {
  std::vector<Config> configs = {plan.DefaultConfig(problem)};
  std::set<std::string> seen = {configs[0].ToText()};
  const auto add = [&](const Config& config) {
    if (configs.size() < configs_max && space.Contains(config) && seen.insert(config.ToText()).second) {
      configs.push_back(config);
    }
  };
  // One value of each parameter after the other, so that a bound leaves none of them out.
  size_t values_most = 0;
  for (const Parameter& parameter : space.parameters()) values_most = std::max(values_most, parameter.values.size());
  for (size_t value = 0; value < values_most && configs.size() < configs_max; ++value) {
    for (const Parameter& parameter : space.parameters()) {
      if (value >= parameter.values.size()) continue;
      Config config = configs[0];
      config.Set(parameter.name, parameter.values[value]);
      add(config);
    }
  }
  for (const Config& config : space.starting_configs()) add(config);
  PhiloxStream random(kSampleSeed);
  for (size_t draw = 0; draw < 2 * configs_max && configs.size() < configs_max; ++draw) {
    const absl::StatusOr<std::vector<uint16_t>> indices = space.SampleUniform(random);
    // What is left out of a sample shows nothing; a rule that cannot be evaluated does.
    if (absl::IsResourceExhausted(indices.status())) break;
    if (!indices.ok()) return indices.status();
    add(space.MakeConfig(*indices));
  }
  return configs;
}

// A config of a request as it was written, for messages.
std::string TextOf(const v1::Config& config) {
  std::string text;
  for (const auto& [name, value] : std::map<std::string, v1::Value>(config.values().begin(), config.values().end())) {
    const auto read = definition::FromProto(value);
    if (!text.empty()) text += ',';
    text += name + '=' + (read.ok() ? read->ToText() : "?");
    if (text.size() > kConfigTextMax) return text.substr(0, kConfigTextMax) + "...";
  }
  return text;
}

// The configs that a request lists.
absl::StatusOr<std::vector<Config>> ListedConfigs(const KernelPlan& plan, const v1::CompileKernelRequest& request) {
  if (request.configs_size() > kCompiledConfigsMax) {
    return WithReason(
        InvalidArgument("{} configs are listed; at most {} are compiled", request.configs_size(), kCompiledConfigsMax),
        "CONFIGS_MAX_INVALID");
  }
  std::vector<Config> configs;
  for (int i = 0; i < request.configs_size(); ++i) {
    absl::StatusOr<Config> config = plan.ParseConfig(request.configs(i));
    if (!config.ok()) {
      return WithReason(InvalidArgument("configs[{}] ({}) is no config of kernel '{}': {}", i,
                                        TextOf(request.configs(i)), plan.display_name(), MessageOf(config.status())),
                        "CONFIG_INVALID");
    }
    configs.push_back(*std::move(config));
  }
  return configs;
}

// The format that a request asks for, or gets where it names none.
absl::StatusOr<v1::BinaryFormat> FormatOf(const KernelPlan& plan, const v1::CompileKernelRequest& request) {
  const v1::BinaryFormat wanted = request.binary_format();
  const auto refused = [&plan](std::string_view why) {
    return WithReason(InvalidArgument("kernel '{}' {}", plan.display_name(), why), "BINARY_FORMAT_INVALID");
  };
  if (plan.language() == v1::LANGUAGE_PYTHON) {
    if (!request.with_binaries() && wanted == v1::BINARY_FORMAT_UNSPECIFIED) return wanted;
    return refused("is in Python, which has no binary");
  }
  if (plan.language() == v1::LANGUAGE_TRITON) {
    if (!request.with_binaries() && wanted == v1::BINARY_FORMAT_UNSPECIFIED) return wanted;
    return refused("is in Triton, whose binaries are not handed out yet");
  }
  const bool is_cuda = plan.language() == v1::LANGUAGE_CUDA;
  const v1::BinaryFormat own = is_cuda ? v1::BINARY_FORMAT_CUBIN : v1::BINARY_FORMAT_SHARED_OBJECT;
  if (wanted == v1::BINARY_FORMAT_UNSPECIFIED || wanted == own) return own;
  if (wanted == v1::BINARY_FORMAT_PTX && is_cuda) return wanted;
  return refused(is_cuda ? "is in CUDA: its binary is a cubin or PTX"
                         : "is in C++ for the CPU: its binary is a shared object");
}

// Parameters that were varied alone, and never to any effect.
std::vector<std::string> WithoutEffect(const CompileOrder& order, const std::vector<CompiledConfig>& compiled) {
  struct Varied {
    bool ever = false;
    bool has_effect = false;
  };
  std::map<std::string, Varied> varied;
  if (compiled.empty() || compiled[0].binary_digest.empty()) return {};
  const auto launches = [&order](const Config& config) -> std::string {
    const auto digest = LaunchDigest(*order.plan, *order.problem, config, order.device_class);
    return digest.ok() ? digest->Hex() : "unknown " + config.ToText();
  };
  const Config& usual = order.configs[0];
  const std::string usual_launches = launches(usual);
  for (size_t i = 1; i < order.configs.size() && i < compiled.size(); ++i) {
    std::string only;
    int differ = 0;
    for (const auto& [name, value] : order.configs[i]) {
      if (const Value* const other = usual.Find(name); other != nullptr && *other == value) continue;
      only = name;
      ++differ;
    }
    if (differ != 1) continue;
    Varied& one = varied[only];
    one.ever = true;
    one.has_effect = one.has_effect || compiled[i].binary_digest != compiled[0].binary_digest ||
                     launches(order.configs[i]) != usual_launches;
  }
  std::vector<std::string> names;
  for (const auto& [name, one] : varied) {
    if (one.ever && !one.has_effect) names.push_back(name);
  }
  return names;
}

// What became of a config; `compiled` is used up.
void AddCompiled(const CompileOrder& order, const Config& config, v1::BinaryFormat format, CompiledConfig* compiled,
                 v1::ConfigCompile* result) {
  *result->mutable_config() = order.plan->ToProto(config);
  result->set_outcome(compiled->outcome);
  result->set_message(compiled->message);
  result->set_log(compiled->log.substr(0, kCompileLogBytesMax));
  *result->mutable_resources() = compiled->resources;
  // Without constants it was not compiled, and says why.
  const auto constants = order.plan->Constants(*order.problem, config, order.device_class);
  if (constants.ok() && HasMacros(order.plan->language())) {
    for (const auto& [name, value] : AllMacros(order.plan->kernel(), *constants)) {
      v1::Macro* const macro = result->add_macros();
      macro->set_name(name);
      macro->set_value(value);
    }
  }
  if (compiled->binary_digest.empty()) return;
  result->set_binary(std::move(compiled->binary));
  result->mutable_lowered_names()->insert(compiled->lowered_names.begin(), compiled->lowered_names.end());
  result->set_binary_format(format);
  result->mutable_compile_options()->Add(compiled->compile_options.begin(), compiled->compile_options.end());
}

}  // namespace

std::string KernelOwner(const Principal& principal) { return principal.IsOfSocket() ? "" : principal.name; }

KernelRow OwnedKernel(const KernelPlan& plan, const std::string& owner, const KernelQuota& quota, int64_t now_ms) {
  KernelRow row = KernelRegistry::RowOf(plan, now_ms);
  row.owner = owner;
  row.owner_kernels_max = quota.kernels_max;
  row.owner_bytes_max = quota.bytes_max;
  return row;
}

absl::StatusOr<v1::CreateKernelResponse> KernelApi::CreateKernel(const Principal& principal,
                                                                 const v1::CreateKernelRequest& request) {
  ASSIGN_OR_RETURN(const auto plan, KernelPlan::Compile(request.kernel()));
  v1::CreateKernelResponse response;
  *response.mutable_kernel() = WithoutSources(plan->kernel());
  response.mutable_kernel()->set_name(KernelName(plan->kernel_id()));
  if (request.validate_only()) return response;
  RETURN_IF_ERROR(CheckDataFiles(plan->kernel(), data_files_));
  RETURN_IF_ERROR(store_->kernels()->PutKernel(OwnedKernel(*plan, KernelOwner(principal), quota_, clock_->WallMs())));
  kernels_->Stored(plan);
  return response;
}

absl::StatusOr<v1::DeleteKernelResponse> KernelApi::DeleteKernel(const Principal& principal,
                                                                 const v1::DeleteKernelRequest& request) {
  constexpr std::string_view kPrefix = "kernels/";
  const std::string_view name = request.name();
  if (name.substr(0, kPrefix.size()) != kPrefix || name.size() == kPrefix.size()) {
    return WithReason(
        InvalidArgument("'{}' does not name one stored definition; write kernels/ID", name.substr(0, 256)),
        "NAME_INVALID");
  }
  const std::string_view kernel_id = name.substr(kPrefix.size());
  const std::optional<std::string> owner =
      principal.Has(Right::kAdmin) ? std::nullopt : std::make_optional(KernelOwner(principal));
  const absl::Status deleted = store_->kernels()->DeleteKernel(kernel_id, owner, clock_->WallMs());
  if (absl::IsNotFound(deleted)) {
    return WithReason(NotFound("there is no kernel '{}'; it may have been deleted", name.substr(0, 256)),
                      "KERNEL_NOT_FOUND");
  }
  RETURN_IF_ERROR(deleted);
  kernels_->Deleted(kernel_id);
  return v1::DeleteKernelResponse();
}

absl::StatusOr<v1::GetKernelResponse> KernelApi::GetKernel(const v1::GetKernelRequest& request) {
  ASSIGN_OR_RETURN(const auto plan, kernels_->Get(request.name()));
  v1::GetKernelResponse response;
  *response.mutable_kernel() = request.include_sources() ? plan->kernel() : WithoutSources(plan->kernel());
  response.mutable_kernel()->set_name(KernelName(plan->kernel_id()));
  return response;
}

absl::StatusOr<v1::ListKernelsResponse> KernelApi::ListKernels(const v1::ListKernelsRequest& request) {
  ASSIGN_OR_RETURN(const int size, PageSize(request.page_size()));
  ASSIGN_OR_RETURN(const Page<KernelRow> page, store_->kernels()->ListKernels({size, request.page_token()}));
  v1::ListKernelsResponse response;
  for (const KernelRow& row : page.rows) {
    ASSIGN_OR_RETURN(v1::Kernel kernel, KernelRegistry::KernelOf(row));
    *response.add_kernels() = WithoutSources(std::move(kernel));
  }
  response.set_next_page_token(page.next_page_token);
  return response;
}

absl::StatusOr<v1::CountSpaceResponse> KernelApi::CountSpace(const v1::CountSpaceRequest& request,
                                                             const WorkGrant& grant) {
  ASSIGN_OR_RETURN(const auto plan, PlanOf(request, kernels_));
  ASSIGN_OR_RETURN(const SelectedDevice device, devices_->Resolve(request.device_selector(), *plan, true));
  ASSIGN_OR_RETURN(const ResolvedProblem problem, plan->ResolveProblem(request.problem()));
  ASSIGN_OR_RETURN(const Space space, plan->BuildSpace(problem, device.device_class,
                                                       {.limit = MakeSpaceLimit(plan->display_name(), grant)}));
  v1::CountSpaceResponse response;
  ASSIGN_OR_RETURN(*response.mutable_space(), SizeOfSpace(space));
  response.set_device_class_name(device.device_class.display_name);
  return response;
}

absl::StatusOr<v1::CompileKernelResponse> KernelApi::CompileKernel(const v1::CompileKernelRequest& request,
                                                                   const WorkGrant& grant) {
  if (request.configs_max() < 0 || request.configs_max() > kCompiledConfigsMax) {
    return WithReason(
        InvalidArgument("configs_max is {}, it must be between 0 and {}", request.configs_max(), kCompiledConfigsMax),
        "CONFIGS_MAX_INVALID");
  }
  CompileOrder order;
  ASSIGN_OR_RETURN(order.plan, PlanOf(request, kernels_));
  ASSIGN_OR_RETURN(const SelectedDevice device, devices_->Resolve(request.device_selector(), *order.plan, true));
  ASSIGN_OR_RETURN(ResolvedProblem problem, order.plan->ResolveProblem(request.problem()));
  RETURN_IF_ERROR(order.plan->CheckProblem(problem, device.device_class));
  ASSIGN_OR_RETURN(const v1::BinaryFormat format, FormatOf(*order.plan, request));
  order.ptx = format == v1::BINARY_FORMAT_PTX;
  if (request.with_binaries()) order.binaries_bytes_max = kBinariesBytesMax;
  order.problem = std::make_shared<const ResolvedProblem>(std::move(problem));
  order.device_class = device.device_class;
  const bool is_sample = request.configs().empty();
  if (is_sample) {
    ASSIGN_OR_RETURN(const Space space,
                     order.plan->BuildSpace(*order.problem, device.device_class,
                                            {.limit = MakeSpaceLimit(order.plan->display_name(), grant)}));
    const size_t configs_max =
        static_cast<size_t>(request.configs_max() == 0 ? kCompiledConfigsDefault : request.configs_max());
    ASSIGN_OR_RETURN(order.configs, ConfigsToCompile(*order.plan, *order.problem, space, configs_max));
  } else {
    ASSIGN_OR_RETURN(order.configs, ListedConfigs(*order.plan, request));
  }
  if (!compile_configs_) {
    return WithReason(FailedPrecondition("this daemon compiles nothing: it has no compile workers"), "NO_COMPILER");
  }
  const InFlight in_flight(&compile_calls_);
  if (in_flight.number() > kCompileCallsMax) {
    return WithReason(ResourceExhausted("{} other calls compile kernels; try again later", kCompileCallsMax),
                      "TOO_MANY_COMPILES");
  }
  ASSIGN_OR_RETURN(std::vector<CompiledConfig> compiled, compile_configs_(order));
  v1::CompileKernelResponse response;
  response.set_device_class_name(device.device_class.display_name);
  if (is_sample) {
    for (std::string& name : WithoutEffect(order, compiled)) response.add_parameters_without_effect(std::move(name));
  }
  uint64_t binaries_bytes = 0;
  for (size_t i = 0; i < order.configs.size() && i < compiled.size(); ++i) {
    binaries_bytes += compiled[i].binary_bytes;
    if (request.with_binaries() && binaries_bytes > kBinariesBytesMax) {
      return WithReason(
          ResourceExhausted("the binaries have more than {} MiB together: that of config {} ({}) is one too many; ask "
                            "for fewer at a time",
                            kBinariesBytesMax >> 20, i, order.configs[i].ToText()),
          "BINARIES_TOO_LARGE");
    }
    if (response.toolchain().empty()) response.set_toolchain(compiled[i].toolchain);
    AddCompiled(order, order.configs[i], format, &compiled[i], response.add_configs());
  }
  return response;
}

}  // namespace tunefarm
