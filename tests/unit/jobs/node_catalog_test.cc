// Two control daemons on one store: what the catalog of each knows of what the other did.
#include <fmt/core.h>

#include <chrono>
#include <fstream>
#include <memory>
#include <string>

#include "server/api/server_api.h"
#include "server/base/status.h"
#include "server/catalog/best_changes.h"
#include "server/catalog/catalog_watch.h"
#include "server/store/best_store.h"
#include "tests/unit/jobs/node_world.h"

namespace tunefarm {
namespace {

class NodeCatalogTest : public NodeWorld {
 protected:
  // As GetServerInfo tells it.
  std::string DatabaseAway(int index) {
    ServerHooks hooks;
    hooks.info = [] { return tunefarm::v1::GetServerInfoResponse(); };
    ServerApi server(nodes_[index].store.get(), &service(index).node_watch(), hooks);
    return server.GetServerInfo({})->database_away();
  }
};

// Found by the simulation: the slower config took the other's place.
TEST_F(NodeCatalogTest, OfTwoFinalsAtOnceTheLaterIsComparedWithTheEarlier) {
  ManualExecutor executor(&clock_);
  MissTable misses;
  Catalog catalogs[2];
  for (Catalog& catalog : catalogs) ASSERT_TRUE(catalog.Load(store_.get()).ok());
  const auto watch = std::make_shared<CatalogWatch>(&executor, &catalogs[0], 1);
  BestChanges first(store_.get(), &catalogs[0], &misses, watch.get(), &clock_);
  BestChanges second(store_.get(), &catalogs[1], &misses, watch.get(), &clock_);
  BestRow row;
  row.kernel_name = "scale";
  row.kernel_id = "k";
  row.program_digest = "p";
  row.problem_key = "N=1";
  row.class_id = "class";
  row.config = "A=1";
  row.median_ns = 10;
  row.job_id = row.study_id = 1;
  row.compared_with = 0;
  ASSERT_TRUE(first.Promote(row).ok());
  row.config = "A=2";
  row.median_ns = 20;
  row.job_id = row.study_id = 2;
  const auto late = second.Promote(row);
  EXPECT_EQ(ReasonOf(late.status()), "BEST_CHANGED") << late.status();
  const auto best = catalogs[1].Find("p", "N=1", "class");
  ASSERT_NE(best, nullptr) << "it knows now what to compare with";
  row.compared_with = best->revision();
  EXPECT_TRUE(second.Promote(row).ok());
}

TEST_F(NodeCatalogTest, TheCatalogOfEachHasWhatEitherChanged) {
  BootBoth();
  const std::string name = Submit(0);
  ASSERT_TRUE(RunUntil([&] { return Ended(name, 0); }));
  RunFor(std::chrono::seconds(2));
  ASSERT_EQ(Lookup(0).match(), tunefarm::v1::MATCH_EXACT);
  ASSERT_EQ(Lookup(1).match(), tunefarm::v1::MATCH_EXACT);
  EXPECT_EQ(Lookup(0).best().revision(), Lookup(1).best().revision());
  EXPECT_EQ(Lookup(0).best().ordinal(), Lookup(1).best().ordinal());
  tunefarm::v1::PinBestConfigRequest pin;
  pin.mutable_key()->set_program_digest(Lookup(0).best().program_digest());
  pin.mutable_key()->set_problem_key(Lookup(0).best().problem().key());
  pin.mutable_key()->set_device_class_id(Lookup(0).best().device_class_id());
  ASSERT_TRUE(service(1).catalog_api().PinBestConfig(pin).ok());
  EXPECT_TRUE(Lookup(1).best().pinned());
  RunFor(std::chrono::seconds(2));
  EXPECT_TRUE(Lookup(0).best().pinned());
  tunefarm::v1::RetireBestConfigRequest retire;
  *retire.mutable_key() = pin.key();
  ASSERT_TRUE(service(0).catalog_api().RetireBestConfig(retire).ok());
  RunFor(std::chrono::seconds(2));
  EXPECT_NE(Lookup(1).match(), tunefarm::v1::MATCH_EXACT);
}

TEST_F(NodeCatalogTest, KernelsByNameAreTheNewestOfAll) {
  BootBoth();
  ASSERT_TRUE(service(0).CreateKernel(TestKernel()).ok());
  const auto first = service(1).GetKernel("scale");
  ASSERT_TRUE(first.ok());
  RunFor(std::chrono::seconds(1));
  ASSERT_TRUE(service(0).CreateKernel(TestKernel(true)).ok());
  RunFor(std::chrono::seconds(2));
  EXPECT_NE(service(1).GetKernel("scale")->name(), first->name());
}

TEST_F(NodeCatalogTest, MissesOfAllAddUp) {
  BootBoth();
  ASSERT_TRUE(service(0).CreateKernel(TestKernel()).ok());
  for (int i = 0; i < 3; ++i) Lookup(0);
  for (int i = 0; i < 4; ++i) Lookup(1);
  ASSERT_TRUE(service(0).misses().Write().ok());
  ASSERT_TRUE(service(1).misses().Write().ok());
  ASSERT_TRUE(service(1).misses().Write().ok());
  Lookup(0);
  for (int i = 0; i < 2; ++i) {
    const auto misses = service(i).catalog_api().ListMisses({});
    ASSERT_TRUE(misses.ok());
    ASSERT_EQ(misses->misses_size(), 1);
    EXPECT_EQ(misses->misses(0).count(), i == 0 ? 8 : 8);
  }
  ASSERT_TRUE(service(1).catalog_api().DeleteMisses({}).ok());
  EXPECT_EQ(service(0).catalog_api().ListMisses({})->misses_size(), 0);
}

TEST_F(NodeCatalogTest, LookUpsAreAnsweredWithTheirAgeWhileTheDatabaseIsAway) {
  BootBoth();
  const std::string name = Submit(0);
  ASSERT_TRUE(RunUntil([&] { return Ended(name, 0); }));
  RunFor(std::chrono::seconds(2));
  EXPECT_LT(Lookup(1).catalog_age_ms(), 2000);
  nodes_[1].store_is_away = true;
  RunFor(std::chrono::seconds(30));
  EXPECT_EQ(Lookup(1).match(), tunefarm::v1::MATCH_EXACT);
  EXPECT_GE(Lookup(1).catalog_age_ms(), 29'000);
  EXPECT_NE(DatabaseAway(1), "");
  nodes_[1].store_is_away = false;
  RunFor(std::chrono::seconds(3));
  EXPECT_LT(Lookup(1).catalog_age_ms(), 2000);
  EXPECT_EQ(DatabaseAway(1), "");
}

TEST_F(NodeCatalogTest, StartsFromItsCopyWhileTheDatabaseIsAway) {
  BootBoth();
  const std::string name = Submit(0);
  ASSERT_TRUE(RunUntil([&] { return Ended(name, 0); }));
  RunFor(kNodeLease);
  ASSERT_EQ(Lookup(1).match(), tunefarm::v1::MATCH_EXACT);
  RunFor(kNodeLease);
  Kill(1);
  RunFor(std::chrono::seconds(10));
  ASSERT_TRUE(Boot(1, false, true).ok());
  EXPECT_EQ(Lookup(1).match(), tunefarm::v1::MATCH_EXACT);
  EXPECT_GE(Lookup(1).catalog_age_ms(), 10'000);
  EXPECT_NE(DatabaseAway(1), "");
  nodes_[1].store_is_away = false;
  RunFor(std::chrono::seconds(5));
  EXPECT_LT(Lookup(1).catalog_age_ms(), 2000);
  agents_node_ = 1;
  const std::string next = Submit(1);
  EXPECT_TRUE(RunUntil([&] { return Ended(next, 1); })) << "it does everything again";
  // A damaged copy is none.
  Kill(1);
  std::ofstream(directory_.File("copy-1"), std::ios::app) << "x";
  EXPECT_EQ(Boot(1, false, true).code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace tunefarm
