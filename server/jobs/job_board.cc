#include "server/jobs/job_board.h"

#include <utility>

#include "server/jobs/job_view.h"
#include "server/records/resource_names.h"

namespace tunefarm {

tunefarm::v1::Job ToProto(const JobSnapshot& snapshot, bool with_studies) {
  tunefarm::v1::Job job = *snapshot.request;
  job.MergeFrom(snapshot.now);
  if (!with_studies) return job;
  job.mutable_studies()->Reserve(static_cast<int>(snapshot.studies.size()));
  for (const auto& study : snapshot.studies) *job.add_studies() = *study;
  return job;
}

void JobBoard::SetName(std::string name) {
  MutexLock lock(&mutex_);
  name_ = std::move(name);
}

void JobBoard::Drive(int64_t job_id) {
  MutexLock lock(&mutex_);
  driven_.insert(job_id);
}

void JobBoard::Leave(int64_t job_id) {
  MutexLock lock(&mutex_);
  driven_.erase(job_id);
  snapshots_.erase(job_id);
  orders_.erase(job_id);
}

void JobBoard::Publish(int64_t job_id, std::shared_ptr<const JobSnapshot> snapshot) {
  MutexLock lock(&mutex_);
  if (driven_.count(job_id) > 0) snapshots_[job_id] = std::move(snapshot);
}

void JobBoard::SetCounts(int active, bool is_busy) {
  MutexLock lock(&mutex_);
  active_ = active;
  is_busy_ = is_busy;
}

void JobBoard::SetSuspended(std::string reason) {
  MutexLock lock(&mutex_);
  suspended_ = std::move(reason);
}

std::map<int64_t, int64_t> JobBoard::Orders() const {
  std::map<int64_t, int64_t> numbers;
  MutexLock lock(&mutex_);
  for (const auto& [job_id, order] : orders_) numbers[job_id] = order.number;
  return numbers;
}

void JobBoard::Settle(int64_t job_id, int64_t number) {
  MutexLock lock(&mutex_);
  const auto order = orders_.find(job_id);
  if (order != orders_.end() && order->second.number <= number) orders_.erase(order);
}

void JobBoard::Order(int64_t job_id, JobState state, std::string reason) {
  MutexLock lock(&mutex_);
  if (driven_.count(job_id) > 0) orders_[job_id] = {state, std::move(reason), ++last_order_};
}

std::optional<tunefarm::v1::Job> JobBoard::Find(int64_t job_id, bool with_studies) const {
  std::shared_ptr<const JobSnapshot> snapshot;
  std::optional<Ordered> ordered;
  {
    MutexLock lock(&mutex_);
    const auto found = snapshots_.find(job_id);
    if (found == snapshots_.end()) return std::nullopt;
    snapshot = found->second;
    if (const auto order = orders_.find(job_id); order != orders_.end()) ordered = order->second;
  }
  tunefarm::v1::Job job = ToProto(*snapshot, with_studies);
  if (ordered.has_value()) {
    job.set_state(::tunefarm::ToProto(ordered->state));
    job.set_state_reason(ordered->reason);
  }
  return job;
}

std::string JobBoard::name() const {
  MutexLock lock(&mutex_);
  return name_;
}

bool JobBoard::Drives(int64_t job_id) const {
  MutexLock lock(&mutex_);
  return driven_.count(job_id) > 0;
}

int JobBoard::active() const {
  MutexLock lock(&mutex_);
  return active_;
}

bool JobBoard::is_busy() const {
  MutexLock lock(&mutex_);
  return is_busy_;
}

std::string JobBoard::suspended() const {
  MutexLock lock(&mutex_);
  return suspended_;
}

}  // namespace tunefarm
