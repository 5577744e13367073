// Files as they are shared: plain or gzip. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace tunefarm::interchange {

// Whether the bytes begin as a gzip file does.
bool IsGzip(std::string_view bytes);

// The content of a gzip file of any number of members. InvalidArgument, with `file_name` and the place in it, for
// damaged or incomplete data, for bytes behind the end and for more than `bytes_max` of content, of which never more is
// unpacked than that.
absl::StatusOr<std::string> Gunzip(std::string_view bytes, std::string_view file_name, uint64_t bytes_max);

// `bytes` themselves, or what they unpack to.
absl::StatusOr<std::string> PlainText(std::string bytes, std::string_view file_name, uint64_t bytes_max);

}  // namespace tunefarm::interchange
