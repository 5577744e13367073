#include "server/nodes/node_watch.h"

#include <memory>

#include "gtest/gtest.h"
#include "server/store/store.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/manual_executor.h"
#include "tests/fakes/temporary_directory.h"

namespace tunefarm {
namespace {

// The executor may have a thread of its own: what the first round asks must not be asked there at the same time.
TEST(NodeWatchTest, TheFirstRoundOfQuestionsIsTheCallersAlone) {
  const TemporaryDirectory directory;
  FakeClock clock;
  const auto store = OpenSqliteStore({directory.File("tunefarm.db"), directory.File("backups")});
  ASSERT_TRUE(store.ok()) << store.status();
  for (const bool store_answers : {true, false}) {
    SCOPED_TRACE(store_answers);
    Node node(store->get(), &clock, PermanentNode("here"));
    ManualExecutor executor(&clock);
    int rounds = 0;
    const auto watch = std::make_shared<NodeWatch>(
        &node, &executor, &executor,
        NodeWatch::Questions{.follow =
                                 [&] {
                                   ++rounds;
                                   return store_answers ? absl::OkStatus() : absl::UnavailableError("away");
                                 },
                             .refresh = [] { return absl::OkStatus(); },
                             .is_busy = [] { return false; },
                             .on_lease = {}});
    EXPECT_EQ(watch->Start().ok(), store_answers);
    EXPECT_EQ(rounds, 1);
    while (executor.RunOne()) continue;
    // Asked again, without anybody's call, only where the store did not answer.
    EXPECT_EQ(rounds, store_answers ? 1 : 2);
    watch->Stop();
  }
}

}  // namespace
}  // namespace tunefarm
