#include "server/rpc/server.h"

#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>

#include "server/base/check.h"
#include "server/base/executor.h"
#include "server/base/file.h"
#include "server/base/status.h"
#include "server/base/thread.h"
#include "server/jobs/job_service.h"
#include "server/store/store.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/fake_entropy.h"
#include "tests/fakes/temporary_directory.h"
#include "tunefarm/v1/device_service.grpc.pb.h"
#include "tunefarm/v1/error.pb.h"
#include "tunefarm/v1/kernel_service.grpc.pb.h"
#include "tunefarm/v1/lookup_service.grpc.pb.h"
#include "tunefarm/v1/recording_service.grpc.pb.h"
#include "tunefarm/v1/server_service.grpc.pb.h"
#include "tunefarm/v1/tuning_service.grpc.pb.h"

namespace tunefarm {
namespace {

using testing::HasSubstr;

std::string ReasonIn(const grpc::Status& status) {
  v1::ErrorDetail detail;
  EXPECT_TRUE(detail.ParseFromString(status.error_details()));
  return detail.reason();
}

v1::Device HostDevice() {
  v1::Device device;
  device.set_uuid("CPU-test");
  device.set_name("devices/CPU-test");
  v1::DeviceClass* device_class = device.mutable_device_class();
  device_class->set_kind(v1::DEVICE_KIND_HOST);
  device_class->set_display_name("Test CPU");
  device_class->set_sm_count(2);
  device_class->set_memory_gib(1);
  device_class->set_compiler("g++ 12.2.0");
  device.set_memory_bytes(int64_t{1} << 30);
  device.set_state(v1::DEVICE_STATE_READY);
  return device;
}

v1::Kernel TinyKernel() {
  v1::Kernel kernel;
  kernel.set_display_name("tiny");
  kernel.set_language(v1::LANGUAGE_HOST_CXX);
  v1::SourceFile* source = kernel.add_sources();
  source->set_path("tiny.cc");
  source->set_content("extern \"C\" void tiny(float* y) { y[0] = P; }\n");
  v1::Parameter* parameter = kernel.add_parameters();
  parameter->set_name("P");
  parameter->mutable_values()->add_ints(1);
  parameter->mutable_values()->add_ints(2);
  v1::Argument* y = kernel.add_arguments();
  y->set_name("y");
  y->mutable_buffer()->set_data_type(v1::DATA_TYPE_F32);
  y->mutable_buffer()->set_length("64");
  y->mutable_buffer()->set_access(v1::ACCESS_OUT);
  for (auto* step : {kernel.add_launches(), kernel.mutable_reference()->add_steps()}) {
    step->mutable_kernel()->set_entry("tiny");
    step->mutable_kernel()->add_arguments("y");
  }
  return kernel;
}

// A whole daemon but for its agent: jobs are stored and never run.
class RpcServerTest : public testing::Test {
 protected:
  RpcServerTest() {
    auto store = OpenSqliteStore({directory_.File("tunefarm.db"), directory_.File("backups")});
    TUNEFARM_CHECK(store.ok());
    store_ = *std::move(store);
    control_ = std::make_unique<ThreadExecutor>("control", Clock::Real());
    JobServiceOptions options;
    options.store = store_.get();
    options.control = control_.get();
    options.entropy = &entropy_;
    jobs_ = std::make_unique<JobService>(options);
    TUNEFARM_CHECK_OK(jobs_->SetDevices({HostDevice()}));
    TUNEFARM_CHECK_OK(jobs_->Start());
    ServerHooks hooks;
    hooks.info = [] {
      v1::GetServerInfoResponse info;
      info.set_data_directory("/data");
      return info;
    };
    hooks.backup = [this](const std::string& file_name) -> absl::StatusOr<v1::CreateBackupResponse> {
      if (file_name == "block") {
        if (++blocked_ == kBlockedBackups) all_are_blocked_.Notify();
        release_.WaitForNotification();
      }
      v1::CreateBackupResponse response;
      response.set_path("/data/backups/" + file_name);
      return response;
    };
    hooks.shutdown = [this](bool) { ++shutdowns_; };
    recordings_ = std::make_unique<Recordings>(&store_->recordings(), &clock_, nullptr);
    api_ = std::make_unique<Api>(jobs_.get(), recordings_.get(), std::move(hooks), &clock_);
    admin_ = Serve(directory_.File("admin.sock"), true);
    client_ = Serve(directory_.File("client.sock"), false);
  }
  ~RpcServerTest() override {
    if (!release_.HasBeenNotified()) release_.Notify();
    jobs_->Stop();
    admin_.reset();
    client_.reset();
    control_.reset();
    api_.reset();
    recordings_.reset();
    jobs_.reset();
  }

