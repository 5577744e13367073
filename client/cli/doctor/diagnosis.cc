#include "client/cli/doctor/diagnosis.h"

#include <fmt/core.h>

#include <algorithm>

#include "server/base/status_macros.h"

namespace tunefarm::cli {

absl::StatusOr<ExitCode> Diagnosis::Print(const Session& session) const {
  ASSIGN_OR_RETURN(const OutputFormat format, session.format_without_csv());
  std::string text;
  std::string json;
  for (const Entry& entry : entries_) {
    const char* const word = entry.kind == Kind::kGood ? "ok" : entry.kind == Kind::kHint ? "note" : "FAIL";
    const Style style = entry.kind == Kind::kGood   ? Style::kGreen
                        : entry.kind == Kind::kHint ? Style::kYellow
                                                    : Style::kRed;
    text += session.Styled(style, word) + (entry.kind == Kind::kGood ? "    " : "  ") + Visible(entry.text) + "\n";
    if (!entry.advice.empty()) text += "        " + Visible(entry.advice) + "\n";
    json += fmt::format("{}\n  {{\"result\": {}, \"text\": {}, \"advice\": {}}}", json.empty() ? "" : ",",
                        JsonString(word), JsonString(entry.text), JsonString(entry.advice));
  }
  session.Print(format == OutputFormat::kJson ? "{\n \"findings\": [" + json + "\n ]\n}\n" : text);
  const bool has_failed =
      std::any_of(entries_.begin(), entries_.end(), [](const Entry& entry) { return entry.kind == Kind::kBad; });
  return has_failed ? kExitFailed : kExitOk;
}

}  // namespace tunefarm::cli
