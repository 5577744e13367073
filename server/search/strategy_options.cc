#include "server/search/strategy_options.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "server/base/edit_distance.h"
#include "server/base/status.h"
#include "server/expression/value.h"

namespace tunefarm {
namespace {

constexpr size_t kShownMax = 64;

absl::Status UnknownOption(std::string_view strategy, std::span<const OptionSpec> specs, const std::string& name) {
  const std::string shown = name.substr(0, kShownMax);
  if (specs.empty()) return InvalidArgument("the strategy {} has no option '{}'; it has none", strategy, shown);
  std::vector<std::string> names;
  for (const OptionSpec& spec : specs) names.emplace_back(spec.name);
  const auto close = ClosestMatch(name, names);
  if (close.has_value()) {
    return InvalidArgument("the strategy {} has no option '{}' (did you mean '{}'?)", strategy, shown, *close);
  }
  std::string all;
  for (const std::string& known : names) all += (all.empty() ? "" : ", ") + known;
  return InvalidArgument("the strategy {} has no option '{}'; it has {}", strategy, shown, all);
}

}  // namespace

absl::StatusOr<OptionValues> ReadOptions(std::string_view strategy, std::span<const OptionSpec> specs,
                                         const StrategyOptions& options) {
  OptionValues read;
  for (const OptionSpec& spec : specs) read.values_.emplace(spec.name, spec.default_value);
  for (const auto& [name, text] : options) {
    const auto spec =
        std::find_if(specs.begin(), specs.end(), [&n = name](const OptionSpec& s) { return s.name == n; });
    if (spec == specs.end()) return UnknownOption(strategy, specs, name);
    const auto value = Value::FromText(ValueType::kFloat, text);
    const double number = value.ok() ? value->float_value() : std::nan("");
    if (!std::isfinite(number) || (spec->is_whole && number != std::floor(number))) {
      return InvalidArgument("the option {} of the strategy {} takes {}, not '{}'", name, strategy,
                             spec->is_whole ? "a whole number" : "a number", text.substr(0, kShownMax));
    }
    if (number < spec->minimum || number > spec->maximum) {
      return InvalidArgument("the option {} of the strategy {} is {}, it must be {} to {}", name, strategy,
                             text.substr(0, kShownMax), spec->minimum, spec->maximum);
    }
    read.values_[name] = number;
  }
  return read;
}

}  // namespace tunefarm
