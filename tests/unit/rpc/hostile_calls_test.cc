// Calls of clients that send what is too much, too early or nonsense, over real sockets.
#include <chrono>
#include <deque>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "server/api/call_limits.h"
#include "server/rpc/late_refusals.h"
#include "tests/unit/rpc/rpc_server_test.h"

namespace tunefarm {
namespace {

using testing::HasSubstr;

// Calls with an empty request, all under way at once. Each has been awaited when it is destroyed.
class CallsInFlight {
 public:
  explicit CallsInFlight(const std::shared_ptr<grpc::Channel>& channel) : stub_(channel) {}

  grpc::ClientContext* Start(const std::string& method) {
    const grpc::Slice nothing("");
    const grpc::ByteBuffer request(&nothing, 1);
    Call& call = calls_.emplace_back();
    call.reader = stub_.PrepareUnaryCall(&call.context, method, request, &queue_);
    call.reader->StartCall();
    call.reader->Finish(&call.response, &call.status, &call);
    return &call.context;
  }
  grpc::ClientContext* context(int number) { return &calls_[static_cast<size_t>(number)].context; }
  // The outcome of the next one that ends.
  grpc::Status Await() {
    void* tag = nullptr;
    bool ok = false;
    TUNEFARM_CHECK(queue_.Next(&tag, &ok));
    return static_cast<Call*>(tag)->status;
  }

 private:
  struct Call {
    grpc::ClientContext context;
    grpc::ByteBuffer response;
    grpc::Status status;
    std::unique_ptr<grpc::GenericClientAsyncResponseReader> reader;
  };

