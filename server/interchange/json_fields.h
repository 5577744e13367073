// Members of JSON objects as formats need them: present, of a kind; and errors that say what is there instead. Private
// to this folder.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/interchange/json_document.h"

namespace tunefarm::interchange {

// The member, or an error that names it and the unknown member that may be a misspelling of it.
absl::StatusOr<JsonRef> Required(const JsonRef& object, std::string_view key);
absl::StatusOr<std::string> RequiredText(const JsonRef& object, std::string_view key);
absl::Status NeedArray(const JsonRef& ref);
absl::StatusOr<std::optional<double>> OptionalNumber(const JsonRef& object, std::string_view key);

}  // namespace tunefarm::interchange
