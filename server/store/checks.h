// What the stores refuse before they touch the database, the same on all of them. InvalidArgument unless stated
// otherwise.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/best_store.h"
#include "server/store/device_store.h"
#include "server/store/job_rows.h"
#include "server/store/lease_store.h"
#include "server/store/lookup_store.h"
#include "server/store/study_store.h"
#include "server/store/unit_store.h"

namespace tunefarm {

// Of a trial.
inline constexpr size_t kLogBytesMax = size_t{64} * 1024;

// Names of settings that start so are the store's own.
inline constexpr std::string_view kReservedSettingPrefix = "store.";

absl::Status CheckDevice(const DeviceRow& device, const DeviceClassRow& device_class);
absl::Status CheckDeviceOrder(const DeviceOrderRow& order);
absl::Status CheckLease(const LeaseRequest& request);
absl::Status CheckMeasuredKeys(const std::vector<std::string>& measured_keys);
absl::Status CheckMisses(const MissChanges& changes);
absl::Status CheckPriors(int64_t study_id, const std::vector<PriorRow>& priors);
absl::Status CheckSettingName(std::string_view name);
absl::Status CheckStepSize(const DriveStep& step);
absl::Status CheckStudies(const std::vector<StudyRow>& studies);
absl::Status CheckTrial(const UnitRow& unit, const TrialRow& trial);
absl::Status CheckWorkClaims(const WorkClaimRequest& request);

// FailedPrecondition unless the job's state is one of `from` and may become `to` (transitions.h).
absl::Status CheckStateChange(int64_t job_id, JobState state, const std::vector<JobState>& from, JobState to);
// FailedPrecondition (DRIVER_EPOCH) unless driver_epoch is 0 or the job's `current` one.
absl::Status CheckDriver(int64_t job_id, int64_t driver_epoch, int64_t current);
// FailedPrecondition (AGENT_EPOCH).
absl::Status EpochEnded(std::string_view agent_id, int64_t epoch);

// The change that files `best` in the place of `current`, still without its revision; errors as BestStore::PromoteBest.
absl::StatusOr<BestChangeRow> PromotionOf(const BestRow& best, const std::optional<BestRow>& current);
// The change that the edit of `current` is, still without its best and revision; errors as BestStore::EditBest.
absl::StatusOr<BestChangeRow> ChangeOf(const BestEdit& edit, const std::optional<BestRow>& current);
// Whether an edit that makes b of a changes nothing.
bool IsSame(const BestRow& a, const BestRow& b);

}  // namespace tunefarm
