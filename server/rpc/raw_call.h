// RawCall: one call as gRPC hands it over, before its request is read: first who calls, whether that may, and whether
// there is room for one more; then the bytes; then what they would take in memory; and only then the message. Owns
// itself: deleted in OnDone.
//
// Threads: as gRPC's callback API; Route::run may come on a thread of ours.
#pragma once

#include <google/protobuf/arena.h>
#include <google/protobuf/message.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "server/api/open_calls.h"
#include "server/base/clock.h"
#include "server/base/executor.h"
#include "server/rpc/call_limits.h"
#include "server/rpc/entrance.h"
#include "server/rpc/pending_reads.h"
#include "server/rpc/wire_scan.h"

namespace tunefarm {

class RawCall;

// A message as gRPC sends it.
grpc::ByteBuffer Serialize(const google::protobuf::MessageLite& message);

// Where a call is answered. A call that has waited longer for a thread than `wait_max` is given up.
struct Lane {
  TaskRunner* threads = nullptr;  // null: gRPC's own
  Duration wait_max = Duration::zero();
};

// What is known of a method.
struct Route {
  std::string call;  // "tunefarm.v1.TuningService/CreateJob"
  CallKind kind = CallKind::kCall;
  Lane lane;
  const google::protobuf::Message* prototype = nullptr;  // of the request
  const WireShape* shape = nullptr;
  // Answers with RawCall::Answer, at once or later, or begins a stream. The request lives as long as this runs.
  std::function<void(RawCall* call, const google::protobuf::Message& request)> run;
  // Set: answers at once, to everybody, whatever is asked: no byte of the request is read. The serialized answer.
  std::function<std::string()> probe;
};

// What is the same for all calls of one listener. All outlive the calls.
struct CallSurroundings {
  const Entrance* entrance = nullptr;
  OpenCalls* open_calls = nullptr;
  CallLimits* limits = nullptr;
  PendingReads* reads = nullptr;
  Clock* clock = nullptr;
};

// The answers of a call that has many. Made by Route::run.
class RawStream {
 public:
  explicit RawStream(RawCall* call) : call_(call) {}
  virtual ~RawStream() = default;  // no callback is under way or will come
  RawStream(const RawStream&) = delete;
  RawStream& operator=(const RawStream&) = delete;

  virtual void Begin() = 0;
  virtual void OnWriteDone(bool ok) = 0;
  virtual void OnCancel() = 0;  // may come twice, and before Begin has returned

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

class RawCall final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  RawCall(const CallSurroundings* around, const Route* route, grpc::CallbackServerContext* context);

  const CallContext& caller() const { return caller_; }
  const CallSurroundings& around() const { return *around_; }

  // The call's end, once; the call may be gone when it returns. `response` belongs to an OK outcome. `request`: for the
  // audit log, may be null.
  void Answer(const google::protobuf::Message* request, const absl::Status& outcome,
              const google::protobuf::Message* response);
  // Instead of Answer, on gRPC's thread: `task` answers, on a thread of the lane, where somebody still waits by then.
  void Defer(const Lane& lane, std::function<void()> task);
  // Instead of Answer, on gRPC's thread.
  void Stream(std::unique_ptr<RawStream> stream);
  // Instead of Answer, where IsAwaited has become false.
  void GiveUp();

  // Whether somebody waits for the answer: the caller is there and the lane's time has not passed. Until the call's
  // end.
  bool IsAwaited() const;

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  friend class RawStream;

  absl::Status Receive();
  // The request is scanned, parsed and run; the call may be gone when it returns.
  void ParseAndRun();
  // `flat`: the request's bytes, where they are in one piece; else null.
  absl::StatusOr<MemoryShare> HoldParsed(const grpc::Slice* flat);
  absl::StatusOr<const google::protobuf::Message*> Read(google::protobuf::Arena* arena);
  // A refusal that the gate did not make.
  void Refuse(const absl::Status& status);
  bool IsOfAgents() const { return route_->kind == CallKind::kAgentCall; }

  const CallSurroundings* const around_;
  const Route* const route_;
  grpc::CallbackServerContext* const context_;
  CallContext caller_;
  std::optional<CallLimits::Ticket> ticket_;
  PendingReads::Entry read_;
  MemoryShare received_, parsed_;
  MonotonicTime deadline_;
  grpc::ByteBuffer request_;
  grpc::ByteBuffer response_;
  std::unique_ptr<RawStream> stream_;
  std::atomic<RawStream*> begun_{nullptr};  // stream_, once it may be told of the call's end
  std::atomic<bool> is_cancelled_{false};
};

}  // namespace tunefarm
