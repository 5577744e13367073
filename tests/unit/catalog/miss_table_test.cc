#include "server/catalog/miss_table.h"

#include <atomic>
#include <map>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/base/random.h"
#include "server/store/lookup_store.h"

namespace tunefarm {
namespace {

using testing::IsEmpty;
using testing::SizeIs;
using tunefarm::v1::Match;
using tunefarm::v1::Problem;

MissSource Source(int64_t now_ms = 1, std::string_view kernel = "scale", std::string_view program = "program",
                  std::string_view class_id = "class") {
  return {kernel, program, class_id, "Test CPU", now_ms};
}

Problem ProblemOf(std::string_view key) {
  Problem problem;
  problem.set_key(std::string(key));
  return problem;
}

void Ask(MissTable* table, const std::vector<std::string>& keys, const MissSource& source = Source(),
         Match match = tunefarm::v1::MATCH_DEFAULT, double distance = 0) {
  std::vector<MissQuestion> questions;
  for (const std::string& key : keys) questions.push_back({key, match, distance});
  table->Count(source, questions, [&](size_t i) { return ProblemOf(keys[i]); });
}

std::string Key(const MissedProblem& what) { return what.kernel_name + " " + what.problem_key + " " + what.class_id; }

// By what names them.
std::map<std::string, Miss> Contents(const MissTable& table) {
  std::map<std::string, Miss> contents;
  for (const Miss& miss : table.Snapshot()) EXPECT_TRUE(contents.emplace(Key(*miss.what), miss).second);
  EXPECT_EQ(static_cast<int64_t>(contents.size()), table.size());
  return contents;
}

TEST(MissTable, CountsByKernelProblemAndClass) {
  MissTable table;
  Ask(&table, {"N=1"}, Source(10), tunefarm::v1::MATCH_NEAREST_SHAPE, 1.5);
  Ask(&table, {"N=1", "N=2", "N=1"}, Source(20), tunefarm::v1::MATCH_DEFAULT);
  Ask(&table, {"N=1"}, Source(30, "other"));
  Ask(&table, {"N=1"}, Source(40, "scale", "program", "another class"));
  const auto contents = Contents(table);
  ASSERT_THAT(contents, SizeIs(4));
  const Miss& miss = contents.at("scale N=1 class");
  EXPECT_EQ(miss.asked, 3);
  EXPECT_EQ(miss.match, tunefarm::v1::MATCH_DEFAULT);
  EXPECT_EQ(miss.distance, 0);
  EXPECT_EQ(miss.first_asked_at_ms, 10);
  EXPECT_EQ(miss.last_asked_at_ms, 20);
  EXPECT_EQ(miss.what->class_name, "Test CPU");
  EXPECT_EQ(miss.what->problem, ProblemOf("N=1").SerializeAsString());
  EXPECT_EQ(contents.at("scale N=2 class").asked, 1);
  EXPECT_EQ(contents.at("other N=1 class").asked, 1);
  EXPECT_EQ(contents.at("scale N=1 another class").last_asked_at_ms, 40);
  EXPECT_EQ(table.not_counted(), 0);
}

TEST(MissTable, AsksForAProblemOnlyWhereItIsNew) {
  MissTable table;
  int asked_for = 0;
  const auto problem_of = [&asked_for](size_t) {
    ++asked_for;
    return ProblemOf("N=1");
  };
  const std::vector<MissQuestion> questions(200, {"N=1"});
  table.Count(Source(), questions, problem_of);
  table.Count(Source(), questions, problem_of);
  EXPECT_EQ(asked_for, 1);
  EXPECT_EQ(Contents(table).at("scale N=1 class").asked, 400);
}

TEST(MissTable, WhatNoStoreWouldTakeIsNotCounted) {
  MissTable table;
  Ask(&table, {std::string(5000, 'N')});
  Ask(&table, {"N=1"}, Source(1, std::string(300, 'k')));
  const MissQuestion question{"N=1"};
  table.Count(Source(), {&question, 1}, [](size_t) { return std::nullopt; });
  EXPECT_EQ(table.size(), 0);
  EXPECT_EQ(table.not_counted(), 3);
}

TEST(MissTable, IsBounded) {
  MissTable table(100);
  for (int i = 0; i < 1000; ++i) Ask(&table, {"N=" + std::to_string(i)});
  EXPECT_EQ(table.size(), 100);
  EXPECT_EQ(table.not_counted(), 900);
  // Those that nobody has asked for longest went.
  EXPECT_THAT(Contents(table), testing::Contains(testing::Key("scale N=999 class")));
  MissTable small(1);
  Ask(&small, {"N=1", "N=2", "N=3"});
  EXPECT_EQ(Contents(small).begin()->first, "scale N=3 class");
  // By its bytes, too.
  MissTable narrow(10'000, 20'000);
  for (int i = 0; i < 100; ++i) Ask(&narrow, {std::string(1000, 'N') + std::to_string(i)});
  EXPECT_GT(narrow.size(), 5);
  EXPECT_LT(narrow.size(), 20);
  EXPECT_EQ(narrow.size() + narrow.not_counted(), 100);
}

TEST(MissTable, AFloodDoesNotDriveOutWhatIsAskedOften) {
  MissTable table(100);
  const std::vector<std::string> often = {"N=a", "N=b", "N=c", "N=d", "N=e"};
  for (int i = 0; i < 20; ++i) Ask(&table, often);
  // For as long as the table is ten times over nobody asks for them.
  for (int i = 0; i < 1000; ++i) Ask(&table, {"N=" + std::to_string(i)});
  auto contents = Contents(table);
  for (const std::string& key : often) EXPECT_EQ(contents.at("scale " + key + " class").asked, 20) << key;
  // But what was asked often once leaves when its likes take all the places.
  for (int i = 0; i < 200; ++i) {
    for (int times = 0; times < 30; ++times) Ask(&table, {"M=" + std::to_string(i)});
  }
  contents = Contents(table);
  for (const std::string& key : often) EXPECT_EQ(contents.count("scale " + key + " class"), 0u) << key;
}

TEST(MissTable, WhatIsTunedIsForgottenUnderEveryNameOfItsProgram) {
  MissTable table;
  Ask(&table, {"N=1", "N=2"});
  Ask(&table, {"N=1"}, Source(1, "same program"));
  Ask(&table, {"N=1"}, Source(1, "other", "other program"));
  Ask(&table, {"N=1"}, Source(1, "scale", "program", "other class"));
  table.Tuned("earlier program", "N=1", "class");
  EXPECT_EQ(table.size(), 5);
  table.Tuned("program", "N=1", "class");
  const auto contents = Contents(table);
  EXPECT_THAT(contents, SizeIs(3));
  EXPECT_EQ(contents.count("scale N=1 class"), 0u);
  EXPECT_EQ(contents.count("same program N=1 class"), 0u);
  // Asked by an edited program it is that one's.
  Ask(&table, {"N=2"}, Source(2, "scale", "edited"));
  EXPECT_EQ(Contents(table).at("scale N=2 class").asked, 2);
  table.Tuned("program", "N=2", "class");
  EXPECT_EQ(table.size(), 3);
  table.Tuned("edited", "N=2", "class");
  EXPECT_EQ(table.size(), 2);
}

TEST(MissTable, RemovesByKernelAndClass) {
  MissTable table(4);
  const auto fill = [&table] {
    Ask(&table, {"N=1", "N=2"});
    Ask(&table, {"N=1"}, Source(1, "other"));
    Ask(&table, {"N=1"}, Source(1, "other", "program", "other class"));
  };
  fill();
  EXPECT_EQ(table.Remove("nothing", ""), 0);
  EXPECT_EQ(table.Remove("scale", ""), 2);
  EXPECT_EQ(table.size(), 2);
  EXPECT_EQ(table.Remove("other", "other class"), 1);
  fill();
  EXPECT_EQ(table.Remove("", "class"), 3);
  fill();
  Ask(&table, {"N=3"});
  EXPECT_EQ(table.not_counted(), 1);
  EXPECT_EQ(table.Remove("", ""), 4);
  EXPECT_EQ(table.size(), 0);
  EXPECT_EQ(table.not_counted(), 0);
}

// A store that is told what TakeChanges says.
struct ToldStore {
  std::map<std::string, MissRow> rows;

