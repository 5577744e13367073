// Problems: defaults, checks and the canonical key.
#include <fmt/core.h>

#include <algorithm>
#include <tuple>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/definition/field_error.h"
#include "server/definition/plan_impl.h"
#include "server/definition/value_proto.h"

namespace tunefarm {

v1::Problem ResolvedProblem::ToProto() const {
  v1::Problem proto;
  for (const auto& [name, value] : dims) (*proto.mutable_dims())[name] = definition::ToProto(value);
  for (const auto& [name, value] : pinned) (*proto.mutable_pinned())[name] = definition::ToProto(value);
  for (const uint64_t seed : input_seeds) proto.add_input_seeds(seed);
  proto.set_key(key);
  return proto;
}

namespace definition {
namespace {

constexpr int kSeedsMax = 8;
constexpr int kPinnedMax = 64;

// The least of the names that are not known, because the first error must not depend on the order of a map; null where
// all are.
template <typename Map, typename IsKnown>
const std::string* FirstUnknown(const Map& map, const IsKnown& is_known) {
  const std::string* first = nullptr;
  for (const auto& [name, value] : map) {
    if (!is_known(name) && (first == nullptr || name < *first)) first = &name;
  }
  return first;
}

std::string EntryPath(std::string_view field, const std::string& name) {
  return fmt::format("{}[\"{}\"]", field, name.substr(0, 64));
}

absl::Status CheckNames(const v1::Problem& problem, const KernelPlanAccess::Impl& impl) {
  const auto is_dim = [&](const std::string& name) { return impl.DimIndex(name) >= 0; };
  const auto is_parameter = [&](const std::string& name) { return impl.ParameterIndex(name) >= 0; };
  if (const std::string* const name = FirstUnknown(problem.dims(), is_dim)) {
    std::vector<std::string> dims;
    for (const auto& dim : impl.dims) dims.push_back(dim.name);
    return FieldError(EntryPath("dims", *name), kUnknownDim, "kernel '{}' has no dim '{}'{}",
                      impl.kernel.display_name(), name->substr(0, 64),
                      is_parameter(*name) ? "; it is a parameter, to be pinned" : DidYouMean(*name, dims));
  }
  if (const std::string* const name = FirstUnknown(problem.pinned(), is_parameter)) {
    std::vector<std::string> parameters;
    for (const auto& parameter : impl.parameters) parameters.push_back(parameter.parameter.name);
    return FieldError(EntryPath("pinned", *name), kUnknownParameter, "kernel '{}' has no parameter '{}'{}",
                      impl.kernel.display_name(), name->substr(0, 64),
                      is_dim(*name) ? "; it is a dim" : DidYouMean(*name, parameters));
  }
  return absl::OkStatus();
}

absl::Status ResolveDims(const v1::Problem& problem, const KernelPlanAccess::Impl& impl, Config* dims) {
  for (const DimPlan& dim : impl.dims) {
    const auto given = problem.dims().find(dim.name);
    if (given == problem.dims().end()) {
      if (!dim.default_value.has_value()) {
        return FieldError("dims", kMissingField, "kernel '{}' needs a value for dim '{}'", impl.kernel.display_name(),
                          dim.name);
      }
      dims->Set(dim.name, *dim.default_value);
      continue;
    }
    auto value = FromWritten(given->second, dim.type);
    if (!value.ok()) return FieldError(EntryPath("dims", dim.name), kTypeMismatch, "{}", MessageOf(value.status()));
    if (const std::string wrong = dim.WhyNot(*value); !wrong.empty()) {
      return FieldError(EntryPath("dims", dim.name), kValueOutOfRange, "{}", wrong);
    }
    dims->Set(dim.name, *std::move(value));
  }
  return absl::OkStatus();
}

absl::Status ResolvePins(const v1::Problem& problem, const KernelPlanAccess::Impl& impl, Config* pinned) {
  if (problem.pinned().empty()) return absl::OkStatus();  // as nearly always
  for (const ParameterPlan& parameter : impl.parameters) {
    const std::string& name = parameter.parameter.name;
    const auto given = problem.pinned().find(name);
    if (given == problem.pinned().end()) continue;
    const std::string path = EntryPath("pinned", name);
    auto value = FromWritten(given->second, parameter.type);
    if (!value.ok()) return FieldError(path, kTypeMismatch, "{}", MessageOf(value.status()));
    if (parameter.texts.count(value->ToText()) == 0) {
      return FieldError(path, kValueOutOfRange, "{} is not one of the values of parameter '{}'", value->ToLiteral(),
                        name);
    }
    pinned->Set(name, *std::move(value));
  }
  return absl::OkStatus();
}

absl::Status ResolveSeeds(const v1::Problem& problem, std::vector<uint64_t>* seeds) {
  for (int i = 0; i < problem.input_seeds_size(); ++i) {
    const uint64_t seed = problem.input_seeds(i);
    if (std::find(seeds->begin(), seeds->end(), seed) != seeds->end()) {
      return FieldError(fmt::format("input_seeds[{}]", i), kDuplicateName, "seed {} is listed twice", seed);
    }
    seeds->push_back(seed);
  }
  if (seeds->empty()) seeds->push_back(1);
  return absl::OkStatus();
}

std::string KeyOf(const ResolvedProblem& problem) {
  std::string key = problem.dims.ToText();
  if (problem.input_seeds != std::vector<uint64_t>{1}) {
    key += "|seeds=";
    for (size_t i = 0; i < problem.input_seeds.size(); ++i) {
      key += fmt::format("{}{}", i == 0 ? "" : ",", problem.input_seeds[i]);
    }
  }
  if (!problem.pinned.empty()) key += "|pinned:" + problem.pinned.ToText();
  return key;
}

}  // namespace

absl::StatusOr<ResolvedProblem> ResolveProblem(const KernelPlanAccess::Impl& impl, const v1::Problem& problem) {
  for (const auto& [field, size, most] :
       {std::tuple<std::string_view, size_t, int>{"dims", problem.dims().size(), kDimsMax},
        {"input_seeds", static_cast<size_t>(problem.input_seeds_size()), kSeedsMax},
        {"pinned", problem.pinned().size(), kPinnedMax}}) {
    if (size > static_cast<size_t>(most)) {
      return FieldError(field, kLimitExceeded, "{} entries are too many; at most {} are allowed", size, most);
    }
  }
  ResolvedProblem resolved;
  RETURN_IF_ERROR(CheckNames(problem, impl));
  RETURN_IF_ERROR(ResolveDims(problem, impl, &resolved.dims));
  RETURN_IF_ERROR(ResolvePins(problem, impl, &resolved.pinned));
  RETURN_IF_ERROR(ResolveSeeds(problem, &resolved.input_seeds));
  resolved.key = KeyOf(resolved);
  // What depends on dims alone is evaluated now, so that a problem that cannot be set up is refused before it is
  // queued.
  const std::vector<Value> slots = impl.DimSlots(resolved);
  RETURN_IF_ERROR(impl.EvaluateTolerance(slots).status());
  for (const BufferFormula& buffer : impl.buffers) {
    if (!IsOfProblem(buffer.length->uses)) continue;
    RETURN_IF_ERROR(impl.EvaluateBufferSize(buffer, resolved, slots).status());
  }
  return resolved;
}

absl::Status CheckDataFiles(const KernelPlanAccess::Impl& impl, const ResolvedProblem& problem) {
  const std::vector<Value> slots = impl.Slots(problem, nullptr, nullptr, nullptr);
  for (const BufferFormula& formula : impl.buffers) {
    if (!formula.fill.has_file() && !formula.expected.has_value()) continue;
    ASSIGN_OR_RETURN(const BufferPlan buffer, impl.EvaluateBuffer(formula, problem, slots));
    RETURN_IF_ERROR(CheckFilesOf(formula, buffer));
  }
  return absl::OkStatus();
}

}  // namespace definition
}  // namespace tunefarm
