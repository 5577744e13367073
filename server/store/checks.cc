#include "server/store/checks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "server/base/status.h"
#include "server/store/transitions.h"

namespace tunefarm {
namespace {

constexpr size_t kStudiesMax = 4096;
constexpr size_t kUnitsPerStepMax = 4096;
constexpr size_t kPriorsMax = 16;
constexpr size_t kPriorBytesMax = size_t{4} << 20;
constexpr size_t kMeasuredAtOnceMax = 64;
constexpr size_t kMeasuredKeyBytes = 16;
constexpr size_t kMissesAtOnceMax = 1000;

std::string_view NameOf(JobState state) {
  static constexpr std::array<std::string_view, 8> kNames = {"unknown",    "QUEUED",    "RUNNING", "PAUSED",
                                                             "CANCELLING", "SUCCEEDED", "FAILED",  "CANCELLED"};
  const auto index = static_cast<size_t>(state);
  return index < kNames.size() ? kNames[index] : kNames[0];
}

}  // namespace

absl::Status CheckDevice(const DeviceRow& device, const DeviceClassRow& device_class) {
  if (device.class_id == device_class.class_id) return absl::OkStatus();
  return InvalidArgument("device {} is of class {}, but class {} was given with it", device.uuid, device.class_id,
                         device_class.class_id);
}

absl::Status CheckDeviceOrder(const DeviceOrderRow& order) {
  if (order.device_uuid.empty() || order.device_uuid.size() > 256) {
    return InvalidArgument("a device's uuid has 1 to 256 bytes, not {}", order.device_uuid.size());
  }
  if (order.held_out.size() > 1024) {
    return InvalidArgument("the reason for which device {} is held out has {} bytes; at most 1024 are kept",
                           order.device_uuid, order.held_out.size());
  }
  if ((order.device_uuid + order.held_out).find('\0') != std::string::npos) {
    return InvalidArgument("device {}, or the reason for which it is held out, has a NUL byte", order.device_uuid);
  }
  if (!order.held_out.empty() && order.accepted_sentinels_ms != 0) {
    return InvalidArgument("device {} is held out: its sentinels cannot be accepted", order.device_uuid);
  }
  return absl::OkStatus();
}

absl::Status CheckLease(const LeaseRequest& request) {
  if (!request.name.empty() && !request.holder.empty() && request.lease_ms >= 1) return absl::OkStatus();
  return InvalidArgument("a lease needs a name, a holder and a length of at least 1 ms; it has \"{}\", \"{}\", {}",
                         request.name, request.holder, request.lease_ms);
}

absl::Status CheckMeasuredKeys(const std::vector<std::string>& measured_keys) {
  if (measured_keys.size() > kMeasuredAtOnceMax) {
    return InvalidArgument("{} keys are asked for; at most {} are answered at once", measured_keys.size(),
                           kMeasuredAtOnceMax);
  }
  for (const std::string& key : measured_keys) {
    if (key.size() != kMeasuredKeyBytes)
      return InvalidArgument("a key has {} bytes, not {}", key.size(), kMeasuredKeyBytes);
  }
  return absl::OkStatus();
}

absl::Status CheckMisses(const MissChanges& changes) {
  const size_t count = changes.gone.size() + changes.present.size();
  if (count <= kMissesAtOnceMax) return absl::OkStatus();
  return InvalidArgument("{} misses are too many for one write; at most {} are written at once", count,
                         kMissesAtOnceMax);
}

absl::Status CheckPriors(int64_t study_id, const std::vector<PriorRow>& priors) {
  if (priors.size() > kPriorsMax) {
    return InvalidArgument("a study starts from {} sources; at most {} are stored", priors.size(), kPriorsMax);
  }
  for (const PriorRow& prior : priors) {
    if (prior.payload.size() <= kPriorBytesMax) continue;
    return InvalidArgument("a source of study {} has {} bytes; at most {} are stored", study_id, prior.payload.size(),
                           kPriorBytesMax);
  }
  return absl::OkStatus();
}

absl::Status CheckSettingName(std::string_view name) {
  if (!name.starts_with(kReservedSettingPrefix)) return absl::OkStatus();
  return InvalidArgument("setting \"{}\": names that start with \"{}\" are the store's own", name,
                         kReservedSettingPrefix);
}

absl::Status CheckStepSize(const DriveStep& step) {
  if (step.new_units.size() <= kUnitsPerStepMax) return absl::OkStatus();
  return InvalidArgument("a step brings {} units; at most {} are stored at once", step.new_units.size(),
                         kUnitsPerStepMax);
}

absl::Status CheckStudies(const std::vector<StudyRow>& studies) {
  if (studies.empty() || studies.size() > kStudiesMax) {
    return InvalidArgument("a job has {} studies; it needs 1 to {}", studies.size(), kStudiesMax);
  }
  std::set<int> numbers;
  for (const StudyRow& study : studies) {
    if (!numbers.insert(study.number).second) return InvalidArgument("study number {} is given twice", study.number);
  }
  return absl::OkStatus();
}

absl::Status CheckTrial(const UnitRow& unit, const TrialRow& trial) {
  if (trial.study_id != 0 && trial.study_id != unit.study_id) {
    return InvalidArgument("trial {} names study {}, but its unit {} is of study {}", trial.ordinal, trial.study_id,
                           unit.unit_id, unit.study_id);
  }
  if (trial.ordinal < unit.first_ordinal || trial.ordinal >= unit.first_ordinal + unit.trial_count) {
    return InvalidArgument("trial {} is not one of unit {}, which has {} to {}", trial.ordinal, unit.unit_id,
                           unit.first_ordinal, unit.first_ordinal + unit.trial_count - 1);
  }
  if (trial.log.size() > kLogBytesMax) {
    return InvalidArgument("the log of trial {} has {} bytes; cut it to {}", trial.ordinal, trial.log.size(),
                           kLogBytesMax);
  }
  if (!std::isfinite(trial.median_ns) || trial.median_ns < 0) {
    return InvalidArgument("the median of trial {} is {} ns; it must be positive, or 0 for none", trial.ordinal,
                           trial.median_ns);
  }
  return absl::OkStatus();
}

absl::Status CheckWorkClaims(const WorkClaimRequest& request) {
  if (request.claims.size() <= UnitStore::kWorkClaimsMax) return absl::OkStatus();
  return InvalidArgument("{} works in one call, at most {} are taken", request.claims.size(),
                         UnitStore::kWorkClaimsMax);
}

absl::Status CheckStateChange(int64_t job_id, JobState state, const std::vector<JobState>& from, JobState to) {
  if (IsTerminal(state)) return FailedPrecondition("job {} is {}: it has ended and stays so", job_id, NameOf(state));
  if (std::find(from.begin(), from.end(), state) != from.end() && MayBecome(state, to)) return absl::OkStatus();
  return FailedPrecondition("job {} is {}: it cannot become {} now", job_id, NameOf(state), NameOf(to));
}

absl::Status CheckDriver(int64_t job_id, int64_t driver_epoch, int64_t current) {
  if (driver_epoch == 0 || driver_epoch == current) return absl::OkStatus();
  return WithReason(FailedPrecondition("job {} is driven under epoch {}, not under {}", job_id, current, driver_epoch),
                    "DRIVER_EPOCH");
}

absl::Status EpochEnded(std::string_view agent_id, int64_t epoch) {
  return WithReason(FailedPrecondition("epoch {} of agent {} has ended; register again", epoch, agent_id),
                    "AGENT_EPOCH");
}

absl::StatusOr<BestChangeRow> PromotionOf(const BestRow& best, const std::optional<BestRow>& current) {
  const bool has_same_config = current.has_value() && current->config == best.config;
  const int64_t revision = current.has_value() ? current->revision : 0;
  if (best.compared_with >= 0 && best.compared_with != revision) {
    return WithReason(FailedPrecondition("the best config for {} on {} has changed: its revision is {}, not {}",
                                         best.problem_key, best.class_id, revision, best.compared_with),
                      "BEST_CHANGED");
  }
  if (current.has_value() && current->pinned && !has_same_config) {
    return WithReason(FailedPrecondition("the best config for {} on {} is pinned", best.problem_key, best.class_id),
                      "BEST_PINNED");
  }
  BestChangeRow change;
  change.kind = BestChangeKind::kPromoted;
  change.best = best;
  change.best.pinned = has_same_config && current->pinned;
  change.best.note = has_same_config ? current->note : "";
  change.changed_at_ms = best.promoted_at_ms;
  return change;
}

absl::StatusOr<BestChangeRow> ChangeOf(const BestEdit& edit, const std::optional<BestRow>& current) {
  if (edit.kind == BestChangeKind::kPromoted) return InvalidArgument("a promotion is no edit");
  if (!current.has_value() && (edit.kind != BestChangeKind::kPinned || edit.from_revision == 0)) {
    return WithReason(NotFound("there is no best config for {} on {}", edit.key.problem_key, edit.key.class_id),
                      "BEST_NOT_FOUND");
  }
  BestChangeRow change;
  change.kind = edit.kind;
  change.reason = edit.reason;
  change.changed_at_ms = edit.now_ms;
  return change;
}

bool IsSame(const BestRow& a, const BestRow& b) {
  return a.study_id == b.study_id && a.ordinal == b.ordinal && a.config == b.config && a.kernel_name == b.kernel_name &&
         a.pinned == b.pinned && a.note == b.note;
}

}  // namespace tunefarm
