#pragma once

// Payloads too large for one message travel as anonymous memory whose content can no longer change.

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/base/unique_fd.h"

namespace tunefarm {

// A memfd that holds `bytes` and can be neither written, grown, shrunk nor unsealed. Close-on-exec. `name` is for
// debugging (/proc/PID/fd; at most 249 bytes are used). ResourceExhausted when there is no memory or descriptor.
absl::StatusOr<UniqueFd> CreateSealedMemfd(std::string_view name, std::string_view bytes);

// The whole content, whatever the descriptor's file offset. The sender is not trusted: InvalidArgument for a descriptor
// that is no memfd or lacks one of the four seals (its content could change under us), ResourceExhausted for more than
// `bytes_max`. Does not close fd.
absl::StatusOr<std::string> ReadSealedMemfd(int fd, uint64_t bytes_max);

// The size of such a descriptor's content, for those who pass it on unread. Fails as ReadSealedMemfd does.
absl::StatusOr<uint64_t> SizeOfSealedMemfd(int fd, uint64_t bytes_max);

}  // namespace tunefarm
