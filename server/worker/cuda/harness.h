// The run worker's own kernels (harness.cu): fills, poison, guards, checksums and comparison on the device. They mirror
// server/worker/verify, whose rules and formulas hold on both sides.
//
// One thread. Everything runs on the GPU context's stream; what returns a value waits for it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/worker/cuda/gpu_context.h"
#include "server/worker/cuda/harness_types.h"
#include "server/worker/cuda/nvrtc.h"
#include "server/worker/verify/compare.h"
#include "server/worker/verify/fill.h"

namespace tunefarm::cuda {

// What the kernels are compiled from; for the worker and its tests.
NvrtcInput HarnessSource(int compute_capability);

// Which bytes of a guard zone were overwritten.
struct GuardDamage {
  uint64_t first = 0;
  uint64_t last = 0;
};

struct ByteRange {
  CUdeviceptr data = 0;
  uint64_t bytes = 0;
};

// The kernels compiled for one kind of device. Half a second's work of NVRTC, which later workers need not do again.
struct HarnessBinary {
  std::string cubin;
  std::string toolchain;  // "NVRTC 13.0 (/usr/lib/...)"; for messages

  // FailedPrecondition with one sentence if the kernels do not compile.
  static absl::StatusOr<HarnessBinary> Compile(int compute_capability, const Nvrtc& nvrtc);
  // For RunBackend::warm_start, and back: nothing if it is not whole, or of other sources or another kind of device.
  std::string Pack(int compute_capability) const;
  static std::optional<HarnessBinary> Unpack(std::string_view packed, int compute_capability);
};

class Harness {
 public:
  // FailedPrecondition with one sentence if the kernels cannot be loaded.
  static absl::StatusOr<std::unique_ptr<Harness>> Create(const GpuContext& gpu, const HarnessBinary& binary);

  // Runs integer arithmetic and memory traffic whose result is known, several times. `right` says whether every result
  // was; the time is that of the fastest run.
  Failure CheckHealth(bool* right, double* nanoseconds);

  Failure Fill(const TunefarmFill& fill, CUdeviceptr output, uint64_t elements);
  Failure Poison(tunefarm::v1::DataType type, PoisonPattern pattern, CUdeviceptr output, uint64_t elements);
  Failure FillGuards(const GuardedBuffer& buffer);
  // One answer for each zone of kGuardBytes; nothing for a whole one.
  Failure CheckGuards(const std::vector<CUdeviceptr>& zones, std::vector<std::optional<GuardDamage>>* damages);
  Failure Checksums(const std::vector<ByteRange>& ranges, std::vector<uint64_t>* checksums);
  // Whether an element has these bits, of which those above the element's size are zero.
  Failure HasBits(tunefarm::v1::DataType type, uint64_t bits, CUdeviceptr data, uint64_t elements, bool* found);

  // Compare of server/worker/verify/compare.h, on the device. `pattern` is what `actual` held before its launch
  // sequence and `expected_pattern` what `expected` held; nothing for buffers that held data, and no `expected_pattern`
  // where none of what is expected is poison.
  struct CompareInput {
    std::string buffer;
    tunefarm::v1::DataType type;
    uint64_t elements = 0;
    CUdeviceptr actual = 0, expected = 0;
    std::optional<PoisonPattern> pattern, expected_pattern;
  };
  Failure Compare(const CompareInput& input, const TolerancePlan& tolerance, BufferComparison* found);

 private:
  explicit Harness(const GpuContext& gpu) : gpu_(gpu) {}

  Failure Launch(const char* kernel, uint64_t threads, void** parameters);
  Failure ReserveResults(uint64_t bytes);
  Failure RunHealthKernels(CUevent begin, CUevent end, bool* right, double* nanoseconds);
  Failure ReadFirstMismatches(const CompareInput& input, const TolerancePlan& tolerance,
                              const std::vector<uint32_t>& chunk_mismatches, BufferComparison* found);
  Failure CompareRows(const TunefarmComparison& pair, const TolerancePlan& tolerance, BufferComparison* found);
  Failure RowNorm(const TunefarmComparison& pair, uint64_t begin, uint64_t end, double* error, double* reference);

  const GpuContext& gpu_;
  CUmodule module_ = nullptr;
  std::map<std::string, CUfunction> functions_;
  GuardedBuffer results_;
};

}  // namespace tunefarm::cuda
