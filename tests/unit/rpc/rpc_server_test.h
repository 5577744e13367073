// A daemon's public calls behind real sockets, for the tests of the server and of its streams.
#pragma once

#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <atomic>
#include <functional>
#include <optional>

#include "server/access/token_book.h"
#include "server/api/access_api.h"
#include "server/api/server_api.h"
#include "server/base/check.h"
#include "server/base/executor.h"
#include "server/base/file.h"
#include "server/base/status.h"
#include "server/base/thread.h"
#include "server/base/thread_pool.h"
#include "server/daemon/control_plane.h"
#include "server/data_files/data_file_store.h"
#include "server/rpc/server.h"
#include "server/store/store.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/fake_entropy.h"
#include "tests/fakes/faulty_store.h"
#include "tests/fakes/manual_executor.h"
#include "tests/fakes/temporary_directory.h"
#include "tunefarm/v1/catalog_service.grpc.pb.h"
#include "tunefarm/v1/data_file_service.grpc.pb.h"
#include "tunefarm/v1/device_service.grpc.pb.h"
#include "tunefarm/v1/error.pb.h"
#include "tunefarm/v1/kernel_service.grpc.pb.h"
#include "tunefarm/v1/lookup_service.grpc.pb.h"
#include "tunefarm/v1/server_service.grpc.pb.h"
#include "tunefarm/v1/tuning_service.grpc.pb.h"

namespace tunefarm {

inline std::string ReasonIn(const grpc::Status& status) {
  v1::ErrorDetail detail;
  EXPECT_TRUE(detail.ParseFromString(status.error_details()));
  return detail.reason();
}

inline v1::Device HostDevice() {
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

inline v1::Kernel TinyKernel() {
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
  // `fill`: what the database has before the daemon starts.
  explicit RpcServerTest(const std::function<void(Store*)>& fill = {}) {
    auto store = OpenSqliteStore({directory_.File("tunefarm.db"), directory_.File("backups")});
    TUNEFARM_CHECK(store.ok());
    store_ = *std::move(store);
    if (fill) fill(store_.get());
    hung_store_ = std::make_unique<FaultyStore>(store_.get());
    for (const char* const call : {"ListJobs", "GetJob", "FindProgram", "ClaimWorks"}) {
      hung_store_->instead_of(call) = [this] {
        if (is_store_hung_) Block();
        return absl::OkStatus();
      };
    }
    auto files = DataFileStore::Open({.path = directory_.File("data_files")});
    TUNEFARM_CHECK(files.ok());
    data_files_ = *std::move(files);
    control_ = std::make_unique<ThreadExecutor>("control", Clock::Real());
    ControlPlaneOptions options;
    options.store = hung_store_.get();
    options.control = control_.get();
    options.job_watchers = control_.get();
    options.watchers = options.lease = &watchers_;
    options.tasks = &*tasks_;
    options.catalog_watchers_max = kCatalogWatchersMax;
    options.entropy = &entropy_;
    options.data_files = data_files_.get();
    options.node = PermanentNode("control");
    options.compile_configs = [this](const CompileOrder& order) { return compile_(order); };
    plane_ = std::make_unique<ControlPlane>(options);
    TUNEFARM_CHECK_OK(plane_->SetDevices({HostDevice()}));
    TUNEFARM_CHECK_OK(plane_->Start());
    ServerHooks hooks;
    hooks.info = [] {
      v1::GetServerInfoResponse info;
      info.set_data_directory("/data");
      return info;
    };
    hooks.backup = [this](const std::string& file_name) -> absl::StatusOr<v1::CreateBackupResponse> {
      if (file_name == "block") Block();
      v1::CreateBackupResponse response;
      response.set_path("/data/backups/" + file_name);
      return response;
    };
    hooks.shutdown = [this](bool) { ++shutdowns_; };
    hooks.open_dashboard = [] { return std::string("http://127.0.0.1:7072"); };
    server_api_ = std::make_unique<ServerApi>(store_.get(), &plane_->node_watch(), std::move(hooks));
    tokens_ = std::make_unique<TokenBook>(store_->tokens(), &entropy_, Clock::Real());
    sessions_ = std::make_unique<SessionBook>(tokens_.get(), &entropy_, Clock::Real());
    access_api_ = std::make_unique<AccessApi>(tokens_.get(), sessions_.get());
    admin_ = Serve(directory_.File("admin.sock"), true);
    client_ = Serve(directory_.File("client.sock"), false);
  }
  ~RpcServerTest() override {
    if (!release_.HasBeenNotified()) release_.Notify();
    plane_->Stop();
    admin_.reset();
    client_.reset();
    tasks_.reset();
    control_.reset();
    plane_.reset();
  }

  // Until the test's end, or release_.
  void Block() {
    nice_of_blocked_ = getpriority(PRIO_PROCESS, 0);  // of the calling thread (Linux)
    if (++blocked_ == kBlockedMax) all_are_blocked_.Notify();
    release_.WaitForNotification();
  }
  RpcServices Services() {
    return {.calls = &plane_->calls(),
            .kernels = &plane_->kernel_api(),
            .packages = &plane_->package_api(),
            .data_files = &plane_->data_file_api(),
            .caches = &plane_->cache_api(),
            .tuning = &plane_->tuning_api(),
            .studies = &plane_->study_api(),
            .lookup = &plane_->lookup_api(),
            .catalog = &plane_->catalog_api(),
            .farm = &plane_->farm_api(),
            .server = server_api_.get(),
            .access = access_api_.get(),
            .package_threads = &package_threads_};
  }
  std::unique_ptr<RpcServer> Serve(const std::string& path, bool is_admin) {
    auto server = RpcServer::Start(Services(), Clock::Real(), {{"unix:" + path}, is_admin});
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
  std::string RawCall(const std::string& socket, const std::string& method, const std::string& request,
                      bool is_stream) {
    grpc::GenericStub stub(Channel(socket));
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

  static constexpr int kBlockedMax = 3;  // calls of a lane and of one principal that run at a time
  static constexpr int kCatalogWatchersMax = 3;

  TemporaryDirectory directory_;
  FakeClock clock_;
  ManualExecutor watchers_{&clock_};  // of the catalog: told by the test
  FakeEntropy entropy_;
  std::atomic<int> shutdowns_{0};
  std::atomic<int> blocked_{0};
  std::atomic<int> nice_of_blocked_{0};
  std::atomic<bool> is_store_hung_{false};  // it does not answer some calls: see the constructor
  CompileConfigs compile_;                  // set by tests that compile
  Notification all_are_blocked_;
  Notification release_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<FaultyStore> hung_store_;  // the same, as the daemon has it
  std::unique_ptr<ThreadExecutor> control_;
  std::optional<ThreadPool> tasks_{std::in_place, "search", 1};
  std::unique_ptr<DataFileStore> data_files_;
  std::unique_ptr<ControlPlane> plane_;
  ThreadPool package_threads_{"rpc", 0, {}, SlowThreads{"rpc-package", 2}};
  std::unique_ptr<ServerApi> server_api_;
  std::unique_ptr<TokenBook> tokens_;
  std::unique_ptr<SessionBook> sessions_;
  std::unique_ptr<AccessApi> access_api_;
  std::unique_ptr<RpcServer> admin_;
  std::unique_ptr<RpcServer> client_;
};

}  // namespace tunefarm
