#include "server/jobs/event_hub.h"

#include <algorithm>
#include <utility>

namespace tunefarm {

using tunefarm::v1::JobEvent;

namespace {

// Events delivered before other tasks of the executor get their turn.
constexpr int kBatchMax = 64;

}  // namespace

struct EventHub::Watcher {
  int64_t job_id = 0;
  // Guarded by the hub's mutex.
  bool posted = false;
  int64_t cursor = 0;
  bool snapshot_due = false;
  // Held while a callback runs, so that a subscription's destructor waits for it.
  Mutex mutex;
  bool live GUARDED_BY(mutex) = true;
  std::function<void(const JobEvent&)> sink GUARDED_BY(mutex);
  std::function<void(absl::Status)> end GUARDED_BY(mutex);
};

class EventHub::Subscription : public WatchSubscription {
 public:
  explicit Subscription(std::shared_ptr<Watcher> watcher) : watcher_(std::move(watcher)) {}
  ~Subscription() override {
    // The callbacks are destroyed outside the lock: they may own whatever they like.
    std::function<void(const JobEvent&)> sink;
    std::function<void(absl::Status)> end;
    MutexLock lock(&watcher_->mutex);
    watcher_->live = false;
    sink.swap(watcher_->sink);
    end.swap(watcher_->end);
  }

