#include "server/definition/space_size.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "server/base/status_macros.h"

namespace tunefarm {
namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr double kExactDouble = 9.0e15;  // below, a double holds every whole number

int64_t Whole(double count) { return count >= static_cast<double>(kMost) ? kMost : std::llround(count); }

// A million samples know no more digits.
int64_t Sampled(double count) {
  if (count < 1000) return Whole(count);
  const double step = std::pow(10, std::floor(std::log10(count)) - 2);
  return Whole(std::round(count / step) * step);
}

}  // namespace

absl::StatusOr<v1::SpaceSize> SizeOfSpace(const Space& space) {
  ASSIGN_OR_RETURN(const PruneReport report, space.CountByRule());
  v1::SpaceSize size;
  size.set_cartesian(space.CartesianText());
  if (report.exact) {
    size.set_valid(Whole(report.valid));
  } else if (report.is_valid_exact) {
    size.set_valid(Whole(report.valid));
    if (report.valid > kExactDouble) {
      // More than 64 bits are an error here.
      const auto valid = space.CountValid();
      if (valid.ok()) size.set_valid(static_cast<int64_t>(std::min<uint64_t>(*valid, kMost)));
    }
  } else {
    size.set_approximate(true);
    // A limited time has been used by now.
    if (space.options().limit == nullptr) {
      const auto valid = space.CountValid(kSpaceListMax);
      if (valid.ok()) size.set_valid(static_cast<int64_t>(*valid));
      size.set_approximate(!valid.ok());
    }
    // Not a single sample may have been valid.
    if (size.approximate()) size.set_valid(std::max<int64_t>(1, Sampled(report.valid)));
  }
  for (const RuleCount& rule : report.rules) {
    v1::RuleCount* count = size.add_rules();
    count->set_rule(rule.text);
    count->set_reason(rule.reason);
    count->set_removed(report.exact ? Whole(rule.rejected) : Sampled(rule.rejected));
  }
  return size;
}

}  // namespace tunefarm
