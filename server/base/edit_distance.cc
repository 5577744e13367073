#include "server/base/edit_distance.h"

#include <algorithm>
#include <cstddef>

namespace tunefarm {
namespace {

constexpr size_t kNameBytesMax = 128;

std::string LowerCase(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

}  // namespace

int EditDistance(std::string_view a, std::string_view b, int distance_max) {
  if (a.size() > b.size()) std::swap(a, b);
  if (b.size() - a.size() > static_cast<size_t>(distance_max)) return distance_max + 1;
  // row[j] is the distance between the first i bytes of b and the first j bytes of a; a swap looks two rows back.
  std::vector<int> row(a.size() + 1), last(a.size() + 1), before_last(a.size() + 1);
  for (size_t j = 0; j <= a.size(); ++j) row[j] = static_cast<int>(j);
  int smallest_before = 0;
  for (size_t i = 1; i <= b.size(); ++i) {
    std::swap(before_last, last);
    std::swap(last, row);
    row[0] = static_cast<int>(i);
    int smallest = row[0];
    for (size_t j = 1; j <= a.size(); ++j) {
      const int replaced = last[j - 1] + (a[j - 1] == b[i - 1] ? 0 : 1);
      row[j] = std::min({replaced, last[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a[j - 1] == b[i - 2] && a[j - 2] == b[i - 1]) {
        row[j] = std::min(row[j], before_last[j - 2] + 1);
      }
      smallest = std::min(smallest, row[j]);
    }
    // A row is made of the two before it, so nothing smaller can follow.
    if (std::min(smallest, smallest_before) > distance_max) return distance_max + 1;
    smallest_before = smallest;
  }
  return std::min(row[a.size()], distance_max + 1);
}

std::optional<std::string> ClosestMatch(std::string_view name, const std::vector<std::string>& candidates) {
  if (name.size() > kNameBytesMax) return std::nullopt;
  const std::string wanted = LowerCase(name);
  std::optional<std::string> best;
  int best_distance = 4;
  for (const std::string& candidate : candidates) {
    if (candidate.size() > kNameBytesMax) continue;
    const int allowed = std::min(best_distance - 1, static_cast<int>(std::max(name.size(), candidate.size()) / 3));
    if (allowed < 0) break;
    const int distance = EditDistance(wanted, LowerCase(candidate), allowed);
    if (distance > allowed) continue;
    best = candidate;
    best_distance = distance;
  }
  return best;
}

}  // namespace tunefarm
