#include "server/farm/compile_desk.h"

#include <algorithm>

#include "server/base/status.h"
#include "server/records/resource_names.h"
#include "server/records/trial_rows.h"

namespace tunefarm {

bool CompileDesk::is_used() const {
  MutexLock lock(&mutex_);
  return clock_->Now() < used_until_;
}

void CompileDesk::Add(Unit unit) {
  MutexLock lock(&mutex_);
  const size_t configs = static_cast<size_t>(unit.task.configs_size());
  if (configs == 0 || configs_ + configs > kConfigsMax || places_.count(unit.unit_id) > 0) return;
  const Place place{-int64_t{unit.priority}, unit.unit_id};
  configs_ += configs;
  places_[unit.unit_id] = place;
  waiting_[place] = std::move(unit);
}

void CompileDesk::AddUnits(const JobRow& job, const StudyRow& study, const DeviceClass& device_class,
                           const std::vector<UnitRow>& units, const std::vector<int64_t>& unit_ids) {
  if (!is_used()) return;
  Unit waiting;
  waiting.job_id = job.job_id;
  waiting.study_id = study.study_id;
  waiting.priority = job.priority;
  waiting.task.set_kernel_id(KernelName(job.kernel_id));
  if (!waiting.task.mutable_problem()->ParseFromString(study.problem)) return;
  *waiting.task.mutable_device_class() = device_class.ToProto();
  for (size_t i = 0; i < units.size() && i < unit_ids.size(); ++i) {
    if (units[i].kind != UnitKind::kSearch) continue;
    auto specs = SpecsOfUnit(units[i]);
    if (!specs.ok()) continue;
    Unit unit = waiting;
    unit.unit_id = unit_ids[i];
    for (tunefarm::agent::v1::TrialSpec& spec : *specs) {
      unit.task.add_configs(std::move(*spec.mutable_config()));
    }
    Add(std::move(unit));
  }
}

void CompileDesk::Remove(int64_t unit_id) {
  MutexLock lock(&mutex_);
  const auto found = places_.find(unit_id);
  if (found == places_.end()) return;
  const auto unit = waiting_.find(found->second);
  configs_ -= static_cast<size_t>(unit->second.task.configs_size());
  waiting_.erase(unit);
  places_.erase(found);
}

std::vector<CompileDesk::Unit> CompileDesk::Take(int configs) {
  MutexLock lock(&mutex_);
  used_until_ = clock_->Now() + kUseLasts;
  std::vector<Unit> taken;
  while (configs > 0 && !waiting_.empty()) {
    const auto first = waiting_.begin();
    auto* const rest = first->second.task.mutable_configs();
    const int count = std::min(configs, rest->size());
    configs -= count;
    counts_.taken += count;
    configs_ -= static_cast<size_t>(count);
    if (count == rest->size()) {
      places_.erase(first->second.unit_id);
      taken.push_back(std::move(first->second));
      waiting_.erase(first);
      continue;
    }
    taken.push_back(first->second);
    taken.back().task.mutable_configs()->DeleteSubrange(count, rest->size() - count);
    rest->DeleteSubrange(0, count);
  }
  return taken;
}

absl::Status CompileDesk::Offer(const Digest& key, std::string binary) {
  if (binary.size() > kBinaryBytesMax) {
    return ResourceExhausted("a binary of {} bytes is offered, at most {} are taken", binary.size(), kBinaryBytesMax);
  }
  MutexLock lock(&mutex_);
  if (binary.empty() || index_.count(key) > 0) return absl::OkStatus();
  ++counts_.offered;
  bytes_ += binary.size();
  binaries_.emplace_front(key, std::move(binary));
  index_[key] = binaries_.begin();
  while (bytes_ > kBinariesBytesMax) {
    bytes_ -= binaries_.back().second.size();
    index_.erase(binaries_.back().first);
    binaries_.pop_back();
  }
  return absl::OkStatus();
}

CompileDesk::Counts CompileDesk::counts() const {
  MutexLock lock(&mutex_);
  return counts_;
}

std::string CompileDesk::Find(const Digest& key) {
  MutexLock lock(&mutex_);
  const auto found = index_.find(key);
  if (found == index_.end()) return "";
  ++counts_.found;
  binaries_.splice(binaries_.begin(), binaries_, found->second);
  return found->second->second;
}

}  // namespace tunefarm
