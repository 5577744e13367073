#include "client/cli/bests/best_binary.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "client/cli/options/problem_options.h"
#include "server/base/hash.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/definition/launch_summary.h"
#include "server/definition/source_includes.h"
#include "server/device/device_class.h"

namespace tunefarm::cli {
namespace {

using Kernels = v1::KernelService::StubInterface;

// More than the daemon's own.
constexpr Duration kCompilePatience = std::chrono::seconds(120);

absl::StatusOr<std::shared_ptr<const KernelPlan>> StoredPlan(Session* session, const std::string& name) {
  ASSIGN_OR_RETURN(Connection* const connection, session->connection());
  v1::GetKernelRequest request;
  request.set_name(name);
  request.set_include_sources(true);
  ASSIGN_OR_RETURN(const v1::GetKernelResponse response,
                   Connection::Call(connection->kernels(), &Kernels::GetKernel, request));
  return KernelPlan::Compile(response.kernel());
}

// The definition that the best is one of: the one in the user's file, where it is the same program, else the stored
// one. Sets `request` to name it.
absl::StatusOr<std::shared_ptr<const KernelPlan>> AnsweringPlan(Session* session, const KernelArgument& kernel,
                                                                const v1::LookupConfigResponse& response,
                                                                v1::CompileKernelRequest* request) {
  const v1::BestConfig& best = response.best();
  if (kernel.definition.has_value()) {
    ASSIGN_OR_RETURN(auto plan, KernelPlan::Compile(*kernel.definition));
    // A default config has no program: it is that of the file (TakeOwnDefault).
    if (best.program_digest().empty() || best.program_digest() == plan->program_digest()) {
      *request->mutable_kernel() = *kernel.definition;
      return plan;
    }
  }
  const std::string name = !best.kernel_id().empty()    ? "kernels/" + best.kernel_id()
                           : !response.kernel().empty() ? response.kernel()
                                                        : kernel.name;
  request->set_name(name);
  auto plan = StoredPlan(session, name);
  if (ReasonOf(plan.status()) == "KERNEL_NOT_FOUND" && !best.kernel_id().empty()) {
    return FailedPrecondition("{}, whose config this is, is not stored any more; tune {} again",
                              VersionText(best.kernel_name(), best.kernel_id()), best.kernel_name());
  }
  return plan;
}

// A part of a // comment: in one line that does not go on in the next.
std::string ForComment(std::string_view text) {
  std::string shown = Visible(text);
  std::replace(shown.begin(), shown.end(), '\\', '/');
  return shown;
}

std::string RunTimeValues(const AnsweredConfig& answered) {
  std::string text;
  const auto add = [&text](const std::string& name, const Value& value) {
    text += fmt::format("//   {} = {}\n", name, ForComment(value.ToText()));
  };
  for (const v1::Dim& dim : answered.plan->kernel().dims()) {
    const Value* const value = answered.problem.dims.Find(dim.name());
    if (dim.bind() == v1::BIND_RUN && value != nullptr) add(dim.name(), *value);
  }
  for (const v1::Parameter& parameter : answered.plan->kernel().parameters()) {
    const Value* const value = answered.config.Find(parameter.name());
    if (parameter.bind() == v1::BIND_RUN && value != nullptr) add(parameter.name(), *value);
  }
  // One that cannot be evaluated is none that a launch needs.
  const auto derived = answered.plan->DerivedValues(answered.problem, answered.config, answered.device_class);
  if (derived.ok()) {
    for (int i = 0; i < answered.plan->kernel().derived_size(); ++i) {
      if (answered.plan->kernel().derived(i).bind() != v1::BIND_RUN) continue;
      add((*derived)[static_cast<size_t>(i)].first, (*derived)[static_cast<size_t>(i)].second);
    }
  }
  return text;
}

std::string JsonOf(const Value& value) {
  if (value.is_string()) return JsonString(value.string_value());
  if (value.is_bool()) return value.bool_value() ? "true" : "false";
  return value.ToText();
}

std::string JsonOf(const LaunchFormula& formula) {
  return JsonObject({{"value", formula.value.has_value() ? JsonOf(*formula.value) : "null"},
                     {"expression", JsonString(formula.expression)}});
}

std::string JsonOf(const std::optional<LaunchFormula>& formula) {
  return formula.has_value() ? JsonOf(*formula) : "null";
}

std::string JsonOf(const std::vector<LaunchFormula>& formulas) {
  std::vector<std::string> items;
  for (const LaunchFormula& formula : formulas) items.push_back(JsonOf(formula));
  return JsonList(items);
}

std::string JsonOf(const LaunchSummary& launch) {
  const std::string_view kind = launch.kind == StepPlan::Kind::kKernel   ? "kernel"
                                : launch.kind == StepPlan::Kind::kMemset ? "memset"
                                                                         : "library_op";
  JsonFields fields = {{"kind", JsonString(kind)}, {"name", JsonString(launch.name)}, {"when", JsonOf(launch.when)}};
  if (launch.kind == StepPlan::Kind::kKernel) {
    std::vector<std::string> arguments;
    for (const LaunchArgument& argument : launch.arguments) {
      arguments.push_back(JsonObject({{"name", JsonString(argument.name)}, {"scalar", JsonOf(argument.scalar)}}));
    }
    fields.insert(fields.end(), {{"entry", JsonString(launch.entry)},
                                 {"grid", JsonOf(launch.grid)},
                                 {"block", JsonOf(launch.block)},
                                 {"cluster", JsonOf(launch.cluster)},
                                 {"dynamic_shared_bytes", JsonOf(launch.dynamic_shared_bytes)},
                                 {"arguments", JsonList(arguments)}});
  }
  return JsonObject(fields);
}

std::string BinaryJson(const v1::CompileKernelResponse& compiled) {
  const v1::ConfigCompile& one = compiled.configs(0);
  JsonFields entries;
  for (const auto& [entry, symbol] :
       std::map<std::string, std::string>(one.lowered_names().begin(), one.lowered_names().end())) {
    entries.emplace_back(entry, JsonString(symbol));
  }
  return JsonObject({{"format", JsonString(v1::BinaryFormat_Name(one.binary_format()))},
                     {"bytes", fmt::format("{}", one.binary().size())},
                     {"sha256", JsonString(Sha256(one.binary()).Hex())},
                     {"toolchain", JsonString(compiled.toolchain())},
                     {"entries", JsonObject(entries)},
                     {"resources", ToJson(one.resources())}});
}

}  // namespace

absl::StatusOr<AnsweredConfig> FindAnsweredConfig(Session* session, const KernelArgument& kernel,
                                                  const v1::Problem& problem, const std::string& device,
                                                  const v1::LookupConfigResponse& response) {
  if (!response.has_device_class()) {
    return FailedPrecondition("the daemon is of a version that does not say what a config is compiled to; update it");
  }
  AnsweredConfig answered;
  ASSIGN_OR_RETURN(answered.plan, AnsweringPlan(session, kernel, response, &answered.request));
  ASSIGN_OR_RETURN(answered.problem, answered.plan->ResolveProblem(problem));
  ASSIGN_OR_RETURN(answered.device_class, DeviceClass::FromProto(response.device_class()));
  ASSIGN_OR_RETURN(answered.config, answered.plan->ParseConfig(response.best().config()));
  if (HasMacros(answered.plan->language())) {
    ASSIGN_OR_RETURN(answered.constants,
                     answered.plan->Constants(answered.problem, answered.config, answered.device_class));
  }
  *answered.request.mutable_problem() = problem;
  answered.request.set_device_selector(device);
  *answered.request.add_configs() = response.best().config();
  return answered;
}

absl::StatusOr<std::string> DefinesText(const AnsweredConfig& answered) {
  const v1::Kernel& definition = answered.plan->kernel();
  if (!HasMacros(definition.language())) {
    return InvalidArgument("{} is in {}, which has no macros; write -o json", definition.display_name(),
                           definition.language() == v1::LANGUAGE_TRITON ? "Triton" : "Python");
  }
  std::string text = fmt::format(
      "// {}  {}  on  {}\n//   {}\n// To be read before {}: the compiler's option -include.\n",
      definition.display_name(), ForComment(answered.problem.key), ForComment(answered.device_class.display_name),
      ForComment(answered.config.ToText()), ForComment(definition.sources(0).path()));
  if (const std::string values = RunTimeValues(answered); !values.empty()) {
    text += "// Known at run time, and no macros:\n" + values;
  }
  const std::vector<std::pair<std::string, std::string>> macros = AllMacros(definition, {});
  if (!macros.empty()) text += "// The macros of the definition's compile_options.\n";
  for (const auto& macro : macros) text += DefineLine(macro);
  return text + ConfigHeader(definition, answered.constants);
}

absl::StatusOr<v1::CompileKernelResponse> CompileAnswered(Session* session, const AnsweredConfig& answered,
                                                          v1::BinaryFormat format) {
  v1::CompileKernelRequest request = answered.request;
  request.set_with_binaries(true);
  request.set_binary_format(format);
  ASSIGN_OR_RETURN(Connection* const connection, session->connection());
  ASSIGN_OR_RETURN(v1::CompileKernelResponse response,
                   Connection::Call(connection->kernels(), &Kernels::CompileKernel, request, kCompilePatience));
  if (response.configs_size() != 1) {
    return FailedPrecondition("the daemon is of a version that compiles no chosen config; update it");
  }
  const v1::ConfigCompile& one = response.configs(0);
  if (one.outcome() != v1::OUTCOME_OK) {
    return FailedPrecondition("the config does not compile for {} ({}): {}", response.device_class_name(),
                              v1::Outcome_Name(one.outcome()).substr(std::string_view("OUTCOME_").size()),
                              one.message());
  }
  if (one.binary().empty()) {
    return FailedPrecondition("the daemon is of a version that hands out no binaries; update it");
  }
  return response;
}

absl::StatusOr<std::string> AnswerJson(const v1::LookupConfigResponse& response, const AnsweredConfig& answered,
                                       const v1::CompileKernelResponse* compiled) {
  std::vector<std::string> options(answered.plan->kernel().compile_options().begin(),
                                   answered.plan->kernel().compile_options().end());
  if (compiled != nullptr && compiled->configs(0).compile_options_size() > 0) {
    options.assign(compiled->configs(0).compile_options().begin(), compiled->configs(0).compile_options().end());
  }
  std::vector<std::string> macros, launches, quoted;
  if (HasMacros(answered.plan->language())) {
    for (const auto& [name, value] : AllMacros(answered.plan->kernel(), answered.constants)) {
      macros.push_back(JsonObject({{"name", JsonString(name)}, {"value", JsonString(value)}}));
    }
    ASSIGN_OR_RETURN(const std::vector<LaunchSummary> summaries,
                     SummarizeLaunches(*answered.plan, answered.problem, answered.config, answered.device_class));
    for (const LaunchSummary& launch : summaries) launches.push_back(JsonOf(launch));
  }
  for (const std::string& option : options) quoted.push_back(JsonString(option));
  return WithFields(ToJson(response), {{"macros", JsonList(macros)},
                                       {"compile_options", JsonList(quoted)},
                                       {"launches", JsonList(launches)},
                                       {"binary", compiled == nullptr ? "null" : BinaryJson(*compiled)}});
}

}  // namespace tunefarm::cli
