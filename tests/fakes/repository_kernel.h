// Definitions of the folder kernels/, for tests that compile or run them.
#pragma once

#include <cstdlib>
#include <string>

#include "absl/status/statusor.h"
#include "server/base/file.h"
#include "server/base/status_macros.h"
#include "server/definition/kernel_plan.h"
#include "tunefarm/v1/kernel.pb.h"

namespace tunefarm {

// "grouped_gemm/grouped_gemm_dx.pbtxt": with its sources and what it includes. From TUNEFARM_SOURCE_DIR, else the
// current folder.
inline absl::StatusOr<tunefarm::v1::Kernel> LoadRepositoryKernel(const std::string& path) {
  const char* const root = std::getenv("TUNEFARM_SOURCE_DIR");
  const std::string file = std::string(root == nullptr ? "." : root) + "/kernels/" + path;
  ASSIGN_OR_RETURN(const std::string text, ReadFile(file, 1 << 20));
  return LoadKernelText(
      text, path, [folder = ParentOf(file)](const std::string& name) { return ReadFileBelow(folder, name, 4 << 20); });
}

}  // namespace tunefarm