 private:
  const std::shared_ptr<Watcher> watcher_;
};

EventHub::EventHub(Executor* executor, int events_max, int ended_jobs_max, Snapshot snapshot, int64_t salt)
    : executor_(executor),
      events_max_(static_cast<size_t>(std::max(events_max, 1))),
      ended_jobs_max_(static_cast<size_t>(std::max(ended_jobs_max, 0))),
      snapshot_(std::move(snapshot)),
      salt_(salt),
      first_id_(executor->clock()->WallMs() * 1000) {}

EventHub::Stream& EventHub::StreamOf(int64_t job_id) {
  const auto [it, inserted] = streams_.try_emplace(job_id);
  if (inserted) it->second.last_id = salt_ == 0 ? first_id_ : executor_->clock()->WallMs() * 1000 + salt_;
  return it->second;
}

bool EventHub::IsFollowed(int64_t job_id) const {
  MutexLock lock(&mutex_);
  const auto stream = streams_.find(job_id);
  return stream != streams_.end() && stream->second.is_followed;
}

void EventHub::Publish(int64_t job_id, JobEvent event) {
  MutexLock lock(&mutex_);
  Stream& stream = StreamOf(job_id);
  if (stream.ended) return;
  event.set_event_id(++stream.last_id);
  event.set_at_ms(executor_->clock()->WallMs());
  stream.events.push_back(std::make_shared<const JobEvent>(std::move(event)));
  if (stream.events.size() > events_max_) stream.events.pop_front();
  Wake(job_id, stream);
}

void EventHub::End(int64_t job_id, bool with_snapshot) {
  MutexLock lock(&mutex_);
  Stream& stream = StreamOf(job_id);
  if (stream.ended) return;
  stream.ended = true;
  ended_.push_back(job_id);
  if (with_snapshot) {
    // A gap at the end, for those who watch now and those who come back.
    stream.events.clear();
    ++stream.last_id;
  }
  Wake(job_id, stream);
  Trim();
}

void EventHub::Trim() {
  for (auto it = ended_.begin(); it != ended_.end() && ended_.size() > ended_jobs_max_;) {
    // Watchers that have not come to the end yet get a snapshot and the end.
    const auto oldest = streams_.find(*it);
    if (oldest != streams_.end()) {
      if (!oldest->second.events.empty()) {
        oldest->second.events.clear();
        Wake(oldest->first, oldest->second);
      }
      const bool watched = std::any_of(oldest->second.watchers.begin(), oldest->second.watchers.end(),
                                       [](const auto& watcher) { return !watcher.expired(); });
      if (watched) {
        ++it;
        continue;
      }
      streams_.erase(oldest);
    }
    it = ended_.erase(it);
  }
}

void EventHub::Close(const absl::Status& status) {
  MutexLock lock(&mutex_);
  if (!closed_.ok()) return;
  closed_ = status;
  for (auto& [job_id, stream] : streams_) Wake(job_id, stream);
}

std::unique_ptr<WatchSubscription> EventHub::Watch(int64_t job_id, int64_t after_event_id, bool ended,
                                                   std::function<void(const JobEvent&)> sink,
                                                   std::function<void(absl::Status)> end) {
  auto watcher = std::make_shared<Watcher>();
  watcher->job_id = job_id;
  {
    MutexLock lock(&watcher->mutex);
    watcher->sink = std::move(sink);
    watcher->end = std::move(end);
  }
  MutexLock lock(&mutex_);
  // A stream that is there and open gets its last events and its end yet, which others wait for.
  const bool fresh = streams_.count(job_id) == 0;
  Stream& stream = StreamOf(job_id);
  if (ended && fresh) {
    stream.ended = true;
    ended_.push_back(job_id);
  }
  watcher->cursor = after_event_id;
  watcher->snapshot_due = after_event_id <= 0 || after_event_id > stream.last_id;
  stream.is_followed = true;
  stream.watchers.push_back(watcher);
  PostDelivery(watcher);
  Trim();
  return std::make_unique<Subscription>(std::move(watcher));
}

void EventHub::Wake(int64_t, Stream& stream) {
  auto& watchers = stream.watchers;
  watchers.erase(
      std::remove_if(watchers.begin(), watchers.end(), [](const auto& watcher) { return watcher.expired(); }),
      watchers.end());
  for (const auto& weak : watchers) {
    if (const auto watcher = weak.lock()) PostDelivery(watcher);
  }
}

void EventHub::PostDelivery(const std::shared_ptr<Watcher>& watcher) {
  if (watcher->posted) return;
  watcher->posted = true;
  executor_->Post([weak_hub = weak_from_this(), weak = std::weak_ptr<Watcher>(watcher)] {
    const auto hub = weak_hub.lock();
    const auto own = weak.lock();
    if (hub != nullptr && own != nullptr) hub->Deliver(own);
  });
}

void EventHub::Deliver(const std::shared_ptr<Watcher>& watcher) {
  for (int i = 0; i < kBatchMax; ++i) {
    std::shared_ptr<const JobEvent> event;
    bool end = false;
    absl::Status end_status;
    int64_t snapshot_id = -1;
    {
      MutexLock lock(&mutex_);
      if (i == 0) watcher->posted = false;
      Stream& stream = StreamOf(watcher->job_id);
      const int64_t ring_first = stream.last_id - static_cast<int64_t>(stream.events.size()) + 1;
      if (watcher->cursor + 1 < ring_first) watcher->snapshot_due = true;
      if (!closed_.ok()) {
        end = true;
        end_status = closed_;
      } else if (watcher->snapshot_due) {
        watcher->snapshot_due = false;
        // Taken before the job is read: what happens in between is then told twice rather than never.
        snapshot_id = watcher->cursor = stream.last_id;
      } else if (watcher->cursor < stream.last_id) {
        event = stream.events[static_cast<size_t>(watcher->cursor + 1 - ring_first)];
        ++watcher->cursor;
      } else if (stream.ended) {
        end = true;
      } else {
        return;
      }
    }
    JobEvent snapshot;
    if (snapshot_id >= 0) {
      auto job = snapshot_(watcher->job_id);
      if (job.ok()) {
        snapshot.set_event_id(snapshot_id);
        snapshot.set_at_ms(executor_->clock()->WallMs());
        *snapshot.mutable_progress() = job->progress();
        *snapshot.mutable_job() = *std::move(job);
      } else {
        end = true;
        end_status = job.status();
      }
    }
    MutexLock lock(&watcher->mutex);
    if (!watcher->live) return;
    if (end) {
      watcher->live = false;
      if (watcher->end) watcher->end(end_status);
      return;
    }
    if (watcher->sink) watcher->sink(event != nullptr ? *event : snapshot);
  }
  MutexLock lock(&mutex_);
  PostDelivery(watcher);
}

std::vector<std::pair<int64_t, bool>> EventHub::OpenJobs() const {
  std::vector<std::pair<int64_t, bool>> jobs;
  MutexLock lock(&mutex_);
  for (const auto& [job_id, stream] : streams_) {
    if (stream.ended) continue;
    const bool is_watched = std::any_of(stream.watchers.begin(), stream.watchers.end(),
                                        [](const auto& watcher) { return !watcher.expired(); });
    jobs.emplace_back(job_id, is_watched);
  }
  return jobs;
}

void EventHub::Forget(int64_t job_id) {
  MutexLock lock(&mutex_);
  const auto stream = streams_.find(job_id);
  if (stream == streams_.end() || stream->second.ended) return;
  for (const auto& watcher : stream->second.watchers) {
    if (!watcher.expired()) return;
  }
  streams_.erase(stream);
}

int EventHub::watchers() const {
  MutexLock lock(&mutex_);
  int count = 0;
  for (const auto& [job_id, stream] : streams_) {
    for (const auto& watcher : stream.watchers) count += watcher.expired() ? 0 : 1;
  }
  return count;
}

}  // namespace tunefarm
