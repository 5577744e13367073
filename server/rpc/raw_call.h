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
#include <utility>

#include "absl/status/status.h"
#include "server/api/call.h"
#include "server/api/call_limits.h"
#include "server/api/open_calls.h"
#include "server/api/router.h"
#include "server/base/clock.h"
#include "server/base/executor.h"
#include "server/rpc/entrance.h"
#include "server/rpc/pending_reads.h"

namespace tunefarm {

class RawCall;

// A message as gRPC sends it.
grpc::ByteBuffer Serialize(const google::protobuf::MessageLite& message);

// What is the same for all calls of one listener. All outlive the calls.
struct CallSurroundings {
  const Entrance* entrance = nullptr;
  OpenCalls* open_calls = nullptr;
  CallLimits* limits = nullptr;
  PendingReads* reads = nullptr;
  Clock* clock = nullptr;
};

// The answers of a call that has many. Made by AddStream.
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

class RawCall final : public Call, public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  RawCall(const CallSurroundings* around, const Route* route, grpc::CallbackServerContext* context);

  const CallContext& caller() const override { return caller_; }
  OpenCalls* open_calls() const override { return around_->open_calls; }
  void Answer(const google::protobuf::Message* request, const absl::Status& outcome,
              const google::protobuf::Message* response) override;
  void GiveUp() override;
  // Instead of Answer, on gRPC's thread.
  void Stream(std::unique_ptr<RawStream> stream);

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  friend class RawStream;

  bool HasCaller() const override;
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
  grpc::ByteBuffer request_;
  grpc::ByteBuffer response_;
  std::unique_ptr<RawStream> stream_;
  std::atomic<RawStream*> begun_{nullptr};  // stream_, once it may be told of the call's end
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
