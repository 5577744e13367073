// The cache while the daemon is dead, frozen, restarted or replaced by another. Nothing here measures time: a call that
// did not come back would hang the test.
#include <gtest/gtest.h>

#include "server/base/random.h"
#include "tests/fakes/temporary_directory.h"
#include "tests/unit/client_cpp/fake_daemon.h"

namespace tunefarm::client {
namespace {

constexpr std::chrono::seconds kLong(60);
constexpr DefaultValue kDefaultConfig[] = {{"TILE", 99}};
constexpr DefaultConfig kDefaults[] = {{"matmul", "", {}, kDefaultConfig}};

class OutageTest : public testing::Test {
 protected:
  OutageTest() : daemon_(&catalog_, directory_.File("s")) {}

  static Client Open(const ClientOptions& options) {
    auto client = Client::Open(options);
    EXPECT_TRUE(client.ok()) << client.status().ToText();
    return *std::move(client);
  }

  TemporaryDirectory directory_;
  FakeCatalog catalog_;
  FakeDaemon daemon_;
};

TEST_F(OutageTest, ADeadDaemonIsAnErrorOrTheDefault) {
  ClientOptions options = QuickOptions(daemon_);
  {
    Client client = Open(options);
    const Question question = *client.Prepare(MatmulSpec());
    EXPECT_EQ(question.Lookup({1, 1}).status().code, Code::kUnavailable);
    EXPECT_EQ(question.NewReader().Find({1, 1}), nullptr);
    EXPECT_LT(question.state().since_heard.count(), 0);
    EXPECT_EQ(question.WaitForRevision(0, std::chrono::milliseconds(1)).code, Code::kDeadlineExceeded);
  }
  options.defaults.push_back(kDefaults);
  Client client = Open(options);
  const Question question = *client.Prepare(MatmulSpec());
  const auto answer = question.Lookup({1, 1});
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->answer->match, Match::kDefault);
  EXPECT_EQ(answer->answer->source, Source::kCompiledIn);
  EXPECT_EQ(answer->answer->config.Int("TILE"), 99);
  EXPECT_EQ(question.NewReader().Find({1, 1})->config.Int("TILE"), 99);
  // It comes up, and then its answer counts.
  catalog_.Put(MakeBest(2, 1, 5));
  daemon_.Start();
  Reader reader = question.NewReader();
  EXPECT_TRUE(Eventually([&] { return reader.Find({1, 1})->match == Match::kNearestShape; }));
}

TEST_F(OutageTest, AnswersGoOnWithTheirAgeWhileTheDaemonIsDead) {
  daemon_.Start();
  const int64_t revision = catalog_.Put(MakeBest(64, 32, 5));
  Client client = Open(QuickOptions(daemon_));
  const Question question = *client.Prepare(MatmulSpec());
  ASSERT_TRUE(question.WaitForRevision(revision, kLong).ok());
  ASSERT_TRUE(question.Lookup({70, 32}).ok());  // nearest
  daemon_.Kill();
  EXPECT_TRUE(Eventually([&] { return !question.state().is_live; }));
  Reader reader = question.NewReader();
  ASSERT_NE(reader.Find({64, 32}), nullptr);
  const auto age = reader.Age();
  EXPECT_EQ(reader.Find({70, 32})->match, Match::kNearestShape);
  EXPECT_TRUE(Eventually([&] { return reader.Find({64, 32}) != nullptr && reader.Age() > age; }));
  EXPECT_GT(question.Lookup({64, 32})->age, age);
  EXPECT_EQ(question.Lookup({1000, 1}).status().code, Code::kUnavailable);
  EXPECT_FALSE(question.state().last_error.ok());
  // What happened meanwhile is not missed, and nothing is sent twice.
  const int64_t missed = catalog_.Put(MakeBest(64, 32, 6));
  daemon_.Start();
  ASSERT_TRUE(question.WaitForRevision(missed, kLong).ok());
  EXPECT_EQ(reader.Find({64, 32})->config.Int("TILE"), 6);
  EXPECT_EQ(question.state().resets, 1);  // the first of all
  EXPECT_TRUE(Eventually([&] { return reader.Find({70, 32})->config.Int("TILE") == 6; }));
}

TEST_F(OutageTest, AFrozenDaemonHoldsNobodyUp) {
  daemon_.Start();
  const int64_t revision = catalog_.Put(MakeBest(64, 32, 5));
  ClientOptions options = QuickOptions(daemon_);
  options.lookup_timeout = std::chrono::milliseconds(50);
  Client client = Open(options);
  const Question question = *client.Prepare(MatmulSpec());
  ASSERT_TRUE(question.WaitForRevision(revision, kLong).ok());
  daemon_.Freeze();
  EXPECT_EQ(question.Lookup({70, 32}).status().code, Code::kDeadlineExceeded);
  Notification called;
  question.LookupAsync({71, 32}, {}, [&](Result<TimedAnswer> result) {
    EXPECT_EQ(result.status().code, Code::kDeadlineExceeded);
    called.Notify();
  });
  called.WaitForNotification();
  EXPECT_EQ(question.Lookup({64, 32})->answer->config.Int("TILE"), 5);
  // Its silence is noticed.
  const int64_t connects = question.state().connects;
  EXPECT_TRUE(Eventually([&] { return question.state().connects > connects; }));
  EXPECT_FALSE(question.state().is_live);
  const int64_t missed = catalog_.Put(MakeBest(64, 32, 6));
  EXPECT_EQ(question.Lookup({64, 32})->answer->config.Int("TILE"), 5);
  daemon_.Thaw();
  ASSERT_TRUE(question.WaitForRevision(missed, kLong).ok());
  EXPECT_EQ(question.Lookup({64, 32})->answer->config.Int("TILE"), 6);
}

TEST_F(OutageTest, WithADefaultNobodyWaitsForADaemonThatIsKnownToBeAway) {
  daemon_.Start();
  catalog_.Put(MakeBest(64, 32, 5));
  ClientOptions options = QuickOptions(daemon_);
  options.lookup_timeout = std::chrono::hours(1);  // the test would hang
  options.defaults.push_back(kDefaults);
  Client client = Open(options);
  const Question question = *client.Prepare(MatmulSpec());
  ASSERT_TRUE(question.WaitForRevision(0, kLong).ok());
  daemon_.Freeze();
  EXPECT_TRUE(Eventually([&] { return !question.state().is_live; }));
  EXPECT_EQ(question.Lookup({70, 32})->answer->source, Source::kCompiledIn);
  daemon_.Thaw();
  Reader reader = question.NewReader();
  EXPECT_TRUE(Eventually([&] { return reader.Find({70, 32})->match == Match::kNearestShape; }));
}

TEST_F(OutageTest, ClosingEndsWhatWaits) {
  daemon_.Start();
  ClientOptions options = QuickOptions(daemon_);
  options.lookup_timeout = std::chrono::hours(1);
  Client client = Open(options);
  const Question question = *client.Prepare(MatmulSpec());
  ASSERT_TRUE(question.WaitForRevision(0, kLong).ok());
  daemon_.Freeze();
  Code code = Code::kOk;
  {
    Thread waiting("waiting", [&] { code = question.Lookup({70, 32}).status().code; });
    EXPECT_TRUE(Eventually([&] { return daemon_.lookups() == 1; }));
    client.Close();
  }
  EXPECT_EQ(code, Code::kCancelled);
}

TEST_F(OutageTest, AnEmptyCatalogIsACatalog) {
  daemon_.Start();
  Client client = Open(QuickOptions(daemon_));
  const Question question = *client.Prepare(MatmulSpec());
  ASSERT_TRUE(question.WaitForRevision(0, kLong).ok());
  EXPECT_TRUE(question.state().is_live);
  EXPECT_EQ(question.state().bests, 0u);
  ASSERT_TRUE(question.WaitForRevision(catalog_.Put(MakeBest(1, 32, 1)), kLong).ok());
  EXPECT_EQ(question.NewReader().Find({1, 32})->config.Int("TILE"), 1);
}

TEST_F(OutageTest, HistoryThatIsLostMeansEverythingAnew) {
  daemon_.Start();
  catalog_.Put(MakeBest(1, 32, 1));
  catalog_.Put(MakeBest(2, 32, 2));
  Client client = Open(QuickOptions(daemon_));
  const Question question = *client.Prepare(MatmulSpec());
  ASSERT_TRUE(question.WaitForRevision(2, kLong).ok());
  daemon_.Kill();
  catalog_.Retire(MakeBest(1, 32, 1));
  const int64_t revision = catalog_.Put(MakeBest(3, 32, 3));
  catalog_.ForgetHistory();
  daemon_.Start();
  ASSERT_TRUE(question.WaitForRevision(revision, kLong).ok());
  EXPECT_EQ(question.state().resets, 2);
  EXPECT_EQ(question.state().bests, 2u);
  Reader reader = question.NewReader();
  EXPECT_EQ(reader.Find({1, 32}), nullptr);
  EXPECT_EQ(reader.Find({3, 32})->config.Int("TILE"), 3);
}

TEST_F(OutageTest, AnotherCatalogReplacesTheOldOne) {
  daemon_.Start();
  for (int i = 1; i <= 9; ++i) catalog_.Put(MakeBest(i, 32, i));
  Client client = Open(QuickOptions(daemon_));
  const Question question = *client.Prepare(MatmulSpec());
  ASSERT_TRUE(question.WaitForRevision(9, kLong).ok());
  daemon_.Kill();
  catalog_.Replace("catalog-2");
  catalog_.Put(MakeBest(5, 32, 50));
  daemon_.Start();
  Reader reader = question.NewReader();
  EXPECT_TRUE(Eventually([&] { return question.state().revision == 2; }));
  EXPECT_EQ(reader.Find({5, 32})->config.Int("TILE"), 50);
  EXPECT_EQ(question.state().bests, 1u);
}

TEST_F(OutageTest, AChangeThatBreaksOffIsNotHalfApplied) {
  daemon_.Start();
  for (int i = 1; i <= 9; ++i) catalog_.Put(MakeBest(i, 32, i));  // three parts
  Client client = Open(QuickOptions(daemon_));
  const Question question = *client.Prepare(MatmulSpec());
  ASSERT_TRUE(question.WaitForRevision(9, kLong).ok());
  daemon_.Kill();
  catalog_.Replace("catalog-2");
  for (int i = 1; i <= 9; ++i) catalog_.Put(MakeBest(i, 32, 10 * i));
  daemon_.BreakNextWatchAfter(2);
  const int watches = daemon_.watches();
  daemon_.Start();
  Reader reader = question.NewReader();
  // All of the old or all of the new, at every moment.
  EXPECT_TRUE(Eventually([&] {
    const CacheState state = question.state();
    EXPECT_EQ(state.bests, 9u);
    return state.revision == 10;
  }));
  EXPECT_GE(daemon_.watches(), watches + 2);
  for (int i = 1; i <= 9; ++i) EXPECT_EQ(reader.Find({i, 32})->config.Int("TILE"), 10 * i);
}

// The daemon's catalog changes, and the daemon dies, freezes and comes back at random, its history lost at times, while
// readers read: in the end every question has the last word, and no reader ever sees what was never said.
TEST_F(OutageTest, EveryUpdateArrivesInTheEnd) {
  constexpr int kShapes = 12;
  daemon_.Start();
  Client client = Open(QuickOptions(daemon_));
  const Question question = *client.Prepare(MatmulSpec());
  std::atomic<bool> is_over{false};
  std::atomic<int> wrong{0};
  std::vector<Thread> readers;
  for (int r = 0; r < 2; ++r) {
    readers.emplace_back("reader", [&, r] {
      Reader reader = question.NewReader();
      PhiloxStream random(7, static_cast<uint64_t>(r));
      while (!is_over) {
        const auto m = static_cast<int64_t>(random.UniformInt(kShapes));
        const Answer* const found = reader.Find({m, 32});
        // An exact answer is one that was filed for this shape: its tile says so.
        if (found != nullptr && found->match == Match::kExact && found->config.Int("TILE") % 100 != m) ++wrong;
      }
    });
  }
  PhiloxStream random(20240607, 1);
  bool is_up = true;
  for (int step = 0; step < 400; ++step) {
    const auto m = static_cast<int64_t>(random.UniformInt(kShapes));
    switch (random.UniformInt(12)) {
      case 0:
        if (is_up) daemon_.Kill();
        is_up = false;
        break;
      case 1:
        if (!is_up) daemon_.Start();
        is_up = true;
        break;
      case 2:
        daemon_.Freeze();
        break;
      case 3:
        daemon_.Thaw();
        break;
      case 4:
        catalog_.Retire(MakeBest(m, 32, 0));
        break;
      case 5:
        if (!is_up && random.UniformInt(2) == 0) catalog_.ForgetHistory();
        break;
      case 6:
        daemon_.BreakNextWatchAfter(static_cast<int>(random.UniformInt(3)));
        break;
      default:
        catalog_.Put(MakeBest(m, 32, 100 * (step + 1) + m));
    }
    if (step % 8 == 0) Notification().WaitFor(std::chrono::milliseconds(random.UniformInt(20)));
  }
  daemon_.Thaw();
  if (!is_up) daemon_.Start();
  ASSERT_TRUE(question.WaitForRevision(catalog_.revision(), kLong).ok());
  is_over = true;
  readers.clear();
  EXPECT_EQ(wrong, 0);
  Reader reader = question.NewReader();
  std::map<int64_t, int64_t> expected;  // M to tile
  {
    MutexLock lock(&catalog_.mutex);
    for (const auto& [key, best] : catalog_.bests) {
      expected[best.problem().dims().at("M").int_value()] = best.config().values().at("TILE").int_value();
    }
  }
  EXPECT_EQ(question.state().bests, expected.size());
  for (int64_t m = 0; m < kShapes; ++m) {
    if (expected.count(m) > 0) {
      const Answer* const found = reader.Find({m, 32});
      ASSERT_NE(found, nullptr) << m;
      EXPECT_EQ(found->match, Match::kExact);
      EXPECT_EQ(found->config.Int("TILE"), expected[m]);
    } else {
      // What is asked for catches up, too, and is not exact.
      EXPECT_TRUE(Eventually([&] {
        const Answer* const found = reader.Find({m, 32});
        if (found == nullptr || found->match == Match::kExact) return false;
        int64_t nearest = -1;
        for (const auto& [other, tile] : expected) {
          if (nearest < 0 || std::abs(other - m) < std::abs(nearest - m)) nearest = other;
        }
        return expected.empty() || std::abs(found->config.Int("TILE") % 100 - m) == std::abs(nearest - m);
      })) << m;
    }
  }
}

}  // namespace
}  // namespace tunefarm::client
