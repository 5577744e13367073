// A sequence's steps as calls: planned by the runner, sent to the trial's process, resolved against the loaded shared
// object there and made. What they call may crash, hang or throw.
//
// One thread. Nothing here catches exceptions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/definition/kernel_plan.h"
#include "server/worker/host/library_gemm.h"

namespace tunefarm {

// A buffer as the called code sees it.
struct BufferView {
  tunefarm::v1::DataType type = tunefarm::v1::DATA_TYPE_UNSPECIFIED;
  std::span<std::byte> bytes;
};
using BufferViews = std::map<std::string, BufferView>;

// One step with everything that it is called with. Addresses are those of the buffers, which are the same on both sides
// of a fork.
struct HostCall {
  StepPlan::Kind kind = StepPlan::Kind::kKernel;
  bool timed = true;
  // kKernel
  std::string symbol;
  std::vector<tunefarm::v1::DataType> types;  // DATA_TYPE_UNSPECIFIED: a pointer
  std::vector<std::array<std::byte, 8>> values;
  // kMemset
  std::span<std::byte> memset_target;
  uint8_t memset_byte = 0;
  // kLibraryOp
  HostGemm gemm;
};

// `buffers` must outlive the calls. InvalidArgument for an argument that a host kernel cannot take.
absl::StatusOr<std::vector<HostCall>> PlanCalls(const std::vector<StepPlan>& steps, const BufferViews& buffers,
                                                const std::map<std::string, std::string>& lowered_names);

// The calls of a config's sequences, the prepare steps first.
struct HostSequences {
  std::vector<HostCall> prepare;  // run before those of kLaunch, untimed
  std::vector<HostCall> launches;
};

// Calls that follow each other and are all timed or all untimed make a stretch. Whether each stretch is timed.
std::vector<bool> StretchesOf(const std::vector<HostCall>& calls);

// For the way between two processes of one machine; library operations do not travel. Decode is for bytes that Encode
// made: false if they are cut short.
std::string EncodeSequences(const HostSequences& sequences);
bool DecodeSequences(std::string_view bytes, HostSequences* sequences);

class KernelCalls {
 public:
  // `library` is dlopen's handle, or nullptr for sequences without kernel steps. What the calls point to must outlive
  // this. NotFound for a missing entry.
  static absl::StatusOr<KernelCalls> Resolve(void* library, const std::vector<HostCall>& planned);

  KernelCalls();
  ~KernelCalls();
  KernelCalls(KernelCalls&&) noexcept;
  KernelCalls& operator=(KernelCalls&&) noexcept;

  // Runs the steps in order. Nanoseconds spent in the timed ones; the clock is read only where timed and untimed steps
  // meet.
  int64_t Run();
  // Runs the steps of one stretch (see StretchesOf) in order; nothing if there are not so many.
  void RunStretch(size_t stretch);

 private:
  struct Call;
  static void Make(Call* call);

  std::vector<std::unique_ptr<Call>> calls_;
};

}  // namespace tunefarm
