// A store that passes everything on and lets a test step in where two callers can meet: right after a call's commit, or
// instead of the call.
#pragma once

#include <functional>
#include <vector>

#include "tests/fakes/forwarding_store.h"

namespace tunefarm {

class HookedStore : public ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;

  // Called after the commit and before the caller goes on.
  std::function<void()> after_claim;  // of at least one unit
  std::function<void(const ReportRequest& report)> after_report;
  std::function<void(JobState to)> after_state;
  // An error is answered instead of the call.
  std::function<absl::Status()> instead_of_history;
  std::function<absl::Status()> instead_of_programs;  // StudiesOfProgram, with which the choice of priors begins
  std::function<absl::Status()> instead_of_misses;    // WriteMisses

  absl::StatusOr<std::vector<ClaimedUnit>> ClaimUnits(const ClaimRequest& request) override {
    auto units = ForwardingStore::ClaimUnits(request);
    if (units.ok() && !units->empty() && after_claim) after_claim();
    return units;
  }
  absl::StatusOr<ReportVerdict> ReportTrials(const ReportRequest& request) override {
    auto verdict = ForwardingStore::ReportTrials(request);
    if (after_report) after_report(request);
    return verdict;
  }
  absl::StatusOr<StudyHistory> LoadHistory(int64_t study_id, int64_t after_sequence, int events_max) override {
    absl::Status status = instead_of_history ? instead_of_history() : absl::OkStatus();
    if (!status.ok()) return status;
    return ForwardingStore::LoadHistory(study_id, after_sequence, events_max);
  }
  absl::Status SetJobState(int64_t job_id, const std::vector<JobState>& from, JobState to, std::string_view error,
                           int64_t now_ms, int64_t driver_epoch) override {
    absl::Status status = ForwardingStore::SetJobState(job_id, from, to, error, now_ms, driver_epoch);
    if (status.ok() && after_state) after_state(to);
    return status;
  }
  absl::StatusOr<std::vector<KnownStudyRow>> StudiesOfProgram(std::string_view program, int limit) override {
    absl::Status status = instead_of_programs ? instead_of_programs() : absl::OkStatus();
    if (!status.ok()) return status;
    return ForwardingStore::StudiesOfProgram(program, limit);
  }
  absl::Status WriteMisses(const MissChanges& changes) override {
    absl::Status status = instead_of_misses ? instead_of_misses() : absl::OkStatus();
    if (!status.ok()) return status;
    return ForwardingStore::WriteMisses(changes);
  }
};

}  // namespace tunefarm
