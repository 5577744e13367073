// The rules that launches imply for a device.
#include <fmt/core.h>

#include "server/base/format.h"
#include "server/base/status_macros.h"
#include "server/definition/checker.h"
#include "server/definition/field_error.h"
#include "server/definition/value_proto.h"

namespace tunefarm::definition {
namespace {

constexpr std::string_view kAxes[] = {"x", "y", "z"};
constexpr int kPortableClusterMax = 8;
constexpr int kClusterMax = 16;
constexpr int kRegistersPerThreadMax = 255;

// The text as an operand: parenthesised unless it is one word.
std::string Operand(const std::string& text) {
  const bool is_word = IsIdentifier(text) || text.find_first_not_of("0123456789") == std::string::npos;
  return is_word ? text : fmt::format("({})", text);
}

// The product of the formulas; empty if one of them needs the loaded kernel.
std::string Product(const std::vector<Formula>& formulas) {
  std::string text;
  for (const Formula& formula : formulas) {
    if ((formula.uses & kUsesKernel) != 0) return {};
    text += fmt::format("{}{}", text.empty() ? "" : " * ", Operand(formula.expression.text()));
  }
  return text;
}

bool IsKnownBeforeLoad(const std::optional<Formula>& formula) {
  return formula.has_value() && (formula->uses & kUsesKernel) == 0;
}

absl::Status AddDeviceRule(PlanDraft* draft, const std::string& path, DeviceRule rule, const std::string& guard) {
  if (!guard.empty()) rule.text = fmt::format("not {} or {}", Operand(guard), rule.text);
  // Compiled here only so that a text that is too long is an error of the definition, not of each space.
  if (auto compiled = Expression::Compile(rule.text, draft->symbols); !compiled.ok()) {
    return FieldError(path, kLimitExceeded,
                      "the expressions are too long to be checked together against the device: {}",
                      MessageOf(compiled.status()));
  }
  draft->plan->device_rules.push_back(std::move(rule));
  return absl::OkStatus();
}

absl::Status AddLaunchRules(PlanDraft* draft, Sequence sequence, const StepFormula& step) {
  const KernelPlanAccess::Impl& plan = *draft->plan;
  if (step.kind != StepPlan::Kind::kKernel) return absl::OkStatus();
  if (step.when.has_value() && !IsKnownBeforeLoad(step.when)) return absl::OkStatus();
  const std::string guard = step.when.has_value() ? step.when->expression.text() : std::string();
  using Kind = DeviceRule::Kind;
  const auto add = [&](Kind kind, std::string_view field, int axis, int64_t number, std::string text) {
    return AddDeviceRule(draft, fmt::format("{}.kernel.{}", step.path, field),
                         DeviceRule{kind, step.path, axis, number, std::move(text)}, guard);
  };
  for (size_t axis = 0; axis < step.block.size(); ++axis) {
    if ((step.block[axis].uses & kUsesKernel) != 0) continue;
    RETURN_IF_ERROR(
        add(Kind::kBlockExtent, "block", static_cast<int>(axis), 0,
            fmt::format("1 <= {} <= device.block_max_{}", Operand(step.block[axis].expression.text()), kAxes[axis])));
  }
  const std::string threads = Product(step.block);
  if (!threads.empty() && step.block.size() > 1) {
    RETURN_IF_ERROR(add(Kind::kThreads, "block", 0, 0, fmt::format("{} <= device.threads_per_block", threads)));
  }
  for (size_t axis = 0; axis < step.grid.size(); ++axis) {
    if ((step.grid[axis].uses & kUsesKernel) != 0) continue;
    RETURN_IF_ERROR(add(Kind::kGridExtent, "grid", static_cast<int>(axis), 0,
                        fmt::format("{} <= {} <= device.grid_max_{}", draft->is_triton() ? 0 : 1,
                                    Operand(step.grid[axis].expression.text()), kAxes[axis])));
  }
  // The estimates speak of the launches that are tuned, not of what prepares for them.
  const bool is_tuned = sequence == Sequence::kLaunches;
  std::string shared;
  if (IsKnownBeforeLoad(step.dynamic_shared_bytes)) {
    const std::string dynamic = Operand(step.dynamic_shared_bytes->expression.text());
    shared = fmt::format("{} >= 0 and {}", dynamic, dynamic);
  }
  if (is_tuned && plan.static_shared_bytes.has_value()) {
    shared += fmt::format("{}{}", shared.empty() ? "" : " + ", Operand(plan.static_shared_bytes->expression.text()));
  }
  if (!shared.empty()) {
    const std::string text = fmt::format("{} <= device.shared_bytes_per_block_optin", shared);
    RETURN_IF_ERROR(add(Kind::kShared, "dynamic_shared_bytes", 0, 0, guard.empty() ? text : fmt::format("({})", text)));
  }
  if (is_tuned && plan.registers_per_thread.has_value() && !threads.empty()) {
    // Registers are given to warps in units of 256, so in eights per thread; warps come in fours.
    RETURN_IF_ERROR(
        add(Kind::kRegisters, "block", 0, 0,
            fmt::format("round_up({}, 8) * round_up({}, 4 * device.warp_size) <= device.registers_per_block",
                        plan.registers_per_thread->expression.text(), threads)));
  }
  if (step.cluster.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(add(Kind::kMinimum, "cluster", 0, 90, "device.compute_capability >= 90"));
  if (const std::string blocks = Product(step.cluster); !blocks.empty()) {
    const int most = step.step.kernel().attributes().non_portable_cluster() ? kClusterMax : kPortableClusterMax;
    RETURN_IF_ERROR(add(Kind::kCluster, "cluster", 0, most, fmt::format("1 <= {} <= {}", blocks, most)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status MakeDeviceRules(PlanDraft* draft) {
  if (!draft->has_grids()) return absl::OkStatus();
  KernelPlanAccess::Impl& plan = *draft->plan;
  using Kind = DeviceRule::Kind;
  const v1::ResourceEstimate& resources = plan.kernel.resources();
  const auto add_capability = [&](Kind kind, int number, std::string_view comparison) {
    return AddDeviceRule(
        draft, "resources",
        DeviceRule{kind, "the kernel", 0, number, fmt::format("device.compute_capability {} {}", comparison, number)},
        "");
  };
  if (const int number = resources.min_compute_capability(); number != 0) {
    RETURN_IF_ERROR(add_capability(Kind::kMinimum, number, ">="));
  }
  if (const int number = resources.exact_compute_capability(); number != 0) {
    RETURN_IF_ERROR(add_capability(Kind::kExact, number, "=="));
  }
  if (plan.registers_per_thread.has_value()) {
    RETURN_IF_ERROR(AddDeviceRule(
        draft, "resources.registers_per_thread",
        DeviceRule{
            Kind::kRegistersPerThread, "the kernel", 0, kRegistersPerThreadMax,
            fmt::format("{} <= {}", Operand(plan.registers_per_thread->expression.text()), kRegistersPerThreadMax)},
        ""));
  }
  for (const Sequence sequence : {Sequence::kPreparePerConfig, Sequence::kLaunches}) {
    for (const StepFormula& step : plan.sequences[sequence]) RETURN_IF_ERROR(AddLaunchRules(draft, sequence, step));
  }
  return absl::OkStatus();
}

std::string ReasonOf(const DeviceRule& rule, const DeviceClass& device) {
  const std::string_view axis = kAxes[static_cast<size_t>(rule.axis)];
  const auto capability = [](int64_t number) { return fmt::format("{}.{}", number / 10, number % 10); };
  switch (rule.kind) {
    case DeviceRule::Kind::kBlockExtent:
      return fmt::format("{}: block {} must be 1 to the {} of {}", rule.subject, axis,
                         device.block_max[static_cast<size_t>(rule.axis)], device.display_name);
    case DeviceRule::Kind::kThreads:
      return fmt::format("{}: threads per block exceed the {} of {}", rule.subject, device.threads_per_block,
                         device.display_name);
    case DeviceRule::Kind::kGridExtent:
      return fmt::format("{}: grid {} must be 1 to the {} of {}", rule.subject, axis,
                         device.grid_max[static_cast<size_t>(rule.axis)], device.display_name);
    case DeviceRule::Kind::kShared:
      return fmt::format("{}: shared memory per block exceeds the {} of {}", rule.subject,
                         FormatBytes(static_cast<uint64_t>(device.shared_bytes_per_block_optin)), device.display_name);
    case DeviceRule::Kind::kRegistersPerThread:
      return fmt::format("{}: declared registers per thread exceed {}", rule.subject, rule.number);
    case DeviceRule::Kind::kRegisters:
      return fmt::format("{}: declared registers per block exceed the {} of {}", rule.subject,
                         device.registers_per_block, device.display_name);
    case DeviceRule::Kind::kCluster:
      return fmt::format("{}: a cluster must have 1 to {} blocks", rule.subject, rule.number);
    case DeviceRule::Kind::kMinimum:
      return fmt::format("{} needs compute capability {}; {} has {}", rule.subject, capability(rule.number),
                         device.display_name, capability(device.compute_capability));
    case DeviceRule::Kind::kExact:
      return fmt::format("{} runs only on compute capability {}; {} has {}", rule.subject, capability(rule.number),
                         device.display_name, capability(device.compute_capability));
  }
  return {};
}

}  // namespace tunefarm::definition
