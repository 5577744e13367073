#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tunefarm {

// Page tokens: the key of the last row of a page, so that rows which come or go between two pages neither repeat nor
// hide others. Opaque to clients (base64url), with a hash of the query that they belong to and one of themselves.

// Most rows that a page has; a larger page_size means this one.
inline constexpr int kPageSizeMax = 1000;
inline constexpr int kPageSizeDefault = 50;  // for a page_size of 0 or less
int EffectivePageSize(int page_size);

std::string EncodePageToken(std::string_view query, const std::vector<int64_t>& key);

// The key, which has `size` numbers; none for an empty token, the first page. InvalidArgument, reason
// PAGE_TOKEN_INVALID, unless EncodePageToken made it for the same query.
absl::StatusOr<std::optional<std::vector<int64_t>>> DecodePageToken(std::string_view query, std::string_view token,
                                                                    size_t size);

}  // namespace tunefarm