  static MissRow RowOf(const Miss& miss) {
    const MissedProblem& what = *miss.what;
    return {what.kernel_name,    what.problem_key,       what.class_id,        what.class_name,
            what.program_digest, what.problem,           miss.asked,           miss.match,
            miss.distance,       miss.first_asked_at_ms, miss.last_asked_at_ms};
  }
  void Write(const MissTable::Changes& changes) {
    for (const auto& what : changes.gone) rows.erase(Key(*what));
    for (const auto& present : changes.present) rows[Key(*present.miss.what)] = RowOf(present.miss);
  }
};

auto Tie(const MissRow& r) {
  return std::tie(r.kernel_name, r.problem_key, r.class_id, r.class_name, r.program_digest, r.problem, r.asked, r.match,
                  r.distance, r.first_asked_at_ms, r.last_asked_at_ms);
}

void ExpectSame(const MissTable& table, const ToldStore& store) {
  const auto contents = Contents(table);
  EXPECT_EQ(contents.size(), store.rows.size());
  for (const auto& [key, miss] : contents) {
    ASSERT_EQ(store.rows.count(key), 1u) << key;
    EXPECT_TRUE(Tie(store.rows.at(key)) == Tie(ToldStore::RowOf(miss))) << key;
  }
}

TEST(MissTable, ChangesAreWhatAStoreDoesNotKnow) {
  MissTable table;
  EXPECT_EQ(table.changed(), 0);
  Ask(&table, {"N=1", "N=2"});
  EXPECT_EQ(table.changed(), 2);
  EXPECT_THAT(table.TakeChanges().present, SizeIs(2));
  EXPECT_EQ(table.changed(), 0);
  EXPECT_THAT(table.TakeChanges().present, IsEmpty());
  Ask(&table, {"N=1"});
  table.Tuned("program", "N=2", "class");
  EXPECT_EQ(table.changed(), 2);
  MissTable::Changes changes = table.TakeChanges();
  ASSERT_THAT(changes.present, SizeIs(1));
  EXPECT_EQ(changes.present[0].miss.asked, 2);
  ASSERT_THAT(changes.gone, SizeIs(1));
  EXPECT_EQ(changes.gone[0]->problem_key, "N=2");
  // What no store has heard of need not be taken out of one.
  Ask(&table, {"N=3"});
  table.Tuned("program", "N=3", "class");
  EXPECT_EQ(table.changed(), 0);
  // What comes back before the store was told to forget it is written over.
  table.Remove("", "");
  Ask(&table, {"N=1"});
  changes = table.TakeChanges();
  EXPECT_THAT(changes.gone, IsEmpty());
  ASSERT_THAT(changes.present, SizeIs(1));
  EXPECT_EQ(changes.present[0].miss.asked, 1);
}

class MissTableAndStore : public testing::TestWithParam<uint64_t> {};

TEST_P(MissTableAndStore, AgreeWhateverHappensWhileAWriteIsUnderWayOrFails) {
  PhiloxStream random(GetParam(), 1);
  MissTable table(20);
  ToldStore store;
  int64_t now_ms = 0;
  const std::vector<std::string> programs = {"program", "edited"};
  const auto change_something = [&] {
    const std::string key = "N=" + std::to_string(random.UniformInt(30));
    const std::string& program = programs[random.UniformInt(2)];
    const uint64_t what = random.UniformInt(20);
    if (what == 0) {
      table.Remove(random.UniformInt(2) == 0 ? "scale" : "other", "");
    } else if (what < 4) {
      table.Tuned(program, key, "class");
    } else {
      Ask(&table, {key}, Source(++now_ms, random.UniformInt(4) == 0 ? "other" : "scale", program));
    }
  };
  size_t most_gone = 0;
  for (int round = 0; round < 300; ++round) {
    for (uint64_t i = random.UniformInt(40); i > 0; --i) change_something();
    const MissTable::Changes changes = table.TakeChanges();
    most_gone = std::max(most_gone, changes.gone.size());
    for (uint64_t i = random.UniformInt(10); i > 0; --i) change_something();
    if (random.UniformInt(3) == 0) {
      table.GiveBack(changes);
    } else {
      store.Write(changes);
    }
  }
  store.Write(table.TakeChanges());
  ExpectSame(table, store);
  EXPECT_LE(most_gone, 60u) << "there are 60 names";
  // And a table that is made of it is the same table.
  MissTable loaded(20);
  std::vector<MissRow> rows;
  for (const auto& [key, row] : store.rows) rows.push_back(row);
  loaded.Load(rows);
  ExpectSame(loaded, store);
  EXPECT_EQ(loaded.changed(), 0);
}

INSTANTIATE_TEST_SUITE_P(Seeds, MissTableAndStore, testing::Range(uint64_t{1}, uint64_t{9}));

TEST(MissTable, WhatAFloodLeavesToForgetIsBoundedThoughTheStoreFails) {
  MissTable table(10);
  for (int round = 0; round < 50; ++round) {
    for (int i = 0; i < 100; ++i) Ask(&table, {"N=" + std::to_string(100 * round + i)});
    const MissTable::Changes changes = table.TakeChanges();
    EXPECT_THAT(changes.gone, IsEmpty());
    Ask(&table, {"M=" + std::to_string(round)});
    table.GiveBack(changes);
  }
}

TEST(MissTable, OfALargerOneTheLatestAreLoaded) {
  std::vector<MissRow> rows;
  for (int i = 0; i < 50; ++i) {
    rows.push_back({"scale", "N=" + std::to_string(i), "class", "", "program", "", 1, 6, 0, i, 1000 - i});
  }
  MissTable table(10);
  table.Load(rows);
  const auto contents = Contents(table);
  EXPECT_THAT(contents, SizeIs(10));
  for (int i = 0; i < 10; ++i) EXPECT_EQ(contents.count("scale N=" + std::to_string(i) + " class"), 1u) << i;
  EXPECT_THAT(table.TakeChanges().gone, SizeIs(40));
}

TEST(MissTable, ManyThreadsCountEveryQuestionOnce) {
  constexpr int kThreads = 8, kRounds = 500;
  MissTable table(64);
  std::atomic<bool> is_over{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&table, t] {
      PhiloxStream random(static_cast<uint64_t>(t), 1);
      for (int round = 0; round < kRounds; ++round) {
        std::vector<std::string> keys;
        // More problems than there is room for, some of them often.
        for (int i = 0; i < 5; ++i) keys.push_back("N=" + std::to_string(random.UniformInt(i < 2 ? 20 : 200)));
        Ask(&table, keys, Source(round));
      }
    });
  }
  std::thread writer([&] {
    while (!is_over) {
      table.GiveBack(table.TakeChanges());
      for (const Miss& miss : table.Snapshot()) EXPECT_GE(miss.asked, 1);
      EXPECT_LE(table.size(), 64);
    }
  });
  for (std::thread& thread : threads) thread.join();
  is_over = true;
  writer.join();
  int64_t counted = 0;
  for (const auto& [key, miss] : Contents(table)) counted += miss.asked;
  EXPECT_EQ(counted + table.not_counted(), int64_t{kThreads} * kRounds * 5);
}

}  // namespace
}  // namespace tunefarm
