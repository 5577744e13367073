// Streams the events of one job to one client.
#pragma once

#include <grpcpp/grpcpp.h>

#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "server/api/tuning_api.h"
#include "server/base/executor.h"
#include "server/base/mutex.h"
#include "server/base/status.h"
#include "server/rpc/raw_call.h"
#include "tunefarm/v1/tuning_service.pb.h"

namespace tunefarm {

// A reader that is further behind than this, or for whose events there is no memory, is cut off with ABORTED, reason
// SLOW_READER; it resumes after its last event.
inline constexpr size_t kWatchPendingMax = 2048;
inline constexpr size_t kWatchPendingBytesMax = 1 << 20;  // beside the event that is being written

class JobWatchStream final : public RawStream {
 public:
  // `threads` outlives it; it begins on one of those, as one of `owner`: the job may have to be read from the store.
  JobWatchStream(RawCall* call, TuningApi* api, TaskRunner* threads, std::string owner, v1::WatchJobRequest request)
      : RawStream(call),
        open_call_(open_calls()),
        api_(api),
        threads_(threads),
        owner_(std::move(owner)),
        request_(std::move(request)) {}
  ~JobWatchStream() override {
    // Without the lock: it waits for a callback that may be waiting for the lock.
    subscription_.reset();
    // Who called Finish may still hold it.
    MutexLock lock(&mutex_);
  }

  void Begin() override {
    threads_->PostFor(owner_, [this] { Start(); });
  }

  void OnWriteDone(bool ok) override {
    MutexLock lock(&mutex_);
    writing_ = false;
    current_ = Event();
    if (!ok) EndNow(Cancelled("the client is gone"));
    Advance();
  }

  void OnCancel() override {
    MutexLock lock(&mutex_);
    EndNow(Cancelled("the client cancelled the watch"));
    Advance();
  }

 private:
  struct Event {
    grpc::ByteBuffer bytes;  // a WatchJobResponse
    size_t size = 0;
    MemoryShare share;
  };

  // The stream may be gone when it returns.
  void Start() LOCKS_EXCLUDED(mutex_) {
    absl::StatusOr<std::unique_ptr<WatchSubscription>> subscription = api_->WatchJob(
        request_, [this](const v1::JobEvent& event) { OnEvent(event); }, [this](absl::Status s) { OnEnd(s); });
    MutexLock lock(&mutex_);
    started_ = true;
    if (subscription.ok()) {
      subscription_ = *std::move(subscription);
    } else {
      End(subscription.status());
    }
    Advance();
  }

  void OnEvent(const v1::JobEvent& event) LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    if (ended_) return;
    v1::WatchJobResponse response;
    *response.mutable_event() = event;
    Event next;
    next.bytes = Serialize(response);
    next.size = next.bytes.Length();
    next.share = HoldForStream(next.size);
    const bool is_behind = pending_.size() >= kWatchPendingMax ||
                           (!pending_.empty() && pending_bytes_ + next.size > kWatchPendingBytesMax) ||
                           !next.share.is_held();
    if (is_behind) {
      // What waits is dropped but for one event, so that every watch comes further: the reader gets the rest, or a
      // snapshot, when it resumes.
      const size_t behind = pending_.size();
      const size_t kept = writing_ || pending_.empty() ? 0 : 1;
      while (pending_.size() > kept) {
        pending_bytes_ -= pending_.back().size;
        pending_.pop_back();
      }
      End(WithReason(Aborted("the reader is {} events behind; watch again after its last event", behind),
                     "SLOW_READER"));
    } else {
      pending_bytes_ += next.size;
      pending_.push_back(std::move(next));
    }
    Advance();
  }

  void OnEnd(const absl::Status& status) LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    End(status);
    Advance();
  }

  // After what is pending.
  void End(const absl::Status& status) EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (ended_) return;
    ended_ = true;
    end_status_ = status;
  }

  void EndNow(const absl::Status& status) EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    pending_.clear();
    pending_bytes_ = 0;
    End(status);
  }

  // At most one write at a time; Finish once, after what is pending, and never before Start is through.
  void Advance() EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!started_ || writing_ || finished_) return;
    if (!pending_.empty()) {
      current_ = std::move(pending_.front());
      pending_.pop_front();
      pending_bytes_ -= current_.size;
      writing_ = true;
      Write(&current_.bytes);
      return;
    }
    if (ended_) {
      finished_ = true;
      Finish(end_status_);
    }
  }

  OpenCalls::Call open_call_;
  TuningApi* const api_;
  TaskRunner* const threads_;
  const std::string owner_;
  const v1::WatchJobRequest request_;
  std::unique_ptr<WatchSubscription> subscription_;
  Mutex mutex_;
  std::deque<Event> pending_ GUARDED_BY(mutex_);
  size_t pending_bytes_ GUARDED_BY(mutex_) = 0;
  Event current_ GUARDED_BY(mutex_);
  bool started_ GUARDED_BY(mutex_) = false;
  bool writing_ GUARDED_BY(mutex_) = false;
  bool ended_ GUARDED_BY(mutex_) = false;
  bool finished_ GUARDED_BY(mutex_) = false;
  absl::Status end_status_ GUARDED_BY(mutex_);
};

}  // namespace tunefarm
