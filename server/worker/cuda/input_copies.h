// Further copies of a problem's inputs and outputs, which samples go through in turn: a launch then finds nothing of
// its own data in a cache, without a flush. Each copy lies between guard zones, and the inputs' checksums hold for
// each. Work space and buffers that are both read and written exist once.
//
// One thread. The problem's buffers must outlive it and keep their places.
#pragma once

#include <string>
#include <vector>

#include "server/definition/kernel_plan.h"
#include "server/worker/cuda/cuda_problem.h"

namespace tunefarm::cuda {

class InputCopies {
 public:
  explicit InputCopies(const RunTools& tools) : tools_(tools) {}

  // Makes as many copies that there are `wanted` sets with the original, fewer when they would take more than half of
  // the free device memory. `plans` and `originals` are the problem's buffers.
  Failure Make(const std::vector<BufferPlan>& plans, const DeviceViews& originals, int wanted);

  // Sets, the original included.
  int count() const { return static_cast<int>(copies_.size()) + 1; }
  // Where the buffers of a set lie; 0 is the original.
  DeviceViews Views(int set) const;
  // Whether between two uses of a set the others push everything of it out of a cache of so many bytes.
  bool Outgrow(int64_t cache_bytes) const;

  // Waits, then looks for damage around and in the copies: OUT_OF_BOUNDS with the place.
  Failure FindDamage();

 private:
  struct Copy {
    std::string name;
    bool is_input = false;
    GuardedBuffer memory;
  };

  Failure MakeOne(const std::vector<BufferPlan>& plans, std::vector<Copy>* copies);
  std::vector<ByteRange> Inputs() const;

  const RunTools tools_;
  DeviceViews originals_;
  uint64_t bytes_per_copy_ = 0;
  std::vector<std::vector<Copy>> copies_;
  std::vector<uint64_t> checksums_;
};

}  // namespace tunefarm::cuda
