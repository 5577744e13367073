#include "server/definition/launch_geometry.h"

#include <algorithm>
#include <string>
#include <utility>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/definition/plan_impl.h"

namespace tunefarm {
namespace {

using definition::Formula;
using definition::kUsesKernel;
using definition::kUsesParameters;
using definition::StepFormula;

constexpr std::string_view kCeilDiv = "ceil_div(";
constexpr int64_t kExtentMax = int64_t{1} << 40;

bool IsKnown(const Formula& formula) { return (formula.uses & kUsesKernel) == 0; }

bool AreKnown(const std::vector<Formula>& formulas) { return std::all_of(formulas.begin(), formulas.end(), IsKnown); }

bool IsNamePart(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
}

// The text with every ceil_div(a, b) as ((a) / (b)), also within one another. Definitions have been checked, so
// brackets match.
std::string Unrounded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    if (text.substr(i, kCeilDiv.size()) != kCeilDiv || (i > 0 && IsNamePart(text[i - 1]))) {
      out += text[i++];
      continue;
    }
    const size_t begin = i + kCeilDiv.size();
    size_t comma = std::string_view::npos, end = begin;
    for (int depth = 0; end < text.size(); ++end) {
      const char c = text[end];
      if (c == '(' || c == '[') ++depth;
      if (c == ',' && depth == 0) comma = end;
      if ((c == ')' || c == ']') && depth-- == 0) break;
    }
    if (comma == std::string_view::npos || end >= text.size()) return std::string(text);
    out += "((" + Unrounded(text.substr(begin, comma - begin)) + ") / (" +
           Unrounded(text.substr(comma + 1, end - comma - 1)) + "))";
    i = end + 1;
  }
  return out;
}

// A launch and its grid without rounding; no grid where that is the same.
struct Launch {
  const StepFormula* step = nullptr;
  bool is_grid_known = true;
  bool is_shared_known = true;
  std::vector<Expression> unrounded;
};

// The names of a plan in the order of its slots, with derived values that round nothing up.
absl::StatusOr<SymbolTable> UnroundedSymbols(const KernelPlanAccess::Impl& plan, bool* rounds) {
  SymbolTable symbols;
  for (const auto& dim : plan.dims) RETURN_IF_ERROR(symbols.AddVariable(dim.name, dim.type).status());
  for (const auto& parameter : plan.parameters) {
    RETURN_IF_ERROR(symbols.AddVariable(parameter.parameter.name, parameter.type).status());
  }
  for (const auto& [name, value] : DeviceClass().Constants()) {
    RETURN_IF_ERROR(symbols.AddVariable(name, value.type()).status());
  }
  for (const std::string_view name : {"kernel.max_active_blocks", "kernel.registers", "kernel.static_shared_bytes"}) {
    RETURN_IF_ERROR(symbols.AddVariable(name, ValueType::kInt).status());
  }
  for (const auto& derived : plan.derived) {
    const std::string text = Unrounded(derived.text);
    *rounds = *rounds || text != derived.text;
    RETURN_IF_ERROR(symbols.AddDerived(derived.name, text));
  }
  return symbols;
}

// Longer texts may break a limit of expressions: then the launch is taken to round nothing.
std::vector<Expression> UnroundedGrid(const StepFormula& step, const SymbolTable& symbols, bool derived_round) {
  bool rounds = derived_round;
  std::vector<Expression> grid;
  for (const Formula& formula : step.grid) {
    const std::string text = Unrounded(formula.expression.text());
    rounds = rounds || text != formula.expression.text();
    auto compiled = Expression::Compile(text, symbols);
    if (!compiled.ok()) return {};
    grid.push_back(*std::move(compiled));
  }
  return rounds ? grid : std::vector<Expression>();
}

bool EvaluateInt(const Expression& expression, const LaunchGeometry::Scratch& scratch, int64_t* result) {
  if (expression.is_integral()) return expression.EvaluateIntegral(scratch.numbers.data(), result);
  const auto value = expression.EvaluateInt(scratch.values.data());
  if (!value.ok()) return false;
  *result = *value;
  return true;
}