  std::unique_ptr<RpcServer> Serve(const std::string& path, bool is_admin,
                                   Duration upload_idle_max = std::chrono::minutes(10)) {
    auto server = RpcServer::Start(api_.get(), Clock::Real(), {{"unix:" + path}, is_admin, upload_idle_max});
    TUNEFARM_CHECK(server.ok());
    return *std::move(server);
  }
  std::shared_ptr<grpc::Channel> Channel(const std::string& name) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxSendMessageSize(-1);
    return grpc::CreateCustomChannel("unix:" + directory_.File(name), grpc::InsecureChannelCredentials(), arguments);
  }
  std::string CreateJob() {
    v1::CreateJobRequest request;
    *request.mutable_kernel_definition() = TinyKernel();
    request.mutable_job()->add_problems();
    request.set_request_id("request-1");
    v1::CreateJobResponse response;
    grpc::ClientContext context;
    const grpc::Status status =
        v1::TuningService::NewStub(Channel("client.sock"))->CreateJob(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.job().name();
  }
  // The bytes of the answer to a call whose generated classes are not at hand.
  std::string RawCall(const std::string& method, const std::string& request, bool is_stream) {
    grpc::GenericStub stub(Channel("client.sock"));
    grpc::CompletionQueue queue;
    grpc::ClientContext context;
    const grpc::Slice slice(request);
    grpc::ByteBuffer sent(&slice, 1);
    grpc::ByteBuffer received;
    grpc::Status status;
    const auto wait = [&queue] {
      void* tag = nullptr;
      bool ok = false;
      TUNEFARM_CHECK(queue.Next(&tag, &ok));
      return ok;
    };
    if (is_stream) {
      const auto call = stub.PrepareCall(&context, method, &queue);
      call->StartCall(nullptr);
      wait();
      call->WriteLast(sent, grpc::WriteOptions(), nullptr);
      wait();
      call->Read(&received, nullptr);
      EXPECT_TRUE(wait());
      call->Finish(&status, nullptr);
      wait();
    } else {
      const auto call = stub.PrepareUnaryCall(&context, method, sent, &queue);
      call->StartCall();
      call->Finish(&received, &status, nullptr);
      wait();
    }
    EXPECT_TRUE(status.ok()) << method << ": " << status.error_message();
    std::vector<grpc::Slice> slices;
    EXPECT_TRUE(received.Dump(&slices).ok());
    std::string bytes;
    for (const grpc::Slice& part : slices) bytes.append(reinterpret_cast<const char*>(part.begin()), part.size());
    return bytes;
  }

  static constexpr int kBlockedBackups = 4;

  TemporaryDirectory directory_;
  FakeClock clock_;
  FakeEntropy entropy_;
  std::atomic<int> shutdowns_{0};
  std::atomic<int> blocked_{0};
  Notification all_are_blocked_;
  Notification release_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<ThreadExecutor> control_;
  std::unique_ptr<JobService> jobs_;
  std::unique_ptr<Recordings> recordings_;
  std::unique_ptr<Api> api_;
  std::unique_ptr<RpcServer> admin_;
  std::unique_ptr<RpcServer> client_;
};

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
  const auto server = RpcServer::Start(api_.get(), Clock::Real(), {{address}, false});
  EXPECT_EQ(server.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ReasonOf(server.status()), "LISTEN_FAILED");
  EXPECT_THAT(std::string(MessageOf(server.status())), HasSubstr(address));
}

TEST_F(RpcServerTest, TcpTellsThePortItChose) {
  const auto server = RpcServer::Start(api_.get(), Clock::Real(), {{"127.0.0.1:0"}, false});
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
  EXPECT_EQ(RpcServer::Start(api_.get(), Clock::Real(), {{address}, false}).status().code(),
            absl::StatusCode::kUnavailable);
}

TEST_F(RpcServerTest, HealthAndReflectionAnswer) {
  EXPECT_EQ(RawCall("/grpc.health.v1.Health/Check", "", false), "\x08\x01");  // SERVING
  client_->SetNotServing();
  EXPECT_EQ(RawCall("/grpc.health.v1.Health/Check", "", false), "\x08\x02");  // NOT_SERVING
  // list_services
  const std::string services =
      RawCall("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", std::string("\x3a\x00", 2), true);
  for (const char* service :
       {"KernelService", "TuningService", "LookupService", "DeviceService", "RecordingService", "ServerService"}) {
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

// Recorded results of the kernel of CreateJob, in a file that says so.
constexpr char kCacheFile[] = R"({"device_name": "Test CPU", "kernel_name": "tiny", "problem_size": "1",
"tune_params_keys": ["P"], "tune_params": {"P": [1, 2]}, "objective": "time", "cache": {
"1": {"P": 1, "time": 1.5, "times": [1.5], "compile_time": 10},
"2": {"P": 2, "time": 0.5, "times": [0.5], "compile_time": 10}}})";

TEST_F(RpcServerTest, AnUploadedFileBecomesARecording) {
  const auto recordings = v1::RecordingService::NewStub(Channel("client.sock"));
  const auto upload = [&](const std::string& content, size_t chunk, v1::CreateRecordingResponse* response) {
    grpc::ClientContext context;
    const auto writer = recordings->CreateRecording(&context, response);
    v1::CreateRecordingRequest message;
    message.set_file_name("/etc/cache.json");
    for (size_t at = 0; at < content.size(); at += chunk) {
      message.set_content(content.substr(at, chunk));
      if (!writer->Write(message)) break;
      message.Clear();
    }
    writer->WritesDone();
    return writer->Finish();
  };
  v1::CreateRecordingResponse created;
  const grpc::Status status = upload(kCacheFile, 7, &created);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(created.recording().name(), "recordings/1");
  EXPECT_EQ(created.recording().display_name(), "cache");
  EXPECT_EQ(created.recording().kernel_name(), "tiny");
  EXPECT_EQ(created.recording().valid_count(), 2);
  EXPECT_EQ(created.recording().best_objective(), 0.5);
  EXPECT_TRUE(upload(kCacheFile, 1000, &created).ok());
  EXPECT_TRUE(created.already_stored());

  std::string bad = kCacheFile;
  bad.replace(bad.find("1.5"), 3, "{} ");
  const grpc::Status refused = upload(bad, 1000, &created);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(refused.error_message(), HasSubstr("cache.json:3:"));
  EXPECT_FALSE(ReasonIn(refused).empty());
  EXPECT_EQ(ReasonIn(upload(std::string(65 << 20, ' '), 4 << 20, &created)), "RECORDING_TOO_LARGE");
  {
    // A client that goes away in the middle leaves nothing.
    grpc::ClientContext context;
    const auto writer = recordings->CreateRecording(&context, &created);
    v1::CreateRecordingRequest message;
    message.set_file_name("gone.json");
    EXPECT_TRUE(writer->Write(message));
    context.TryCancel();
    EXPECT_EQ(writer->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  grpc::ClientContext contexts[4];
  v1::ListRecordingsResponse list;
  ASSERT_TRUE(recordings->ListRecordings(&contexts[0], {}, &list).ok());
  EXPECT_EQ(list.recordings_size(), 1);
  v1::ListRecordedResultsRequest request;
  request.set_parent("recordings/1");
  v1::ListRecordedResultsResponse results;
  ASSERT_TRUE(recordings->ListRecordedResults(&contexts[1], request, &results).ok());
  EXPECT_EQ(results.results().objectives_size(), 2);
  v1::DeleteRecordingRequest deleted;
  deleted.set_name("recordings/1");
  v1::DeleteRecordingResponse nothing;
  EXPECT_TRUE(recordings->DeleteRecording(&contexts[2], deleted, &nothing).ok());
  EXPECT_EQ(ReasonIn(recordings->DeleteRecording(&contexts[3], deleted, &nothing)), "RECORDING_NOT_FOUND");
}

TEST_F(RpcServerTest, AnUploadOfWhichNothingComesIsGivenUp) {
  const auto server = Serve(directory_.File("hasty.sock"), false, std::chrono::milliseconds(1));
  const auto recordings = v1::RecordingService::NewStub(Channel("hasty.sock"));
  grpc::ClientContext context;
  v1::CreateRecordingResponse created;
  // Neither ended nor cancelled, and with a deadline for this test alone.
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(5));
  const auto writer = recordings->CreateRecording(&context, &created);
  v1::CreateRecordingRequest message;
  message.set_file_name("stopped.json");
  message.set_content(kCacheFile);
  writer->Write(message);
  EXPECT_EQ(writer->Finish().error_code(), grpc::StatusCode::CANCELLED);
  v1::ListRecordingsResponse list;
  grpc::ClientContext again;
  ASSERT_TRUE(recordings->ListRecordings(&again, {}, &list).ok());
  EXPECT_EQ(list.recordings_size(), 0);
}

TEST_F(RpcServerTest, ARecordingIsNeverTakenForAMeasurement) {
  v1::CreateRecordingRequest about;
  about.set_file_name("cache.json");
  ASSERT_TRUE(recordings_->Create(about, kCacheFile).ok());
  const std::string name = CreateJob();
  const auto job = jobs_->GetJob(name);
  ASSERT_TRUE(job.ok()) << job.status();
  v1::LookupConfigRequest question;
  question.set_kernel("tiny");
  const auto answer = jobs_->Lookup(question);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->match(), v1::MATCH_DEFAULT);
  EXPECT_EQ(store_->Status()->stored_trials, 0);
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
  jobs_->Stop();
  while (reader->Read(&response)) {
  }
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(RpcServerTest, TheSameRequestIdIsTheSameJob) { EXPECT_EQ(CreateJob(), CreateJob()); }

TEST_F(RpcServerTest, SlowCallsHoldUpNoLookUpsAndDeadlinesHold) {
  std::vector<Thread> callers;
  for (int i = 0; i < kBlockedBackups; ++i) {
    callers.emplace_back("backup", [this] {
      v1::CreateBackupRequest request;
      request.set_file_name("block");
      v1::CreateBackupResponse response;
      grpc::ClientContext context;
      EXPECT_TRUE(v1::ServerService::NewStub(Channel("admin.sock"))->CreateBackup(&context, request, &response).ok());
    });
  }
  // Every thread for slow calls is taken now.
  all_are_blocked_.WaitForNotification();
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

TEST_F(RpcServerTest, AskingForTheStateDoesNotKeepTheDaemonBusy) {
  const MonotonicTime begun = api_->last_call_ended();
  clock_.Advance(std::chrono::seconds(5));
  grpc::ClientContext info_context;
  v1::GetServerInfoResponse info;
  ASSERT_TRUE(v1::ServerService::NewStub(Channel("client.sock"))->GetServerInfo(&info_context, {}, &info).ok());
  EXPECT_EQ(info.data_directory(), "/data");
  EXPECT_EQ(api_->last_call_ended(), begun);
  grpc::ClientContext list_context;
  v1::ListJobsResponse list;
  ASSERT_TRUE(v1::TuningService::NewStub(Channel("client.sock"))->ListJobs(&list_context, {}, &list).ok());
  EXPECT_EQ(api_->last_call_ended() - begun, std::chrono::seconds(5));
  EXPECT_EQ(api_->open_calls(), 0);
  {
    const Api::OpenCall open(api_.get());
    EXPECT_EQ(api_->open_calls(), 1);
  }
  EXPECT_EQ(api_->open_calls(), 0);
}

}  // namespace
}  // namespace tunefarm
