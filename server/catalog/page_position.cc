#include "server/catalog/page_position.h"

#include <algorithm>
#include <optional>

#include "absl/strings/escaping.h"
#include "server/base/status.h"

namespace tunefarm {
namespace {

constexpr char kSeparator = '\x1f';

std::optional<std::string> Unhex(std::string_view hex) {
  const auto digit = [](char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; };
  if (hex.size() % 2 != 0 || hex.size() > 16384) return std::nullopt;
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2) {
    const int high = digit(hex[i]), low = digit(hex[i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    bytes += static_cast<char>(high * 16 + low);
  }
  return bytes;
}

}  // namespace

std::string PagePosition(const CatalogEntry& entry) {
  std::string position(entry.kernel_name);
  for (std::string_view part : {entry.class_id, entry.problem_key, entry.program_digest}) {
    position += kSeparator;
    position += part;
  }
  return position;
}

std::string PageToken(std::string_view position) { return absl::BytesToHexString({position.data(), position.size()}); }

absl::StatusOr<std::string> PositionOfToken(std::string_view token) {
  std::optional<std::string> position = Unhex(token);
  if (!position.has_value() || std::count(position->begin(), position->end(), kSeparator) != 3) {
    return WithReason(InvalidArgument("the page token does not belong to this list; start again without one"),
                      "PAGE_TOKEN_INVALID");
  }
  return *std::move(position);
}

}  // namespace tunefarm
