// Trials for tests of the analyses.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "server/analysis/study_columns.h"

namespace tunefarm {

inline constexpr int kOk = 1, kFailed = 12;

// `ns`: 0 where it failed. It ends at `ended_ms`, by default in the order of the ordinals.
inline absl::Status AddTrial(StudyColumns* columns, int64_t ordinal, const Config& config, double ns,
                             int64_t ended_ms = -1) {
  const std::string text = config.ToText();
  return columns->Add({.ordinal = ordinal,
                       .ended_ms = ended_ms < 0 ? ordinal : ended_ms,
                       .outcome = ns > 0 ? kOk : kFailed,
                       .config = text,
                       .objective_ns = ns,
                       .message = ns > 0 ? "" : "it failed"});
}

}  // namespace tunefarm
