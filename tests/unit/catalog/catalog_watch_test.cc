// Watchers of the catalog over a real database: what they are told, when, and that nothing is ever missed.
#include "server/catalog/catalog_watch.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/base/check.h"
#include "server/base/random.h"
#include "server/base/status.h"
#include "server/base/thread.h"
#include "server/catalog/best_changes.h"
#include "server/store/best_store.h"
#include "server/store/setting_store.h"
#include "server/store/store.h"
#include "server/store/store_maintenance.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/fake_entropy.h"
#include "tests/fakes/manual_executor.h"
#include "tests/fakes/temporary_directory.h"

namespace tunefarm {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using tunefarm::v1::BestConfig;

constexpr int kWatchersMax = 20;

std::string KeyText(const std::string& program, const std::string& problem, const std::string& class_id) {
  return program + " " + problem + " " + class_id;
}
std::string KeyText(const BestConfig& best) {
  return KeyText(best.program_digest(), best.problem().key(), best.device_class_id());
}
// Everything that a watcher may tell bests apart by; no map of theirs has two entries, so that their bytes are the
// same.
using Bests = std::map<std::string, std::string>;

// A catalog with all that changes it, over a database that outlives it.
struct Service {
  explicit Service(const std::string& directory, FakeClock* clock) : executor(clock) {
    auto opened = OpenSqliteStore({directory + "/tunefarm.db", directory + "/backups"});
    TUNEFARM_CHECK_OK(opened);
    store = *std::move(opened);
    TUNEFARM_CHECK_OK(catalog.Load(store.get()));
    watch = std::make_shared<CatalogWatch>(&executor, &catalog, kWatchersMax);
    const auto id = store->settings()->GetOrPutSetting(SettingStore::kCatalogIdSetting, NewUuid(EntropySource::Real()));
    TUNEFARM_CHECK_OK(id);
    watch->Open(*id);
    changes = std::make_unique<BestChanges>(store.get(), &catalog, &misses, watch.get(), clock);
  }

  // A final of a new study has this winner.
  PromotionVerdict Promote(const std::string& problem, const std::string& config, const std::string& kernel = "scale",
                           size_t padding = 0) {
    BestConfig best;
    best.set_kernel_name(kernel);
    best.set_program_digest("program");
    best.mutable_problem()->set_key(problem);
    best.set_device_class_id("class");
    (*best.mutable_config()->mutable_values())["T"].set_string_value(config);
    best.set_baseline_label(std::string(padding, 'x'));
    BestRow row;
    row.kernel_name = kernel;
    row.program_digest = "program";
    row.problem_key = problem;
    row.class_id = "class";
    row.config = config;
    row.detail = best.SerializeAsString();
    row.study_id = ++studies;
    const auto verdict = changes->Promote(row);
    TUNEFARM_CHECK_OK(verdict);
    return *verdict;
  }

  Bests Expected(const std::string& kernel) const {
    Bests bests;
    for (const auto& best : catalog.ChangesSince(0, kernel).bests) bests[KeyText(*best)] = best->SerializeAsString();
    return bests;
  }

  ManualExecutor executor;
  std::unique_ptr<Store> store;
  Catalog catalog;
  MissTable misses;
  std::shared_ptr<CatalogWatch> watch;
  std::unique_ptr<BestChanges> changes;
  static inline int64_t studies = 0;
};

template <typename Request>
Request Of(const std::string& problem) {
  Request request;
  request.mutable_key()->set_program_digest("program");
  request.mutable_key()->set_problem_key(problem);
  request.mutable_key()->set_device_class_id("class");
  return request;
}

void Annotate(Service* service, const std::string& problem, const std::string& note) {
  auto request = Of<tunefarm::v1::AnnotateBestConfigRequest>(problem);
  request.set_note(note);
  TUNEFARM_CHECK_OK(service->changes->Annotate(request).status());
}
void Retire(Service* service, const std::string& problem) {
  TUNEFARM_CHECK_OK(service->changes->Retire(Of<tunefarm::v1::RetireBestConfigRequest>(problem)).status());
}

// A client: applies what it is told, and remembers how far it has come.
struct Client {
  explicit Client(std::string kernel_name = "") : kernel(std::move(kernel_name)) {}

