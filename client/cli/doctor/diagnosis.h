// What a diagnosis found: what works, what is worth knowing, and what is wrong with what to do about it.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/session.h"

namespace tunefarm::cli {

class Diagnosis {
 public:
  void Good(const std::string& what) { entries_.push_back({Kind::kGood, what, ""}); }
  void Hint(const std::string& what, const std::string& advice = "") {
    entries_.push_back({Kind::kHint, what, advice});
  }
  void Bad(const std::string& what, const std::string& advice) { entries_.push_back({Kind::kBad, what, advice}); }

  // In the session's format: a line or two for each, or {"findings": [{"result", "text", "advice"}]}. kExitFailed where
  // something is wrong.
  absl::StatusOr<ExitCode> Print(const Session& session) const;

 private:
  enum class Kind { kGood, kHint, kBad };
  struct Entry {
    Kind kind;
    std::string text;
    std::string advice;
  };

  std::vector<Entry> entries_;
};

}  // namespace tunefarm::cli
