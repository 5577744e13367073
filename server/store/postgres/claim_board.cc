#include "server/store/postgres/claim_board.h"

#include <algorithm>
#include <limits>

namespace tunefarm::postgres {
namespace {

// Above the size of any unit but the largest, so that a job with small units does not get less.
constexpr int64_t kTrialsPerTurn = 32;
// How old the knowledge may be while there is work: other daemons add jobs too.
constexpr Duration kReadingAge = std::chrono::seconds(1);
constexpr Duration kForgetCursors = std::chrono::seconds(30);
// When nothing is found, what lies below the cursors is looked at too, but not over and over.
constexpr Duration kForgetWhenEmpty = std::chrono::seconds(1);
constexpr size_t kTurnsMax = 1000;
constexpr size_t kClassesMax = 10'000;
constexpr int64_t kLast = std::numeric_limits<int64_t>::max();

}  // namespace

ClaimBoard::Queue& ClaimBoard::QueueOf(std::string_view class_id) {
  const auto found = queues_.find(class_id);
  if (found != queues_.end()) return found->second;
  if (queues_.size() >= kClassesMax) queues_.clear();
  return queues_[std::string(class_id)];
}

const ClaimBoard::Ready* ClaimBoard::FindIn(const Queue& queue, Place from, Place to,
                                            const std::set<std::string_view>& names) {
  for (auto it = queue.ready.lower_bound(from); it != queue.ready.end() && it->first <= to; ++it) {
    if (names.count(it->second.study.device_selector) > 0) return &it->second;
  }
  return nullptr;
}

std::optional<ClaimBoard::Pick> ClaimBoard::Next(std::string_view class_id, const std::set<std::string_view>& names) {
  MutexLock lock(&mutex_);
  Queue& queue = QueueOf(class_id);
  for (auto first = queue.ready.begin(); first != queue.ready.end();) {
    const int64_t rank = std::get<0>(first->first);
    const auto found_turn = queue.turns.find(-rank);
    const Turn turn = found_turn == queue.turns.end() ? Turn{} : found_turn->second;
    const Ready* ready = nullptr;
    const bool goes_on = turn.trials < kTrialsPerTurn;
    if (goes_on) ready = FindIn(queue, {rank, turn.job_id, 0}, {rank, turn.job_id, kLast}, names);
    if (ready == nullptr) ready = FindIn(queue, {rank, turn.job_id + 1, 0}, {rank, kLast, kLast}, names);
    if (ready == nullptr) ready = FindIn(queue, {rank, 0, 0}, {rank, turn.job_id, kLast}, names);
    if (ready == nullptr) {
      first = queue.ready.upper_bound({rank, kLast, kLast});
      continue;
    }
    const ReadyStudy& study = ready->study;
    const auto cursor = queue.cursors.find(study.study_id);
    return Pick{study.study_id,
                study.job_id,
                study.priority,
                study.job_is_queued,
                cursor == queue.cursors.end() ? 0 : cursor->second,
                goes_on && study.job_id == turn.job_id ? kTrialsPerTurn - turn.trials : kTrialsPerTurn,
                ready->version};
  }
  return std::nullopt;
}

void ClaimBoard::Claimed(std::string_view class_id, const Pick& pick, int64_t trials, int64_t last_seq) {
  MutexLock lock(&mutex_);
  Queue& queue = QueueOf(class_id);
  if (queue.turns.size() >= kTurnsMax) queue.turns.clear();
  Turn& turn = queue.turns[pick.priority];
  const bool goes_on = turn.job_id == pick.job_id && turn.trials < kTrialsPerTurn;
  turn = {pick.job_id, (goes_on ? turn.trials : 0) + trials};
  int64_t& cursor = queue.cursors[pick.study_id];
  cursor = std::max(cursor, last_seq);
  if (!pick.job_is_queued) return;
  for (auto it = queue.ready.lower_bound({-int64_t{pick.priority}, pick.job_id, 0});
       it != queue.ready.end() && it->second.study.job_id == pick.job_id; ++it) {
    it->second.study.job_is_queued = false;
  }
}

void ClaimBoard::Missed(std::string_view class_id, const Pick& pick) {
  MutexLock lock(&mutex_);
  Queue& queue = QueueOf(class_id);
  const auto found = queue.ready.find({-int64_t{pick.priority}, pick.job_id, pick.study_id});
  if (found != queue.ready.end() && found->second.version == pick.version) queue.ready.erase(found);
}

void ClaimBoard::Add(std::string_view class_id, const ReadyStudy& study, int64_t first_seq) {
  MutexLock lock(&mutex_);
  Queue& queue = QueueOf(class_id);
  const auto [ready, is_new] = queue.ready.try_emplace(PlaceOf(study));
  ready->second = {study, ++version_};
  // All that there was before is handed out: nothing lies below the new ones.
  int64_t& cursor = queue.cursors[study.study_id];
  if (is_new) cursor = std::max(cursor, first_seq - 1);
}

void ClaimBoard::Invalidate() {
  MutexLock lock(&mutex_);
  for (auto& [class_id, queue] : queues_) queue.is_stale = true;
}

bool ClaimBoard::IsStale(std::string_view class_id) {
  MutexLock lock(&mutex_);
  const Queue& queue = QueueOf(class_id);
  return queue.is_stale || clock_->Now() - queue.read_at >= kReadingAge;
}

ClaimBoard::Reading ClaimBoard::BeginReading(std::string_view class_id, bool found_nothing) {
  MutexLock lock(&mutex_);
  Queue& queue = QueueOf(class_id);
  Reading reading;
  const MonotonicTime now = clock_->Now();
  const Duration age = now - queue.forgot_at;
  reading.is_full = queue.readings == 0 || age >= kForgetCursors || (found_nothing && age >= kForgetWhenEmpty);
  reading.version = ++version_;
  queue.is_stale = false;
  queue.read_at = now;
  ++queue.readings;
  if (reading.is_full) {
    queue.forgot_at = now;
    queue.cursors.clear();
  }
  for (const auto& [study_id, seq] : queue.cursors) {
    reading.floors.study_ids.push_back(study_id);
    reading.floors.seqs.push_back(seq);
  }
  return reading;
}

void ClaimBoard::EndReading(std::string_view class_id, const Reading& reading, const std::vector<ReadyStudy>& ready) {
  MutexLock lock(&mutex_);
  Queue& queue = QueueOf(class_id);
  // What was said to have units after the reading began still has them.
  for (auto it = queue.ready.begin(); it != queue.ready.end();) {
    it = it->second.version > reading.version ? std::next(it) : queue.ready.erase(it);
  }
  for (const ReadyStudy& study : ready) queue.ready.try_emplace(PlaceOf(study), Ready{study, reading.version});
}

uint64_t ClaimBoard::readings(std::string_view class_id) {
  MutexLock lock(&mutex_);
  return QueueOf(class_id).readings;
}

}  // namespace tunefarm::postgres
