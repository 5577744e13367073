// How long a token or certificate is valid, as people write it.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"

namespace tunefarm::cli {

// "90d", "12h", "30m" or "45s", at least a second and at most a hundred years, in milliseconds. InvalidArgument.
absl::StatusOr<int64_t> ParseLife(std::string_view text);

}  // namespace tunefarm::cli
