// KernelStore: the definitions of kernels, which never change but can be deleted. Threads and errors: as Store
// (store.h).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
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
  std::string definition;     // opaque
  int64_t created_at_ms = 0;  // when it was submitted last
  // Who submitted it first; empty: a local socket. A kernel that is stored again keeps its owner.
  std::string owner;
  // What the owner may have stored with this one: kernels, and bytes of their definitions; 0: no limit. Not read back.
  int64_t owner_kernels_max = 0, owner_bytes_max = 0;
};

class KernelStore {
 public:
  virtual ~KernelStore() = default;

  // Makes it the newest of its name, also where it is stored already. ResourceExhausted (KERNEL_QUOTA) for a new one
  // that is more than its owner may have.
  virtual absl::Status PutKernel(const KernelRow& kernel) = 0;
  // NotFound (KERNEL_DELETED) for one that was deleted, while jobs or best configs name it.
  virtual absl::StatusOr<KernelRow> GetKernel(std::string_view kernel_id) = 0;
  // The newest of that name: the one that was submitted last.
  virtual absl::StatusOr<KernelRow> FindKernel(std::string_view display_name) = 0;
  // The newest of that name and program.
  virtual absl::StatusOr<KernelRow> FindProgram(std::string_view display_name, std::string_view program_digest) = 0;
  // The program of the newest of each name.
  virtual absl::StatusOr<std::map<std::string, std::string, std::less<>>> NewestPrograms() = 0;
  virtual absl::StatusOr<Page<KernelRow>> ListKernels(const PageRequest& page) = 0;  // newest first
  // Deletes the definition; best configs, their history and ended jobs stay. `owner`: whose it must be; none:
  // anybody's. PermissionDenied (KERNEL_OWNER) where it is somebody else's; FailedPrecondition (KERNEL_IN_USE) while a
  // job of it has not ended; NotFound also where it was deleted before.
  virtual absl::Status DeleteKernel(std::string_view kernel_id, const std::optional<std::string>& owner,
                                    int64_t now_ms) = 0;
  // Removes kernels that were submitted last before, and that no job, best config or counted miss refers to. Returns
  // how many went.
  virtual absl::StatusOr<int64_t> DeleteUnusedKernels(int64_t created_before_ms) = 0;
};

}  // namespace tunefarm
