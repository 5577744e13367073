// Streams the catalog's changes to one client. Owns itself: deleted in OnDone.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <optional>
#include <utility>

#include "server/api/catalog_api.h"
#include "server/base/mutex.h"
#include "server/base/status.h"
#include "server/rpc/status.h"
#include "tunefarm/v1/catalog_service.pb.h"

namespace tunefarm {

// At most one response is under way, and the next one is made when it has gone: a slow reader is told less often.
class CatalogWatchReactor : public grpc::ServerWriteReactor<v1::WatchBestConfigsResponse> {
 public:
  CatalogWatchReactor(OpenCalls* calls, CatalogApi* api, const v1::WatchBestConfigsRequest& request)
      : open_call_(calls) {
    absl::StatusOr<std::unique_ptr<CatalogStream>> stream = api->WatchBestConfigs(
        request, [this] { OnWake(); }, [this](absl::Status status) { End(status); });
    MutexLock lock(&mutex_);
    started_ = true;
    if (stream.ok()) {
      stream_ = *std::move(stream);
    } else {
      end_status_ = stream.status();
    }
    Advance();
  }

  void OnWriteDone(bool ok) override {
    MutexLock lock(&mutex_);
    writing_ = false;
    if (!ok && !end_status_.has_value()) end_status_ = Cancelled("the client is gone");
    Advance();
  }

  void OnCancel() override { End(Cancelled("the client cancelled the watch")); }

  void OnDone() override {
    // Without the lock: it waits for a callback that may be waiting for the lock.
    stream_.reset();
    delete this;
  }

 private:
  void OnWake() LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    Advance();
  }

  void End(const absl::Status& status) LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    if (!end_status_.has_value()) end_status_ = status;
    Advance();
  }

  // At most one write at a time; Finish once, and never before the constructor is through.
  void Advance() EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!started_ || writing_ || finished_) return;
    if (end_status_.has_value()) {
      finished_ = true;
      Finish(ToGrpc(*end_status_));
      return;
    }
    std::optional<v1::WatchBestConfigsResponse> next = stream_->Next();
    if (!next.has_value()) return;
    current_ = *std::move(next);
    writing_ = true;
    StartWrite(&current_);
  }

  OpenCalls::Call open_call_;
  std::unique_ptr<CatalogStream> stream_;  // set with started_
  v1::WatchBestConfigsResponse current_;
  Mutex mutex_;
  bool started_ GUARDED_BY(mutex_) = false;
  bool writing_ GUARDED_BY(mutex_) = false;
  bool finished_ GUARDED_BY(mutex_) = false;
  std::optional<absl::Status> end_status_ GUARDED_BY(mutex_);
};

}  // namespace tunefarm
