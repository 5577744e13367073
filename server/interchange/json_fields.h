// Members of JSON objects as formats need them: present, of a kind, one of some words; and errors that say what is
// there instead. Private to this folder.
#pragma once

#include <fmt/core.h>

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/interchange/json_document.h"

namespace tunefarm::interchange {

// The member, or an error that names it and what may be meant to be it.
absl::StatusOr<JsonRef> Required(const JsonRef& object, std::string_view key);
absl::StatusOr<std::string> RequiredText(const JsonRef& object, std::string_view key);
absl::Status NeedArray(const JsonRef& ref);
absl::StatusOr<std::optional<double>> OptionalNumber(const JsonRef& object, std::string_view key);

// One of `table`'s words, or an error that lists them.
template <typename T>
absl::StatusOr<T> OneOf(const JsonRef& ref, const std::map<std::string, T, std::less<>>& table) {
  if (ref.is_string()) {
    const auto found = table.find(ref.text());
    if (found != table.end()) return found->second;
  }
  std::string words;
  for (const auto& [word, value] : table) words += (words.empty() ? "" : ", ") + word;
  return ref.Error(kBadField, "{} is none of {}",
                   ref.is_string() ? "'" + ref.text().substr(0, 64) + "'" : std::string(JsonKindName(ref.kind())),
                   words);
}

}  // namespace tunefarm::interchange
