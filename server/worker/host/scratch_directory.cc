#include "server/worker/host/scratch_directory.h"

#include "server/base/file.h"

namespace tunefarm {

absl::Status EmptyScratchDirectory(const std::string& path) {
  return path.empty() ? absl::OkStatus() : EmptyDirectory(path);
}

}  // namespace tunefarm
