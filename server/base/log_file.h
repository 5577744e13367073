#pragma once

// The log in files of bounded size instead of on stderr.

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace tunefarm {

// From now on lines go to `path`, made if missing, with mode 0600; an empty path is stderr again. A line that would
// make the file larger than bytes_max goes into a new one, after the earlier ones ("d.log", "d.1.log", ...) have moved
// up by one and the last of them is gone: files_max in all, 1 to 100, the current one included. ErrnoStatus or
// InvalidArgument, with the log where it was, when the file cannot be opened. When it cannot be written later, lines
// are lost in silence. Thread-safe.
absl::Status LogToFile(const std::string& path, int64_t bytes_max, int files_max);

}  // namespace tunefarm
