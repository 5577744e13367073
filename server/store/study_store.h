// StudyStore: the steps of studies, and what a strategy is rebuilt from. Threads and errors: as Store (store.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/job_rows.h"

namespace tunefarm {

// What a study is told of results of other studies before it begins.
struct PriorRow {
  int rank = 0;         // 0 is the most similar
  std::string payload;  // opaque; at most 4 MiB
};

// One step of a study's driver, in one transaction.
struct DriveStep {
  int64_t study_id = 0;
  std::vector<int64_t> told_unit_ids;  // DONE units whose results the strategy has been told, in this order
  std::vector<UnitRow> new_units;      // proposals, durable before they run
  std::optional<StudyState> state;
  std::optional<std::string> detail;  // replaces the study's
  int64_t next_ordinal = 0;
  double device_busy_ms = 0;  // of all trials of the study so far
  int64_t now_ms = 0;
  // What the proposals rest on besides the study's own history; at most 16, in its first step only.
  std::vector<PriorRow> priors;
  int64_t driver_epoch = 0;  // of the job, as AdoptJobs answered it; 0: one daemon alone, not checked
  // Who runs the study from now on (StudyRow::device_selector), also what of it is READY.
  std::optional<std::string> device_selector = {};
};

struct DriveResult {
  std::vector<int64_t> unit_ids;  // of new_units, in order
};

// The decision log of a study, in order: rebuilding a strategy replays it.
struct StudyEvent {
  enum class Kind { kPropose = 1, kTell = 2 };
  int64_t sequence = 0;
  Kind kind = Kind::kPropose;
  int64_t unit_id = 0;
};
// A part of it: a study may have millions of trials.
struct StudyHistory {
  std::vector<StudyEvent> events;
  std::vector<UnitRow> units;  // that the events name, by unit_id
  // Of the units that are told here, or proposed here and not TOLD yet; by ordinal; log and samples left out.
  std::vector<TrialRow> trials;
};

// A study of a program, as far as another one wants to know before it reads any result.
struct KnownStudyRow {
  int64_t study_id = 0, job_id = 0;
  std::string problem_key;
  std::string problem;  // opaque
  std::string class_id;
  std::string toolkit;
  int64_t next_ordinal = 0;
};

class StudyStore {
 public:
  virtual ~StudyStore() = default;

  // Marks units TOLD, stores new ones READY, logs both in the order given (tells first) and sets state and next ordinal
  // (which never shrinks). FailedPrecondition, with nothing changed, if a told unit is not a DONE one of the study, a
  // new unit starts at an ordinal already handed out, or the study has ended; with the reason DRIVER_EPOCH if the job
  // is driven under another epoch than the step's. Ending a study removes its READY units.
  virtual absl::StatusOr<DriveResult> Drive(const DriveStep& step) = 0;
  // The up to events_max (at least 1) events behind the one with this sequence (0: from the first). None: there are no
  // more. Parts read one after another are one history as long as nobody else calls Drive for the study.
  virtual absl::StatusOr<StudyHistory> LoadHistory(int64_t study_id, int64_t after_sequence, int events_max) = 0;
  // Up to units_max units that are DONE and not TOLD, but for those named, by unit id, with their trials by ordinal
  // (log and samples left out). No events.
  virtual absl::StatusOr<StudyHistory> LoadDone(int64_t study_id, int units_max,
                                                const std::vector<int64_t>& known_unit_ids = {}) = 0;
  // Of the study's first step, in their order there. They stay as they are until the study ends, whatever becomes of
  // the studies they were taken from.
  virtual absl::StatusOr<std::vector<PriorRow>> LoadPriors(int64_t study_id) = 0;
  // Studies of the program that have handed out trials, whatever their job's kernel id, the newest first; at most
  // `limit`. Those of a job that is being deleted may be among them.
  virtual absl::StatusOr<std::vector<KnownStudyRow>> StudiesOfProgram(std::string_view program_digest, int limit) = 0;
};

}  // namespace tunefarm
