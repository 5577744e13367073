#include "client/launch/lane.h"

#include <algorithm>

namespace tunefarm::launch {
namespace {

constexpr size_t kLanesMax = 32;
constexpr size_t kLanesBytesMax = 4 << 20;
constexpr size_t kTriesMax = 4;

}  // namespace

Lanes::Lanes(size_t steps, size_t arguments) {
  const size_t bytes = sizeof(Lane) + steps * (sizeof(StepValues) + arguments * sizeof(ArgumentValue));
  count_ = std::clamp<size_t>(kLanesBytesMax / bytes, 1, kLanesMax);
  lanes_ = std::make_unique<Lane[]>(count_);
  for (size_t i = 0; i < count_; ++i) {
    Lane& lane = lanes_[i];
    lane.steps.resize(steps);
    lane.arguments = std::make_unique<ArgumentValue[]>(steps * arguments);
    for (size_t step = 0; step < steps; ++step) lane.steps[step].arguments = lane.arguments.get() + step * arguments;
  }
}

Lane* Lanes::Take(uint64_t hash) {
  for (size_t i = 0; i < kTriesMax; ++i) {
    Lane& lane = lanes_[(hash + i) % count_];
    if (!lane.is_taken.exchange(true, std::memory_order_acquire)) return &lane;
  }
  return nullptr;
}

}  // namespace tunefarm::launch