  absl::Status Connect(Service* service) {
    stream.reset();
    tunefarm::v1::WatchBestConfigsRequest request;
    request.set_kernel(kernel);
    request.set_after_revision(revision);
    request.set_catalog_id(catalog_id);
    auto watched = service->watch->Watch(
        request, [this] { ++wakes; }, [this](const absl::Status& status) { end = status; });
    if (!watched.ok()) return watched.status();
    stream = *std::move(watched);
    return absl::OkStatus();
  }

  // False: there was nothing to say.
  bool Receive() {
    const auto response = stream->Next();
    if (!response.has_value()) return false;
    EXPECT_FALSE(response->catalog_id().empty());
    last = *response;
    if (response->reset()) bests.clear();
    for (const auto& key : response->retired()) {
      bests.erase(KeyText(key.program_digest(), key.problem_key(), key.device_class_id()));
    }
    for (const auto& best : response->bests()) bests[KeyText(best)] = best.SerializeAsString();
    if (response->revision() == 0) return true;
    EXPECT_TRUE(response->reset() || response->catalog_id() != catalog_id || response->revision() >= revision);
    revision = response->revision();
    catalog_id = response->catalog_id();
    return true;
  }
  int ReceiveAll() {
    int responses = 0;
    while (Receive()) ++responses;
    return responses;
  }

  const std::string kernel;
  Bests bests;
  int64_t revision = 0;
  std::string catalog_id;
  std::unique_ptr<CatalogStream> stream;
  tunefarm::v1::WatchBestConfigsResponse last;
  int wakes = 0;
  absl::Status end;
};

class CatalogWatchTest : public testing::Test {
 protected:
  CatalogWatchTest() { Boot(); }
  void Boot() {
    service_.reset();
    service_ = std::make_unique<Service>(directory_.path(), &clock_);
  }

