// The options of strategies: declared in one table per strategy, read with clear errors, and shown in help texts.
//
// Pure functions; values are plain.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/search/strategy.h"

namespace tunefarm {

struct OptionSpec {
  std::string_view name;
  double default_value;
  double minimum;
  double maximum;
  bool is_whole;                 // only whole numbers
  std::string_view description;  // without the default and the range
};

// What was given, else the defaults, by name.
class OptionValues {
 public:
  double Real(std::string_view name) const { return values_.find(name)->second; }
  int Whole(std::string_view name) const { return static_cast<int>(Real(name)); }

 private:
  friend absl::StatusOr<OptionValues> ReadOptions(std::string_view strategy, std::span<const OptionSpec> specs,
                                                  const StrategyOptions& options);
  std::map<std::string, double, std::less<>> values_;
};

// InvalidArgument for an option that the strategy has not (with the likely meant one, or all), and for a value that is
// no number or out of range.
absl::StatusOr<OptionValues> ReadOptions(std::string_view strategy, std::span<const OptionSpec> specs,
                                         const StrategyOptions& options);

}  // namespace tunefarm
