#pragma once

// "Did you mean …?" for names that users type. Pure functions.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tunefarm {

// Edits between two texts in bytes: insert, delete, replace and swap of neighbours count 1 each, and what was swapped
// is not edited again (optimal string alignment). distance_max + 1 as soon as it must exceed distance_max (≥ 0), which
// bounds the work.
int EditDistance(std::string_view a, std::string_view b, int distance_max);

// The candidate closest to `name`, ignoring ASCII case, if it is close enough to be a likely typing error (a third of
// the longer one, at most 3); the first of equals. None for names above 128 bytes.
std::optional<std::string> ClosestMatch(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace tunefarm
