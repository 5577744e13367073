#include "server/definition/field_error.h"

#include <algorithm>
#include <charconv>

#include "absl/strings/cord.h"
#include "server/base/edit_distance.h"
#include "server/definition/kernel_plan.h"

namespace tunefarm {
namespace {

constexpr char kFieldUrl[] = "tunefarm/field";
constexpr char kColumnUrl[] = "tunefarm/expression-column";

absl::string_view ToAbsl(std::string_view text) { return {text.data(), text.size()}; }

std::string Payload(const absl::Status& status, const char* url) {
  const auto payload = status.GetPayload(url);
  return payload.has_value() ? std::string(*payload) : std::string();
}

}  // namespace

std::string FieldPathOf(const absl::Status& status) { return Payload(status, kFieldUrl); }

namespace definition {
namespace internal {

absl::Status MakeFieldError(std::string_view path, std::string_view reason, fmt::string_view format,
                            fmt::format_args args) {
  const std::string message = fmt::vformat(format, args);
  absl::Status status = path.empty() ? InvalidArgument("{}", message) : InvalidArgument("{}: {}", path, message);
  status.SetPayload(kFieldUrl, absl::Cord(ToAbsl(path)));
  return WithReason(std::move(status), reason);
}

}  // namespace internal

absl::Status ExpressionError(std::string_view path, const absl::Status& status) {
  const std::string message(MessageOf(status));
  constexpr std::string_view kAnchor = "at column ";
  int column = 1;
  if (const size_t at = message.find(kAnchor); at != std::string::npos) {
    const char* begin = message.data() + at + kAnchor.size();
    std::from_chars(begin, message.data() + message.size(), column);
  }
  const bool unknown_name = message.find("unknown name") != std::string::npos;
  absl::Status error = FieldError(path, unknown_name ? kUnknownName : kExpressionError, "{}", message);
  error.SetPayload(kColumnUrl, absl::Cord(ToAbsl(std::to_string(column))));
  return error;
}

absl::Status ExpressionErrorAt(std::string_view path, std::string_view text, int column, std::string_view reason,
                               std::string_view message) {
  // The caret's line repeats tabs, so that it stands under its character.
  std::string pad;
  for (size_t i = 0; i + 1 < static_cast<size_t>(column) && i < text.size(); ++i) pad += text[i] == '\t' ? '\t' : ' ';
  absl::Status error =
      FieldError(path, reason, "expression error at column {}: {}\n  {}\n  {}^", column, message, text, pad);
  error.SetPayload(kColumnUrl, absl::Cord(ToAbsl(std::to_string(column))));
  return error;
}

int ExpressionColumnOf(const absl::Status& status) {
  const std::string text = Payload(status, kColumnUrl);
  int column = 0;
  std::from_chars(text.data(), text.data() + text.size(), column);
  return column;
}

std::string DidYouMean(std::string_view name, const std::vector<std::string>& candidates) {
  auto closest = ClosestMatch(name, candidates);
  // Two neighbours exchanged are two edits, too many for a short name, and yet the commonest slip.
  for (size_t i = 0; !closest.has_value() && i + 1 < name.size() && name.size() <= 64; ++i) {
    std::string swapped(name);
    std::swap(swapped[i], swapped[i + 1]);
    if (std::find(candidates.begin(), candidates.end(), swapped) != candidates.end()) closest = swapped;
  }
  return closest.has_value() ? fmt::format(" (did you mean '{}'?)", *closest) : std::string();
}

}  // namespace definition
}  // namespace tunefarm
