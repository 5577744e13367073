#include "server/catalog/catalog.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "server/base/file.h"
#include "server/base/file_set.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/temporary_directory.h"
#include "tests/unit/catalog/catalog_case.h"

namespace tunefarm {
namespace {

using tunefarm::v1::Match;
using CatalogTest = CatalogCase;

TEST_F(CatalogTest, ExactThenStaleByToolkit) {
  const auto plan = Plan();
  File(*plan, Problem(*plan, 1024), h200_, 64);
  EXPECT_EQ(Ask(*plan, Problem(*plan, 1024), h200_).match, tunefarm::v1::MATCH_EXACT);
  EXPECT_EQ(Ask(*plan, Problem(*plan, 1024), h200_, "13.1").match, tunefarm::v1::MATCH_STALE);
  EXPECT_EQ(Ask(*plan, Problem(*plan, 1024), h200_, "").match, tunefarm::v1::MATCH_EXACT);
  EXPECT_EQ(Ask(*plan, Problem(*plan, 1024), h200_, "13.1", tunefarm::v1::MATCH_EXACT).match,
            tunefarm::v1::MATCH_NOT_FOUND);
  EXPECT_EQ(Ask(*plan, Problem(*plan, 1024), h200_).revision, 1);
}

TEST_F(CatalogTest, StaleByHeadersThatHaveChanged) {
  const TemporaryDirectory directory;
  const std::string header = directory.File("header.h");
  ASSERT_TRUE(WriteFileAtomically(header, "one").ok());
  const FileSet files = ReadFileSet({header}, std::numeric_limits<int64_t>::max());
  FakeClock clock;
  FileSetBook book(directory.File("list"), &clock);
  book.Note(files);
  const auto plan = Plan();
  const ResolvedProblem problem = Problem(*plan, 1024);
  File(*plan, problem, h200_, 64);
  BestRow row = filed_rows_.back();
  tunefarm::v1::BestConfig best;
  ASSERT_TRUE(best.ParseFromString(row.detail));
  best.set_headers(ChecksumOf(files));
  row.detail = best.SerializeAsString();
  row.revision = ++revision_;
  ASSERT_TRUE(catalog_.Update(row).ok());

  const std::string class_id = h200_.Id();
  CatalogQuery query{plan.get(), &problem, &h200_, class_id, "", "13.0"};
  query.headers = &book;
  EXPECT_EQ(catalog_.Lookup(query).match, tunefarm::v1::MATCH_EXACT);
  ASSERT_TRUE(WriteFileAtomically(header, "two").ok());
  clock.Advance(FileSetBook::kLookIntervalMax);
  EXPECT_EQ(catalog_.Lookup(query).match, tunefarm::v1::MATCH_STALE);
  query.worst = tunefarm::v1::MATCH_EXACT;
  EXPECT_EQ(catalog_.Lookup(query).match, tunefarm::v1::MATCH_NOT_FOUND);
  query.headers = nullptr;
  EXPECT_EQ(catalog_.Lookup(query).match, tunefarm::v1::MATCH_EXACT);
}

TEST_F(CatalogTest, AnOlderProgramOfTheSameNameIsStaleSource) {
  const auto older = Plan("compile_options: \"-use_fast_math\"");
  const auto plan = Plan();
  ASSERT_NE(older->program_digest(), plan->program_digest());
  File(*older, Problem(*older, 1024), h200_, 64);
  EXPECT_EQ(Ask(*plan, Problem(*plan, 1024), h200_).match, tunefarm::v1::MATCH_STALE_SOURCE);
}

TEST_F(CatalogTest, TheNearestShapeThatTheAskedProblemAccepts) {
  const auto plan = Plan();
  File(*plan, Problem(*plan, 1056), h200_, 96);  // nearest to 1024, which 96 does not divide
  File(*plan, Problem(*plan, 4096), h200_, 64);
  File(*plan, Problem(*plan, 16384), h200_, 32);
  const CatalogAnswer answer = Ask(*plan, Problem(*plan, 1024), h200_);
  EXPECT_EQ(answer.match, tunefarm::v1::MATCH_NEAREST_SHAPE);
  EXPECT_EQ(T(answer), 64);
  EXPECT_EQ(answer.distance, 2);
  // G within its bucket is no distance; in another bucket, or with another E, nothing matches.
  EXPECT_EQ(Ask(*plan, Problem(*plan, 4096, 8), h200_).distance, 0);
  EXPECT_EQ(Ask(*plan, Problem(*plan, 4096, 9), h200_).match, tunefarm::v1::MATCH_DEFAULT);
  EXPECT_EQ(Ask(*plan, Problem(*plan, 4096, 4, 2), h200_).match, tunefarm::v1::MATCH_DEFAULT);
}

TEST_F(CatalogTest, NoShapeAnswersBeyondTheDeclaredDistance) {
  struct Case {
    const char* name;
    const char* declared;
    int64_t tuned, asked;
    Match match;
  };
  constexpr Match kNear = tunefarm::v1::MATCH_NEAREST_SHAPE, kDefault = tunefarm::v1::MATCH_DEFAULT;
  for (const Case& c : {Case{"a", "", 1024, 16384, kNear}, Case{"b", "", 1024, 16416, kDefault},
                        Case{"c", "", 8192, 512, kNear}, Case{"d", "lookup_distance_max: 1", 1024, 2048, kNear},
                        Case{"e", "lookup_distance_max: 1", 1024, 2080, kDefault},
                        Case{"f", "lookup_distance_max: 0", 1024, 1056, kDefault},
                        Case{"g", "lookup_distance_max: 12", 32, 131072, kNear}}) {
    SCOPED_TRACE(c.name);
    const auto plan = Plan(c.declared, c.name);
    File(*plan, Problem(*plan, c.tuned), h200_, 32);
    const CatalogAnswer answer = Ask(*plan, Problem(*plan, c.asked), h200_);
    EXPECT_EQ(answer.match, c.match);
    EXPECT_EQ(answer.distance, c.match == kNear ? std::abs(std::log2(static_cast<double>(c.asked) / c.tuned)) : 0);
  }
}

TEST_F(CatalogTest, AnotherClassOfTheSameCapabilityButNotOfAnother) {
  const auto plan = Plan();
  File(*plan, Problem(*plan, 1024), h100_, 64);
  EXPECT_EQ(Ask(*plan, Problem(*plan, 1024), h200_).match, tunefarm::v1::MATCH_SAME_ARCH);
  EXPECT_EQ(Ask(*plan, Problem(*plan, 1024), a100_).match, tunefarm::v1::MATCH_DEFAULT);
  // The default, T = 32, does not divide 1000.
  EXPECT_EQ(Ask(*plan, Problem(*plan, 1000), a100_).match, tunefarm::v1::MATCH_NOT_FOUND);
}

TEST_F(CatalogTest, APromotionReplacesAndPagesGoOnWhereTheyEnded) {
  const auto plan = Plan();
  for (int64_t n : {1024, 2048, 4096}) File(*plan, Problem(*plan, n), h200_, 32);
  File(*plan, Problem(*plan, 2048), h200_, 64);
  EXPECT_EQ(T(Ask(*plan, Problem(*plan, 2048), h200_)), 64);
  size_t seen = 0;
  std::string token;
  do {
    const auto page = catalog_.List("scale", 2, token);
    ASSERT_TRUE(page.ok());
    seen += page->first.size();
    token = page->second;
  } while (!token.empty());
  EXPECT_EQ(seen, 3u);
  EXPECT_FALSE(catalog_.List("", 2, "nonsense").ok());
  EXPECT_TRUE(catalog_.List("other", 2, "")->first.empty());
  File(*plan, Problem(*plan, 1024), h100_, 32);
  EXPECT_EQ(catalog_.List("scale", 10, "", "", h100_.Id())->first.size(), 1u);
  EXPECT_EQ(catalog_.List("", 10, "", "", h200_.Id())->first.size(), 3u);
  EXPECT_TRUE(catalog_.List("", 10, "", "", a100_.Id())->first.empty());
}

TEST_F(CatalogTest, TwoNamesOfOneProgramShareTheirBest) {
  const auto plan = Plan(), other = Plan("", "scale_too");
  ASSERT_EQ(plan->program_digest(), other->program_digest());
  File(*plan, Problem(*plan, 1024), h200_, 32);
  EXPECT_EQ(Ask(*other, Problem(*other, 1024), h200_).match, tunefarm::v1::MATCH_EXACT);
  File(*other, Problem(*other, 1024), h200_, 64);
  for (const auto& asked : {plan, other}) {
    const CatalogAnswer answer = Ask(*asked, Problem(*asked, 1024), h200_);
    EXPECT_EQ(answer.match, tunefarm::v1::MATCH_EXACT);
    EXPECT_EQ(T(answer), 64);
  }
  const auto found = catalog_.Find(plan->program_digest(), Problem(*plan, 1024).key, h200_.Id());
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->revision(), 2);
  const std::string class_id = h200_.Id();
  const Catalog::View view = catalog_.Read(plan->program_digest(), class_id);
  EXPECT_EQ(view.revision(), 2);
  const CatalogEntry* const entry = view.Find(Problem(*plan, 1024).key);
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(entry->best, found);
  EXPECT_EQ(entry->kernel_name, "scale_too");
  File(*plan, Problem(*plan, 1024), h200_, 96);
  EXPECT_EQ(view.Find(Problem(*plan, 1024).key), entry);
  File(*other, Problem(*other, 1024), h200_, 64);
  // As the database has it, and so after a restart.
  EXPECT_TRUE(catalog_.List("scale", 10, "")->first.empty());
  EXPECT_EQ(catalog_.List("", 10, "")->first.size(), 1u);
}

TEST_F(CatalogTest, WhatIsRemovedAnswersNoQuestion) {
  const auto plan = Plan();
  File(*plan, Problem(*plan, 1024), h200_, 64);
  File(*plan, Problem(*plan, 4096), h200_, 32);
  ASSERT_EQ(Ask(*plan, Problem(*plan, 2048), h200_).match, tunefarm::v1::MATCH_NEAREST_SHAPE);  // there is an index
  catalog_.Remove(Key(*plan, Problem(*plan, 1024), h200_), ++revision_);
  EXPECT_EQ(catalog_.revision(), 3);
  EXPECT_EQ(catalog_.Find(plan->program_digest(), Problem(*plan, 1024).key, h200_.Id()), nullptr);
  const CatalogAnswer near = Ask(*plan, Problem(*plan, 1024), h200_);
  EXPECT_EQ(near.match, tunefarm::v1::MATCH_NEAREST_SHAPE);
  EXPECT_EQ(T(near), 32);
  EXPECT_EQ(Ask(*plan, Problem(*plan, 1024), h100_).match, tunefarm::v1::MATCH_DEFAULT) << "nor on another class";
  EXPECT_EQ(catalog_.List("", 10, "")->first.size(), 1u);
  // What is not there changes nothing, and neither does what is older than what is there.
  catalog_.Remove(Key(*plan, Problem(*plan, 1024), h200_), 9);
  catalog_.Remove(Key(*plan, Problem(*plan, 4096), h200_), 2);
  EXPECT_EQ(catalog_.revision(), 3);
  catalog_.Remove(Key(*plan, Problem(*plan, 4096), h200_), ++revision_);
  EXPECT_EQ(Ask(*plan, Problem(*plan, 1024), h200_).match, tunefarm::v1::MATCH_DEFAULT);
  EXPECT_TRUE(catalog_.List("", 10, "")->first.empty());
  File(*plan, Problem(*plan, 1024), h200_, 64);
  EXPECT_EQ(Ask(*plan, Problem(*plan, 1024), h200_).match, tunefarm::v1::MATCH_EXACT);
}

TEST_F(CatalogTest, CountsOtherProgramsOfTheProblem) {
  const auto plan = Plan(), other = Plan("compile_options: '-DA'"), third = Plan("compile_options: '-DB'");
  const auto count = [&](const KernelPlan& asked, int64_t n) {
    const ResolvedProblem problem = Problem(asked, n);
    const std::string class_id = h200_.Id();
    CatalogQuery query;
    query.plan = &asked;
    query.problem = &problem;
    query.device_class = &h200_;
    query.class_id = class_id;
    return catalog_.CountOtherPrograms(query);
  };
  EXPECT_EQ(count(*plan, 1024), 0);
  File(*plan, Problem(*plan, 1024), h200_, 32);
  EXPECT_EQ(count(*plan, 1024), 0) << "its own is no other one";
  EXPECT_EQ(count(*third, 1024), 1) << "of a program that has none itself";
  File(*other, Problem(*other, 1024), h200_, 64);
  File(*other, Problem(*other, 1024), h200_, 32);  // the same again
  File(*other, Problem(*other, 2048), h200_, 64);
  File(*other, Problem(*other, 1024), h100_, 64);
  EXPECT_EQ(count(*plan, 1024), 1);
  EXPECT_EQ(count(*plan, 2048), 1);
  EXPECT_EQ(count(*plan, 4096), 0);
  EXPECT_EQ(count(*third, 1024), 2);
  catalog_.Remove(Key(*other, Problem(*other, 1024), h200_), ++revision_);
  EXPECT_EQ(count(*plan, 1024), 0);
  EXPECT_EQ(count(*plan, 2048), 1) << "the other program still has this one";
  catalog_.Remove(Key(*other, Problem(*other, 2048), h200_), ++revision_);
  catalog_.Remove(Key(*other, Problem(*other, 1024), h100_), ++revision_);
  EXPECT_EQ(count(*third, 1024), 1);
  EXPECT_EQ(count(*plan, 1024), 0);
}

TEST(ConditionsOf, DifferWhereDriverToolkitOrHeadersDo) {
  tunefarm::v1::BestConfig best;
  best.set_driver_version("550");
  best.set_toolkit_version("13.1");
  best.set_headers(7);
  const uint64_t before = ConditionsOf(best);
  tunefarm::v1::BestConfig other = best;
  other.set_note("tuned again");
  EXPECT_EQ(ConditionsOf(other), before);
  other.set_driver_version("551");
  EXPECT_NE(ConditionsOf(other), before);
  other = best;
  other.set_toolkit_version("13.2");
  EXPECT_NE(ConditionsOf(other), before);
  other = best;
  other.set_headers(8);
  EXPECT_NE(ConditionsOf(other), before);
}

TEST_F(CatalogTest, ChangesSinceARevision) {
  const auto plan = Plan(), other = Plan("", "scale_too");
  const auto shapes = [](const CatalogChanges& changes) {
    std::vector<int64_t> sizes;
    for (const auto& best : changes.bests) sizes.push_back(best->problem().dims().at("N").int_value());
    return sizes;
  };
  for (int64_t n : {1024, 2048, 4096}) File(*plan, Problem(*plan, n), h200_, 32);
  File(*plan, Problem(*plan, 1024), h200_, 64);
  catalog_.Remove(Key(*plan, Problem(*plan, 4096), h200_), ++revision_);
  EXPECT_EQ(shapes(catalog_.ChangesSince(1, "")), (std::vector<int64_t>{2048, 1024}));
  EXPECT_EQ(catalog_.ChangesSince(1, "").revision, 5);
  ASSERT_EQ(catalog_.ChangesSince(4, "").removed.size(), 1u);
  EXPECT_EQ(catalog_.ChangesSince(4, "").removed[0].problem_key, Problem(*plan, 4096).key);
  EXPECT_TRUE(catalog_.ChangesSince(5, "").removed.empty());
  EXPECT_TRUE(catalog_.ChangesSince(0, "").removed.empty()) << "who has nothing need not remove anything";
  File(*plan, Problem(*plan, 4096), h200_, 32);
  EXPECT_TRUE(catalog_.ChangesSince(4, "").removed.empty()) << "it is there again";
  EXPECT_EQ(shapes(catalog_.ChangesSince(4, "")), (std::vector<int64_t>{4096}));
  // The other name of the program takes over: gone from one, there in all.
  File(*other, Problem(*other, 2048), h200_, 32);
  EXPECT_EQ(catalog_.ChangesSince(6, "scale").removed.size(), 1u);
  EXPECT_TRUE(catalog_.ChangesSince(6, "scale_too").removed.empty());
  EXPECT_TRUE(catalog_.ChangesSince(6, "").removed.empty());
  EXPECT_EQ(shapes(catalog_.ChangesSince(6, "")), (std::vector<int64_t>{2048}));
  EXPECT_TRUE(catalog_.ChangesSince(6, "scale").bests.empty());
}

TEST_F(CatalogTest, ChangesOfLongAgoAreFoundToo) {
  const auto plan = Plan();
  constexpr int kShapes = 400, kRounds = 2;
  for (int round = 0; round < kRounds; ++round) {
    for (int i = 0; i < kShapes; ++i) File(*plan, Problem(*plan, 1024 + 32 * i), h200_, 32);
  }
  for (const int64_t since : {0, 100, 401, 600, 700, 799, 800}) {
    SCOPED_TRACE(since);
    const CatalogChanges changes = catalog_.ChangesSince(since, "scale");
    EXPECT_EQ(changes.bests.size(), static_cast<size_t>(std::min<int64_t>(kShapes, kShapes * kRounds - since)));
    for (const auto& best : changes.bests) EXPECT_GT(best->revision(), since);
  }
}

TEST_F(CatalogTest, ReadersGoOnWhileBestsArePromoted) {
  const auto plan = Plan();
  constexpr int kPromotions = 200, kReaders = 3;
  File(*plan, Problem(*plan, 1024), h200_, 32);
  std::atomic<bool> is_over{false};
  std::vector<std::thread> readers;
  for (int reader = 0; reader < kReaders; ++reader) {
    readers.emplace_back([&, reader] {
      const DeviceClass& device_class = reader == 0 ? h100_ : h200_;
      int64_t last = 0;
      for (int64_t n = 1024; !is_over; n = 1024 + (n + 32) % 8192) {
        const CatalogAnswer answer = Ask(*plan, Problem(*plan, n), device_class);
        // The first best is there all the time, and what was seen once is not unseen.
        EXPECT_NE(answer.match, tunefarm::v1::MATCH_NOT_FOUND);
        if (reader > 0) {
          EXPECT_LE(answer.match, tunefarm::v1::MATCH_NEAREST_SHAPE);
        }
        EXPECT_GE(answer.revision, last);
        last = answer.revision;
        EXPECT_TRUE(catalog_.List("", 3, "").ok());
      }
    });
  }
  for (int i = 1; i <= kPromotions; ++i) File(*plan, Problem(*plan, 1024 + 32 * (i % 100)), h200_, 32);
  is_over = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(catalog_.revision(), kPromotions + 1);
  EXPECT_EQ(catalog_.List("", 1000, "")->first.size(), 100u);
}

}  // namespace
}  // namespace tunefarm
