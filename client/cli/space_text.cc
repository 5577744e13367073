#include "client/cli/space_text.h"

#include <fmt/core.h>

#include <limits>
#include <optional>

#include "server/base/format.h"

namespace tunefarm::cli {
namespace {

// The product of the domains where it is a number that fits.
std::optional<int64_t> CartesianCount(const v1::SpaceSize& space) {
  std::string digits;
  for (const char c : space.cartesian()) {
    if (c != ',') digits += c;
  }
  const bool fits = digits.size() <= 18 && digits.find_first_not_of("0123456789") == std::string::npos;
  return fits && !digits.empty() ? std::optional<int64_t>(std::stoll(digits)) : std::nullopt;
}

// Counts of rules that were counted add up with what is left; those that were sampled do not.
bool RulesAreCounted(const v1::SpaceSize& space) {
  const std::optional<int64_t> all = CartesianCount(space);
  if (space.approximate() || !all.has_value()) return false;
  double sum = static_cast<double>(space.valid());
  for (const v1::RuleCount& rule : space.rules()) sum += static_cast<double>(rule.removed());
  return sum == static_cast<double>(*all);
}

}  // namespace

std::string CartesianText(const v1::SpaceSize& space) {
  const std::optional<int64_t> count = CartesianCount(space);
  return count.has_value() ? FormatCount(*count) : space.cartesian();
}

std::string ValidText(const v1::SpaceSize& space) {
  if (space.valid() == std::numeric_limits<int64_t>::max()) return "9.2e18 or more";
  return (space.approximate() ? "≈" : "") + FormatCount(space.valid());
}

std::string RulesText(const v1::SpaceSize& space, std::string_view indent) {
  const std::string about = RulesAreCounted(space) ? "" : "≈";
  std::string text;
  int idle = 0;
  for (const v1::RuleCount& rule : space.rules()) {
    if (rule.removed() == 0) {
      ++idle;
      continue;
    }
    const std::string removed = "-" + about + FormatCount(rule.removed());
    text += fmt::format("{}{:>12}  {}\n", indent, removed, rule.reason().empty() ? rule.rule() : rule.reason());
    if (!rule.reason().empty()) text += fmt::format("{}{:>12}  {}\n", indent, "", "  " + rule.rule());
  }
  if (idle > 0) text += fmt::format("{}{:>12}  {} removed nothing\n", indent, "", FormatCount(idle, "other rule"));
  return text;
}

}  // namespace tunefarm::cli
