#include "server/rpc/raw_call.h"

#include <google/protobuf/io/coded_stream.h>
#include <grpcpp/impl/codegen/proto_utils.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "server/base/check.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/rpc/raw_call_queue.h"
#include "server/rpc/status.h"

namespace tunefarm {

using google::protobuf::Arena;
using google::protobuf::Message;
using google::protobuf::io::CodedInputStream;

namespace {

// Kernel sources travel in one message; 16 MiB covers their limit of 8 MiB with room.
constexpr size_t kMessageBytesMax = 16 << 20;
// The largest kernel and the largest report take less than half of it.
constexpr size_t kParsedBytesMax = 64 << 20;
// Where most requests are parsed; larger ones take more from the heap.
constexpr size_t kArenaBlockBytes = 16 << 10;
// A call without a deadline counts as one with this.
constexpr int64_t kDeadlineMsMax = 3'600'000;

absl::Status CheckMessageSize(size_t bytes) {
  if (bytes <= kMessageBytesMax) return absl::OkStatus();
  return WithReason(ResourceExhausted("the message has {} bytes, at most {} are taken", bytes, kMessageBytesMax),
                    "MESSAGE_TOO_LARGE");
}

absl::Status NoRequest() { return WithReason(InvalidArgument("the call ended without a request"), "MESSAGE_INVALID"); }

// An agent takes ResourceExhausted for a refusal of what it sent, and comes back after Unavailable.
absl::Status ForAgent(const absl::Status& status) {
  if (!absl::IsResourceExhausted(status) || ReasonOf(status) != "OVERLOADED") return status;
  return WithReason(Unavailable("{}", MessageOf(status)), "OVERLOADED");
}

}  // namespace

grpc::ByteBuffer Serialize(const google::protobuf::MessageLite& message) {
  grpc::ByteBuffer bytes;
  bool own_buffer = false;
  const grpc::Status done =
      grpc::GenericSerialize<grpc::ProtoBufferWriter, google::protobuf::MessageLite>(message, &bytes, &own_buffer);
  TUNEFARM_CHECK(done.ok());
  return bytes;
}

// ---- RawStream ----

void RawStream::Write(const grpc::ByteBuffer* response) {
  call_->events_.fetch_add(1);
  call_->stream_.Write(*response, &call_->write_done_);
}
void RawStream::Finish(const absl::Status& status) { call_->Finish(ToGrpc(status)); }
void RawStream::Abandon() { call_->context_.TryCancel(); }
Clock* RawStream::clock() const { return call_->around_.clock; }
OpenCalls* RawStream::open_calls() const { return call_->around_.open_calls; }
MemoryShare RawStream::HoldForStream(size_t bytes) const { return call_->ticket_->HoldForStream(bytes); }

// ---- RawCall ----

void RawCall::Event::Happen(bool ok) {
  RawCall* const call = call_;
  (call->*happened_)(ok);
  if (call->events_.fetch_sub(1) != 1) return;
  RawCallQueue* const queue = call->queue_;
  delete call;
  queue->Remove();  // it may be gone now
}

RawCall::RawCall(RawCallQueue* queue) : Call(queue->around().clock), queue_(queue), around_(queue->around()) {
  queue_->Add();
  context_.AsyncNotifyWhenDone(&ended_);
  queue_->Await(&context_, &stream_, &arrived_);
}

RawCall::~RawCall() = default;

void RawCall::OnArrived(bool ok) {
  if (!ok) {
    events_.fetch_sub(2);  // The server shuts down: there is no call, which neither ends nor is finished.
    return;
  }
  queue_->AwaitNext();
  Begin();
}

void RawCall::Begin() {
  const std::string_view path = context_.method();
  if (path.substr(0, 1) == "/") route_ = around_.router->Find(path.substr(1));
  if (route_ == nullptr) {
    FinishRefused(grpc::Status(grpc::StatusCode::UNIMPLEMENTED, ""));
    return;
  }
  if (route_->probe) {
    const grpc::Slice answer(route_->probe());
    FinishWith(grpc::ByteBuffer(&answer, 1));
    return;
  }
  absl::StatusOr<CallContext> caller = around_.entrance->Authorize(context_, route_->call);
  if (!caller.ok()) {
    FinishRefused(ToGrpc(caller.status()));
    return;
  }
  caller_ = *std::move(caller);
  absl::StatusOr<CallLimits::Ticket> ticket = around_.limits->Begin(caller_.principal, route_->kind);
  if (!ticket.ok()) {
    Refuse(ticket.status());
    return;
  }
  ticket_.emplace(*std::move(ticket));
  read_.context = &context_;
  ticket_->BeginRead([this] {
    around_.reads->Add(&read_);
    events_.fetch_add(1);
    stream_.Read(&request_, &read_done_);
  });
}

void RawCall::Finish(const grpc::Status& status) { stream_.Finish(status, &finished_); }

void RawCall::FinishWith(const grpc::ByteBuffer& response) {
  stream_.WriteAndFinish(response, grpc::WriteOptions(), grpc::Status::OK, &finished_);
}

void RawCall::Refuse(const absl::Status& status) {
  around_.entrance->Record(caller_, route_->call, nullptr, nullptr, status);
  FinishRefused(ToGrpc(status));
}

void RawCall::FinishRefused(const grpc::Status& status) {
  // An agent pauses by itself, and jobs wait for what it reports.
  if (route_ != nullptr && IsOfAgents()) {
    Finish(status);
    return;
  }
  around_.refusals->Send(caller_.principal.name, TimeLeft(), [this, status] { Finish(status); });
}

Duration RawCall::TimeLeft() const {
  const int64_t deadline_ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(context_.deadline().time_since_epoch()).count();
  return std::chrono::milliseconds(std::min(deadline_ms - around_.clock->WallMs(), kDeadlineMsMax));
}

void RawCall::OnReadDone(bool ok) {
  around_.reads->Remove(&read_);
  ticket_->EndRead();
  const absl::Status received = ok ? Receive() : NoRequest();
  if (!received.ok()) {
    request_.Clear();
    Refuse(received);
  } else if (route_->lane.threads == nullptr) {
    ParseAndRun();
  } else {
    Defer(route_->lane, [this] { ParseAndRun(); });
  }
}

absl::Status RawCall::Receive() {
  const size_t bytes = request_.Length();
  RETURN_IF_ERROR(CheckMessageSize(bytes));
  absl::StatusOr<MemoryShare> share = ticket_->HoldReceived(bytes);
  if (!share.ok()) return IsOfAgents() ? ForAgent(share.status()) : share.status();
  received_ = *std::move(share);
  return absl::OkStatus();
}

void RawCall::GiveUp() {
  Finish(ToGrpc(IsOfAgents() ? Unavailable("control has more to do than it can; try again later")
                             : DeadlineExceeded("the call waited longer than its deadline; try again later")));
}

absl::StatusOr<MemoryShare> RawCall::HoldParsed(const grpc::Slice* flat) {
  // Numbers of agents are checked report by report, so that one bad report keeps no others back.
  const WireScanOptions options = {.parsed_bytes_max = kParsedBytesMax, .finite_only = !IsOfAgents()};
  absl::StatusOr<size_t> bytes;
  if (flat != nullptr) {
    const int size = static_cast<int>(flat->size());
    CodedInputStream input(flat->begin(), size);
    bytes = ScanMessage(*route_->shape, &input, size, options);
  } else {
    grpc::ProtoBufferReader reader(&request_);
    if (!reader.status().ok()) return NotTheMessage();
    CodedInputStream input(&reader);
    bytes = ScanMessage(*route_->shape, &input, static_cast<int>(request_.Length()), options);
  }
  RETURN_IF_ERROR(bytes.status());
  absl::StatusOr<MemoryShare> share = around_.limits->HoldParsed(*bytes);
  if (!share.ok() && IsOfAgents()) return ForAgent(share.status());
  return share;
}

absl::StatusOr<const Message*> RawCall::Read(Arena* arena) {
  // Small requests come in one piece. This reference to it ends before the buffer does: where a slice of its own is the
  // last one, gRPC 1.51 gives memory back outside of an ExecCtx, and crashes while its quota is exhausted.
  grpc::Slice slice;
  const grpc::Slice* const flat = request_.TrySingleSlice(&slice).ok() ? &slice : nullptr;
  ASSIGN_OR_RETURN(parsed_, HoldParsed(flat));  // until the answer: what takes long keeps a copy of its request
  Message* const request = route_->prototype->New(arena);
  if (flat != nullptr) {
    if (!request->ParseFromArray(flat->begin(), static_cast<int>(flat->size()))) return NotTheMessage();
    return request;
  }
  grpc::ProtoBufferReader reader(&request_);
  if (!reader.status().ok() || !request->ParseFromZeroCopyStream(&reader)) return NotTheMessage();
  return request;
}

void RawCall::ParseAndRun() {
  alignas(8) static thread_local char block[kArenaBlockBytes];
  Arena arena(block, sizeof(block));
  const absl::StatusOr<const Message*> request = Read(&arena);
  request_.Clear();
  received_.Reset();
  if (request.ok()) {
    route_->run(this, **request);
  } else {
    Refuse(request.status());
  }
}

void RawCall::Answer(const Message* request, const absl::Status& outcome, const Message* response) {
  around_.entrance->Record(caller_, route_->call, request, response, outcome);
  parsed_.Reset();
  if (!outcome.ok()) {
    Finish(ToGrpc(outcome));
    return;
  }
  FinishWith(Serialize(*response));
}

void RawCall::Stream(std::unique_ptr<RawStream> stream) {
  parsed_.Reset();
  answers_ = std::move(stream);
  begun_.store(answers_.get());
  answers_->Begin();
  if (is_cancelled_.load()) answers_->OnCancel();
}

void RawCall::OnWriteDone(bool ok) { answers_->OnWriteDone(ok); }

void RawCall::OnFinished(bool /*ok*/) {}

void RawCall::OnEnded(bool /*ok*/) {
  if (!context_.IsCancelled()) return;
  is_cancelled_.store(true);
  if (RawStream* const stream = begun_.load()) stream->OnCancel();
}

}  // namespace tunefarm
