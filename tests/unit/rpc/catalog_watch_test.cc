// The catalog's service over real sockets: who may change it, and its stream.
#include <map>

#include "server/sanitizers.h"
#include "server/store/best_store.h"
#include "server/store/store.h"
#include "tests/unit/rpc/rpc_server_test.h"

namespace tunefarm {
namespace {

constexpr int kBests = 3;

v1::BestConfigKey Key(int number) {
  v1::BestConfigKey key;
  key.set_program_digest("program");
  key.set_problem_key("N=" + std::to_string(number));
  key.set_device_class_id("class");
  return key;
}

// Bests whose details are large, so that a stream that nobody reads is soon full.
void Fill(Store* store) {
  for (int number = 0; number < kBests; ++number) {
    v1::BestConfig best;
    best.set_kernel_name("tiny");
    best.set_program_digest("program");
    best.mutable_problem()->set_key(Key(number).problem_key());
    best.set_device_class_id("class");
    best.set_baseline_label(std::string(200'000, 'x'));
    BestRow row;
    row.kernel_name = "tiny";
    row.program_digest = "program";
    row.problem_key = Key(number).problem_key();
    row.class_id = "class";
    row.config = "P=1";
    row.detail = best.SerializeAsString();
    TUNEFARM_CHECK_OK(store->bests()->PromoteBest(row));
  }
}

class CatalogServiceTest : public RpcServerTest {
 protected:
  CatalogServiceTest()
      : RpcServerTest(Fill),
        admin_stub_(v1::CatalogService::NewStub(Channel("admin.sock"))),
        client_stub_(v1::CatalogService::NewStub(Channel("client.sock"))) {}

  void Annotate(int number, const std::string& note) {
    v1::AnnotateBestConfigRequest request;
    *request.mutable_key() = Key(number);
    request.set_note(note);
    v1::AnnotateBestConfigResponse response;
    grpc::ClientContext context;
    const grpc::Status status = admin_stub_->AnnotateBestConfig(&context, request, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(response.best().note(), note);
    watchers_.RunUntilIdle();
  }

  std::unique_ptr<v1::CatalogService::Stub> admin_stub_, client_stub_;
};

TEST_F(CatalogServiceTest, ChangesAreForTheAdminSocket) {
  const auto refused = [this](auto method, auto request, auto response) {
    *request.mutable_key() = Key(0);
    grpc::ClientContext context;
    const grpc::Status status = ((*client_stub_).*method)(&context, request, &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED) << status.error_message();
    EXPECT_EQ(ReasonIn(status), "ADMIN_ONLY");
    grpc::ClientContext admin;
    const grpc::Status done = ((*admin_stub_).*method)(&admin, request, &response);
    EXPECT_TRUE(done.ok()) << done.error_message();
  };
  using Stub = v1::CatalogService::Stub;
  refused(&Stub::PinBestConfig, v1::PinBestConfigRequest(), v1::PinBestConfigResponse());
  refused(&Stub::UnpinBestConfig, v1::UnpinBestConfigRequest(), v1::UnpinBestConfigResponse());
  refused(&Stub::AnnotateBestConfig, v1::AnnotateBestConfigRequest(), v1::AnnotateBestConfigResponse());
  refused(&Stub::RetireBestConfig, v1::RetireBestConfigRequest(), v1::RetireBestConfigResponse());
  // Everybody may read what became of it.
  v1::ListBestConfigChangesRequest request;
  *request.mutable_key() = Key(0);
  request.set_page_size(2);
  v1::ListBestConfigChangesResponse response;
  grpc::ClientContext context;
  ASSERT_TRUE(client_stub_->ListBestConfigChanges(&context, request, &response).ok());
  ASSERT_EQ(response.changes_size(), 2);
  EXPECT_EQ(response.changes(0).kind(), v1::BEST_CONFIG_CHANGE_KIND_RETIRED);
  EXPECT_EQ(response.changes(1).kind(), v1::BEST_CONFIG_CHANGE_KIND_UNPINNED) << "an empty note is no change";
  EXPECT_FALSE(response.next_page_token().empty());
}

TEST_F(CatalogServiceTest, AWatchTellsChangesBeatsAndResumes) {
  v1::WatchBestConfigsResponse response;
  v1::WatchBestConfigsRequest request;
  {
    grpc::ClientContext context;
    const auto reader = client_stub_->WatchBestConfigs(&context, request);
    ASSERT_TRUE(reader->Read(&response));
    EXPECT_TRUE(response.reset());
    EXPECT_EQ(response.bests_size(), kBests);
    EXPECT_EQ(response.revision(), 1 + kBests);
    Annotate(1, "noted");
    ASSERT_TRUE(reader->Read(&response));
    EXPECT_FALSE(response.reset());
    ASSERT_EQ(response.bests_size(), 1);
    EXPECT_EQ(response.bests(0).note(), "noted");
    // Nothing happens for as long as a heartbeat may take.
    watchers_.AdvanceBy(std::chrono::seconds(5));
    ASSERT_TRUE(reader->Read(&response));
    EXPECT_EQ(response.bests_size(), 0);
    EXPECT_EQ(response.revision(), 2 + kBests);
    context.TryCancel();
    EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  Annotate(2, "noted too");
  request.set_after_revision(response.revision());
  request.set_catalog_id(response.catalog_id());
  grpc::ClientContext context;
  const auto reader = client_stub_->WatchBestConfigs(&context, request);
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_FALSE(response.reset());
  ASSERT_EQ(response.bests_size(), 1);
  EXPECT_EQ(response.bests(0).note(), "noted too");
  context.TryCancel();
  EXPECT_FALSE(reader->Finish().ok());
}

TEST_F(CatalogServiceTest, ASlowReaderIsNotCutOffAndEndsUpWithTheLatest) {
  grpc::ClientContext context;
  const auto reader = client_stub_->WatchBestConfigs(&context, {});
  // 16 MB that nobody reads; the library's buffers of that size take ThreadSanitizer minutes.
  constexpr int kChanges = TUNEFARM_THREAD_SANITIZER ? 8 : 80;
  for (int i = 0; i < kChanges; ++i) Annotate(i % kBests, std::to_string(i));
  std::map<std::string, std::string> notes;
  v1::WatchBestConfigsResponse response;
  while (response.revision() < 1 + kBests + kChanges) {
    ASSERT_TRUE(reader->Read(&response));
    for (const v1::BestConfig& best : response.bests()) notes[best.problem().key()] = best.note();
  }
  EXPECT_EQ(notes["N=" + std::to_string((kChanges - 1) % kBests)], std::to_string(kChanges - 1));
  EXPECT_EQ(notes["N=" + std::to_string((kChanges - 2) % kBests)], std::to_string(kChanges - 2));
  EXPECT_EQ(notes["N=" + std::to_string((kChanges - 3) % kBests)], std::to_string(kChanges - 3));
  context.TryCancel();
  EXPECT_FALSE(reader->Finish().ok());
}

TEST_F(CatalogServiceTest, TheEndOfTheServiceEndsEveryWatch) {
  grpc::ClientContext contexts[kCatalogWatchersMax + 2];
  std::vector<std::unique_ptr<grpc::ClientReader<v1::WatchBestConfigsResponse>>> readers;
  v1::WatchBestConfigsResponse response;
  for (int i = 0; i < kCatalogWatchersMax; ++i) {
    readers.push_back(client_stub_->WatchBestConfigs(&contexts[i], {}));
    ASSERT_TRUE(readers.back()->Read(&response));
  }
  const auto one_more = client_stub_->WatchBestConfigs(&contexts[kCatalogWatchersMax], {});
  EXPECT_FALSE(one_more->Read(&response));
  const grpc::Status refused = one_more->Finish();
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(ReasonIn(refused), "TOO_MANY_WATCHERS");
  EXPECT_EQ(plane_->catalog_watch().watchers(), kCatalogWatchersMax);
  plane_->Stop();
  watchers_.RunUntilIdle();
  for (const auto& reader : readers) {
    while (reader->Read(&response)) {
    }
    EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  }
  plane_->calls().Refuse();
  const auto late = client_stub_->WatchBestConfigs(&contexts[kCatalogWatchersMax + 1], {});
  EXPECT_FALSE(late->Read(&response));
  EXPECT_EQ(ReasonIn(late->Finish()), "DAEMON_ENDING");
}

}  // namespace
}  // namespace tunefarm
