// Rows of jobs: studies, work units and trials, which several facets of the store read and write. Plain values.
// Problems, payloads and details are opaque bytes here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tunefarm {

enum class JobState { kQueued = 1, kRunning, kPaused, kCancelling, kSucceeded, kFailed, kCancelled };
inline bool IsTerminal(JobState s) {
  return s == JobState::kSucceeded || s == JobState::kFailed || s == JobState::kCancelled;
}

enum class StudyState { kSearching = 1, kFinals, kEnded };
enum class UnitState { kReady = 1, kClaimed, kDone, kTold };
enum class UnitKind { kSearch = 1, kBaseline, kFinals };

struct StudyRow {
  int64_t study_id = 0;  // set by the store
  int number = 0;        // 1.. within the job
  std::string problem_key;
  std::string problem;  // opaque
  std::string class_id;
  // What a device of the class must answer to (ClaimRequest) to run it: a UUID or another of its names; empty: any
  // does.
  std::string device_selector;
  std::string detail;  // opaque: the whole study as users see it
  StudyState state = StudyState::kSearching;
  int64_t next_ordinal = 0;
  double device_busy_ms = 0;  // as of its last step
  std::string toolkit;        // of the device when it was submitted; may be empty: not known
};

struct JobRow {
  int64_t job_id = 0;  // set by the store
  std::string uid;
  std::string kernel_id;
  std::string spec;  // opaque: the request as accepted
  // What lists are filtered by; both are part of `spec` too, and may be empty. Not read back.
  std::string label, submitted_by;
  JobState state = JobState::kQueued;
  int priority = 0;
  std::string state_reason;  // FAILED: why; otherwise why it is in its state when nobody asked for that; else empty
  int64_t created_at_ms = 0, started_at_ms = 0, ended_at_ms = 0;  // 0: not yet
  std::vector<StudyRow> studies;
};

// 1 to 64 trials handed out together.
struct UnitRow {
  int64_t unit_id = 0;  // set by the store
  int64_t study_id = 0;
  UnitKind kind = UnitKind::kSearch;
  UnitState state = UnitState::kReady;
  int64_t first_ordinal = 0;
  int trial_count = 0;
  int rounds = 0;       // interleaved rounds; 0: one after another
  std::string payload;  // opaque: the trials
  int64_t token = 0;    // grows with every claim, nobody can tell by how much
  int attempt = 0;      // number of claims
  // How often its agent was lost with it since it was last handed out whole (lost_units.h).
  int losses = 0;
  int64_t suspects_end = 0;
  int64_t handed_end = 0;  // only its trials before this ordinal are handed out; 0: all
};

// Values are those of tunefarm.v1.Outcome and TrialPurpose; the store knows only which ones are final.
struct TrialRow {
  int64_t study_id = 0;
  int64_t ordinal = 0;
  int attempt = 1;
  int outcome = 0;
  int purpose = 1;
  std::string config;    // canonical text
  double median_ns = 0;  // 0: none
  std::string device_uuid;
  std::string detail;   // opaque: the whole trial without log and samples
  std::string log;      // at most 64 KiB
  std::string samples;  // opaque; winners, finalists and failures only
  int64_t ended_at_ms = 0;
  // 16 bytes that name what was measured: trials of the same key would end the same. Empty: its result is its own. Not
  // read back.
  std::string measured_key;
  // What the trial made the device do, if other trials of its study take its result over (UnitStore::ClaimWorks); 0:
  // they do not. Not read back.
  int64_t work = 0;
};

}  // namespace tunefarm
