// Makes a package on a thread of its own, and streams it to one client.
#pragma once

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string>
#include <utility>

#include "server/api/package_api.h"
#include "server/base/clock.h"
#include "server/base/executor.h"
#include "server/base/mutex.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/rpc/raw_call.h"
#include "tunefarm/v1/package_service.pb.h"

namespace tunefarm {

inline constexpr size_t kPackagePartBytes = 1 << 20;
// A reader that takes longer is given up.
inline constexpr Duration kPackagePartTimeMax = std::chrono::minutes(1);
inline constexpr Duration kPackageReadTimeMax = std::chrono::minutes(10);  // for the whole file

// The thread is busy until the last part has gone, so that there are no more files in memory than threads.
class PackageStream final : public RawStream {
 public:
  // `threads` outlives it; it is made on one of those for slow tasks, as one of `owner`.
  PackageStream(RawCall* call, PackageApi* api, TaskRunner* threads, std::string owner,
                v1::ExportPackageRequest request)
      : RawStream(call),
        open_call_(open_calls()),
        api_(api),
        threads_(threads),
        owner_(std::move(owner)),
        request_(std::move(request)) {}
  ~PackageStream() override {
    // Who called Finish may still hold it.
    MutexLock lock(&mutex_);
  }

  void Begin() override {
    MutexLock lock(&mutex_);
    // Many may wait for a thread.
    share_ = HoldForStream(request_.SpaceUsedLong());
    if (!share_.is_held()) {
      Finish(WithReason(ResourceExhausted("other calls have too much to send; try again later"), "OVERLOADED"));
      return;
    }
    threads_->PostSlow(owner_, [this] { Run(); });
  }

  void OnWriteDone(bool ok) override {
    MutexLock lock(&mutex_);
    is_writing_ = false;
    is_gone_ = is_gone_ || !ok;
    changed_.NotifyOne();
  }

  void OnCancel() override {
    MutexLock lock(&mutex_);
    is_gone_ = true;
    if (is_begun_) return;
    // It goes on waiting for a thread, without the memory.
    request_ = v1::ExportPackageRequest();
    share_.Reset();
  }

 private:
  bool IsGone() LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    return is_gone_;
  }

  void Run() LOCKS_EXCLUDED(mutex_) {
    const absl::Status status = MakeAndSend();
    MutexLock lock(&mutex_);
    Finish(status);
  }

  absl::Status MakeAndSend() LOCKS_EXCLUDED(mutex_) {
    {
      MutexLock lock(&mutex_);
      if (is_gone_) return Cancelled("the client is gone");
      is_begun_ = true;
    }
    MadePackage made = api_->ExportPackage(request_, [this] { return IsGone(); });
    const MonotonicTime end = Clock::Real()->Now() + kPackageReadTimeMax;
    if (made.file.ok() || made.contents.left_out_count() > 0) {
      v1::ExportPackageResponse first;
      *first.mutable_contents() = std::move(made.contents);
      RETURN_IF_ERROR(Send(first, end));
    }
    RETURN_IF_ERROR(made.file.status());
    for (size_t sent = 0; sent < made.file->size(); sent += kPackagePartBytes) {
      v1::ExportPackageResponse part;
      part.set_data(made.file->substr(sent, kPackagePartBytes));
      RETURN_IF_ERROR(Send(part, end));
    }
    return absl::OkStatus();
  }

  // Returns when the response has gone. `end`: of the whole stream.
  absl::Status Send(const v1::ExportPackageResponse& response, MonotonicTime end) LOCKS_EXCLUDED(mutex_) {
    const MonotonicTime give_up = std::min(end, Clock::Real()->Now() + kPackagePartTimeMax);
    MutexLock lock(&mutex_);
    if (is_gone_) return Cancelled("the client is gone");
    current_ = Serialize(response);
    is_writing_ = true;
    Write(&current_);
    while (is_writing_) {
      const Duration left = give_up - Clock::Real()->Now();
      if (left > Duration::zero()) {
        changed_.WaitFor(&mutex_, left);
        continue;
      }
      if (!is_gone_) Abandon();
      is_gone_ = true;
      changed_.Wait(&mutex_);
    }
    current_.Clear();
    return is_gone_ ? Cancelled("the client is gone, or does not read") : absl::OkStatus();
  }

  OpenCalls::Call open_call_;
  PackageApi* const api_;
  TaskRunner* const threads_;
  const std::string owner_;
  Mutex mutex_;
  // Under the lock until is_begun_, then of the thread alone.
  v1::ExportPackageRequest request_;
  MemoryShare share_;  // of the request
  CondVar changed_;
  grpc::ByteBuffer current_ GUARDED_BY(mutex_);
  bool is_begun_ GUARDED_BY(mutex_) = false;
  bool is_writing_ GUARDED_BY(mutex_) = false;
  bool is_gone_ GUARDED_BY(mutex_) = false;
};

}  // namespace tunefarm
