// RawCall: one call as gRPC hands it over, before its request is read: first who calls, whether that may, and whether
// there is room for one more; then the bytes; then what they would take in memory; and only then the message.
//
// Threads: what happens to a call comes on the threads of its RawCallQueue, several events at a time perhaps;
// Route::run may come on another thread.
#pragma once

#include <google/protobuf/arena.h>
#include <google/protobuf/message.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "server/api/call.h"
#include "server/api/call_limits.h"
#include "server/api/open_calls.h"
#include "server/api/router.h"
#include "server/base/clock.h"
#include "server/base/executor.h"
#include "server/rpc/entrance.h"
#include "server/rpc/late_refusals.h"
#include "server/rpc/pending_reads.h"

namespace tunefarm {

class RawCall;
class RawCallQueue;

// A message as gRPC sends it.
grpc::ByteBuffer Serialize(const google::protobuf::MessageLite& message);

// What is the same for all calls of one listener. All outlive the calls.
struct CallSurroundings {
  const Entrance* entrance = nullptr;
  OpenCalls* open_calls = nullptr;
  CallLimits* limits = nullptr;
  PendingReads* reads = nullptr;
  LateRefusals* refusals = nullptr;
  Clock* clock = nullptr;
  const Router* router = nullptr;
};

// The answers of a call that has many. Made by AddStream.
class RawStream {
 public:
  explicit RawStream(RawCall* call) : call_(call) {}
  virtual ~RawStream() = default;  // no event is under way or will come
  RawStream(const RawStream&) = delete;
  RawStream& operator=(const RawStream&) = delete;

  virtual void Begin() = 0;
  virtual void OnWriteDone(bool ok) = 0;
  virtual void OnCancel() = 0;  // may come twice, before Begin has returned and after Finish

 protected:
  // At most one write at a time; `response` lives until OnWriteDone. Finish is the last call.
  void Write(const grpc::ByteBuffer* response);
  void Finish(const absl::Status& status);
  // For a reader that does not read: its stream ends with CANCELLED. Before Finish.
  void Abandon();
  Clock* clock() const;
  OpenCalls* open_calls() const;
  // As CallLimits::Ticket::HoldForStream.
  MemoryShare HoldForStream(size_t bytes) const;

 private:
  RawCall* const call_;
};

class RawCall final : public Call {
 public:
  // Something that gRPC tells a call: the tag of an operation in the queue.
  class Event {
   public:
    Event(RawCall* call, void (RawCall::*happened)(bool ok)) : call_(call), happened_(happened) {}
    // Once for each operation, when it has ended. The call may be gone when it returns.
    void Happen(bool ok);

   private:
    RawCall* const call_;
    void (RawCall::*const happened_)(bool ok);
  };

  // Waits for a call; there is none yet. Owns itself: deleted when the last of its events has happened, which is after
  // its answer. The queue outlives it.
  explicit RawCall(RawCallQueue* queue);

  const CallContext& caller() const override { return caller_; }
  OpenCalls* open_calls() const override { return around_.open_calls; }
  void Answer(const google::protobuf::Message* request, const absl::Status& outcome,
              const google::protobuf::Message* response) override;
  void GiveUp() override;
  // Instead of Answer, on a thread of the queue.
  void Stream(std::unique_ptr<RawStream> stream);

 private:
  friend class RawStream;

  ~RawCall() override;
  bool HasCaller() const override { return !is_cancelled_.load(); }
  void OnArrived(bool ok);
  void OnReadDone(bool ok);
  void OnWriteDone(bool ok);
  void OnFinished(bool ok);
  void OnEnded(bool ok);
  // The call has come: who calls, and is there room?
  void Begin();
  absl::Status Receive();
  // The request is scanned, parsed and run; the call may be gone when it returns.
  void ParseAndRun();
  // `flat`: the request's bytes, where they are in one piece; else null.
  absl::StatusOr<MemoryShare> HoldParsed(const grpc::Slice* flat);
  absl::StatusOr<const google::protobuf::Message*> Read(google::protobuf::Arena* arena);
  // A refusal that the gate did not make.
  void Refuse(const absl::Status& status);
  // The call's end with a refusal, at once or late; the call may be gone when it returns.
  void FinishRefused(const grpc::Status& status);
  Duration TimeLeft() const;  // until its deadline
  // The call's end without an answer, and with one. One of them, once.
  void Finish(const grpc::Status& status);
  void FinishWith(const grpc::ByteBuffer& response);
  bool IsOfAgents() const { return route_->kind == CallKind::kAgentCall; }

  RawCallQueue* const queue_;
  const CallSurroundings& around_;
  grpc::GenericServerContext context_;
  grpc::GenericServerAsyncReaderWriter stream_{&context_};
  Event arrived_{this, &RawCall::OnArrived};
  Event read_done_{this, &RawCall::OnReadDone};
  Event write_done_{this, &RawCall::OnWriteDone};
  Event finished_{this, &RawCall::OnFinished};
  Event ended_{this, &RawCall::OnEnded};  // gRPC has nothing more of it, or the caller has gone
  // That are to come. Three from the begin: gRPC may tell of the end before it tells of the arrival.
  std::atomic<int> events_{3};
  const Route* route_ = nullptr;
  CallContext caller_;
  std::optional<CallLimits::Ticket> ticket_;
  PendingReads::Entry read_;
  MemoryShare received_, parsed_;
  grpc::ByteBuffer request_;
  std::unique_ptr<RawStream> answers_;
  std::atomic<RawStream*> begun_{nullptr};  // answers_, once they may be told of the call's end
  std::atomic<bool> is_cancelled_{false};
};

// A call that has many answers. `make`: std::unique_ptr<RawStream>(RawCall*, const Request&). Only gRPC serves it.
template <typename Request, typename Make>
void AddStream(Router* router, std::string_view call, Make make) {
  router->Put<Request>(call, CallKind::kStream, Lane(),
                       [make](Call* pending, const google::protobuf::Message& message) {
                         auto* const raw = static_cast<RawCall*>(pending);
                         raw->Stream(make(raw, static_cast<const Request&>(message)));
                       });
}

}  // namespace tunefarm
