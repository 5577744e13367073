// Where a page of bests ended, and the token that says so to a client. Any thread.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/catalog/catalog_entry.h"

namespace tunefarm {

// Orders bests by kernel name, class, problem and program. A best keeps its position, whatever is promoted.
std::string PagePosition(const CatalogEntry& entry);

std::string PageToken(std::string_view position);
// InvalidArgument (PAGE_TOKEN_INVALID) for a token that is not from PageToken.
absl::StatusOr<std::string> PositionOfToken(std::string_view token);

}  // namespace tunefarm
