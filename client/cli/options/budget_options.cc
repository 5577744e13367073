#include "client/cli/options/budget_options.h"

#include <charconv>
#include <cmath>

#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm::cli {
namespace {

constexpr double kSecondsMax = 1e9;  // 31 years
constexpr double kShareMax = 100;    // 10,000 %

// The number that the text begins with, which is taken off; NaN if there is none, or a negative one.
double TakeNumber(std::string_view* text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value, std::chars_format::fixed);
  if (error != std::errc() || std::signbit(value)) return std::nan("");
  text->remove_prefix(static_cast<size_t>(end - text->data()));
  return value;
}

double SecondsOf(char unit) {
  switch (unit) {
    case 's':
      return 1;
    case 'm':
      return 60;
    case 'h':
      return 3600;
    case 'd':
      return 24 * 3600;
    default:
      return std::nan("");
  }
}

absl::StatusOr<double> Annotated(absl::StatusOr<double> value, std::string_view option) {
  if (value.ok()) return value;
  return Annotate(value.status(), "{}", option);
}

}  // namespace

absl::StatusOr<double> ParseSeconds(std::string_view text) {
  double sum = 0;
  std::string_view rest = text;
  // "90" is seconds; with units the parts add up.
  const double alone = TakeNumber(&rest);
  if (rest.empty()) {
    sum = alone;
  } else {
    rest = text;
    while (!rest.empty()) {
      sum += TakeNumber(&rest) * (rest.empty() ? std::nan("") : SecondsOf(rest.front()));
      if (std::isnan(sum)) break;
      rest.remove_prefix(1);
    }
  }
  if (sum > kSecondsMax) return InvalidArgument("'{}' is more than {:.0f} s, the limit", text, kSecondsMax);
  if (sum > 0) return sum;
  return InvalidArgument("'{}' is not a time; write 90s, 10m, 1h30m or 2d", text);
}

absl::StatusOr<double> ParseShare(std::string_view text) {
  std::string_view rest = text;
  double share = TakeNumber(&rest);
  if (rest == "%") {
    share /= 100;
    rest = {};
  }
  if (rest.empty() && share > kShareMax) return InvalidArgument("'{}' is more than 10000%, the limit", text);
  if (rest.empty() && share > 0) return share;
  return InvalidArgument("'{}' is not a share; write 5% or 0.05", text);
}

void BudgetOptions::AddTo(CLI::App* command) {
  command->add_option("--max-trials", max_trials, "Stop after this many configs per problem.")
      ->check(CLI::Range(int64_t{1}, int64_t{1'000'000'000}));
  command->add_option("--max-time,--max-seconds", max_time, "Stop the search after this much time: 90s, 10m, 1h30m.")
      ->type_name("TIME");
  command->add_option("--max-device-time", max_device_time, "Stop the search after this much device time.")
      ->type_name("TIME");
  command
      ->add_option("--within-floor", within_floor,
                   "Stop when the best is at most this far above the roofline floor: 5%.")
      ->type_name("SHARE");
  command->add_option("--patience", patience, "Stop after this many configs in a row without a better one.")
      ->check(CLI::Range(int64_t{1}, int64_t{1'000'000'000}));
}

absl::StatusOr<v1::Budget> MakeBudget(const BudgetOptions& options) {
  v1::Budget budget;
  budget.set_max_trials(options.max_trials);
  budget.set_max_trials_without_gain(options.patience);
  if (!options.max_time.empty()) {
    ASSIGN_OR_RETURN(const double seconds, Annotated(ParseSeconds(options.max_time), "--max-time"));
    budget.set_max_seconds(static_cast<int64_t>(std::ceil(seconds)));
  }
  if (!options.max_device_time.empty()) {
    ASSIGN_OR_RETURN(const double seconds, Annotated(ParseSeconds(options.max_device_time), "--max-device-time"));
    budget.set_max_device_seconds(seconds);
  }
  if (!options.within_floor.empty()) {
    ASSIGN_OR_RETURN(const double share, Annotated(ParseShare(options.within_floor), "--within-floor"));
    budget.set_stop_within_floor(share);
  }
  return budget;
}

}  // namespace tunefarm::cli
