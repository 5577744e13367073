#include "client/cli/studies/memory_text.h"

#include <fmt/core.h>

#include "server/base/format.h"

namespace tunefarm::cli {

std::string PriorsText(const v1::Study& study) {
  std::string text;
  for (const v1::PriorSourceSummary& source : study.priors()) {
    if (!text.empty()) text += ", ";
    text += source.difference().empty() ? "the same problem" : source.difference();
    text += " (" + FormatCount(source.measured(), "config");
    if (source.failed() > 0) text += fmt::format(", {} failed", FormatCount(source.failed()));
    text += ")";
  }
  return text;
}

std::string TakenOverText(const v1::Study& study) {
  const int64_t count = study.reused_from_earlier();
  if (count <= 0) return "";
  return FormatCount(count, "config was", "configs were") + " measured by earlier jobs and not run again";
}

std::string WithoutEffectText(const v1::Study& study) {
  std::string names;
  for (const std::string& name : study.parameters_without_effect()) names += (names.empty() ? "" : ", ") + name;
  if (names.empty()) return "";
  const bool is_one = study.parameters_without_effect_size() == 1;
  return fmt::format("parameter{} {} change{} neither binary nor launch", is_one ? "" : "s", names, is_one ? "s" : "");
}

}  // namespace tunefarm::cli
