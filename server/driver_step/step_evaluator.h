// What a launch is given but its addresses, evaluated from the formulas of its step: of a definition, for tuning
// (server/definition/launch_evaluation.cc), and of a package, for launching (client/launch/step_values.cc).
//
// Threads: an evaluator belongs to one thread. Nothing here allocates.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>

#include "server/driver_step/tensor_map.h"

namespace tunefarm::driver_step {

struct LaunchValues {
  std::array<uint32_t, 3> grid{1, 1, 1}, block{1, 1, 1};  // each at most 2^31 - 1
  std::optional<std::array<uint32_t, 3>> cluster;
  uint32_t dynamic_shared_bytes = 0;  // at most 2^31 - 1
};

// Steps and tensor maps are of any types whose fields have the names of proto/tunefarm/v1/kernel.proto. `Source` knows
// their formulas:
//   At(field), At(list, number)       the formula, as what is false where there is none and else points to it
//   Int(formula, what, &number)       its value; `what` is for messages: "the grid". A bool is an int.
//   Truth(formula, &truth)            as Python sees it
//   Text(formula, what, &text)        valid until the next call
//   OutOfRange(formula, what, number, lowest, highest)
//   NoMultiple(formula, what, number, divisor)
//   NoMode(formula, what, text, modes)
// The last three, and the others where a formula has no such value, return false and keep why. So does the evaluator.
template <typename Source>
class StepEvaluator {
 public:
  explicit StepEvaluator(Source* source) : source_(*source) {}

  // Within [lowest, highest]. Without a formula *value stays what it is.
  template <typename Formula, typename Number>
  bool Int(const Formula& formula, const char* what, int64_t lowest, int64_t highest, Number* value) {
    if (!formula) return true;
    int64_t number = 0;
    if (!source_.Int(*formula, what, &number)) return false;
    if (number < lowest || number > highest) return source_.OutOfRange(*formula, what, number, lowest, highest);
    *value = static_cast<Number>(number);
    return true;
  }

  // Whether the step runs; it does without a condition.
  template <typename Step>
  bool Runs(const Step& step, bool* runs) {
    *runs = true;
    const auto when = source_.At(step.when);
    return !when || source_.Truth(*when, runs);
  }

  // What decides how many blocks a multiprocessor holds: the block and the dynamic shared memory.
  template <typename Step>
  bool Block(const Step& step, LaunchValues* values) {
    return Extents(step.block, "the block", &values->block) && SharedBytes(step, values);
  }

  // `grid_min`: 0 where a step may launch nothing.
  template <typename Step>
  bool Launch(const Step& step, LaunchValues* values, int grid_min = 1) {
    *values = {};
    if (!Extents(step.grid, "the grid", &values->grid, grid_min) || !Extents(step.block, "the block", &values->block)) {
      return false;
    }
    if (!source_.At(step.cluster, 0)) return SharedBytes(step, values);
    values->cluster = {1, 1, 1};
    if (!Extents(step.cluster, "the cluster", &*values->cluster)) return false;
    for (size_t axis = 0; axis < 3; ++axis) {
      const uint32_t blocks = (*values->cluster)[axis];
      if (values->grid[axis] % blocks == 0) continue;
      return source_.NoMultiple(*source_.At(step.cluster, axis), "the grid", values->grid[axis], blocks);
    }
    return SharedBytes(step, values);
  }

  // Of 1 to kTensorRankMax extents, for each of which there is a box, and for all but the last a stride in bytes.
  template <typename Map>
  bool TensorMap(const Map& map, uint32_t data_type, size_t rank, TensorMapValues* values) {
    *values = {};
    values->type = TensorMapTypeOf(data_type);
    values->rank = static_cast<uint32_t>(rank);
    for (size_t i = 0; i < rank; ++i) {
      values->element_strides[i] = 1;
      if (!Int(source_.At(map.dims, i), "an extent of a tensor map", 1, kTensorExtentMax, &values->dims[i]) ||
          !Int(source_.At(map.box, i), "a box of a tensor map", 1, kTensorBoxMax, &values->box[i]) ||
          !Int(source_.At(map.element_strides, i), "an element stride of a tensor map", 1, kTensorElementStrideMax,
               &values->element_strides[i])) {
        return false;
      }
      if (i + 1 == rank) break;
      const auto stride = source_.At(map.byte_strides, i);
      uint64_t& bytes = values->byte_strides[i];
      if (!Int(stride, "a byte stride of a tensor map", 0, kTensorStrideMax, &bytes)) return false;
      if (bytes % 16 != 0) {
        return source_.NoMultiple(*stride, "a byte stride of a tensor map", static_cast<int64_t>(bytes), 16);
      }
    }
    values->oob_fill = map.oob_fill_nan ? 1 : 0;
    return Mode(map.swizzle, "the swizzle of a tensor map", kSwizzles, &values->swizzle) &&
           Mode(map.interleave, "the interleave of a tensor map", kInterleaves, &values->interleave) &&
           Mode(map.l2_promotion, "the L2 promotion of a tensor map", kL2Promotions, &values->l2_promotion) &&
           Int(source_.At(map.base_offset_bytes), "the offset of a tensor map", std::numeric_limits<int64_t>::min(),
               std::numeric_limits<int64_t>::max(), &values->base_offset_bytes);
  }

 private:
  template <typename Step>
  bool SharedBytes(const Step& step, LaunchValues* values) {
    return Int(source_.At(step.dynamic_shared_bytes), "the dynamic shared memory", 0,
               std::numeric_limits<int32_t>::max(), &values->dynamic_shared_bytes);
  }

  template <typename List>
  bool Extents(const List& list, const char* what, std::array<uint32_t, 3>* extents, int least = 1) {
    for (size_t axis = 0; axis < 3; ++axis) {
      if (!Int(source_.At(list, axis), what, least, std::numeric_limits<int32_t>::max(), &(*extents)[axis]))
        return false;
    }
    return true;
  }

  // The number of the mode's name; the first without a formula.
  template <typename Field>
  bool Mode(const Field& field, const char* what, std::span<const std::string_view> names, int* mode) {
    const auto formula = source_.At(field);
    if (!formula) return true;
    std::string_view text;
    if (!source_.Text(*formula, what, &text)) return false;
    *mode = ModeOf(names, text);
    return *mode >= 0 || source_.NoMode(*formula, what, text, names);
  }

  Source& source_;
};

}  // namespace tunefarm::driver_step
