#include "server/interchange/json_fields.h"

#include <cmath>
#include <vector>

#include "server/base/edit_distance.h"
#include "server/base/status_macros.h"

namespace tunefarm::interchange {

absl::StatusOr<JsonRef> Required(const JsonRef& object, std::string_view key) {
  if (!object.is_object())
    return object.Error(kBadField, "an object is needed here, not {}", JsonKindName(object.kind()));
  const std::optional<JsonRef> member = object.Find(key);
  if (member.has_value()) return *member;
  std::vector<std::string> keys;
  for (const JsonRef& child : object.Children()) keys.push_back(child.key());
  const std::optional<std::string> close = ClosestMatch(std::string(key), keys);
  return object.Error(kBadField, "\"{}\" is missing{}", key,
                      close ? fmt::format(" (misspelled as \"{}\"?)", *close) : "");
}

absl::StatusOr<std::string> RequiredText(const JsonRef& object, std::string_view key) {
  ASSIGN_OR_RETURN(const JsonRef member, Required(object, key));
  if (!member.is_string())
    return member.Error(kBadField, "a string is needed here, not {}", JsonKindName(member.kind()));
  return member.text();
}

absl::Status NeedArray(const JsonRef& ref) {
  return ref.is_array() ? absl::OkStatus()
                        : ref.Error(kBadField, "an array is needed here, not {}", JsonKindName(ref.kind()));
}

absl::StatusOr<std::optional<double>> OptionalNumber(const JsonRef& object, std::string_view key) {
  const std::optional<JsonRef> member = object.Find(key);
  if (!member.has_value()) return std::optional<double>();
  if (!member->is_number() || !std::isfinite(member->number())) {
    return member->Error(kBadField, "a number is needed here, not {}", JsonKindName(member->kind()));
  }
  return std::optional<double>(member->number());
}

}  // namespace tunefarm::interchange
