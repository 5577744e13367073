// Calls to the daemon that are under way, and how they are made: unary ones with a callback, and streams.
#pragma once

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/client_callback.h>

#include <functional>
#include <memory>
#include <set>
#include <utility>

#include "server/base/clock.h"
#include "server/base/executor.h"
#include "server/base/mutex.h"

namespace tunefarm::client {

gpr_timespec DeadlineAfter(Duration timeout);

// Thread-safe.
class OpenCalls {
 public:
  // False: it is closed, and the call must not be made.
  bool Add(grpc::ClientContext* context) LOCKS_EXCLUDED(mutex_);
  // The last that a call does.
  void Remove(grpc::ClientContext* context) LOCKS_EXCLUDED(mutex_);
  bool is_closed() const LOCKS_EXCLUDED(mutex_);
  // Cancels what is under way and waits until all of it has ended. Not from a callback of a call.
  void CloseAndWait() LOCKS_EXCLUDED(mutex_);

 private:
  mutable Mutex mutex_;
  CondVar changed_;
  bool closed_ GUARDED_BY(mutex_) = false;
  std::set<grpc::ClientContext*> contexts_ GUARDED_BY(mutex_);
};

// Makes a unary call. `start(context, request, response, callback)` is the stub's; `done(status, response)` runs on the
// executor, or never once that has stopped.
template <typename Request, typename Response, typename Start, typename Done>
void StartCall(OpenCalls* calls, Executor* executor, Duration timeout, Request request, Start start, Done done) {
  struct Call {
    grpc::ClientContext context;
    Request request;
    Response response;
  };
  auto call = std::make_shared<Call>();
  call->request = std::move(request);
  call->context.set_deadline(DeadlineAfter(timeout));
  if (!calls->Add(&call->context)) return;
  start(&call->context, &call->request, &call->response,
        [calls, executor, call, done = std::move(done)](const grpc::Status& status) {
          executor->Post([call, done, status] { done(status, std::move(call->response)); });
          calls->Remove(&call->context);
        });
}

// A stream of responses. The functions run on the executor, one response at a time: the next is read when the last has
// been dealt with. Keeps itself alive until it has ended.
template <typename Response>
class ReadStream : public grpc::ClientReadReactor<Response>, public std::enable_shared_from_this<ReadStream<Response>> {
 public:
  using OnResponse = std::function<void(const Response&)>;
  using OnEnd = std::function<void(const grpc::Status&)>;

  ReadStream(OpenCalls* calls, Executor* executor) : calls_(calls), executor_(executor) {}

  // `start(context, this)` is the stub's. False: closed; nothing will be called.
  template <typename Start>
  bool Open(Start start, OnResponse on_response, OnEnd on_end) {
    on_response_ = std::move(on_response);
    on_end_ = std::move(on_end);
    if (!calls_->Add(&context_)) return false;
    self_ = this->shared_from_this();
    start(&context_, this);
    this->AddHold();  // reads are started outside of reactions
    this->StartRead(&response_);
    this->StartCall();
    return true;
  }
  // Ends it soon. Any thread.
  void Cancel() { context_.TryCancel(); }

  void OnReadDone(bool ok) override {
    if (!ok) {
      this->RemoveHold();
      return;
    }
    executor_->Post([self = this->shared_from_this()] {
      self->on_response_(self->response_);
      self->StartRead(&self->response_);
    });
  }
  void OnDone(const grpc::Status& status) override {
    executor_->Post([self = this->shared_from_this(), status] {
      self->on_end_(status);
      self->on_response_ = nullptr;  // they may hold what holds this
      self->on_end_ = nullptr;
    });
    OpenCalls* const calls = calls_;
    grpc::ClientContext* const context = &context_;
    const auto self = std::move(self_);
    calls->Remove(context);
  }

 private:
  OpenCalls* const calls_;
  Executor* const executor_;
  grpc::ClientContext context_;
  Response response_;
  OnResponse on_response_;
  OnEnd on_end_;
  std::shared_ptr<ReadStream> self_;  // while it is open
};

}  // namespace tunefarm::client
