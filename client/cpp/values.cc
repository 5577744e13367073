// Texts of the public headers' values.

#include <charconv>
#include <cmath>

#include "tunefarm/client/answer.h"
#include "tunefarm/client/job.h"
#include "tunefarm/client/status.h"
#include "tunefarm/client/value.h"

namespace tunefarm::client {

const char* CodeName(Code code) {
  static constexpr const char* kNames[] = {
      "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
      "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
      "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
      "DATA_LOSS", "UNAUTHENTICATED"};
  const auto index = static_cast<size_t>(code);
  return index < std::size(kNames) ? kNames[index] : "UNKNOWN";
}

std::string Status::ToText() const {
  if (ok()) return "OK";
  return std::string(CodeName(code)) + ": " + message + (reason.empty() ? "" : " [" + reason + "]");
}

std::string Value::ToText() const {
  switch (kind_) {
    case Kind::kInt:
      return std::to_string(int_);
    case Kind::kBool:
      return int_ != 0 ? "true" : "false";
    case Kind::kString:
      return string_;
    case Kind::kDouble:
      break;
  }
  char text[32];
  const auto [end, error] = std::to_chars(text, text + sizeof(text), double_);
  return error == std::errc() ? std::string(text, end) : std::string("nan");
}

std::string Config::ToText() const {
  std::string text;
  for (const auto& [name, value] : values_) text += (text.empty() ? "" : " ") + name + "=" + value.ToText();
  return text;
}

const char* MatchName(Match match) {
  static constexpr const char* kNames[] = {"UNSPECIFIED",   "EXACT",     "STALE",   "STALE_SOURCE",
                                           "NEAREST_SHAPE", "SAME_ARCH", "DEFAULT", "NOT_FOUND"};
  const auto index = static_cast<size_t>(match);
  return index < std::size(kNames) ? kNames[index] : "UNSPECIFIED";
}

const char* JobStateName(JobState state) {
  static constexpr const char* kNames[] = {"UNSPECIFIED", "QUEUED",    "RUNNING", "PAUSED",
                                           "CANCELLING",  "SUCCEEDED", "FAILED",  "CANCELLED"};
  const auto index = static_cast<size_t>(state);
  return index < std::size(kNames) ? kNames[index] : "UNSPECIFIED";
}

}  // namespace tunefarm::client
