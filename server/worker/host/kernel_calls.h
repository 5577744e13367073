// Resolves the entries of a loaded shared object and calls them with typed arguments. Runs inside the forked trial:
// what it calls may crash, hang or throw.
//
// One thread. Nothing here catches exceptions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/definition/kernel_plan.h"

namespace tunefarm {

// A buffer as the called code sees it.
struct BufferView {
  tunefarm::v1::DataType type = tunefarm::v1::DATA_TYPE_UNSPECIFIED;
  std::span<std::byte> bytes;
};
using BufferViews = std::map<std::string, BufferView>;

class KernelCalls {
 public:
  // `library` is dlopen's handle, or nullptr for sequences without kernel steps. The steps and views must outlive this.
  // NotFound for a missing entry; InvalidArgument for an argument that a host kernel cannot take.
  static absl::StatusOr<KernelCalls> Resolve(void* library, const std::vector<StepPlan>& steps,
                                             const BufferViews& buffers,
                                             const std::map<std::string, std::string>& lowered_names);

  KernelCalls();
  ~KernelCalls();
  KernelCalls(KernelCalls&&) noexcept;
  KernelCalls& operator=(KernelCalls&&) noexcept;

  // Runs the steps in order. Nanoseconds spent in the timed ones; the clock is read only where timed and untimed steps
  // meet.
  int64_t Run();

 private:
  struct Call;
  std::vector<std::unique_ptr<Call>> calls_;
};

}  // namespace tunefarm
