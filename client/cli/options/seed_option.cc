#include "client/cli/options/seed_option.h"

#include <fmt/core.h>

#include <charconv>
#include <cstdint>
#include <limits>

namespace tunefarm::cli {

std::string CheckSeed(const std::string& text) {
  uint64_t seed = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, seed);
  if (error == std::errc() && rest == end) return "";
  return fmt::format("'{}' is not a whole number from 0 to {}", text, std::numeric_limits<uint64_t>::max());
}

}  // namespace tunefarm::cli