  TemporaryDirectory directory_;
  FakeClock clock_;
  std::unique_ptr<Service> service_;
};

TEST_F(CatalogWatchTest, BeginsWithEverythingAndTellsEveryChange) {
  Client client;
  ASSERT_TRUE(client.Connect(service_.get()).ok());
  EXPECT_EQ(client.ReceiveAll(), 1) << "an empty catalog is told too";
  EXPECT_TRUE(client.last.reset());
  EXPECT_EQ(client.revision, 1);
  service_->Promote("N=1", "a");
  EXPECT_EQ(client.wakes, 0) << "not on the thread that made the change";
  service_->executor.RunUntilIdle();
  EXPECT_EQ(client.wakes, 1);
  EXPECT_EQ(client.ReceiveAll(), 1);
  EXPECT_FALSE(client.last.reset());
  EXPECT_EQ(client.last.revision(), 2);
  ASSERT_EQ(client.last.bests_size(), 1);
  EXPECT_EQ(client.last.bests(0).revision(), 2);
  Annotate(service_.get(), "N=1", "noted");
  EXPECT_EQ(client.ReceiveAll(), 1);
  EXPECT_EQ(client.last.bests(0).note(), "noted");
  Retire(service_.get(), "N=1");
  EXPECT_EQ(client.ReceiveAll(), 1);
  EXPECT_EQ(client.last.bests_size(), 0);
  ASSERT_EQ(client.last.retired_size(), 1);
  EXPECT_EQ(client.last.retired(0).problem_key(), "N=1");
  EXPECT_THAT(client.bests, IsEmpty());
}

TEST_F(CatalogWatchTest, ASlowReaderSeesTheLastOfManyChanges) {
  Client client;
  ASSERT_TRUE(client.Connect(service_.get()).ok());
  client.ReceiveAll();
  for (int i = 0; i < 50; ++i) service_->Promote("N=1", "a" + std::to_string(i));
  service_->Promote("N=2", "b");
  Retire(service_.get(), "N=2");
  service_->executor.RunUntilIdle();
  EXPECT_EQ(client.wakes, 1);
  EXPECT_EQ(client.ReceiveAll(), 1);
  EXPECT_EQ(client.last.bests_size(), 1);
  EXPECT_EQ(client.bests, service_->Expected(""));
}

TEST_F(CatalogWatchTest, ResumesWithWhatHasChangedAlsoAfterARestart) {
  service_->Promote("N=1", "a");
  service_->Promote("N=2", "b");
  service_->Promote("N=3", "c");
  Client client;
  ASSERT_TRUE(client.Connect(service_.get()).ok());
  client.ReceiveAll();
  client.stream.reset();
  service_->Promote("N=2", "bb");
  Retire(service_.get(), "N=3");
  Retire(service_.get(), "N=1");
  service_->Promote("N=1", "aa");
  Boot();
  ASSERT_TRUE(client.Connect(service_.get()).ok());
  EXPECT_EQ(client.ReceiveAll(), 1);
  EXPECT_FALSE(client.last.reset());
  EXPECT_EQ(client.last.bests_size(), 2);
  EXPECT_EQ(client.last.retired_size(), 1);
  EXPECT_EQ(client.bests, service_->Expected(""));
  // Nothing new is said at once too, so that a client knows where it stands.
  ASSERT_TRUE(client.Connect(service_.get()).ok());
  EXPECT_EQ(client.ReceiveAll(), 1);
  EXPECT_FALSE(client.last.reset());
  EXPECT_EQ(client.last.bests_size() + client.last.retired_size(), 0);
}

TEST_F(CatalogWatchTest, AnotherCatalogBeginsAnew) {
  service_->Promote("N=1", "a");
  Client client;
  ASSERT_TRUE(client.Connect(service_.get()).ok());
  client.ReceiveAll();
  const std::string id = client.catalog_id;
  client.catalog_id = "another";
  ASSERT_TRUE(client.Connect(service_.get()).ok());
  client.ReceiveAll();
  EXPECT_TRUE(client.last.reset());
  EXPECT_EQ(client.catalog_id, id);
  // From a future that the database has lost.
  client.revision = 99;
  client.bests["gone"] = "";
  ASSERT_TRUE(client.Connect(service_.get()).ok());
  client.ReceiveAll();
  EXPECT_TRUE(client.last.reset());
  EXPECT_EQ(client.bests, service_->Expected(""));
  client.revision = -1;
  EXPECT_EQ(ReasonOf(client.Connect(service_.get())), "REVISION_INVALID");
}

TEST_F(CatalogWatchTest, ARestoredBackupIsAnotherCatalog) {
  service_->Promote("N=1", "a");
  ASSERT_TRUE(service_->store->maintenance()->Backup(directory_.File("copy.db")).ok());
  service_->Promote("N=2", "lost");
  Client client;
  ASSERT_TRUE(client.Connect(service_.get()).ok());
  client.ReceiveAll();
  client.stream.reset();
  service_.reset();
  ASSERT_EQ(rename(directory_.File("copy.db").c_str(), directory_.File("tunefarm.db").c_str()), 0);
  Boot();
  service_->Promote("N=3", "c");  // the revision that the client knows
  service_->Promote("N=4", "d");
  ASSERT_TRUE(client.Connect(service_.get()).ok());
  client.ReceiveAll();
  EXPECT_EQ(client.bests, service_->Expected(""));
}

TEST_F(CatalogWatchTest, OneKernelOnly) {
  Client scale("scale");
  ASSERT_TRUE(scale.Connect(service_.get()).ok());
  scale.ReceiveAll();
  service_->Promote("N=1", "a", "other");
  EXPECT_EQ(scale.ReceiveAll(), 0);
  service_->Promote("N=2", "b");
  EXPECT_EQ(scale.ReceiveAll(), 1);
  EXPECT_EQ(scale.last.revision(), 3);
  EXPECT_EQ(scale.bests.size(), 1u);
  // Another name of the program takes the key: here it is gone.
  service_->Promote("N=2", "c", "other");
  EXPECT_EQ(scale.ReceiveAll(), 1);
  EXPECT_EQ(scale.last.retired_size(), 1);
  EXPECT_THAT(scale.bests, IsEmpty());
  service_->Promote("N=2", "d");
  EXPECT_EQ(scale.ReceiveAll(), 1);
  EXPECT_EQ(scale.bests, service_->Expected("scale"));
}

TEST_F(CatalogWatchTest, AHeartbeatAtLeastEveryFiveSeconds) {
  Client client("scale");
  ASSERT_TRUE(client.Connect(service_.get()).ok());
  client.ReceiveAll();
  for (int beat = 0; beat < 3; ++beat) {
    service_->Promote("N=1", "a" + std::to_string(beat), "other");  // of no interest
    client.wakes = 0;
    service_->executor.AdvanceBy(std::chrono::seconds(5));
    EXPECT_GE(client.wakes, 1);
    EXPECT_EQ(client.ReceiveAll(), 1);
    EXPECT_EQ(client.last.bests_size(), 0);
    EXPECT_EQ(client.last.revision(), service_->catalog.revision());
  }
  // Nobody watches, and nothing ticks.
  client.stream.reset();
  service_->executor.AdvanceBy(std::chrono::seconds(5));
  EXPECT_EQ(service_->executor.timer_count(), 0u);
  ASSERT_TRUE(client.Connect(service_.get()).ok());
  EXPECT_EQ(service_->executor.timer_count(), 1u);
}

TEST_F(CatalogWatchTest, LargeChangesComeInParts) {
  constexpr size_t kPadding = 400'000;
  for (int i = 0; i < 5; ++i) service_->Promote("N=" + std::to_string(i), "a", "scale", kPadding);
  service_->Promote("N=9", "a", "scale", 3 * kPadding);  // larger than a part
  Client client;
  ASSERT_TRUE(client.Connect(service_.get()).ok());
  int parts = 0;
  while (client.Receive()) {
    ++parts;
    EXPECT_EQ(client.last.reset(), parts == 1);
    EXPECT_EQ(client.last.revision() != 0, client.bests.size() == 6) << "only in the last part";
    EXPECT_TRUE(client.last.ByteSizeLong() <= kCatalogPartBytesMax + 1000 || client.last.bests_size() == 1);
  }
  EXPECT_GE(parts, 3);
  EXPECT_EQ(client.bests, service_->Expected(""));
  for (int i = 0; i < 5; ++i) Retire(service_.get(), "N=" + std::to_string(i));
  EXPECT_EQ(client.ReceiveAll(), 1);
  EXPECT_EQ(client.bests, service_->Expected(""));
}

TEST_F(CatalogWatchTest, OnlySoManyWatchersAndNoneAfterTheEnd) {
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < kWatchersMax; ++i) {
    clients.push_back(std::make_unique<Client>());
    ASSERT_TRUE(clients.back()->Connect(service_.get()).ok());
  }
  Client late;
  const absl::Status refused = late.Connect(service_.get());
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_EQ(ReasonOf(refused), "TOO_MANY_WATCHERS");
  clients.pop_back();
  EXPECT_TRUE(late.Connect(service_.get()).ok());
  EXPECT_EQ(service_->watch->watchers(), kWatchersMax);
  service_->watch->Close(Unavailable("the daemon is stopping"));
  service_->executor.RunUntilIdle();
  EXPECT_TRUE(absl::IsUnavailable(late.end)) << late.end;
  for (const auto& client : clients) EXPECT_TRUE(absl::IsUnavailable(client->end)) << client->end;
  Client after;
  EXPECT_TRUE(absl::IsUnavailable(after.Connect(service_.get())));
}

