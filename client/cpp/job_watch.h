// Watches one job: reads its events, opens a broken or silent stream again after the last of them, and ends with the
// job.
//
// Threads: the client's executor; Stop from any other.
#pragma once

#include <memory>
#include <string>

#include "client/cpp/backoff.h"
#include "client/cpp/calls.h"
#include "server/base/mutex.h"
#include "tunefarm/client/client.h"
#include "tunefarm/v1/tuning_service.grpc.pb.h"

namespace tunefarm::client {

class JobWatchImpl : public std::enable_shared_from_this<JobWatchImpl> {
 public:
  JobWatchImpl(std::string name, OpenCalls* calls, Executor* executor, v1::TuningService::StubInterface* stub,
               Client::EventCallback on_event, Client::EndCallback on_end, int64_t after_event_id,
               Duration reconnect_max_wait);

  // Once, on the executor.
  void Start();
  // The client closes. On the executor.
  void Close();
  // See JobWatch::Stop.
  void Stop() LOCKS_EXCLUDED(callback_mutex_);

 private:
  using Stream = ReadStream<v1::WatchJobResponse>;

  void Open();
  void OnResponse(const v1::WatchJobResponse& response) LOCKS_EXCLUDED(callback_mutex_);
  void OnStreamEnd(const grpc::Status& status);
  void WatchForSilence();
  void AskWhetherAlive();
  void End(const Status& status) LOCKS_EXCLUDED(callback_mutex_);
  bool is_stopped() const LOCKS_EXCLUDED(callback_mutex_);

  const std::string name_;
  OpenCalls* const calls_;
  Executor* const executor_;
  v1::TuningService::StubInterface* const stub_;
  const Duration reconnect_max_wait_;
  Backoff backoff_;
  std::shared_ptr<Stream> stream_;
  int64_t last_event_id_;
  MonotonicTime heard_;        // when the daemon was known to be there
  bool has_answered_ = false;  // it has, since the stream was opened
  bool is_asking_ = false;

  mutable Mutex callback_mutex_;  // held while a callback runs
  bool is_stopped_ GUARDED_BY(callback_mutex_) = false;
  Client::EventCallback on_event_ GUARDED_BY(callback_mutex_);
  Client::EndCallback on_end_ GUARDED_BY(callback_mutex_);
};

}  // namespace tunefarm::client
