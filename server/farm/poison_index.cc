#include "server/farm/poison_index.h"

#include "server/base/status_macros.h"
#include "server/store/poison_store.h"

namespace tunefarm {

bool Poisons(tunefarm::v1::Outcome outcome) {
  switch (outcome) {
    case tunefarm::v1::OUTCOME_RUN_CRASH:
    case tunefarm::v1::OUTCOME_RUN_TIMEOUT:
    case tunefarm::v1::OUTCOME_COMPILE_CRASH:
    case tunefarm::v1::OUTCOME_COMPILE_TIMEOUT:
    case tunefarm::v1::OUTCOME_SANDBOX_VIOLATION:
      return true;
    default:
      return false;
  }
}

absl::StatusOr<PoisonIndex::Crashes*> PoisonIndex::Load(const PoisonKey& key) {
  const auto program = std::make_pair(key.program_digest, key.class_id);
  const MonotonicTime now = clock_->Now();
  const auto found = programs_.find(program);
  if (found != programs_.end() && now - found->second.read <= kKept) return &found->second.crashes;
  const absl::StatusOr<std::vector<PoisonRow>> rows = store_->poison()->LoadPoison(key.program_digest, key.class_id);
  // What was known before is better than nothing.
  if (!rows.ok() && found != programs_.end()) return &found->second.crashes;
  RETURN_IF_ERROR(rows.status());
  if (found == programs_.end() && programs_.size() >= kProgramsMax) programs_.clear();
  Program& kept = programs_[program];
  kept.read = now;
  for (const PoisonRow& row : *rows) kept.crashes[{row.toolkit, row.config}].insert(row.problem_key);
  return &kept.crashes;
}

absl::StatusOr<bool> PoisonIndex::IsPoisoned(const PoisonKey& key, const std::string& config) {
  MutexLock lock(&mutex_);
  ASSIGN_OR_RETURN(const Crashes* crashes, Load(key));
  const auto found = crashes->find({key.toolkit, config});
  return found != crashes->end() && (found->second.size() >= 2 || found->second.count(key.problem_key) > 0);
}

absl::Status PoisonIndex::Record(const PoisonKey& key, const std::string& config, tunefarm::v1::Outcome outcome) {
  PoisonRow row;
  row.program_digest = key.program_digest;
  row.config = config;
  row.problem_key = key.problem_key;
  row.class_id = key.class_id;
  row.toolkit = key.toolkit;
  row.outcome = outcome;
  RETURN_IF_ERROR(store_->poison()->RecordPoison(row));
  MutexLock lock(&mutex_);
  ASSIGN_OR_RETURN(Crashes * crashes, Load(key));
  (*crashes)[{key.toolkit, config}].insert(key.problem_key);
  return absl::OkStatus();
}

}  // namespace tunefarm
