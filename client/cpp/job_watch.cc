#include "client/cpp/job_watch.h"

#include <utility>

#include "client/cpp/wire.h"

namespace tunefarm::client {
namespace {

// The stream says nothing while nothing happens; after so long the daemon is asked whether it is still there.
constexpr Duration kSilenceMax = std::chrono::seconds(15);
constexpr Duration kAliveTimeout = std::chrono::seconds(10);
constexpr Duration kFirstPause = std::chrono::milliseconds(50);
constexpr Duration kLastPause = std::chrono::seconds(1);

bool MayResume(grpc::StatusCode code) {
  return code == grpc::StatusCode::UNAVAILABLE || code == grpc::StatusCode::ABORTED ||
         code == grpc::StatusCode::CANCELLED || code == grpc::StatusCode::DEADLINE_EXCEEDED;
}

}  // namespace

JobWatchImpl::JobWatchImpl(std::string name, OpenCalls* calls, Executor* executor,
                           v1::TuningService::StubInterface* stub, Client::EventCallback on_event,
                           Client::EndCallback on_end, int64_t after_event_id, Duration reconnect_max_wait)
    : name_(std::move(name)),
      calls_(calls),
      executor_(executor),
      stub_(stub),
      reconnect_max_wait_(reconnect_max_wait),
      backoff_(kFirstPause, kLastPause),
      last_event_id_(after_event_id),
      on_event_(std::move(on_event)),
      on_end_(std::move(on_end)) {}

void JobWatchImpl::Close() { End(Status{Code::kCancelled, "the client was closed", "CLOSED"}); }

bool JobWatchImpl::is_stopped() const {
  MutexLock lock(&callback_mutex_);
  return is_stopped_;
}

void JobWatchImpl::Start() {
  heard_ = Clock::Real()->Now();
  Open();
  WatchForSilence();
}

void JobWatchImpl::Stop() {
  MutexLock lock(&callback_mutex_);
  is_stopped_ = true;
  on_event_ = nullptr;
  on_end_ = nullptr;
}

void JobWatchImpl::End(const Status& status) {
  MutexLock lock(&callback_mutex_);
  if (is_stopped_) return;
  is_stopped_ = true;
  if (on_end_ != nullptr) on_end_(status);
  on_event_ = nullptr;
  on_end_ = nullptr;
}

void JobWatchImpl::Open() {
  if (is_stopped()) return;
  v1::WatchJobRequest request;
  request.set_name(name_);
  request.set_after_event_id(last_event_id_);
  auto stream = std::make_shared<Stream>(calls_, executor_);
  const auto self = shared_from_this();
  const bool is_open = stream->Open(
      [this, &request](auto* context, auto* queue) { return stub_->PrepareAsyncWatchJob(context, request, queue); },
      [self](const v1::WatchJobResponse& response) { self->OnResponse(response); },
      [self](const grpc::Status& status) { self->OnStreamEnd(status); });
  if (is_open) {
    has_answered_ = false;
    stream_ = std::move(stream);
  } else {
    Close();
  }
}

void JobWatchImpl::OnResponse(const v1::WatchJobResponse& response) {
  heard_ = Clock::Real()->Now();
  has_answered_ = true;
  backoff_.Reset();
  last_event_id_ = response.event().event_id();
  MutexLock lock(&callback_mutex_);
  if (is_stopped_) {
    if (stream_ != nullptr) stream_->Cancel();
    return;
  }
  if (on_event_ != nullptr) on_event_(FromWire(response.event()));
}

void JobWatchImpl::OnStreamEnd(const grpc::Status& status) {
  stream_ = nullptr;
  if (is_stopped()) return;
  if (calls_->is_closed()) return Close();
  if (status.ok()) return End({});
  if (!MayResume(status.error_code())) return End(FromGrpc(status));
  // Until now, however long it had nothing to say.
  if (has_answered_) heard_ = Clock::Real()->Now();
  if (Clock::Real()->Now() - heard_ >= reconnect_max_wait_) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(reconnect_max_wait_).count();
    return End(Status{Code::kUnavailable,
                      "the daemon has not answered for " + std::to_string(seconds) + " s; " + name_ + " may go on",
                      "WATCH_LOST"});
  }
  executor_->PostAfter(backoff_.Next(), [self = shared_from_this()] { self->Open(); });
}

void JobWatchImpl::WatchForSilence() {
  executor_->PostAfter(std::min(kSilenceMax, reconnect_max_wait_) / 4, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self == nullptr) return;
    if (self->is_stopped()) {
      if (self->stream_ != nullptr) self->stream_->Cancel();
      return;
    }
    if (self->stream_ != nullptr &&
        Clock::Real()->Now() - self->heard_ >= std::min(kSilenceMax, self->reconnect_max_wait_)) {
      self->AskWhetherAlive();
    }
    self->WatchForSilence();
  });
}

void JobWatchImpl::AskWhetherAlive() {
  if (is_asking_) return;
  is_asking_ = true;
  v1::GetJobRequest request;
  request.set_name(name_);
  StartCall<v1::GetJobRequest, v1::GetJobResponse>(
      calls_, executor_, std::min(kAliveTimeout, reconnect_max_wait_), request,
      [this](auto* context, const auto& own, auto* queue) { return stub_->PrepareAsyncGetJob(context, own, queue); },
      [self = shared_from_this()](const grpc::Status& status, const v1::GetJobResponse&) {
        self->is_asking_ = false;
        if (status.ok()) {
          self->heard_ = Clock::Real()->Now();
          self->has_answered_ = true;
        } else if (self->stream_ != nullptr) {
          self->stream_->Cancel();  // and it is opened again
        }
      });
}

}  // namespace tunefarm::client
