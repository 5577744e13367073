#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "server/base/unique_fd.h"

namespace tunefarm {

// A whole data file of the user's (tunefarm.v1.DataFile), open for reading. Copies share the descriptor, which is only
// read by position (pread), so that any thread and any worker may use it. The file keeps its content while it is open,
// also when its name goes.
struct DataFileHandle {
  std::string digest;  // SHA-256 of the content, 64 lower-case hexadecimal digits
  int64_t bytes = 0;
  std::shared_ptr<const UniqueFd> file;  // read-only, close-on-exec
};

}  // namespace tunefarm