bool Extents(const std::vector<Formula>& formulas, const LaunchGeometry::Scratch& scratch,
             std::array<int64_t, 3>* extents) {
  for (size_t i = 0; i < formulas.size(); ++i) {
    if (!EvaluateInt(formulas[i].expression, scratch, &(*extents)[i])) return false;
    if ((*extents)[i] < 1 || (*extents)[i] > kExtentMax) return false;
  }
  return true;
}

int64_t NumberOf(const Value& value) {
  if (value.is_int()) return value.int_value();
  return value.type() == ValueType::kBool ? static_cast<int64_t>(value.bool_value()) : 0;
}

}  // namespace

struct LaunchGeometry::Impl {
  std::shared_ptr<const KernelPlan> plan;
  std::vector<std::vector<Value>> values;  // of each parameter of the space
  Scratch initial;
  size_t parameters_begin = 0;
  std::vector<Launch> launches;
  // Constant unless the formula names parameters.
  double flops = 0, bytes = 0;
  const Formula* flops_of_config = nullptr;
  const Formula* bytes_of_config = nullptr;
  const Formula* registers = nullptr;
  const Formula* static_shared = nullptr;

  // False when it cannot be evaluated; no value when the launch does not run.
  bool ReadLaunch(const Launch& launch, const Scratch& scratch, std::optional<KnownLaunch>* known) const;
};

LaunchGeometry::LaunchGeometry(std::unique_ptr<const Impl> impl) : impl_(std::move(impl)) {}
LaunchGeometry::~LaunchGeometry() = default;

absl::StatusOr<std::shared_ptr<const LaunchGeometry>> LaunchGeometry::Make(std::shared_ptr<const KernelPlan> plan,
                                                                           const ResolvedProblem& problem,
                                                                           const DeviceClass& device,
                                                                           const Space& space) {
  if (device.kind != DeviceKind::kCuda) {
    return FailedPrecondition("kernel '{}' is written in C++ for the host, which has no launch geometry",
                              plan->display_name());
  }
  const KernelPlanAccess::Impl& own = KernelPlanAccess::Of(*plan);
  auto impl = std::make_unique<Impl>();
  bool derived_round = false;
  ASSIGN_OR_RETURN(const SymbolTable symbols, UnroundedSymbols(own, &derived_round));
  std::string unknown_block;
  const auto steps = own.sequences.find(Sequence::kLaunches);
  if (steps != own.sequences.end()) {
    for (const StepFormula& step : steps->second) {
      if (step.kind != StepPlan::Kind::kKernel || step.step.untimed()) continue;
      if (!AreKnown(step.block) || (step.when.has_value() && !IsKnown(*step.when))) {
        if (unknown_block.empty()) unknown_block = step.path;
        continue;
      }
      Launch launch;
      launch.step = &step;
      launch.is_grid_known = AreKnown(step.grid);
      launch.is_shared_known = !step.dynamic_shared_bytes.has_value() || IsKnown(*step.dynamic_shared_bytes);
      if (launch.is_grid_known) launch.unrounded = UnroundedGrid(step, symbols, derived_round);
      impl->launches.push_back(std::move(launch));
    }
  }
  if (impl->launches.empty()) {
    if (unknown_block.empty())
      return FailedPrecondition("kernel '{}' times no launch of its own", plan->display_name());
    return FailedPrecondition("the block of {} of kernel '{}' is known only after compiling", unknown_block,
                              plan->display_name());
  }
  for (const Parameter& parameter : space.parameters()) impl->values.push_back(parameter.values);
  impl->initial.values = own.Slots(problem, nullptr, &device, nullptr);
  for (const Value& value : impl->initial.values) impl->initial.numbers.push_back(NumberOf(value));
  impl->parameters_begin = own.parameters_begin();
  const auto work = [&](const std::optional<Formula>& formula, double* constant, const Formula** of_config) {
    if (!formula.has_value()) return;
    if ((formula->uses & kUsesParameters) != 0) {
      *of_config = &*formula;
    } else {
      *constant = formula->expression.EvaluateFloat(impl->initial.values.data()).value_or(0);
    }
  };
  work(own.flops, &impl->flops, &impl->flops_of_config);
  work(own.bytes, &impl->bytes, &impl->bytes_of_config);
  if (own.registers_per_thread.has_value()) impl->registers = &*own.registers_per_thread;
  if (own.static_shared_bytes.has_value()) impl->static_shared = &*own.static_shared_bytes;
  impl->plan = std::move(plan);  // keeps all formulas alive
  return std::shared_ptr<const LaunchGeometry>(new LaunchGeometry(std::move(impl)));
}

