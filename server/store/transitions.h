// What may become of a job and of a study, as server/README.md draws it. The stores refuse everything else: all changes
// of state pass SetJobState, Drive, and the claim that makes a QUEUED job RUNNING.
#pragma once

#include <optional>

#include "absl/status/status.h"
#include "server/base/status.h"
#include "server/store/job_rows.h"

namespace tunefarm {

constexpr bool MayBecome(JobState from, JobState to) {
  switch (from) {
    case JobState::kQueued:
      return to == JobState::kRunning || to == JobState::kPaused || to == JobState::kCancelling ||
             to == JobState::kSucceeded || to == JobState::kFailed;
    case JobState::kRunning:
      return to == JobState::kPaused || to == JobState::kCancelling || to == JobState::kSucceeded ||
             to == JobState::kFailed;
    case JobState::kPaused:  // PAUSED again: for another reason
      return to == JobState::kPaused || to == JobState::kQueued || to == JobState::kRunning ||
             to == JobState::kCancelling || to == JobState::kFailed;
    case JobState::kCancelling:
      return to == JobState::kCancelled || to == JobState::kFailed;
    case JobState::kSucceeded:
    case JobState::kFailed:
    case JobState::kCancelled:
      return false;
  }
  return false;
}

// Apart from the end of its job, which ends every study.
constexpr bool MayBecome(StudyState from, StudyState to) {
  return (from == StudyState::kSearching && to != StudyState::kSearching) ||
         (from == StudyState::kFinals && to == StudyState::kEnded);
}

// FailedPrecondition if a step may not leave its study in the state `to`, or make any at all.
inline absl::Status CheckStep(int64_t study_id, StudyState from, std::optional<StudyState> to) {
  if (from == StudyState::kEnded) return FailedPrecondition("study {} has ended", study_id);
  if (!to.has_value() || MayBecome(from, *to)) return absl::OkStatus();
  return FailedPrecondition("study {} is in state {}: it cannot go to {}", study_id, static_cast<int>(from),
                            static_cast<int>(*to));
}

}  // namespace tunefarm
