// Streams the catalog's changes to one client.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "server/api/catalog_api.h"
#include "server/base/mutex.h"
#include "server/base/status.h"
#include "server/rpc/raw_call.h"
#include "tunefarm/v1/catalog_service.pb.h"

namespace tunefarm {

// A reader that has not taken a response for so long is given up; it comes back with its last revision.
inline constexpr Duration kCatalogReadTimeMax = std::chrono::minutes(5);

// At most one response is under way, and the next one is made when it has gone: a slow reader is told less often.
class CatalogWatchStream final : public RawStream {
 public:
  CatalogWatchStream(RawCall* call, CatalogApi* api, v1::WatchBestConfigsRequest request)
      : RawStream(call), open_call_(open_calls()), api_(api), request_(std::move(request)) {}
  ~CatalogWatchStream() override {
    // Without the lock: it waits for a callback that may be waiting for the lock.
    stream_.reset();
    // Who called Finish may still hold it.
    MutexLock lock(&mutex_);
  }

  void Begin() override {
    absl::StatusOr<std::unique_ptr<CatalogStream>> stream = api_->WatchBestConfigs(
        request_, [this] { OnWake(); }, [this](absl::Status status) { End(status); });
    MutexLock lock(&mutex_);
    started_ = true;
    if (stream.ok()) {
      stream_ = *std::move(stream);
    } else if (!end_status_.has_value()) {
      end_status_ = stream.status();
    }
    Advance();
  }

  void OnWriteDone(bool ok) override {
    MutexLock lock(&mutex_);
    writing_ = false;
    current_.Clear();
    share_.Reset();
    if (!ok && !end_status_.has_value()) end_status_ = Cancelled("the client is gone");
    Advance();
  }

  void OnCancel() override { End(Cancelled("the client cancelled the watch")); }

 private:
  void OnWake() LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    if (writing_ && !finished_ && !abandoned_ && clock()->Now() - write_began_ >= kCatalogReadTimeMax) {
      abandoned_ = true;
      Abandon();
    }
    Advance();
  }

  void End(const absl::Status& status) LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    if (!end_status_.has_value()) end_status_ = status;
    Advance();
  }

  // At most one write at a time; Finish once, and never before Begin is through.
  void Advance() EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!started_ || writing_ || finished_) return;
    if (!end_status_.has_value()) {
      const std::optional<v1::WatchBestConfigsResponse> next = stream_->Next();
      if (!next.has_value()) return;
      current_ = Serialize(*next);
      share_ = HoldForStream(current_.Length());
      if (share_.is_held()) {
        writing_ = true;
        write_began_ = clock()->Now();
        Write(&current_);
        return;
      }
      end_status_ =
          WithReason(ResourceExhausted("other watches have too much to send; watch again later"), "OVERLOADED");
    }
    finished_ = true;
    Finish(*end_status_);
  }

  OpenCalls::Call open_call_;
  CatalogApi* const api_;
  const v1::WatchBestConfigsRequest request_;
  std::unique_ptr<CatalogStream> stream_;  // set with started_
  Mutex mutex_;
  grpc::ByteBuffer current_ GUARDED_BY(mutex_);
  MemoryShare share_ GUARDED_BY(mutex_);
  bool started_ GUARDED_BY(mutex_) = false;
  bool writing_ GUARDED_BY(mutex_) = false;
  bool finished_ GUARDED_BY(mutex_) = false;
  bool abandoned_ GUARDED_BY(mutex_) = false;
  MonotonicTime write_began_ GUARDED_BY(mutex_);
  std::optional<absl::Status> end_status_ GUARDED_BY(mutex_);
};

}  // namespace tunefarm
