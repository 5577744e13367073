// Calls to the daemon that are under way, and how they are made: unary ones with a function for the answer, and
// streams.
//
// They have a completion queue and a thread of their own. (gRPC's callback interface shares threads between all
// channels of a process, and in gRPC 1.51 may abort the process when the last of them goes.)
#pragma once

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/async_unary_call.h>

#include <atomic>
#include <functional>
#include <memory>
#include <set>
#include <utility>

#include "server/base/clock.h"
#include "server/base/executor.h"
#include "server/base/mutex.h"
#include "server/base/thread.h"

namespace tunefarm::client {

gpr_timespec DeadlineAfter(Duration timeout);

// Thread-safe.
class OpenCalls {
 public:
  // What the queue gives back when a step of a call is done; `ok` as gRPC says. On the queue's thread.
  class Step {
   public:
    virtual ~Step() = default;
    virtual void Proceed(bool ok) = 0;
  };

  OpenCalls();
  // All calls must have ended: see CloseAndWait.
  ~OpenCalls();
  OpenCalls(const OpenCalls&) = delete;
  OpenCalls& operator=(const OpenCalls&) = delete;

  grpc::CompletionQueue* queue() { return &queue_; }
  // False: it is closed, and the call must not be made.
  bool Add(grpc::ClientContext* context) LOCKS_EXCLUDED(mutex_);
  // The last that a call does.
  void Remove(grpc::ClientContext* context) LOCKS_EXCLUDED(mutex_);
  bool is_closed() const LOCKS_EXCLUDED(mutex_);
  // Before each operation that is given to the queue. The library orders what was written until then before the step
  // that follows, but by locks of its own, which ThreadSanitizer cannot see.
  void HandOver() { handed_over_.fetch_add(1, std::memory_order_acq_rel); }
  // Cancels what is under way and waits until all of it has ended. Not from a step.
  void CloseAndWait() LOCKS_EXCLUDED(mutex_);

 private:
  mutable Mutex mutex_;
  CondVar changed_;
  std::atomic<uint64_t> handed_over_ = 0;
  bool closed_ GUARDED_BY(mutex_) = false;
  std::set<grpc::ClientContext*> contexts_ GUARDED_BY(mutex_);
  grpc::CompletionQueue queue_;
  Thread thread_;
};

// A unary call under way. Deletes itself.
template <typename Response>
struct UnaryCall : OpenCalls::Step {
  using Reader = grpc::ClientAsyncResponseReaderInterface<Response>;
  using Done = std::function<void(const grpc::Status&, const Response&)>;

  OpenCalls* calls = nullptr;
  Executor* executor = nullptr;
  grpc::ClientContext context;
  std::shared_ptr<Response> response = std::make_shared<Response>();
  grpc::Status status;
  std::unique_ptr<Reader> reader;
  Done done;

  void Proceed(bool) override {
    const std::unique_ptr<UnaryCall> self(this);
    executor->Post([own = std::move(done), how = status, what = response] { own(how, *what); });
    calls->Remove(&context);
  }
};

// Makes a unary call. `prepare(context, request, queue)` is the stub's; `done(status, response)` runs on the executor,
// or never once that has stopped or the calls are closed.
template <typename Request, typename Response, typename Prepare>
void StartCall(OpenCalls* calls, Executor* executor, Duration timeout, const Request& request, Prepare prepare,
               typename UnaryCall<Response>::Done done) {
  auto call = std::make_unique<UnaryCall<Response>>();
  call->calls = calls;
  call->executor = executor;
  call->done = std::move(done);
  call->context.set_deadline(DeadlineAfter(timeout));
  if (!calls->Add(&call->context)) return;
  call->reader = prepare(&call->context, request, calls->queue());
  call->reader->StartCall();
  UnaryCall<Response>* const own = call.release();
  calls->HandOver();
  own->reader->Finish(own->response.get(), &own->status, static_cast<OpenCalls::Step*>(own));
}

// A stream of responses. The functions run on the executor, one response at a time: the next is read when the last has
// been dealt with. Keeps itself alive until it has ended.
template <typename Response>
class ReadStream : public OpenCalls::Step, public std::enable_shared_from_this<ReadStream<Response>> {
 public:
  using OnResponse = std::function<void(const Response&)>;
  using OnEnd = std::function<void(const grpc::Status&)>;

  ReadStream(OpenCalls* calls, Executor* executor) : calls_(calls), executor_(executor) {}

  // `prepare(context, queue)` is the stub's. False: closed; nothing will be called.
  template <typename Prepare>
  bool Open(Prepare prepare, OnResponse on_response, OnEnd on_end) {
    on_response_ = std::move(on_response);
    on_end_ = std::move(on_end);
    if (!calls_->Add(&context_)) return false;
    self_ = this->shared_from_this();
    reader_ = prepare(&context_, calls_->queue());
    calls_->HandOver();
    reader_->StartCall(tag());
    return true;
  }
  // Ends it soon. Any thread.
  void Cancel() { context_.TryCancel(); }

  void Proceed(bool ok) override {
    if (is_finishing_) return End();
    if (!ok) {
      is_finishing_ = true;
      calls_->HandOver();
      reader_->Finish(&status_, tag());
    } else if (!is_started_) {
      is_started_ = true;
      calls_->HandOver();
      reader_->Read(&response_, tag());
    } else {
      executor_->Post([self = this->shared_from_this()] {
        self->on_response_(self->response_);
        self->calls_->HandOver();
        self->reader_->Read(&self->response_, self->tag());
      });
    }
  }

 private:
  void* tag() { return static_cast<OpenCalls::Step*>(this); }

  void End() {
    const auto self = std::move(self_);
    executor_->Post([self] {
      self->on_end_(self->status_);
      self->on_response_ = nullptr;  // they may hold what holds this
      self->on_end_ = nullptr;
    });
    calls_->Remove(&context_);
  }

  OpenCalls* const calls_;
  Executor* const executor_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientAsyncReaderInterface<Response>> reader_;
  Response response_;
  grpc::Status status_;
  bool is_started_ = false, is_finishing_ = false;
  OnResponse on_response_;
  OnEnd on_end_;
  std::shared_ptr<ReadStream> self_;  // while it is open
};

}  // namespace tunefarm::client
