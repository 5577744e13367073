#include "client/launch/step_values.h"

#include <algorithm>
#include <cinttypes>
#include <cstring>
#include <limits>
#include <string_view>

#include "client/launch/data_type.h"
#include "client/launch/failure.h"
#include "server/driver_step/buffer_limit.h"

namespace tunefarm::launch {

using namespace tunefarm::package;  // NOLINT: the records
using driver_step::kTensorBoxMax;
using driver_step::kTensorElementStrideMax;
using driver_step::kTensorExtentMax;
using driver_step::kTensorStrideMax;
using expression::Cell;
using expression::Fault;

bool Evaluation::Holds(uint32_t formula) const {
  Cell result = Cell::Int(0);
  Fault fault = Fault::kNone;
  return Evaluate(kernel_.package().Formula(formula), slots_, &result, &fault) && result.type != ValueType::kString &&
         result.Truth();
}

tunefarm_status Evaluation::Int(uint32_t formula, const char* what, int64_t lowest, int64_t highest,
                                int64_t* value) const {
  const Program program = kernel_.package().Formula(formula);
  Cell result = Cell::Int(0);
  Fault fault = Fault::kNone;
  if (!Evaluate(program, slots_, &result, &fault) || !result.is_integral()) {
    return Fail(error_, TUNEFARM_INVALID_ARGUMENT, "%s: '%s' has no value for %s: %s.", kernel_.name(), program.text,
                what, FaultText(fault));
  }
  *value = result.int_value;
  if (*value >= lowest && *value <= highest) return TUNEFARM_OK;
  return Fail(error_, TUNEFARM_INVALID_ARGUMENT,
              "%s: %s would be %" PRId64 " ('%s'), but is from %" PRId64 " to %" PRId64 ".", kernel_.name(), what,
              *value, program.text, lowest, highest);
}

tunefarm_status Evaluation::Buffers(Selection* selection) const {
  const LoadedChoice& choice = *selection->choice;
  const auto buffers = kernel_.package().buffers().subspan(choice.record->first_buffer, choice.record->buffers);
  uint64_t bytes = 0;
  for (size_t i = 0; i < buffers.size(); ++i) {
    int64_t length = 0;
    const auto element = static_cast<int64_t>(SizeOf(buffers[i].data_type));
    const tunefarm_status status =
        Int(buffers[i].length, "a buffer's length", 1, driver_step::kBufferBytesMax / element, &length);
    if (status != TUNEFARM_OK) return status;
    selection->lengths[i] = static_cast<uint64_t>(length);
    selection->scratch_offsets[i] = bytes;
    if (buffers[i].access == kScratch) bytes += (static_cast<uint64_t>(length * element) + 255) / 256 * 256;
  }
  selection->workspace_bytes = bytes;
  return TUNEFARM_OK;
}

tunefarm_status Evaluation::Runs(const LoadedStep& step, bool* runs) const {
  *runs = true;
  if (step.record->when == kNone) return TUNEFARM_OK;
  const Program program = kernel_.package().Formula(step.record->when);
  Cell result = Cell::Int(0);
  Fault fault = Fault::kNone;
  if (!Evaluate(program, slots_, &result, &fault) || result.type == ValueType::kString) {
    return Fail(error_, TUNEFARM_INVALID_ARGUMENT, "%s: '%s' does not say whether a step runs: %s.", kernel_.name(),
                program.text, FaultText(fault));
  }
  *runs = result.Truth();
  return TUNEFARM_OK;
}

tunefarm_status Evaluation::Extents(const uint32_t formulas[3], const char* what, uint32_t extents[3]) const {
  for (int axis = 0; axis < 3; ++axis) {
    extents[axis] = 1;
    if (formulas[axis] == kNone) continue;
    int64_t value = 0;
    const tunefarm_status status = Int(formulas[axis], what, 1, std::numeric_limits<int32_t>::max(), &value);
    if (status != TUNEFARM_OK) return status;
    extents[axis] = static_cast<uint32_t>(value);
  }
  return TUNEFARM_OK;
}

tunefarm_status Evaluation::SharedBytes(const LoadedStep& step, uint32_t* bytes) const {
  *bytes = 0;
  if (step.record->dynamic_shared_bytes == kNone) return TUNEFARM_OK;
  int64_t value = 0;
  const tunefarm_status status = Int(step.record->dynamic_shared_bytes, "the dynamic shared memory", 0,
                                     std::numeric_limits<int32_t>::max(), &value);
  *bytes = static_cast<uint32_t>(value);
  return status;
}

// In two passes, as server/worker/cuda/loaded_module.cc: how many blocks fit depends on the launch, and the launch may
// depend on how many fit. Of an entry that is launched more than once, the least.
tunefarm_status Evaluation::Occupancy(const std::vector<LoadedStep>& steps, Selection* selection) const {
  const LoadedChoice& choice = *selection->choice;
  std::fill_n(selection->max_active_blocks, choice.entry_count, uint64_t{0});
  if (choice.asks_occupancy) {
    for (const LoadedStep& step : steps) {
      if (step.entry == nullptr) continue;
      const Entry& entry = *step.entry;
      kernel_.SetEntry(&entry, 1, slots_);
      bool runs = false;
      tunefarm_status status = Runs(step, &runs);
      if (status != TUNEFARM_OK) return status;
      if (!runs) continue;
      uint32_t block[3], shared = 0;
      status = Extents(step.record->block, "the block", block);
      if (status != TUNEFARM_OK) return status;
      status = SharedBytes(step, &shared);
      if (status != TUNEFARM_OK) return status;
      const uint64_t asked = std::min<uint64_t>(uint64_t{block[0]} * block[1] * block[2], 1024);
      const uint64_t key = uint64_t{shared} << 32 | asked << 16;
      uint64_t known = entry.occupancy.load(std::memory_order_relaxed);
      if ((known & ~uint64_t{0xffff}) != key) {
        int blocks = 0;
        const cuda::Result result = kernel_.driver().cuOccupancyMaxActiveBlocksPerMultiprocessor(
            &blocks, reinterpret_cast<cuda::Function>(entry.kernel), static_cast<int>(asked), shared);
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
  const StepRecord& record = *step.record;
  const uint64_t active = step.entry == nullptr ? 1 : selection.max_active_blocks[step.entry_number];
  kernel_.SetEntry(step.entry, static_cast<int64_t>(active), slots_);
  tunefarm_status status = Runs(step, &values->runs);
  if (status != TUNEFARM_OK || !values->runs || record.kind != kKernelStep) return status;
  if (kernel_.is_cuda()) {
    status = Extents(record.grid, "the grid", values->grid);
    if (status != TUNEFARM_OK) return status;
    status = Extents(record.block, "the block", values->block);
    if (status != TUNEFARM_OK) return status;
    values->has_cluster = record.cluster[0] != kNone;
    if (values->has_cluster) {
      status = Extents(record.cluster, "the cluster", values->cluster);
      if (status != TUNEFARM_OK) return status;
      for (int axis = 0; axis < 3; ++axis) {
        if (values->grid[axis] % values->cluster[axis] == 0) continue;
        return Fail(error_, TUNEFARM_INVALID_ARGUMENT, "%s: the grid of %u blocks is no multiple of the cluster's %u.",
                    kernel_.name(), values->grid[axis], values->cluster[axis]);
      }
    }
    status = SharedBytes(step, &values->dynamic_shared_bytes);
    if (status != TUNEFARM_OK) return status;
  }
  const auto arguments = kernel_.package().arguments().subspan(record.first_argument, record.arguments);
  for (size_t i = 0; i < arguments.size(); ++i) {
    status = Argument(arguments[i], &values->arguments[i]);
    if (status != TUNEFARM_OK) return status;
  }
  return TUNEFARM_OK;
}

tunefarm_status Evaluation::Argument(const ArgumentRecord& record, ArgumentValue* value) const {
  if (record.kind == kTensorMapArgument) {
    value->encoded_for = 0;
    return TensorMap(kernel_.package().tensor_maps()[record.target], &value->map);
  }
  if (record.kind != kScalarArgument) return TUNEFARM_OK;
  const Program program = kernel_.package().Formula(record.target);
  Cell result = Cell::Int(0);
  Fault fault = Fault::kNone;
  if (Evaluate(program, slots_, &result, &fault) && EncodeScalar(record.data_type, result, value->bytes)) {
    return TUNEFARM_OK;
  }
  return Fail(error_, TUNEFARM_INVALID_ARGUMENT, "%s: '%s' cannot be passed as %s: %s.", kernel_.name(), program.text,
              NameOf(record.data_type), fault == Fault::kNone ? "it is out of its range" : FaultText(fault));
}

tunefarm_status Evaluation::TensorMap(const TensorMapRecord& record, TensorMapValues* values) const {
  values->type = driver_step::TensorMapTypeOf(record.data_type);
  values->rank = record.rank;
  for (uint32_t i = 0; i < record.rank; ++i) {
    int64_t value = 0;
    tunefarm_status status = Int(record.dims[i], "an extent of a tensor map", 1, kTensorExtentMax, &value);
    if (status != TUNEFARM_OK) return status;
    values->dims[i] = static_cast<uint64_t>(value);
    status = Int(record.box[i], "a box of a tensor map", 1, kTensorBoxMax, &value);
    if (status != TUNEFARM_OK) return status;
    values->box[i] = static_cast<uint32_t>(value);
    value = 1;
    if (record.element_strides[i] != kNone) {
      status = Int(record.element_strides[i], "an element stride of a tensor map", 1, kTensorElementStrideMax, &value);
      if (status != TUNEFARM_OK) return status;
    }
    values->element_strides[i] = static_cast<uint32_t>(value);
    if (i + 1 == record.rank) continue;
    status = Int(record.byte_strides[i], "a byte stride of a tensor map", 0, kTensorStrideMax, &value);
    if (status != TUNEFARM_OK) return status;
    if (value % 16 != 0) {
      return Fail(error_, TUNEFARM_INVALID_ARGUMENT,
                  "%s: a stride of %" PRId64 " bytes of a tensor map is no multiple of 16.", kernel_.name(), value);
    }
    values->byte_strides[i] = static_cast<uint64_t>(value);
  }
  tunefarm_status status = Mode(record.swizzle, "swizzle", driver_step::kSwizzles, &values->swizzle);
  if (status != TUNEFARM_OK) return status;
  status = Mode(record.interleave, "interleave", driver_step::kInterleaves, &values->interleave);
  if (status != TUNEFARM_OK) return status;
  status = Mode(record.l2_promotion, "L2 promotion", driver_step::kL2Promotions, &values->l2_promotion);
  if (status != TUNEFARM_OK) return status;
  values->oob_fill = static_cast<int>(record.oob_fill_nan);
  values->base_offset_bytes = 0;
  if (record.base_offset_bytes == kNone) return TUNEFARM_OK;
  return Int(record.base_offset_bytes, "the offset of a tensor map", std::numeric_limits<int64_t>::min(),
             std::numeric_limits<int64_t>::max(), &values->base_offset_bytes);
}

tunefarm_status Evaluation::Mode(uint32_t formula, const char* what, std::span<const std::string_view> names,
                                 int* mode) const {
  *mode = 0;
  if (formula == kNone) return TUNEFARM_OK;
  const Program program = kernel_.package().Formula(formula);
  Cell result = Cell::Int(0);
  Fault fault = Fault::kNone;
  if (Evaluate(program, slots_, &result, &fault) && result.type == ValueType::kString) {
    *mode = driver_step::ModeOf(names, std::string_view(result.string_value, result.string_bytes));
    if (*mode >= 0) return TUNEFARM_OK;
  }
  return Fail(error_, TUNEFARM_INVALID_ARGUMENT, "%s: '%s' is no %s of a tensor map.", kernel_.name(), program.text,
              what);
}

}  // namespace tunefarm::launch
