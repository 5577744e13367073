// KernelStore: the definitions of kernels, which never change. Threads and errors: as Store (store.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/page.h"

namespace tunefarm {

struct KernelRow {
  std::string kernel_id;       // hex
  std::string program_digest;  // hex
  std::string display_name;
  std::string definition;  // opaque
  int64_t created_at_ms = 0;
};

class KernelStore {
 public:
  virtual ~KernelStore() = default;

  // Idempotent.
  virtual absl::Status PutKernel(const KernelRow& kernel) = 0;
  virtual absl::StatusOr<KernelRow> GetKernel(std::string_view kernel_id) = 0;
  // The newest of that name.
  virtual absl::StatusOr<KernelRow> FindKernel(std::string_view display_name) = 0;
  virtual absl::StatusOr<Page<KernelRow>> ListKernels(const PageRequest& page) = 0;  // newest first
  // Removes kernels that are neither the newest of their name nor used by a job or a best, and were stored before.
  // Returns how many went.
  virtual absl::StatusOr<int64_t> DeleteUnusedKernels(int64_t created_before_ms) = 0;
};

}  // namespace tunefarm
