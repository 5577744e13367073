#include "client/cli/options/life_option.h"

#include <charconv>

#include "server/base/status.h"

namespace tunefarm::cli {

absl::StatusOr<int64_t> ParseLife(std::string_view text) {
  constexpr int64_t kMax = int64_t{36'500} * 24 * 3600 * 1000;
  int64_t number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit(rest, static_cast<size_t>(text.data() + text.size() - rest));
  const int64_t unit_ms = unit == "d" ? 24 * 3600 * 1000 : unit == "h" ? 3600 * 1000 : unit == "m" ? 60 * 1000 : 1000;
  const bool has_unit = unit == "d" || unit == "h" || unit == "m" || unit == "s";
  if (error != std::errc() || !has_unit || number < 1 || number > kMax / unit_ms) {
    return InvalidArgument("--expires '{}' is no time; write for example 90d, 12h, 30m or 45s", text);
  }
  return number * unit_ms;
}

}  // namespace tunefarm::cli
