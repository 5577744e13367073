// What a CUDA runner keeps of a prepared kernel: buffers between guard zones, the inputs of one seed, the reference's
// outputs, and the checks on all of them. Everything stays in device memory; checksums prove that inputs and reference
// are what they were.
//
// One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "server/worker/backend.h"
#include "server/worker/cuda/gpu_context.h"
#include "server/worker/cuda/harness.h"
#include "server/worker/cuda/launch_sequence.h"
#include "server/worker/verify/poison.h"

namespace tunefarm::cuda {

// The parts of a run worker that live as long as it does.
struct RunTools {
  const GpuContext& gpu;
  Harness& harness;
  Cublas& cublas;
};

class CudaProblem {
 public:
  // Allocates the buffers. OUT_OF_MEMORY when they cannot fit. Nothing is filled yet.
  static Failure Create(const RunTools& tools, std::shared_ptr<const PreparedKernel> kernel,
                        std::unique_ptr<CudaProblem>* problem);

  const PreparedKernel& kernel() const { return *kernel_; }
  int64_t footprint_bytes() const { return footprint_bytes_; }

  // Makes the inputs and reference outputs of a seed current; builds them unless they are and are whole. `between`, if
  // given, is called between the steps of building, when nothing of them is at work on the device.
  Failure SelectInputs(uint64_t seed, const std::function<void()>& between = {});
  // What PreparedKernel::expected_outputs of another worker needs of the current inputs; empty if there is no reference
  // or it would be longer than `bytes_max`, or cannot be read.
  std::string PackReference(uint64_t bytes_max);
  // What the results of this problem are to say beside their verdict: a tolerance that a constant would pass. Empty:
  // nothing, or it cannot be read. Waits.
  std::string Note() const;
  // Whether the inputs and reference outputs of some seed are built and no damage to them was found.
  bool is_whole() const { return seed_.has_value(); }
  // Work space whose size depends on the config. OUT_OF_MEMORY if it cannot be had.
  Failure ResizeScratch(const std::vector<BufferPlan>& plans);
  // Enqueues what brings every buffer to where it must be before a launch sequence: data, zeros or poison.
  Failure Reset(PoisonPattern pattern);
  // Enqueues what sets back the buffers that are restored before each sample.
  Failure Restore();
  bool has_restores() const;
  // Enqueues the poisoning of what starts as poison, with the second pattern. Outputs only.
  Failure PoisonOutputs();
  // Whether there are such outputs, and no more of them than is cheap to poison before each sample.
  bool has_poisonable_outputs() const;
  // Whether a launch sequence leaves the same outputs wherever it is repeated, if Restore and PoisonOutputs come
  // before.
  bool is_repeatable() const;
  // Waits, then looks for damage outside the buffers, to an input or to the reference: OUT_OF_BOUNDS with the place.
  // Guards are repaired; damaged data are rebuilt by the next SelectInputs.
  Failure FindDamage();
  // Compares the outputs with what the reference left under the same pattern. WRONG_RESULT, or nothing.
  Failure Verify(PoisonPattern pattern, tunefarm::v1::Verification* verification);
  // Copies the constants' data into a module.
  Failure WriteSymbols(LoadedModule* module);

  DeviceViews Views() const;

 private:
  struct Buffer {
    BufferPlan plan;
    GuardedBuffer memory;           // for a constant symbol: its data
    GuardedBuffer pristine;         // of buffers that start with data and are written
    GuardedBuffer expected;         // of outputs, as the reference left them under the first poison
    GuardedBuffer expected_second;  // only where the first leaves open what the reference wrote
    // Whether files, which are the same for every seed, were read, and nothing of this was changed since.
    bool holds_data = false;
    bool holds_expected = false;
  };
  // Memory that no trial may change.
  struct Sealed {
    std::string what;  // begins a sentence
    ByteRange range;
    uint64_t checksum = 0;
  };

  CudaProblem(const RunTools& tools, std::shared_ptr<const PreparedKernel> kernel);

  Failure Allocate();
  Failure AllocateBuffer(Buffer* buffer);
  Failure AllocateGuarded(uint64_t bytes, GuardedBuffer* buffer);
  Failure BuildInputs(uint64_t seed, const std::function<void()>& between);
  Failure Pause(const std::function<void()>& between);
  Failure LoadReference(std::unique_ptr<LoadedModule>* module);
  Failure BuildReference(LoadedModule* module, const std::function<void()>& between);
  std::string ReferenceKey(uint64_t seed) const;
  // Nothing in *taken if they are not of this seed, or not whole.
  Failure TakeReference(uint64_t seed, bool* taken);
  // Copies a file to the device by parts, each of which is checked before.
  Failure ReadFile(const tunefarm::v1::DataFile& file, const BufferPlan& plan,
                   Failure (*check)(const BufferPlan& plan, uint64_t first, std::span<const std::byte> elements),
                   CUdeviceptr target, const std::function<void()>& between);
  Failure ForgetChangedFiles();
  Failure CheckIndicesOnDevice(const BufferPlan& plan, CUdeviceptr data);
  Failure FillData(Buffer* buffer, uint64_t seed, const std::function<void()>& between);
  Failure RunPrepareSteps(LoadedModule* module);
  Failure RunReference(PoisonPattern pattern, LoadedModule* module);
  Failure KeepExpected(PoisonPattern pattern);
  Failure FindAmbiguity(bool* ambiguous);
  Failure RunFromReference(Sequence sequence, LoadedModule* module, const std::string& what);
  Failure Seal();
  // Whether each range is as it was sealed.
  Failure CheckSealed(std::vector<bool>* whole);
  Failure FindGuardDamage();
  Failure Copy(CUdeviceptr from, CUdeviceptr to, uint64_t bytes);
  Failure ResetBuffer(const Buffer& buffer, PoisonPattern pattern);

  const RunTools tools_;
  const std::shared_ptr<const PreparedKernel> kernel_;
  const Config default_config_;
  const TolerancePlan tolerance_;
  std::vector<Buffer> buffers_;
  std::vector<Sealed> sealed_;
  std::optional<uint64_t> seed_;  // of the inputs that are built and whole
  int64_t footprint_bytes_ = 0;
};

}  // namespace tunefarm::cuda
