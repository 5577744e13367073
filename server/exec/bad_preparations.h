#pragma once

// Which preparations (a kernel's reference and inputs for one problem, by WorkerPreparation::key) have crashed or hung
// their workers, or cannot be, so often that no further worker is spent on them. Not thread-safe.

#include <map>
#include <optional>
#include <string>

#include "server/exec/worker_process.h"

namespace tunefarm {

class BadPreparations {
 public:
  // A preparation is refused after this many failures without a success between them.
  static constexpr int kFailuresMax = 2;

  // `end` is that of a task with the preparation.
  void Note(const std::string& key, const WorkerTaskEnd& end);
  // The verdict for a task that needs the preparation; none: it may run.
  std::optional<Verdict> Refusal(const std::string& key) const;

 private:
  struct Failures {
    int count = 0;
    Verdict last;
  };

  std::map<std::string, Failures> failures_;  // by key
};

}  // namespace tunefarm