LaunchGeometry::Scratch LaunchGeometry::MakeScratch() const { return impl_->initial; }

bool LaunchGeometry::Impl::ReadLaunch(const Launch& launch, const Scratch& scratch,
                                      std::optional<KnownLaunch>* known) const {
  const StepFormula& step = *launch.step;
  if (step.when.has_value()) {
    const auto runs = step.when->expression.EvaluateBool(scratch.values.data());
    if (!runs.ok()) return false;
    if (!*runs) return true;
  }
  KnownLaunch read;
  read.is_grid_known = launch.is_grid_known;
  read.is_shared_known = launch.is_shared_known;
  LaunchShape& shape = read.shape;
  if (!Extents(step.block, scratch, &shape.block)) return false;
  if (launch.is_grid_known && !Extents(step.grid, scratch, &shape.grid)) return false;
  const auto add_shared = [&](const Formula& formula) {
    int64_t part = 0;
    if (!EvaluateInt(formula.expression, scratch, &part) || part < 0 || part > kExtentMax) return false;
    shape.shared_bytes += part;
    return true;
  };
  if (static_shared != nullptr && !add_shared(*static_shared)) return false;
  if (step.dynamic_shared_bytes.has_value() && launch.is_shared_known && !add_shared(*step.dynamic_shared_bytes)) {
    return false;
  }
  if (registers != nullptr && !EvaluateInt(registers->expression, scratch, &shape.registers_per_thread)) return false;
  for (size_t axis = 0; axis < launch.unrounded.size(); ++axis) {
    const auto extent = launch.unrounded[axis].EvaluateFloat(scratch.values.data());
    // Where it makes no sense without rounding, nothing is said about it.
    if (!extent.ok() || !(*extent > 0)) continue;
    read.unrounded_share *= std::min(1.0, *extent / static_cast<double>(shape.grid[axis]));
  }
  *known = read;
  return true;
}

bool LaunchGeometry::Read(std::span<const uint16_t> point, Scratch* scratch, ConfigGeometry* geometry) const {
  for (size_t i = 0; i < point.size(); ++i) {
    const Value& value = impl_->values[i][point[i]];
    scratch->values[impl_->parameters_begin + i] = value;
    scratch->numbers[impl_->parameters_begin + i] = NumberOf(value);
  }
  geometry->launches.clear();
  for (const Launch& launch : impl_->launches) {
    std::optional<KnownLaunch> known;
    if (!impl_->ReadLaunch(launch, *scratch, &known)) return false;
    if (known.has_value()) geometry->launches.push_back(*known);
  }
  const auto read_work = [&](double constant, const Formula* formula, double* work) {
    *work = constant;
    if (formula == nullptr) return true;
    const auto value = formula->expression.EvaluateFloat(scratch->values.data());
    if (!value.ok()) return false;
    *work = *value;
    return true;
  };
  return read_work(impl_->flops, impl_->flops_of_config, &geometry->flops) &&
         read_work(impl_->bytes, impl_->bytes_of_config, &geometry->bytes);
}

}  // namespace tunefarm
