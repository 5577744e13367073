// The call for a package: what is asked, and a stream that ends too early.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>

#include "tests/fakes/temporary_directory.h"
#include "tunefarm/client/client.h"
#include "tunefarm/v1/package_service.grpc.pb.h"

namespace tunefarm::client {
namespace {

class FakePackages final : public v1::PackageService::Service {
 public:
  grpc::Status ExportPackage(grpc::ServerContext*, const v1::ExportPackageRequest* request,
                             grpc::ServerWriter<v1::ExportPackageResponse>* writer) override {
    asked = *request;
    v1::ExportPackageResponse response;
    response.mutable_contents()->set_file_bytes(9);
    response.mutable_contents()->set_bests(2);
    response.mutable_contents()->add_left_out("one: it does not compile");
    writer->Write(response);
    for (const char* const part : {"a pac", "kage"}) {
      if (is_cut && part[0] == 'k') break;
      response.Clear();
      response.set_data(part);
      writer->Write(response);
    }
    return grpc::Status::OK;
  }

  v1::ExportPackageRequest asked;  // while no call is under way
  std::atomic<bool> is_cut{false};
};

class PackageTest : public testing::Test {
 protected:
  PackageTest() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address_, grpc::InsecureServerCredentials());
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    ClientOptions options;
    options.server = address_;
    client_ = std::make_unique<Client>(*Client::Open(options));
  }
  ~PackageTest() override {
    client_->Close();
    server_->Shutdown();
  }

  TemporaryDirectory directory_;
  const std::string address_ = "unix:" + directory_.File("s");
  FakePackages service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Client> client_;
};

TEST_F(PackageTest, ItsPartsAreOneFile) {
  const auto package = client_->ExportPackage({"matmul", "H100", {{"M", {64, 128}}, {"dtype", {"bf16"}}}});
  ASSERT_TRUE(package.ok()) << package.status().ToText();
  EXPECT_EQ(package->bytes, "a package");
  EXPECT_EQ(package->bests, 2);
  ASSERT_EQ(package->left_out.size(), 1u);
  EXPECT_EQ(package->left_out[0], "one: it does not compile");
  EXPECT_EQ(service_.asked.kernel(), "matmul");
  EXPECT_EQ(service_.asked.device_class(), "H100");
  ASSERT_EQ(service_.asked.dims_size(), 2);
  EXPECT_EQ(service_.asked.dims(0).dim(), "M");
  EXPECT_EQ(service_.asked.dims(0).values(1), "128");
  EXPECT_EQ(service_.asked.dims(1).values(0), "bf16");
}

TEST_F(PackageTest, AFileThatIsCutIsAnError) {
  service_.is_cut = true;
  const auto package = client_->ExportPackage({});
  EXPECT_EQ(package.status().code, Code::kInternal);
  EXPECT_EQ(package.status().reason, "PACKAGE_CUT");
}

TEST_F(PackageTest, AClosedClientMakesNoCall) {
  client_->Close();
  EXPECT_EQ(client_->ExportPackage({}).status().reason, "CLOSED");
}

}  // namespace
}  // namespace tunefarm::client