TEST_F(CatalogWatchTest, ChangesOfManyThreadsAreToldInTheirOrder) {
  constexpr int kThreads = 3, kEdits = 40;
  for (int i = 0; i < kThreads; ++i) service_->Promote("N=" + std::to_string(i), "a");
  Client client;
  ASSERT_TRUE(client.Connect(service_.get()).ok());
  client.ReceiveAll();
  std::atomic<int> running{kThreads};
  std::vector<Thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back("edits", [&, i] {
      for (int edit = 0; edit < kEdits; ++edit)
        Annotate(service_.get(), "N=" + std::to_string(i), std::to_string(edit));
      --running;
    });
  }
  // A change that was told after a later one would be lost here: the client takes each revision once.
  while (running > 0) {
    if (!client.Receive()) continue;
    for (const auto& best : client.last.bests()) EXPECT_LE(best.revision(), client.revision);
  }
  for (Thread& thread : threads) thread.Join();
  client.ReceiveAll();
  EXPECT_EQ(client.revision, 1 + kThreads + kThreads * kEdits);
  EXPECT_EQ(client.bests, service_->Expected(""));
}

// Whatever happens to the catalog, to the daemon and to the connections, and wherever a client is interrupted: in the
// end it has what the catalog has.
TEST_F(CatalogWatchTest, NoChangeIsEverMissed) {
  for (uint64_t seed = 0; seed < 4; ++seed) {
    SCOPED_TRACE(seed);
    PhiloxStream random(seed);
    const auto below = [&](uint64_t n) { return random.UniformInt(n); };
    std::vector<std::unique_ptr<Client>> clients;
    for (const char* kernel : {"", "", "scale", "scale", "other"}) clients.push_back(std::make_unique<Client>(kernel));
    for (int step = 0; step < 200; ++step) {
      const std::string problem = "N=" + std::to_string(below(6));
      const std::string config = std::to_string(below(4));
      switch (below(16)) {
        case 0: {
          auto pin = Of<tunefarm::v1::PinBestConfigRequest>(problem);
          if (below(2) == 0) {
            pin.set_from_revision(1 + static_cast<int64_t>(below(static_cast<uint64_t>(service_->catalog.revision()))));
          }
          const auto pinned = service_->changes->Pin(pin).status();
          ASSERT_TRUE(pinned.ok() || absl::IsNotFound(pinned)) << pinned;
          break;
        }
        case 1:
        case 2: {
          const auto retired = service_->changes->Retire(Of<tunefarm::v1::RetireBestConfigRequest>(problem)).status();
          ASSERT_TRUE(retired.ok() || absl::IsNotFound(retired)) << retired;
          break;
        }
        case 3:
        case 4: {
          const auto unpinned = service_->changes->Unpin(Of<tunefarm::v1::UnpinBestConfigRequest>(problem)).status();
          ASSERT_TRUE(unpinned.ok() || absl::IsNotFound(unpinned)) << unpinned;
          break;
        }
        case 5:
          for (const auto& client : clients) client->stream.reset();
          Boot();
          break;
        case 6:
        case 7:
          ASSERT_TRUE(clients[below(clients.size())]->Connect(service_.get()).ok());
          break;
        case 8:
          clients[below(clients.size())]->stream.reset();
          break;
        case 9:
        case 10:
        case 11:
          if (Client& client = *clients[below(clients.size())]; client.stream != nullptr) client.Receive();
          break;
        default:
          service_->Promote(problem, config, below(3) == 0 ? "other" : "scale", below(8) == 0 ? 600'000 : 0);
      }
    }
    for (const auto& client : clients) {
      ASSERT_TRUE(client->Connect(service_.get()).ok());
      client->ReceiveAll();
      EXPECT_EQ(client->bests, service_->Expected(client->kernel)) << client->kernel;
      EXPECT_EQ(client->revision, service_->catalog.revision());
    }
    for (const auto& client : clients) client->stream.reset();
    // As the database has it.
    const Bests before = service_->Expected("");
    Boot();
    EXPECT_EQ(service_->Expected(""), before);
  }
}

}  // namespace
}  // namespace tunefarm
