#include "server/records/named_data_files.h"

#include "server/base/status_macros.h"
#include "server/definition/data_file.h"
#include "server/records/kernel_registry.h"

namespace tunefarm {
namespace {

// In memory at once, with up to 8 MiB of sources each.
constexpr int kKernelsPerPage = 10;

}  // namespace

absl::StatusOr<std::unordered_set<std::string>> NamedDataFiles(KernelStore* kernels) {
  std::unordered_set<std::string> digests;
  std::string token;
  do {
    ASSIGN_OR_RETURN(const Page<KernelRow> page, kernels->ListKernels({kKernelsPerPage, token}));
    for (const KernelRow& row : page.rows) {
      const absl::StatusOr<v1::Kernel> kernel = KernelRegistry::KernelOf(row);
      if (!kernel.ok()) continue;  // Nobody can run it.
      for (const NamedDataFile& named : DataFilesOf(*kernel)) digests.insert(named.file->digest());
    }
    token = page.next_page_token;
  } while (!token.empty());
  return digests;
}

}  // namespace tunefarm
