#include "client/launch/step_values.h"

#include <algorithm>
#include <cinttypes>
#include <optional>
#include <span>
#include <string_view>

#include "client/launch/failure.h"
#include "server/driver_step/buffer_limit.h"
#include "server/driver_step/data_type.h"
#include "server/driver_step/step_evaluator.h"

namespace tunefarm::launch {

using namespace tunefarm::package;  // NOLINT: the records
using driver_step::SizeOf;
using expression::Cell;
using expression::Fault;

namespace {

// The formulas of a kernel's package for the evaluator of steps. What goes wrong is written to `error`.
class PackageFormulas {
 public:
  PackageFormulas(const Kernel& kernel, const Cell* slots, tunefarm_error* error)
      : kernel_(kernel), slots_(slots), error_(error) {}

  std::optional<Program> At(uint32_t formula) const {
    if (formula == kNone) return std::nullopt;
    return kernel_.package().Formula(formula);
  }
  std::optional<Program> At(const uint32_t* list, size_t number) const { return At(list[number]); }

  bool Int(const Program& program, const char* what, int64_t* value) const {
    Cell result = Cell::Int(0);
    const bool is_int = Take(
        program, what, [](const Cell& cell) { return cell.is_integral(); }, &result);
    if (is_int) *value = result.int_value;
    return is_int;
  }
  bool Truth(const Program& program, bool* value) const {
    Cell result = Cell::Int(0);
    const bool is_number = Take(program, "the condition of a step", IsNumber, &result);
    if (is_number) *value = result.Truth();
    return is_number;
  }
  bool Text(const Program& program, const char* what, std::string_view* value) const {
    Cell result = Cell::Int(0);
    const bool is_text = Take(
        program, what, [](const Cell& cell) { return !IsNumber(cell); }, &result);
    if (is_text) *value = {result.string_value, result.string_bytes};
    return is_text;
  }
  bool Scalar(const ArgumentRecord& record, void* bytes) const {
    const Program program = kernel_.package().Formula(record.target);
    Cell result = Cell::Int(0);
    if (!Take(program, "a scalar", IsNumber, &result)) return false;
    const bool fits = result.type == ValueType::kFloat
                          ? driver_step::EncodeScalar(record.data_type, result.float_value, bytes)
                          : driver_step::EncodeScalar(record.data_type, result.int_value, bytes);
    if (fits) return true;
    Fail(error_, TUNEFARM_INVALID_ARGUMENT, "%s: '%s' cannot be passed as %s: it is out of its range.", kernel_.name(),
         program.text, driver_step::NameOf(record.data_type));
    return false;
  }

  bool OutOfRange(const Program& program, const char* what, int64_t value, int64_t lowest, int64_t highest) const {
    Fail(error_, TUNEFARM_INVALID_ARGUMENT,
         "%s: %s would be %" PRId64 " ('%s'), but is from %" PRId64 " to %" PRId64 ".", kernel_.name(), what, value,
         program.text, lowest, highest);
    return false;
  }
  bool NoMultiple(const Program& program, const char* what, int64_t value, int64_t divisor) const {
    Fail(error_, TUNEFARM_INVALID_ARGUMENT, "%s: %s would be %" PRId64 ", which is no multiple of %" PRId64 " ('%s').",
         kernel_.name(), what, value, divisor, program.text);
    return false;
  }
  bool NoMode(const Program& program, const char* what, std::string_view text,
              std::span<const std::string_view>) const {
    Fail(error_, TUNEFARM_INVALID_ARGUMENT, "%s: %s cannot be '%.*s' ('%s').", kernel_.name(), what,
         static_cast<int>(text.size()), text.data(), program.text);
    return false;
  }

 private:
  static bool IsNumber(const Cell& cell) { return cell.type != ValueType::kString; }

  bool Take(const Program& program, const char* what, bool (*is_wanted)(const Cell&), Cell* result) const {
    Fault fault = Fault::kNone;
    if (Evaluate(program, slots_, result, &fault) && is_wanted(*result)) return true;
    Fail(error_, TUNEFARM_INVALID_ARGUMENT, "%s: '%s' has no value for %s: %s.", kernel_.name(), program.text, what,
         FaultText(fault));
    return false;
  }

