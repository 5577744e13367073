#include "server/rpc/server.h"

#include <sys/stat.h>

#include "server/access/call_rules.h"
#include "server/base/hash.h"
#include "server/rpc/raw_call_queue.h"
#include "tests/unit/rpc/rpc_server_test.h"
#include "tunefarm/agent/v1/agent.grpc.pb.h"
#include "tunefarm/v1/access_service.grpc.pb.h"

namespace tunefarm {
namespace {

using testing::HasSubstr;

TEST_F(RpcServerTest, SocketsHaveTheirModesAndGoAway) {
  struct stat info = {};
  ASSERT_EQ(stat(directory_.File("admin.sock").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  ASSERT_EQ(stat(directory_.File("client.sock").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0660u);
  client_->Shutdown(Duration::zero());
  client_->Shutdown(Duration::zero());
  EXPECT_NE(stat(directory_.File("client.sock").c_str(), &info), 0);
}

TEST_F(RpcServerTest, AStaleSocketFileIsReplaced) {
  TUNEFARM_CHECK_OK(WriteFileAtomically(directory_.File("stale.sock"), "left behind"));
  const auto server = Serve(directory_.File("stale.sock"), false);
  struct stat info = {};
  ASSERT_EQ(stat(directory_.File("stale.sock").c_str(), &info), 0);
  EXPECT_TRUE(S_ISSOCK(info.st_mode));
}

TEST_F(RpcServerTest, AnAddressThatCannotBeBoundIsNamed) {
  const std::string address = "unix:" + directory_.File("no/such/folder.sock");
  const auto server = RpcServer::Start(Services(), Clock::Real(), {{address}, false});
  EXPECT_EQ(server.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ReasonOf(server.status()), "LISTEN_FAILED");
  EXPECT_THAT(std::string(MessageOf(server.status())), HasSubstr(address));
}

TEST(RawCallQueue, EndsWhereNoServerCouldBeBuilt) {
  RawCallQueue queue{CallSurroundings{}};
  grpc::ServerBuilder builder;
  queue.AddTo(&builder);
  builder.AddListeningPort("unix:/no/such/folder/socket", grpc::InsecureServerCredentials());
  ASSERT_EQ(builder.BuildAndStart(), nullptr);
  queue.Stop();  // waits for no call: none was asked for
}

TEST_F(RpcServerTest, TcpTellsThePortItChose) {
  const auto server = RpcServer::Start(Services(), Clock::Real(), {{"127.0.0.1:0"}, false});
  ASSERT_TRUE(server.ok()) << server.status().ToString();
  ASSERT_EQ((*server)->addresses().size(), 1u);
  const std::string address = (*server)->addresses()[0];
  EXPECT_NE(address, "127.0.0.1:0");
  grpc::ClientContext context;
  v1::ListDevicesResponse response;
  EXPECT_TRUE(v1::DeviceService::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()))
                  ->ListDevices(&context, {}, &response)
                  .ok());
  EXPECT_EQ(response.devices(0).uuid(), "CPU-test");
  // The same port again is refused, not shared.
  EXPECT_EQ(RpcServer::Start(Services(), Clock::Real(), {{address}, false}).status().code(),
            absl::StatusCode::kUnavailable);
}

TEST_F(RpcServerTest, PlainTextOnLoopbackIsAnotherIdentityThanTheSocket) {
  const auto server = RpcServer::Start(Services(), Clock::Real(), {{"127.0.0.1:0"}, false});
  ASSERT_TRUE(server.ok()) << server.status();
  const auto caller = [](const std::shared_ptr<grpc::Channel>& channel) {
    grpc::ClientContext context;
    v1::GetCallerResponse response;
    EXPECT_TRUE(v1::AccessService::NewStub(channel)->GetCaller(&context, {}, &response).ok());
    return response.caller();
  };
  const v1::CallerIdentity of_socket = caller(Channel("client.sock"));
  const v1::CallerIdentity of_loopback =
      caller(grpc::CreateChannel((*server)->addresses()[0], grpc::InsecureChannelCredentials()));
  EXPECT_EQ(of_socket.name(), "client.sock");
  EXPECT_EQ(of_loopback.name(), "loopback");
  EXPECT_EQ(of_loopback.kind(), of_socket.kind());
  EXPECT_THAT(of_loopback.roles(), testing::ElementsAreArray(of_socket.roles()));
}

TEST_F(RpcServerTest, HealthAndReflectionAnswer) {
  EXPECT_EQ(RawCall("client.sock", "/grpc.health.v1.Health/Check", "", false), "\x08\x01");  // SERVING
  client_->SetNotServing();
  EXPECT_EQ(RawCall("client.sock", "/grpc.health.v1.Health/Check", "", false), "\x08\x02");  // NOT_SERVING
  // list_services
  const std::string services = RawCall("admin.sock", "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
                                       std::string("\x3a\x00", 2), true);
  for (const char* service : {"KernelService", "TuningService", "LookupService", "CatalogService", "DeviceService",
                              "ServerService", "DataFileService", "PackageService", "CacheService"}) {
    EXPECT_THAT(services, HasSubstr(std::string("tunefarm.v1.") + service));
  }
}

TEST_F(RpcServerTest, AdminCallsAreForTheAdminSocket) {
  const auto client = v1::ServerService::NewStub(Channel("client.sock"));
  v1::CreateBackupResponse backup;
  v1::ShutdownResponse shutdown;
  grpc::ClientContext contexts[4];
  const grpc::Status refused = client->CreateBackup(&contexts[0], {}, &backup);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(ReasonIn(refused), "ADMIN_ONLY");
  EXPECT_EQ(ReasonIn(client->Shutdown(&contexts[1], {}, &shutdown)), "ADMIN_ONLY");
  EXPECT_EQ(shutdowns_.load(), 0);
  const auto admin = v1::ServerService::NewStub(Channel("admin.sock"));
  v1::CreateBackupRequest request;
  request.set_file_name("x.db");
  EXPECT_TRUE(admin->CreateBackup(&contexts[2], request, &backup).ok());
  EXPECT_EQ(backup.path(), "/data/backups/x.db");
  EXPECT_TRUE(admin->Shutdown(&contexts[3], {}, &shutdown).ok());
  EXPECT_EQ(shutdowns_.load(), 1);
}

TEST_F(RpcServerTest, EveryCallOfEveryServicePassesTheGate) {
  int calls = 0;
  for (const CallRule& rule : AllCallRules()) {
    if (rule.call.rfind("tunefarm.v1.", 0) != 0) continue;
    ++calls;
    grpc::GenericStub stub(Channel("admin.sock"));
    grpc::CompletionQueue queue;
    grpc::ClientContext context;
    context.AddMetadata("authorization", "nobody");
    const grpc::Slice empty("");
    const grpc::ByteBuffer request(&empty, 1);
    grpc::ByteBuffer response;
    grpc::Status status;
    const auto call = stub.PrepareUnaryCall(&context, "/" + std::string(rule.call), request, &queue);
    call->StartCall();
    call->Finish(&response, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    ASSERT_TRUE(queue.Next(&tag, &ok));
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAUTHENTICATED) << rule.call << ": " << status.error_message();
    EXPECT_EQ(ReasonIn(status), "TOKEN_INVALID") << rule.call;
  }
  EXPECT_GE(calls, 38);
  EXPECT_EQ(shutdowns_.load(), 0);
}

TEST_F(RpcServerTest, DataFilesTravelInPartsOfAMegabyte) {
  const std::string content = std::string(1 << 20, 'x') + "end";
  const auto files = v1::DataFileService::NewStub(Channel("client.sock"));
  v1::UploadDataFileRequest request;
  request.set_digest(Sha256(content).Hex());
  request.set_total_bytes(static_cast<int64_t>(content.size()));
  request.set_part(content);
  v1::UploadDataFileResponse response;
  grpc::ClientContext contexts[5];
  const grpc::Status refused = files->UploadDataFile(&contexts[0], request, &response);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << refused.error_message();
  EXPECT_EQ(ReasonIn(refused), "DATA_FILE_INVALID");
  request.set_part(content.substr(0, 1 << 20));
  const grpc::Status first = files->UploadDataFile(&contexts[1], request, &response);
  ASSERT_TRUE(first.ok()) << first.error_message();
  EXPECT_FALSE(response.is_whole());
  EXPECT_EQ(response.received_bytes(), 1 << 20);
  v1::GetDataFileRequest question;
  question.set_digest(request.digest());
  v1::GetDataFileResponse answer;
  ASSERT_TRUE(files->GetDataFile(&contexts[2], question, &answer).ok());
  EXPECT_FALSE(answer.is_whole());
  request.set_offset(answer.received_bytes());
  request.set_part("end");
  ASSERT_TRUE(files->UploadDataFile(&contexts[3], request, &response).ok());
  EXPECT_TRUE(response.is_whole());
  ASSERT_TRUE(files->GetDataFile(&contexts[4], question, &answer).ok());
  EXPECT_TRUE(answer.is_whole());
}

TEST_F(RpcServerTest, MissesAreSeenByAllAndForgottenByTheAdminAlone) {
  CreateJob();  // which stores the kernel
  const auto channel = Channel("client.sock");
  v1::LookupConfigRequest question;
  question.set_kernel("tiny");
  v1::LookupConfigResponse answer;
  grpc::ClientContext contexts[6];
  ASSERT_TRUE(v1::LookupService::NewStub(channel)->LookupConfig(&contexts[0], question, &answer).ok());
  const auto catalog = v1::CatalogService::NewStub(channel);
  v1::ListMissesResponse list;
  ASSERT_TRUE(catalog->ListMisses(&contexts[1], {}, &list).ok());
  ASSERT_EQ(list.misses_size(), 1);
  EXPECT_EQ(list.misses(0).kernel_name(), "tiny");
  EXPECT_EQ(list.misses(0).device_class_name(), "Test CPU");
  EXPECT_EQ(list.misses(0).match(), v1::MATCH_DEFAULT);
  v1::ListMissesRequest bad;
  bad.set_page_token("x");
  EXPECT_EQ(ReasonIn(catalog->ListMisses(&contexts[2], bad, &list)), "PAGE_TOKEN_INVALID");
  v1::DeleteMissesResponse deleted;
  const grpc::Status refused = catalog->DeleteMisses(&contexts[3], {}, &deleted);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(ReasonIn(refused), "ADMIN_ONLY");
  const auto admin = v1::CatalogService::NewStub(Channel("admin.sock"));
  ASSERT_TRUE(admin->DeleteMisses(&contexts[4], {}, &deleted).ok());
  EXPECT_EQ(deleted.deleted(), 1);
  ASSERT_TRUE(catalog->ListMisses(&contexts[5], {}, &list).ok());
  EXPECT_EQ(list.misses_size(), 0);
}

TEST_F(RpcServerTest, ErrorsCarryTheirReason) {
  const auto tuning = v1::TuningService::NewStub(Channel("client.sock"));
  grpc::ClientContext context;
  v1::GetJobRequest request;
  request.set_name("jobs/999");
  v1::GetJobResponse response;
  const grpc::Status status = tuning->GetJob(&context, request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(status.error_message(), HasSubstr("999"));
  EXPECT_FALSE(ReasonIn(status).empty());
}

TEST_F(RpcServerTest, AMessageThatIsTooLargeIsRefused) {
  v1::CreateKernelRequest request;
  *request.mutable_kernel() = TinyKernel();
  request.mutable_kernel()->mutable_sources(0)->set_content(std::string(17 << 20, ' '));
  v1::CreateKernelResponse response;
  grpc::ClientContext context;
  const auto kernels = v1::KernelService::NewStub(Channel("client.sock"));
  EXPECT_EQ(kernels->CreateKernel(&context, request, &response).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  // The server goes on.
  grpc::ClientContext again;
  v1::ListKernelsResponse list;
  EXPECT_TRUE(kernels->ListKernels(&again, {}, &list).ok());
}

TEST_F(RpcServerTest, AWatchBeginsWithASnapshotResumesAndEndsWithTheJob) {
  const std::string name = CreateJob();
  const auto tuning = v1::TuningService::NewStub(Channel("client.sock"));
  v1::WatchJobRequest request;
  request.set_name(name);
  v1::WatchJobResponse response;
  int64_t last_event = 0;
  {
    grpc::ClientContext context;
    const auto reader = tuning->WatchJob(&context, request);
    ASSERT_TRUE(reader->Read(&response));
    EXPECT_EQ(response.event().job().name(), name);
    last_event = response.event().event_id();
    context.TryCancel();
    EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  grpc::ClientContext context;
  request.set_after_event_id(last_event);
  const auto reader = tuning->WatchJob(&context, request);
  v1::CancelJobRequest cancel;
  cancel.set_name(name);
  v1::CancelJobResponse cancelled;
  grpc::ClientContext cancel_context;
  ASSERT_TRUE(tuning->CancelJob(&cancel_context, cancel, &cancelled).ok());
  while (reader->Read(&response)) {
    EXPECT_GE(response.event().event_id(), last_event);
    last_event = response.event().event_id();
  }
  EXPECT_TRUE(reader->Finish().ok());
  v1::GetJobRequest get;
  get.set_name(name);
  v1::GetJobResponse job;
  grpc::ClientContext get_context;
  ASSERT_TRUE(tuning->GetJob(&get_context, get, &job).ok());
  EXPECT_EQ(job.job().state(), v1::JOB_STATE_CANCELLED);
}

TEST_F(RpcServerTest, AWatchOfNoJobAndTheEndOfTheService) {
  const auto tuning = v1::TuningService::NewStub(Channel("client.sock"));
  v1::WatchJobRequest request;
  request.set_name("jobs/999");
  v1::WatchJobResponse response;
  grpc::ClientContext context;
  const auto none = tuning->WatchJob(&context, request);
  EXPECT_FALSE(none->Read(&response));
  EXPECT_EQ(none->Finish().error_code(), grpc::StatusCode::NOT_FOUND);

  request.set_name(CreateJob());
  grpc::ClientContext other;
  const auto reader = tuning->WatchJob(&other, request);
  ASSERT_TRUE(reader->Read(&response));
  plane_->Stop();
  while (reader->Read(&response)) {
  }
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(RpcServerTest, TheSameRequestIdIsTheSameJob) { EXPECT_EQ(CreateJob(), CreateJob()); }

TEST_F(RpcServerTest, SlowCallsHoldUpNoLookUpsAndDeadlinesHold) {
  std::vector<Thread> callers;
  for (int i = 0; i < kBlockedMax; ++i) {
    callers.emplace_back("backup", [this] {
      v1::CreateBackupRequest request;
      request.set_file_name("block");
      v1::CreateBackupResponse response;
      grpc::ClientContext context;
      EXPECT_TRUE(v1::ServerService::NewStub(Channel("admin.sock"))->CreateBackup(&context, request, &response).ok());
    });
  }
  // Every thread for slow calls that one principal may have is taken now.
  all_are_blocked_.WaitForNotification();
  EXPECT_GE(nice_of_blocked_, 10) << "trials come before them";
  grpc::ClientContext context;
  v1::ListBestConfigsResponse bests;
  EXPECT_TRUE(v1::LookupService::NewStub(Channel("admin.sock"))->ListBestConfigs(&context, {}, &bests).ok());
  // One more has to wait, and its caller only as long as it wants to.
  grpc::ClientContext hurried;
  hurried.set_deadline(gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(20, GPR_TIMESPAN)));
  v1::CreateBackupResponse response;
  EXPECT_EQ(v1::ServerService::NewStub(Channel("admin.sock"))->CreateBackup(&hurried, {}, &response).error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);
  release_.Notify();
}

// Another daemon may hang with the store's lock of a study.
TEST_F(RpcServerTest, ClaimsOfWorksThatWaitHoldUpNoOtherCallsOfAgents) {
  constexpr int kOfOnePrincipal = 2;
  is_store_hung_ = true;
  RpcServerOptions options;
  options.addresses = {"127.0.0.1:0"};
  options.agents = &plane_->link();
  options.is_insecure = true;
  auto server = RpcServer::Start(Services(), Clock::Real(), options);
  ASSERT_TRUE(server.ok()) << server.status();
  const auto stub = agent::v1::AgentService::NewStub(
      grpc::CreateChannel((*server)->addresses().at(0), grpc::InsecureChannelCredentials()));
  std::vector<Thread> callers;
  for (int i = 0; i < kOfOnePrincipal; ++i) {
    callers.emplace_back("claim", [&stub] {
      grpc::ClientContext context;
      agent::v1::ClaimWorkResponse response;
      const grpc::Status status = stub->ClaimWork(&context, agent::v1::ClaimWorkRequest(), &response);
      EXPECT_TRUE(status.ok()) << status.error_message();
    });
  }
  while (blocked_ < kOfOnePrincipal) Notification().WaitFor(std::chrono::milliseconds(1));
  for (int i = 0; i < 4; ++i) {
    grpc::ClientContext context;
    context.set_deadline(gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(50, GPR_TIMESPAN)));
    agent::v1::ClaimWorkResponse response;
    EXPECT_EQ(stub->ClaimWork(&context, agent::v1::ClaimWorkRequest(), &response).error_code(),
              grpc::StatusCode::DEADLINE_EXCEEDED);
  }
  EXPECT_EQ(blocked_.load(), kOfOnePrincipal) << "the others hold no connection of the database";
  grpc::ClientContext context;
  agent::v1::SynchronizeResponse response;
  const grpc::Status status = stub->Synchronize(&context, agent::v1::SynchronizeRequest(), &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_TRUE(response.epoch_expired());
  release_.Notify();
  callers.clear();
}

TEST_F(RpcServerTest, CallsThatWaitForTheStoreHoldUpNoneThatMemoryAnswers) {
  v1::GetJobRequest get;
  get.set_name(CreateJob());
  while (!plane_->tuning_api().GetDrivenJob(get).has_value()) Notification().WaitFor(std::chrono::milliseconds(1));
  const auto look_up = [this](const std::string& program) {
    v1::LookupConfigRequest question;
    question.set_kernel("tiny");
    question.set_program_digest(program);
    v1::LookupConfigResponse answer;
    grpc::ClientContext context;
    return v1::LookupService::NewStub(Channel("client.sock"))->LookupConfig(&context, question, &answer).ok();
  };
  ASSERT_TRUE(look_up(""));  // which reads the definition
  is_store_hung_ = true;
  // More of each kind than gRPC has threads.
  std::vector<Thread> callers;
  for (int i = 0; i < 32; ++i) {
    callers.emplace_back("list", [this] {
      grpc::ClientContext context;
      v1::ListJobsResponse response;
      EXPECT_TRUE(v1::TuningService::NewStub(Channel("client.sock"))->ListJobs(&context, {}, &response).ok());
    });
    callers.emplace_back("look-up", [&look_up] { EXPECT_TRUE(look_up("never stored")); });
    callers.emplace_back("watch", [this] {
      v1::WatchJobRequest request;
      request.set_name("jobs/1000");
      grpc::ClientContext context;
      const auto reader = v1::TuningService::NewStub(Channel("client.sock"))->WatchJob(&context, request);
      v1::WatchJobResponse response;
      EXPECT_FALSE(reader->Read(&response));
      EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::NOT_FOUND);
    });
  }
  all_are_blocked_.WaitForNotification();
  for (int i = 0; i < 32; ++i) {
    grpc::ClientContext context;
    v1::GetJobResponse job;
    EXPECT_TRUE(v1::TuningService::NewStub(Channel("client.sock"))->GetJob(&context, get, &job).ok());
    EXPECT_EQ(job.job().name(), get.name());
    EXPECT_TRUE(look_up(""));
  }
  release_.Notify();
}

TEST_F(RpcServerTest, AskingForTheStateDoesNotKeepTheDaemonBusy) {
  const MonotonicTime begun = plane_->calls().last_ended();
  grpc::ClientContext info_context;
  v1::GetServerInfoResponse info;
  ASSERT_TRUE(v1::ServerService::NewStub(Channel("client.sock"))->GetServerInfo(&info_context, {}, &info).ok());
  EXPECT_EQ(info.data_directory(), "/data");
  EXPECT_EQ(plane_->calls().last_ended(), begun);
  grpc::ClientContext list_context;
  v1::ListJobsResponse list;
  ASSERT_TRUE(v1::TuningService::NewStub(Channel("client.sock"))->ListJobs(&list_context, {}, &list).ok());
  EXPECT_GT(plane_->calls().last_ended(), begun);
  EXPECT_EQ(plane_->calls().count(), 0);
}

}  // namespace
}  // namespace tunefarm
