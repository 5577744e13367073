#include "server/worker/cuda/input_copies.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace tunefarm::cuda {
namespace {

// What the others must be larger than the cache, since replacement is not perfectly least-recently-used.
constexpr double kCacheMultiple = 2;

bool IsCopied(const BufferPlan& plan) {
  return !plan.is_constant_symbol && (plan.access == v1::ACCESS_IN || plan.access == v1::ACCESS_OUT);
}

}  // namespace

Failure InputCopies::Make(const std::vector<BufferPlan>& plans, const DeviceViews& originals, int wanted) {
  originals_ = originals;
  uint64_t footprint = 0;
  for (const BufferPlan& plan : plans) {
    if (!IsCopied(plan)) continue;
    footprint += GuardedBuffer::FootprintBytes(static_cast<uint64_t>(plan.bytes()));
    bytes_per_copy_ += static_cast<uint64_t>(plan.bytes());
  }
  if (footprint == 0) return {};
  uint64_t free = 0;
  TUNEFARM_RETURN_IF_FAILED(tools_.gpu.FreeBytes(&free));
  const int affordable = static_cast<int>(std::min<uint64_t>(free / 2 / footprint, 1000));
  for (int i = 1; i < wanted && i <= affordable; ++i) {
    std::vector<Copy> copies;
    TUNEFARM_RETURN_IF_FAILED(MakeOne(plans, &copies));
    copies_.push_back(std::move(copies));
  }
  return tools_.harness.Checksums(Inputs(), &checksums_);
}

Failure InputCopies::MakeOne(const std::vector<BufferPlan>& plans, std::vector<Copy>* copies) {
  const Driver& driver = tools_.gpu.driver();
  for (const BufferPlan& plan : plans) {
    if (!IsCopied(plan)) continue;
    Copy copy;
    copy.name = plan.name;
    copy.is_input = plan.access == v1::ACCESS_IN;
    const DeviceView& original = originals_.at(plan.name);
    TUNEFARM_RETURN_IF_FAILED(GuardedBuffer::Allocate(tools_.gpu, original.bytes, &copy.memory));
    TUNEFARM_RETURN_IF_FAILED(tools_.harness.FillGuards(copy.memory));
    TUNEFARM_RETURN_IF_FAILED(
        driver.Check(driver.cuMemcpyDtoDAsync(copy.memory.data(), original.data, original.bytes, tools_.gpu.stream()),
                     "A copy on the device failed"));
    copies->push_back(std::move(copy));
  }
  return {};
}

DeviceViews InputCopies::Views(int set) const {
  DeviceViews views = originals_;
  if (set == 0) return views;
  for (const Copy& copy : copies_[static_cast<size_t>(set) - 1]) views.at(copy.name).data = copy.memory.data();
  return views;
}

bool InputCopies::Outgrow(int64_t cache_bytes) const {
  return static_cast<double>(bytes_per_copy_) * static_cast<double>(copies_.size()) >=
         kCacheMultiple * static_cast<double>(std::max<int64_t>(cache_bytes, 1));
}

std::vector<ByteRange> InputCopies::Inputs() const {
  std::vector<ByteRange> ranges;
  for (const std::vector<Copy>& copies : copies_) {
    for (const Copy& copy : copies) {
      if (copy.is_input) ranges.push_back({copy.memory.data(), copy.memory.bytes()});
    }
  }
  return ranges;
}

Failure InputCopies::FindDamage() {
  if (copies_.empty()) return {};
  TUNEFARM_RETURN_IF_FAILED(tools_.gpu.Synchronize("The kernel crashed"));
  std::vector<CUdeviceptr> zones;
  std::vector<const Copy*> owners;
  for (const std::vector<Copy>& copies : copies_) {
    for (const Copy& copy : copies) {
      zones.push_back(copy.memory.guard_before());
      zones.push_back(copy.memory.guard_after());
      owners.push_back(&copy);
    }
  }
  std::vector<std::optional<GuardDamage>> damages;
  TUNEFARM_RETURN_IF_FAILED(tools_.harness.CheckGuards(zones, &damages));
  for (size_t i = 0; i < damages.size(); ++i) {
    if (!damages[i]) continue;
    return {v1::OUTCOME_OUT_OF_BOUNDS,
            fmt::format("Memory around a copy of buffer {} was written.", owners[i / 2]->name)};
  }
  std::vector<uint64_t> checksums;
  TUNEFARM_RETURN_IF_FAILED(tools_.harness.Checksums(Inputs(), &checksums));
  if (checksums == checksums_) return {};
  return {v1::OUTCOME_OUT_OF_BOUNDS, "A copy of an input buffer was changed, but its access is IN."};
}

}  // namespace tunefarm::cuda