  const Kernel& kernel_;
  const Cell* const slots_;
  tunefarm_error* const error_;
};

}  // namespace

bool Evaluation::Holds(uint32_t formula) const {
  Cell result = Cell::Int(0);
  Fault fault = Fault::kNone;
  return Evaluate(kernel_.package().Formula(formula), slots_, &result, &fault) && result.type != ValueType::kString &&
         result.Truth();
}

tunefarm_status Evaluation::Buffers(Selection* selection) const {
  PackageFormulas formulas(kernel_, slots_, error_);
  driver_step::StepEvaluator evaluator(&formulas);
  const LoadedChoice& choice = *selection->choice;
  const auto buffers = kernel_.package().buffers().subspan(choice.record->first_buffer, choice.record->buffers);
  uint64_t bytes = 0;
  for (size_t i = 0; i < buffers.size(); ++i) {
    const uint64_t element = SizeOf(buffers[i].data_type);
    if (!evaluator.Int(formulas.At(buffers[i].length), "a buffer's length", 1,
                       driver_step::kBufferBytesMax / static_cast<int64_t>(element), &selection->lengths[i])) {
      return TUNEFARM_INVALID_ARGUMENT;
    }
    selection->scratch_offsets[i] = bytes;
    if (buffers[i].access == kScratch) bytes += (selection->lengths[i] * element + 255) / 256 * 256;
  }
  selection->workspace_bytes = bytes;
  return TUNEFARM_OK;
}

// In two passes, as server/definition/launch_evaluation.cc: how many blocks fit depends on the launch, and the launch
// may depend on how many fit. Of an entry that is launched more than once, the least.
tunefarm_status Evaluation::Occupancy(const std::vector<LoadedStep>& steps, Selection* selection) const {
  PackageFormulas formulas(kernel_, slots_, error_);
  driver_step::StepEvaluator evaluator(&formulas);
  const LoadedChoice& choice = *selection->choice;
  std::fill_n(selection->max_active_blocks, choice.entry_count, uint64_t{0});
  if (choice.asks_occupancy) {
    for (const LoadedStep& step : steps) {
      if (step.entry == nullptr) continue;
      const Entry& entry = *step.entry;
      kernel_.SetEntry(&entry, 1, slots_);
      bool runs = false;
      if (!evaluator.Runs(*step.record, &runs)) return TUNEFARM_INVALID_ARGUMENT;
      if (!runs) continue;
      driver_step::LaunchValues launch;
      if (!evaluator.Block(*step.record, &launch)) return TUNEFARM_INVALID_ARGUMENT;
      const uint64_t asked = std::min<uint64_t>(uint64_t{launch.block[0]} * launch.block[1] * launch.block[2], 1024);
      const uint64_t key = uint64_t{launch.dynamic_shared_bytes} << 32 | asked << 16;
      uint64_t known = entry.occupancy.load(std::memory_order_relaxed);
      if ((known & ~uint64_t{0xffff}) != key) {
        int blocks = 0;
        const cuda::Result result = kernel_.driver().cuOccupancyMaxActiveBlocksPerMultiprocessor(
            &blocks, reinterpret_cast<cuda::Function>(entry.kernel), static_cast<int>(asked),
            launch.dynamic_shared_bytes);
        if (result != cuda::kSuccess) blocks = 0;
        known = key | static_cast<uint64_t>(std::clamp(blocks, 0, 0xffff));
        if (result == cuda::kSuccess) entry.occupancy.store(known, std::memory_order_relaxed);
      }
      const uint64_t blocks = std::max<uint64_t>(known & 0xffff, 1);
      uint64_t& least = selection->max_active_blocks[step.entry_number];
      least = least == 0 ? blocks : std::min(least, blocks);
    }
  }
  for (size_t i = 0; i < choice.entry_count; ++i) {
    selection->max_active_blocks[i] = std::max<uint64_t>(selection->max_active_blocks[i], 1);
  }
  return TUNEFARM_OK;
}

tunefarm_status Evaluation::Step(const LoadedStep& step, const Selection& selection, StepValues* values) const {
  PackageFormulas formulas(kernel_, slots_, error_);
  driver_step::StepEvaluator evaluator(&formulas);
  const StepRecord& record = *step.record;
  const uint64_t active = step.entry == nullptr ? 1 : selection.max_active_blocks[step.entry_number];
  kernel_.SetEntry(step.entry, static_cast<int64_t>(active), slots_);
  if (!evaluator.Runs(record, &values->runs)) return TUNEFARM_INVALID_ARGUMENT;
  if (!values->runs || record.kind != kKernelStep) return TUNEFARM_OK;
  if (kernel_.is_cuda() && !evaluator.Launch(record, &values->launch)) return TUNEFARM_INVALID_ARGUMENT;
  ArgumentValue* value = values->arguments;
  for (const ArgumentRecord& argument :
       kernel_.package().arguments().subspan(record.first_argument, record.arguments)) {
    if (argument.kind == kTensorMapArgument) {
      value->encoded_for = 0;
      const TensorMapRecord& map = kernel_.package().tensor_maps()[argument.target];
      if (!evaluator.TensorMap(map, map.data_type, map.rank, &value->map)) return TUNEFARM_INVALID_ARGUMENT;
    } else if (argument.kind == kScalarArgument && !formulas.Scalar(argument, value->bytes)) {
      return TUNEFARM_INVALID_ARGUMENT;
    }
    ++value;
  }
  return TUNEFARM_OK;
}

}  // namespace tunefarm::launch