  grpc::GenericStub stub_;
  grpc::CompletionQueue queue_;
  std::deque<Call> calls_;
};

class HostileCallsTest : public RpcServerTest {
 protected:
  // The outcome of a call with these bytes.
  grpc::Status Send(const std::string& socket, const std::string& method, const std::string& bytes,
                    const std::string& authorization = "") {
    grpc::GenericStub stub(Channel(socket));
    grpc::CompletionQueue queue;
    grpc::ClientContext context;
    if (!authorization.empty()) context.AddMetadata("authorization", authorization);
    const grpc::Slice slice(bytes);
    const grpc::ByteBuffer request(&slice, 1);
    grpc::ByteBuffer response;
    grpc::Status status;
    const auto call = stub.PrepareUnaryCall(&context, method, request, &queue);
    call->StartCall();
    call->Finish(&response, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    TUNEFARM_CHECK(queue.Next(&tag, &ok));
    return status;
  }
  std::unique_ptr<RpcServer> Limited(const std::string& name, CallLimits* limits, bool is_admin = false) {
    RpcServerOptions options;
    options.addresses = {"unix:" + directory_.File(name)};
    options.is_admin = is_admin;
    options.limits = limits;
    auto server = RpcServer::Start(Services(), Clock::Real(), options);
    TUNEFARM_CHECK(server.ok());
    return *std::move(server);
  }
};

constexpr char kCreateKernel[] = "/tunefarm.v1.KernelService/CreateKernel";
const std::string kGarbage = "\x0a\xff\xff\xff";

TEST_F(HostileCallsTest, WhoMayNotCallIsToldSoWhateverIsSent) {
  const grpc::Status unknown = Send("client.sock", kCreateKernel, kGarbage, "Bearer nonsense");
  EXPECT_EQ(unknown.error_code(), grpc::StatusCode::UNAUTHENTICATED) << unknown.error_message();
  const grpc::Status refused = Send("client.sock", "/tunefarm.v1.ServerService/CreateBackup", kGarbage);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::PERMISSION_DENIED) << refused.error_message();
  const grpc::Status garbage = Send("client.sock", kCreateKernel, kGarbage);
  EXPECT_EQ(garbage.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << garbage.error_message();
  EXPECT_EQ(ReasonIn(garbage), "MESSAGE_INVALID");
  for (const char* const none :
       {"/tunefarm.v1.KernelService/None", "/", "tunefarm.v1.LookupService/LookupConfig", ""}) {
    EXPECT_EQ(Send("client.sock", none, "").error_code(), grpc::StatusCode::UNIMPLEMENTED) << none;
  }
}

// Refusals that wait for their turn are sent when the server ends.
TEST_F(HostileCallsTest, RefusalsThatAreLateAreSentBeforeTheEnd) {
  constexpr int kCalls = LateRefusals::kAtOnceMax + 100;  // the last ones after 5 s
  constexpr Duration kGrace = std::chrono::seconds(2);
  CallLimits limits;
  const auto server = Limited("late.sock", &limits);
  CallsInFlight calls(Channel("late.sock"));
  for (int i = 0; i < kCalls; ++i) calls.Start("/tunefarm.v1.ServerService/CreateBackup");
  int refused = 0;
  for (int i = 0; i < kCalls; ++i) {
    if (i == LateRefusals::kAtOnceMax + 1) server->Shutdown(kGrace);
    const grpc::StatusCode code = calls.Await().error_code();
    if (code == grpc::StatusCode::PERMISSION_DENIED) ++refused;
    // One that gRPC had not handed over before the end is not a call of the server.
    else
      EXPECT_EQ(code, grpc::StatusCode::UNAVAILABLE);
  }
  EXPECT_GT(refused, kCalls - 20) << "those whose turn it was are fewer";
}

TEST_F(HostileCallsTest, WhatExplodesWhenItIsParsedIsRefused) {
  v1::CreateKernelRequest entries;
  for (int i = 0; i < (1 << 20); ++i) entries.mutable_kernel()->add_parameters();
  const grpc::Status refused = Send("client.sock", kCreateKernel, entries.SerializeAsString());
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << refused.error_message();
  EXPECT_EQ(ReasonIn(refused), "MESSAGE_TOO_LARGE");
  EXPECT_THAT(refused.error_message(), HasSubstr("once it is parsed"));
}

TEST_F(HostileCallsTest, NumbersThatAreNoneAreRefused) {
  v1::LookupConfigRequest request;
  request.set_kernel("tiny");
  (*request.mutable_problem()->mutable_dims())["N"].set_double_value(std::numeric_limits<double>::infinity());
  const grpc::Status refused =
      Send("client.sock", "/tunefarm.v1.LookupService/LookupConfig", request.SerializeAsString());
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << refused.error_message();
  EXPECT_EQ(ReasonIn(refused), "NUMBER_INVALID");
}

TEST_F(HostileCallsTest, CompressedRequestsAreRefused) {
  v1::CreateKernelRequest request;
  *request.mutable_kernel() = TinyKernel();
  request.mutable_kernel()->mutable_sources(0)->set_content(std::string(1 << 20, ' '));
  v1::CreateKernelResponse response;
  grpc::ClientContext context;
  context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
  const auto kernels = v1::KernelService::NewStub(Channel("client.sock"));
  EXPECT_EQ(kernels->CreateKernel(&context, request, &response).error_code(), grpc::StatusCode::UNIMPLEMENTED);
}

// Their ends come while they arrive.
TEST_F(HostileCallsTest, CallsThatAreCancelledAtOnceEndOnce) {
  constexpr char kLookup[] = "/tunefarm.v1.LookupService/LookupConfig";
  constexpr int kCalls = 4000;
  CallsInFlight calls(Channel("client.sock"));
  for (int i = 0; i < kCalls; ++i) {
    grpc::ClientContext* const context = calls.Start(kLookup);
    if (i % 2 == 1) calls.context(i - 1)->TryCancel();
    context->TryCancel();
  }
  for (int i = 0; i < kCalls; ++i) calls.Await();
  EXPECT_EQ(ReasonIn(Send("client.sock", kLookup, "")), "KERNEL_NOT_FOUND");
}

// One call after the other never adds up, however fast they come.
TEST_F(HostileCallsTest, CallsThatWereAnsweredHoldNoPlace) {
  CallLimitOptions few;
  few.calls_max = few.calls_per_principal_max = 8;
  CallLimits limits(few);
  const auto server = Limited("few.sock", &limits);
  const auto stub = v1::ServerService::NewStub(Channel("few.sock"));
  for (int i = 0; i < 3000; ++i) {
    grpc::ClientContext context;
    v1::GetServerInfoResponse response;
    const grpc::Status status = stub->GetServerInfo(&context, {}, &response);
    ASSERT_TRUE(status.ok()) << i << " " << status.error_message();
  }
}

TEST_F(HostileCallsTest, WatchesAreBoundedOverAllListenersAndRoomComesBack) {
  CallLimitOptions few;
  few.streams_per_principal_max = 2;
  CallLimits limits(few);
  const auto server = Limited("few.sock", &limits);
  const auto other = Limited("other.sock", &limits);
  v1::WatchJobRequest request;
  request.set_name(CreateJob());
  const auto here = v1::TuningService::NewStub(Channel("few.sock"));
  const auto there = v1::TuningService::NewStub(Channel("other.sock"));
  v1::WatchJobResponse response;
  grpc::ClientContext contexts[4];
  const auto first = here->WatchJob(&contexts[0], request);
  ASSERT_TRUE(first->Read(&response));
  const auto second = there->WatchJob(&contexts[1], request);
  ASSERT_TRUE(second->Read(&response));
  const auto third = here->WatchJob(&contexts[2], request);
  EXPECT_FALSE(third->Read(&response));
  const grpc::Status refused = third->Finish();
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(ReasonIn(refused), "TOO_MANY_WATCHERS");
  EXPECT_THAT(refused.error_message(), HasSubstr("client.sock has 2 watches open"));
  contexts[0].TryCancel();
  EXPECT_FALSE(first->Finish().ok());
  // The server sees the end of a call a moment later than its client.
  bool is_taken = false;
  while (!is_taken) {
    grpc::ClientContext context;
    const auto again = here->WatchJob(&context, request);
    is_taken = again->Read(&response);
    context.TryCancel();
    again->Finish();
  }
  contexts[1].TryCancel();
  EXPECT_FALSE(second->Finish().ok());
}

TEST_F(HostileCallsTest, AReaderThatDoesNotReadIsCutOffAndMayResume) {
  CallLimits limits;
  const auto server = Limited("watched.sock", &limits);
  v1::WatchJobRequest request;
  request.set_name(CreateJob());
  const auto tuning = v1::TuningService::NewStub(Channel("watched.sock"));
  v1::WatchJobResponse response;
  grpc::ClientContext context;
  const auto reader = tuning->WatchJob(&context, request);
  ASSERT_TRUE(reader->Read(&response));
  int64_t last = response.event().event_id();
  EXPECT_GT(last, 0);
  const int64_t job_id = std::stoll(request.name().substr(request.name().find('/') + 1));
  for (int i = 0; i < 300; ++i) {
    v1::JobEvent event;
    event.set_message(std::string(64 << 10, 'x'));
    plane_->events().Publish(job_id, std::move(event));
  }
  // None of them, where the stream is cut off before the reader begins.
  while (reader->Read(&response)) last = response.event().event_id();
  const grpc::Status cut = reader->Finish();
  EXPECT_EQ(cut.error_code(), grpc::StatusCode::ABORTED) << cut.error_message();
  EXPECT_EQ(ReasonIn(cut), "SLOW_READER");
  EXPECT_EQ(limits.held_bytes(), 0u);
  request.set_after_event_id(last);
  grpc::ClientContext resumed;
  const auto again = tuning->WatchJob(&resumed, request);
  ASSERT_TRUE(again->Read(&response));
  EXPECT_EQ(response.event().event_id(), last + 1);
  resumed.TryCancel();
  EXPECT_FALSE(again->Finish().ok());
}

TEST_F(HostileCallsTest, ACallWhoseRequestDoesNotArriveIsCancelled) {
  CallLimits limits;
  RpcServerOptions options;
  options.addresses = {"unix:" + directory_.File("hurried.sock")};
  options.limits = &limits;
  options.request_time_max = std::chrono::seconds(1);
  const auto server = RpcServer::Start(Services(), Clock::Real(), options);
  ASSERT_TRUE(server.ok()) << server.status();
  grpc::GenericStub stub(Channel("hurried.sock"));
  grpc::CompletionQueue queue;
  grpc::ClientContext context;
  const auto call = stub.PrepareCall(&context, kCreateKernel, &queue);
  call->StartCall(nullptr);
  void* tag = nullptr;
  bool ok = false;
  ASSERT_TRUE(queue.Next(&tag, &ok));
  grpc::Status status;
  call->Finish(&status, nullptr);
  ASSERT_TRUE(queue.Next(&tag, &ok));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::CANCELLED) << status.error_message();
  // Those that arrive are answered.
  EXPECT_TRUE(Send("hurried.sock", "/tunefarm.v1.KernelService/ListKernels", "").ok());
}

TEST_F(HostileCallsTest, CallsInFlightAreBoundedForEachPrincipal) {
  CallLimitOptions few;
  few.calls_per_principal_max = kBlockedMax;
  CallLimits limits(few);
  const auto admin = Limited("few-admin.sock", &limits, true);
  const auto client = Limited("few.sock", &limits);
  std::vector<Thread> callers;
  for (int i = 0; i < kBlockedMax; ++i) {
    callers.emplace_back("backup", [this] {
      v1::CreateBackupRequest request;
      request.set_file_name("block");
      v1::CreateBackupResponse response;
      grpc::ClientContext context;
      EXPECT_TRUE(
          v1::ServerService::NewStub(Channel("few-admin.sock"))->CreateBackup(&context, request, &response).ok());
    });
  }
  all_are_blocked_.WaitForNotification();
  const grpc::Status refused = Send("few-admin.sock", "/tunefarm.v1.ServerService/GetServerInfo", "");
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(ReasonIn(refused), "TOO_MANY_CALLS");
  EXPECT_TRUE(Send("few.sock", "/tunefarm.v1.ServerService/GetServerInfo", "").ok()) << "another principal";
  EXPECT_EQ(RawCall("few-admin.sock", "/grpc.health.v1.Health/Check", "", false), "\x08\x01") << "probes count nowhere";
  release_.Notify();
}

}  // namespace
}  // namespace tunefarm
