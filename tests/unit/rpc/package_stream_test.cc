// Packages over real sockets: what comes first, in which parts the file comes, and who goes away meanwhile.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "server/device/device_class.h"
#include "tests/unit/rpc/rpc_server_test.h"
#include "tunefarm/v1/package_service.grpc.pb.h"

namespace tunefarm {
namespace {

using testing::HasSubstr;

constexpr size_t kBinaryBytes = (5 << 19) + 1;  // two and a half parts

class PackageStreamTest : public RpcServerTest {
 protected:
  PackageStreamTest() {
    compile_ = [](const CompileOrder& order) -> absl::StatusOr<std::vector<CompiledConfig>> {
      CompiledConfig compiled;
      compiled.outcome = v1::OUTCOME_OK;
      compiled.binary = std::string(kBinaryBytes, 'x');
      compiled.binary_bytes = kBinaryBytes;
      compiled.lowered_names["tiny"] = "tiny";
      return std::vector<CompiledConfig>(order.configs.size(), compiled);
    };
  }

  // One best of TinyKernel, measured on this machine.
  static v1::ExportPackageRequest Request() {
    v1::ExportPackageRequest request;
    *request.add_definitions() = TinyKernel();
    v1::BestConfig* const best = request.add_bests();
    best->set_kernel_name("tiny");
    best->set_device_class_id(DeviceClass::FromProto(HostDevice().device_class())->Id());
    best->set_device_class_name("Test CPU");
    (*best->mutable_config()->mutable_values())["P"].set_int_value(2);
    return request;
  }

  // What comes first, and the file's bytes.
  grpc::Status Export(const v1::ExportPackageRequest& request, v1::PackageContents* contents, std::string* file) {
    grpc::ClientContext context;
    const auto reader = stub_->ExportPackage(&context, request);
    v1::ExportPackageResponse response;
    bool is_first = true;
    while (reader->Read(&response)) {
      EXPECT_EQ(response.has_contents(), is_first);
      EXPECT_EQ(response.data().empty(), is_first);
      EXPECT_LE(response.data().size(), size_t{1} << 20);
      if (is_first) *contents = response.contents();
      file->append(response.data());
      is_first = false;
    }
    return reader->Finish();
  }

  const std::unique_ptr<v1::PackageService::Stub> stub_ = v1::PackageService::NewStub(Channel("client.sock"));
};

TEST_F(PackageStreamTest, TheFileFollowsWhatItHolds) {
  v1::PackageContents contents;
  std::string file;
  const grpc::Status status = Export(Request(), &contents, &file);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(contents.bests(), 1);
  EXPECT_EQ(contents.file_bytes(), static_cast<int64_t>(file.size()));
  EXPECT_GT(file.size(), kBinaryBytes);
  EXPECT_EQ(file.substr(0, 6), "TFPACK");
}

TEST_F(PackageStreamTest, WhatIsLeftOutIsToldBeforeTheError) {
  v1::ExportPackageRequest request = Request();
  request.mutable_bests(0)->set_device_class_id("another");
  v1::PackageContents contents;
  std::string file;
  const grpc::Status status = Export(request, &contents, &file);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(ReasonIn(status), "PACKAGE_EMPTY");
  ASSERT_EQ(contents.left_out_size(), 1);
  EXPECT_THAT(contents.left_out(0), HasSubstr("no device of its class is known here"));
  EXPECT_EQ(file, "");
  // Without anything to tell there is the error alone.
  request = Request();
  request.set_kernel("other");
  contents.Clear();
  EXPECT_EQ(ReasonIn(Export(request, &contents, &file)), "BEST_NOT_FOUND");
  EXPECT_EQ(contents.ByteSizeLong(), 0U);
}

TEST_F(PackageStreamTest, WhoGoesAwayLeavesTheThreadToOthers) {
  struct State {
    Notification begun, go_on;
    std::atomic<bool> is_first{true};
  };
  // The thread of the first call may outlive the test's body.
  const auto state = std::make_shared<State>();
  compile_ = [state, compile = compile_](const CompileOrder& order) {
    if (state->is_first.exchange(false)) {
      state->begun.Notify();
      state->go_on.WaitForNotification();
    }
    return compile(order);
  };
  grpc::ClientContext context;
  const auto reader = stub_->ExportPackage(&context, Request());
  state->begun.WaitForNotification();
  context.TryCancel();
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  state->go_on.Notify();
  v1::PackageContents contents;
  std::string file;
  EXPECT_TRUE(Export(Request(), &contents, &file).ok());
}

TEST_F(PackageStreamTest, ACallerHasOnePackageMadeAtATimeOnAllListeners) {
  const auto listener = Serve(directory_.File("other.sock"), false);
  const auto other_stub = v1::PackageService::NewStub(Channel("other.sock"));
  Notification begun, go_on;
  std::atomic<bool> is_first{true};
  std::atomic<int> compiles_of_second{0};
  compile_ = [&, compile = compile_](const CompileOrder& order) {
    if (order.plan->display_name() == "second") ++compiles_of_second;
    if (is_first.exchange(false)) {
      begun.Notify();
      go_on.WaitForNotification();
    }
    return compile(order);
  };
  v1::ExportPackageRequest request = Request();
  grpc::ClientContext contexts[2];
  const auto first = stub_->ExportPackage(&contexts[0], request);
  begun.WaitForNotification();
  request.mutable_definitions(0)->set_display_name("second");
  request.mutable_bests(0)->set_kernel_name("second");
  const auto second = other_stub->ExportPackage(&contexts[1], request);
  // Other calls go on.
  v1::GetServerInfoResponse info;
  grpc::ClientContext info_context;
  EXPECT_TRUE(v1::ServerService::NewStub(Channel("client.sock"))->GetServerInfo(&info_context, {}, &info).ok());
  EXPECT_EQ(compiles_of_second, 0);
  go_on.Notify();
  for (const auto& reader : {first.get(), second.get()}) {
    v1::ExportPackageResponse response;
    while (reader->Read(&response)) {
    }
    EXPECT_TRUE(reader->Finish().ok());
  }
  EXPECT_GT(compiles_of_second, 0);
}

}  // namespace
}  // namespace tunefarm
