// Streams the events of one job to one client. Owns itself: deleted in OnDone.
#pragma once

#include <grpcpp/grpcpp.h>

#include <deque>
#include <memory>

#include "server/api/tuning_api.h"
#include "server/base/mutex.h"
#include "server/base/status.h"
#include "server/rpc/status.h"
#include "tunefarm/v1/tuning_service.pb.h"

namespace tunefarm {

// A reader that is further behind than this is cut off with ABORTED, reason SLOW_READER; it resumes after its last
// event.
inline constexpr size_t kWatchPendingMax = 2048;

class WatchReactor : public grpc::ServerWriteReactor<v1::WatchJobResponse> {
 public:
  WatchReactor(OpenCalls* calls, TuningApi* api, const v1::WatchJobRequest& request) : open_call_(calls) {
    absl::StatusOr<std::unique_ptr<WatchSubscription>> subscription = api->WatchJob(
        request, [this](const v1::JobEvent& event) { OnEvent(event); }, [this](absl::Status s) { OnEnd(s); });
    MutexLock lock(&mutex_);
    started_ = true;
    if (subscription.ok()) {
      subscription_ = *std::move(subscription);
    } else {
      ended_ = true;
      end_status_ = subscription.status();
    }
    Advance();
  }

  void OnWriteDone(bool ok) override {
    MutexLock lock(&mutex_);
    writing_ = false;
    if (!ok) {
      ended_ = true;
      pending_.clear();
      end_status_ = Cancelled("the client is gone");
    }
    Advance();
  }

  void OnCancel() override {
    MutexLock lock(&mutex_);
    ended_ = true;
    pending_.clear();
    end_status_ = Cancelled("the client cancelled the watch");
    Advance();
  }

  void OnDone() override {
    // Without the lock: it waits for a callback that may be waiting for the lock.
    subscription_.reset();
    delete this;
  }

 private:
  void OnEvent(const v1::JobEvent& event) LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    if (ended_) return;
    if (pending_.size() >= kWatchPendingMax) {
      ended_ = true;
      end_status_ = WithReason(
          Aborted("the reader is {} events behind; watch again after its last event", kWatchPendingMax), "SLOW_READER");
      return;
    }
    pending_.emplace_back();
    *pending_.back().mutable_event() = event;
    Advance();
  }

  void OnEnd(const absl::Status& status) LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    if (ended_) return;
    ended_ = true;
    end_status_ = status;
    Advance();
  }

  // At most one write at a time; Finish once, after what is pending, and never before the constructor is through.
  void Advance() EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!started_ || writing_ || finished_) return;
    if (!pending_.empty()) {
      current_ = std::move(pending_.front());
      pending_.pop_front();
      writing_ = true;
      StartWrite(&current_);
      return;
    }
    if (ended_) {
      finished_ = true;
      Finish(ToGrpc(end_status_));
    }
  }

  OpenCalls::Call open_call_;
  std::unique_ptr<WatchSubscription> subscription_;
  Mutex mutex_;
  std::deque<v1::WatchJobResponse> pending_ GUARDED_BY(mutex_);
  v1::WatchJobResponse current_;
  bool started_ GUARDED_BY(mutex_) = false;
  bool writing_ GUARDED_BY(mutex_) = false;
  bool ended_ GUARDED_BY(mutex_) = false;
  bool finished_ GUARDED_BY(mutex_) = false;
  absl::Status end_status_ GUARDED_BY(mutex_);
};

}  // namespace tunefarm
