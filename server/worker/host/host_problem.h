// What a host runner keeps of a prepared kernel: the buffers, the input sets with their reference outputs, and the
// checks on both. Inputs and references live in private memory that no trial can reach for the parent; only the buffers
// are shared.
//
// One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/base/clock.h"
#include "server/definition/kernel_plan.h"
#include "server/worker/backend.h"
#include "server/worker/host/kernel_calls.h"
#include "server/worker/host/mapped_buffer.h"
#include "server/worker/host/trial/trial_process.h"
#include "server/worker/host/unforked_bytes.h"
#include "server/worker/verify/compare.h"
#include "server/worker/verify/failure.h"
#include "server/worker/verify/poison.h"

namespace tunefarm {

class HostProblem {
 public:
  static constexpr int kVariantsMax = 3;
  // More is not poisoned between samples: it would cost more than the flush does.
  static constexpr size_t kPoisonBytesMax = 1 << 20;

  // Allocates the buffers. OUT_OF_MEMORY when they cannot fit. Nothing is filled yet. `trial_processes_max`: as in
  // WorkerOptions.
  static Failure Create(std::shared_ptr<const PreparedKernel> kernel, int64_t trial_processes_max,
                        std::unique_ptr<HostProblem>* problem);

  const PreparedKernel& kernel() const { return *kernel_; }
  // Of every program that loads a binary of the kernel.
  uint64_t trial_processes_max() const { return trial_processes_max_; }
  int64_t footprint_bytes() const { return footprint_bytes_; }

  // Makes the inputs and reference outputs of a seed current, building them if they are not kept.
  Failure SelectInputs(uint64_t seed);

  // Builds variants of the inputs, of seeds that this process draws: no trial can know them before it is launched on
  // them. Fewer where the inputs are large or took long to build, none where outputs cannot be judged or a binary holds
  // a part of the inputs. What goes wrong costs variants only, unless no process can be made. The inputs that were
  // current stay so. While no trial lives: outputs of the reference pass through the buffers.
  Failure BuildVariants();
  // Those that there are.
  int VariantCount() const;
  void SelectVariant(int variant);
  uint64_t variant_seed(int variant) const { return variant_seeds_.at(static_cast<size_t>(variant)); }

  // What the results of this problem are to say beside their verdict: a tolerance that a constant would pass. Empty:
  // nothing.
  std::string Note() const;

  // Work space whose size depends on the config. LOAD_ERROR or OUT_OF_MEMORY if it cannot be had.
  Failure ResizeScratch(const std::vector<BufferPlan>& buffers);

  // Every buffer as it must be before a launch sequence: data, zeros or poison; guards and inputs repaired.
  void Reset(PoisonPattern pattern);

  // Damage outside the buffers or to an input: OUT_OF_BOUNDS with the place. Does not repair; Reset does.
  Failure FindDamage() const;

  // Compares the outputs with what the reference left under the same pattern. WRONG_RESULT, or nothing.
  Failure Verify(PoisonPattern pattern, tunefarm::v1::Verification* verification) const;

  BufferViews Views();
  // What a trial copies after load and before samples.
  std::vector<TrialCopy> SymbolCopies() const;
  std::vector<TrialCopy> RestoreCopies();
  // What it poisons before samples: every output that is not restored and starts without data. Nothing if that is more
  // than kPoisonBytesMax.
  std::vector<TrialPoison> PoisonedOutputs();
  // Whether a launch sequence leaves the same outputs wherever it is repeated, if PoisonedOutputs are poisoned and
  // RestoreCopies made before.
  bool IsRepeatable() const;

  // "12 bytes past the end of buffer c", if the address lies in or near a buffer.
  std::optional<std::string> Locate(uintptr_t address) const;

 private:
  using Bytes = UnforkedBytes;

  struct Buffer {
    BufferPlan plan;
    MappedBuffer memory;  // empty for constant symbols
  };

  // Everything that depends on the seed.
  struct InputSet {
    uint64_t seed = 0;
    std::map<std::string, Bytes> data;             // of buffers and symbols that start with data, if not a file's
    std::map<std::string, Bytes> expected_first;   // of outputs, under the first poison, if no file says what it is
    std::map<std::string, Bytes> expected_second;  // of those that the second poison changes
    size_t bytes = 0;
  };

  HostProblem() = default;

  Failure Allocate();
  Failure BuildInputs(uint64_t seed);
  // The data of a buffer or symbol that starts with data.
  const Bytes& DataOf(const BufferPlan& plan) const;
  // What an output must be under a pattern; null without a reference.
  const Bytes* ExpectedOf(const BufferPlan& plan, PoisonPattern pattern) const;
  Failure ReadFile(const BufferPlan& plan, const tunefarm::v1::DataFile& file);
  Failure ReadExpected();
  Failure FillData(uint64_t seed);
  Failure FillScratch(const BufferPlan& plan);
  Failure RunPrepareSteps();
  Failure RunReference(PoisonPattern pattern);
  Failure KeepExpected();
  // Runs steps of the reference binary in a fork, on the buffers as they are.
  Failure RunFromReference(Sequence sequence, const std::string& what);
  void ResetBuffer(Buffer* buffer, PoisonPattern pattern);

  std::shared_ptr<const PreparedKernel> kernel_;
  Config default_config_;
  TolerancePlan tolerance_;
  std::vector<Buffer> buffers_;
  std::map<std::string, Bytes> file_data_;  // by digest; the same for every seed
  std::map<uint64_t, InputSet> input_sets_;
  InputSet* current_ = nullptr;
  int64_t footprint_bytes_ = 0;
  uint64_t trial_processes_max_ = 0;
  Duration inputs_took_{};  // to build, the last set
  std::vector<uint64_t> variant_seeds_;
};

// The artifact as a descriptor that a trial can load. ResourceExhausted without memory.
absl::StatusOr<UniqueFd> OpenLibrary(const std::string& artifact);

}  // namespace tunefarm
