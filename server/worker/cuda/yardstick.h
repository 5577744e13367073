// A config whose launches alternate with those of the one that is measured: what slows the device slows both, and their
// ratio does not tell of it.
//
// It has its own module, and memory of its own for all that a kernel may write, so that neither finds the other's
// results. Inputs are the problem's.
//
// It stays for all trials of a final: a new one would lie elsewhere in memory, and a launch of some microseconds may
// take a percent more there.
//
// One thread. Must not outlive the problem, whose inputs must keep their places, nor the parts of the worker.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "server/worker/backend.h"
#include "server/worker/cuda/cuda_problem.h"
#include "server/worker/cuda/launch_sequence.h"
#include "server/worker/cuda/loaded_module.h"

namespace tunefarm::cuda {

class Yardstick {
 public:
  // Whether it is the one of `input` on the problem's inputs of this seed.
  bool Is(const YardstickInput& input, uint64_t input_seed) const;

  // On the problem's current inputs, whose other buffers and work spaces it leaves in any state. Null in *made, with
  // the reason, where it cannot be: buffers are restored before each sample, or there is no room for it. A failure is
  // the yardstick's.
  static Failure Make(const RunTools& tools, CudaProblem* problem, const YardstickInput& input, uint64_t input_seed,
                      std::unique_ptr<Yardstick>* made, std::string* why_not);

  LaunchSequence* launches() { return launches_.get(); }

  // Looks for damage around its memory: OUT_OF_BOUNDS. Waits.
  Failure FindDamage(const RunTools& tools) const;

 private:
  Yardstick() = default;

  std::string config_, artifact_;
  uint64_t input_seed_ = 0;
  std::vector<GuardedBuffer> memory_;
  std::unique_ptr<LoadedModule> module_;
  std::unique_ptr<LaunchSequence> launches_;
};

}  // namespace tunefarm::cuda
