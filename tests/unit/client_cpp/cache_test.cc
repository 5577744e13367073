// The cache while the daemon is well: what answers, what is asked, what follows from changes.
#include <gtest/gtest.h>

#include "tests/fakes/temporary_directory.h"
#include "tests/unit/client_cpp/fake_daemon.h"

namespace tunefarm::client {
namespace {

constexpr std::chrono::seconds kLong(60);

class CacheTest : public testing::Test {
 protected:
  CacheTest() : daemon_(&catalog_, directory_.File("s")) { daemon_.Start(); }

  Client Open(const ClientOptions& options) {
    auto client = Client::Open(options);
    EXPECT_TRUE(client.ok()) << client.status().ToText();
    return *std::move(client);
  }
  static int64_t Tile(const Result<TimedAnswer>& result) {
    EXPECT_TRUE(result.ok()) << result.status().ToText();
    return result.ok() ? result->answer->config.Int("TILE", -1) : -1;
  }

  TemporaryDirectory directory_;
  FakeCatalog catalog_;
  FakeDaemon daemon_;
};

TEST_F(CacheTest, ExactAnswersComeFromTheStream) {
  const int64_t revision = catalog_.Put(MakeBest(64, 32, 5));
  Client client = Open(QuickOptions(daemon_));
  const Question question = *client.Prepare(MatmulSpec());
  ASSERT_TRUE(question.WaitForRevision(revision, kLong).ok());
  Reader reader = question.NewReader();
  const Answer* const found = reader.Find({64, 32});
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->match, Match::kExact);
  EXPECT_EQ(found->source, Source::kCatalog);
  EXPECT_EQ(found->config.ToText(), "TILE=5");
  EXPECT_EQ(found->problem, "M=64,N=32,dtype=bf16");
  EXPECT_EQ(found->median_ns, 1005);
  EXPECT_EQ(found->revision, revision);
  EXPECT_GE(reader.Age().count(), 0);
  const auto looked_up = question.Lookup({64, 32});
  EXPECT_EQ(Tile(looked_up), 5);
  EXPECT_EQ(daemon_.lookups(), 0);
  const CacheState state = question.state();
  EXPECT_TRUE(state.is_live);
  EXPECT_EQ(state.bests, 1u);
  EXPECT_GT(state.bytes, 0u);
  EXPECT_GE(state.since_heard.count(), 0);
}

TEST_F(CacheTest, ChangesArriveAndGo) {
  Client client = Open(QuickOptions(daemon_));
  const Question question = *client.Prepare(MatmulSpec());
  Reader reader = question.NewReader();
  ASSERT_TRUE(question.WaitForRevision(catalog_.Put(MakeBest(64, 32, 5)), kLong).ok());
  EXPECT_EQ(reader.Find({64, 32})->config.Int("TILE"), 5);
  ASSERT_TRUE(question.WaitForRevision(catalog_.Put(MakeBest(64, 32, 6)), kLong).ok());
  EXPECT_EQ(reader.Find({64, 32})->config.Int("TILE"), 6);
  ASSERT_TRUE(question.WaitForRevision(catalog_.Retire(MakeBest(64, 32, 6)), kLong).ok());
  const auto answer = question.Lookup({64, 32});
  EXPECT_EQ(answer->answer->match, Match::kDefault);
}

TEST_F(CacheTest, WhatIsNotThisQuestionsDoesNotAnswer) {
  catalog_.Put(MakeBest(64, 32, 1, "program-0"));
  catalog_.Put(MakeBest(64, 32, 2, kProgram, "another-class"));
  v1::BestConfig seeded = MakeBest(64, 32, 3);
  seeded.mutable_problem()->add_input_seeds(2);
  seeded.mutable_problem()->set_key("M=64,N=32,dtype=bf16|seeds=2");
  catalog_.Put(seeded);
  v1::BestConfig of_other_type = MakeBest(64, 32, 4);
  (*of_other_type.mutable_problem()->mutable_dims())["dtype"].set_string_value("f32");
  of_other_type.mutable_problem()->set_key("M=64,N=32,dtype=f32");
  const int64_t revision = catalog_.Put(of_other_type);
  Client client = Open(QuickOptions(daemon_));
  const Question question = *client.Prepare(MatmulSpec());
  ASSERT_TRUE(question.WaitForRevision(revision, kLong).ok());
  EXPECT_EQ(question.state().bests, 4u);
  Reader reader = question.NewReader();
  EXPECT_EQ(reader.Find({64, 32}), nullptr);
}

TEST_F(CacheTest, DimsLeftOutTakeTheirDefaults) {
  const int64_t revision = catalog_.Put(MakeBest(64, 8, 5));
  Client client = Open(QuickOptions(daemon_));
  QuestionSpec spec = MatmulSpec();
  spec.varying_dims = {"M"};
  const Question question = *client.Prepare(spec);
  ASSERT_TRUE(question.WaitForRevision(revision, kLong).ok());
  EXPECT_EQ(Tile(question.Lookup({64})), 5);
  EXPECT_EQ(daemon_.lookups(), 0);
}

TEST_F(CacheTest, KernelsByIdAreFollowedByTheirName) {
  const int64_t revision = catalog_.Put(MakeBest(64, 32, 5));
  Client client = Open(QuickOptions(daemon_));
  QuestionSpec spec = MatmulSpec();
  spec.kernel = "kernels/k1";
  const Question question = *client.Prepare(spec);
  ASSERT_TRUE(question.WaitForRevision(revision, kLong).ok());
  EXPECT_EQ(Tile(question.Lookup({64, 32})), 5);
  EXPECT_EQ(daemon_.lookups(), 0);
}

TEST_F(CacheTest, AnotherToolkitMakesAnswersStale) {
  const int64_t revision = catalog_.Put(MakeBest(64, 32, 5));
  {
    MutexLock lock(&catalog_.mutex);
    catalog_.toolkit = "13.1";
  }
  Client client = Open(QuickOptions(daemon_));
  const Question question = *client.Prepare(MatmulSpec());
  QuestionSpec strict = MatmulSpec();
  strict.worst_match = Match::kExact;
  const Question strict_question = *client.Prepare(strict);
  ASSERT_TRUE(question.WaitForRevision(revision, kLong).ok());
  ASSERT_TRUE(strict_question.WaitForRevision(revision, kLong).ok());
  EXPECT_EQ(question.NewReader().Find({64, 32})->match, Match::kStale);
  EXPECT_EQ(strict_question.NewReader().Find({64, 32}), nullptr);
}

TEST_F(CacheTest, OtherAnswersAreAskedOnceAndAgainAfterAChange) {
  catalog_.Put(MakeBest(64, 32, 5));
  Client client = Open(QuickOptions(daemon_));
  const Question question = *client.Prepare(MatmulSpec());
  ASSERT_TRUE(question.WaitForRevision(0, kLong).ok());
  const auto first = question.Lookup({70, 32});
  EXPECT_EQ(Tile(first), 5);
  EXPECT_EQ(first->answer->match, Match::kNearestShape);
  EXPECT_EQ(first->answer->distance, 6);
  const int lookups = daemon_.lookups();
  EXPECT_EQ(Tile(question.Lookup({70, 32})), 5);
  Reader reader = question.NewReader();
  EXPECT_EQ(reader.Find({70, 32})->config.Int("TILE"), 5);
  EXPECT_EQ(daemon_.lookups(), lookups);
  // A nearer one: nobody asks, and the answer changes all the same.
  catalog_.Put(MakeBest(71, 32, 6));
  EXPECT_TRUE(Eventually([&] { return reader.Find({70, 32})->config.Int("TILE") == 6; }));
  // And an exact one takes its place.
  ASSERT_TRUE(question.WaitForRevision(catalog_.Put(MakeBest(70, 32, 7)), kLong).ok());
  EXPECT_EQ(reader.Find({70, 32})->match, Match::kExact);
}

TEST_F(CacheTest, AReaderThatFindsNothingHasItAskedFor) {
  catalog_.Put(MakeBest(64, 32, 5));
  Client client = Open(QuickOptions(daemon_));
  const Question question = *client.Prepare(MatmulSpec());
  ASSERT_TRUE(question.WaitForRevision(0, kLong).ok());
  Reader reader = question.NewReader();
  EXPECT_TRUE(Eventually([&] { return reader.Find({65, 32}) != nullptr; }));
  EXPECT_EQ(reader.Find({65, 32})->match, Match::kNearestShape);
  EXPECT_EQ(daemon_.lookups(), 1);
}

TEST_F(CacheTest, RefreshAsksTheDaemonItself) {
  catalog_.Put(MakeBest(64, 32, 5));
  Client client = Open(QuickOptions(daemon_));
  const Question question = *client.Prepare(MatmulSpec());
  ASSERT_TRUE(question.WaitForRevision(0, kLong).ok());
  LookupOptions refresh;
  refresh.refresh = true;
  const auto answer = question.Lookup({64, 32}, refresh);
  EXPECT_EQ(answer->answer->source, Source::kDaemon);
  EXPECT_EQ(answer->age.count(), 0);
  EXPECT_EQ(daemon_.lookups(), 1);
}

TEST_F(CacheTest, CallbacksComeOnce) {
  catalog_.Put(MakeBest(64, 32, 5));
  Client client = Open(QuickOptions(daemon_));
  const Question question = *client.Prepare(MatmulSpec());
  for (int i = 0; i < 2; ++i) {  // asked, then cached
    Notification done;
    question.LookupAsync({66, 32}, {}, [&](Result<TimedAnswer> result) {
      EXPECT_EQ(Tile(result), 5);
      done.Notify();  // at most once, or it aborts
    });
    done.WaitForNotification();
  }
}

TEST_F(CacheTest, ANewProgramIsNoticedWhenItIsTuned) {
  Client client = Open(QuickOptions(daemon_));
  const Question question = *client.Prepare(MatmulSpec());
  ASSERT_TRUE(question.WaitForRevision(catalog_.Put(MakeBest(64, 32, 5)), kLong).ok());
  catalog_.SetProgram("program-2");
  catalog_.Put(MakeBest(64, 32, 6, "program-2"));
  Reader reader = question.NewReader();
  EXPECT_TRUE(Eventually([&] {
    const Answer* const found = reader.Find({64, 32});
    return found != nullptr && found->config.Int("TILE") == 6 && found->match == Match::kExact;
  }));
}

TEST_F(CacheTest, ADefinitionIsAskedForByItsDigest) {
  catalog_.Put(MakeBest(64, 32, 5));
  catalog_.Put(MakeBest(64, 8, 9, "program-0"));
  const int64_t revision = catalog_.Put(MakeBest(64, 32, 6, "program-0"));
  Client client = Open(QuickOptions(daemon_));
  QuestionSpec spec = MatmulSpec();
  spec.program_digest = "program-0";
  const Question older = *client.Prepare(spec);
  spec.program_digest = kProgram;
  const Question newest = *client.Prepare(spec);
  ASSERT_TRUE(older.WaitForRevision(revision, kLong).ok());
  ASSERT_TRUE(newest.WaitForRevision(revision, kLong).ok());
  const auto found = older.Lookup({64, 32});
  EXPECT_EQ(Tile(found), 6);
  EXPECT_EQ(found->answer->match, Match::kExact);
  EXPECT_EQ(found->answer->program_digest, "program-0");
  EXPECT_EQ(Tile(newest.Lookup({64, 32})), 5);
  EXPECT_EQ(daemon_.lookups(), 0);

  // Which default a dim has in a definition that is not the newest one is known to the daemon alone.
  spec.program_digest = "program-0";
  spec.varying_dims = {"M"};
  EXPECT_EQ(Tile(client.Prepare(spec)->Lookup({64})), 9);
  EXPECT_EQ(daemon_.lookups(), 1);

  // Another newest definition changes nothing for those who named theirs.
  catalog_.SetProgram("program-2");
  const Question unnamed = *client.Prepare(MatmulSpec());
  const int64_t later = catalog_.Put(MakeBest(64, 32, 7, "program-2"));
  EXPECT_TRUE(Eventually([&] { return Tile(unnamed.Lookup({64, 32})) == 7; }));
  ASSERT_TRUE(newest.WaitForRevision(later, kLong).ok());
  const auto kept = newest.Lookup({64, 32});
  EXPECT_EQ(Tile(kept), 5);
  EXPECT_EQ(kept->answer->match, Match::kExact);
}

TEST_F(CacheTest, ADefinitionThatNobodyTunedHasNoExactAnswer) {
  const int64_t revision = catalog_.Put(MakeBest(64, 32, 5));
  Client client = Open(QuickOptions(daemon_));
  QuestionSpec spec = MatmulSpec();
  spec.program_digest = "edited";
  const Question edited = *client.Prepare(spec);
  ASSERT_TRUE(edited.WaitForRevision(revision, kLong).ok());
  const auto answer = edited.Lookup({64, 32});
  EXPECT_EQ(Tile(answer), 5);
  EXPECT_EQ(answer->answer->match, Match::kStaleSource);
  EXPECT_EQ(edited.NewReader().Find({64, 32})->match, Match::kStaleSource) << "and it is cached so";
  spec.worst_match = Match::kStale;
  EXPECT_EQ(client.Prepare(spec)->Lookup({64, 32})->answer->match, Match::kNotFound);
  // Once it is tuned, its own best answers.
  ASSERT_TRUE(edited.WaitForRevision(catalog_.Put(MakeBest(64, 32, 8, "edited")), kLong).ok());
  EXPECT_EQ(edited.NewReader().Find({64, 32})->config.Int("TILE"), 8);
  EXPECT_EQ(edited.NewReader().Find({64, 32})->match, Match::kExact);
  spec.program_digest = std::string(129, 'a');
  EXPECT_EQ(client.Prepare(spec).status().reason, "QUESTION_INVALID");
}

TEST_F(CacheTest, TheDaemonsRefusalsAreErrors) {
  Client client = Open(QuickOptions(daemon_));
  QuestionSpec spec = MatmulSpec();
  spec.kernel = "matmull";
  const Question question = *client.Prepare(spec);
  const auto answer = question.Lookup({1, 1});
  EXPECT_EQ(answer.status().code, Code::kNotFound);
  EXPECT_EQ(answer.status().reason, "KERNEL_NOT_FOUND");
  EXPECT_EQ(question.Lookup({1}).status().reason, "VALUE_COUNT");
  EXPECT_EQ(question.NewReader().Find({1}), nullptr);
}

TEST_F(CacheTest, TheCacheStaysWithinItsBounds) {
  int64_t revision = 0;
  for (int i = 1; i <= 10; ++i) revision = catalog_.Put(MakeBest(i, 32, i));
  ClientOptions options = QuickOptions(daemon_);
  options.cached_bests_max = 4;
  options.cached_answers_max = 2;
  Client client = Open(options);
  const Question question = *client.Prepare(MatmulSpec());
  ASSERT_TRUE(question.WaitForRevision(revision, kLong).ok());
  EXPECT_EQ(question.state().bests, 4u);
  EXPECT_EQ(question.state().left_out, 6u);
  // Right all the same, and the oldest of what was asked is forgotten.
  for (int i = 1; i <= 10; ++i) EXPECT_EQ(Tile(question.Lookup({i, 32})), i);
  const int lookups = daemon_.lookups();
  EXPECT_EQ(lookups, 6);
  for (int i = 1; i <= 10; ++i) EXPECT_EQ(Tile(question.Lookup({i, 32})), i);
  EXPECT_GT(daemon_.lookups(), lookups);
}

TEST_F(CacheTest, QuestionsAreCheckedAndCounted) {
  ClientOptions options = QuickOptions(daemon_);
  options.questions_max = 2;
  Client client = Open(options);
  QuestionSpec spec = MatmulSpec();
  spec.varying_dims = {"M", "M"};
  EXPECT_EQ(client.Prepare(spec).status().reason, "QUESTION_INVALID");
  spec.varying_dims = {"M", "dtype"};
  EXPECT_EQ(client.Prepare(spec).status().reason, "QUESTION_INVALID");
  spec.varying_dims = {};
  spec.kernel = "";
  EXPECT_EQ(client.Prepare(spec).status().reason, "QUESTION_INVALID");
  const auto first = client.Prepare(MatmulSpec());
  EXPECT_TRUE(client.Prepare(MatmulSpec()).ok());  // the same one
  spec.kernel = "a";
  {
    const auto second = client.Prepare(spec);
    EXPECT_TRUE(second.ok());
    spec.kernel = "b";
    EXPECT_EQ(client.Prepare(spec).status().reason, "QUESTIONS_MAX");
  }
  // The executor may still hold the one that nobody else has.
  EXPECT_TRUE(Eventually([&] { return client.Prepare(spec).ok(); }));
}

TEST_F(CacheTest, AClosedClientGoesOnFindingWhatItHas) {
  const int64_t revision = catalog_.Put(MakeBest(64, 32, 5));
  Client client = Open(QuickOptions(daemon_));
  const Question question = *client.Prepare(MatmulSpec());
  ASSERT_TRUE(question.WaitForRevision(revision, kLong).ok());
  client.Close();
  EXPECT_EQ(Tile(question.Lookup({64, 32})), 5);
  EXPECT_EQ(question.NewReader().Find({64, 32})->config.Int("TILE"), 5);
  EXPECT_EQ(question.Lookup({65, 32}).status().code, Code::kCancelled);
  EXPECT_EQ(client.Prepare(MatmulSpec()).status().code, Code::kCancelled);
  EXPECT_EQ(client.GetJob("jobs/1").status().code, Code::kCancelled);
}

TEST_F(CacheTest, BadOptionsAreRefused) {
  ClientOptions options = QuickOptions(daemon_);
  options.silence_max = std::chrono::milliseconds(0);
  EXPECT_EQ(Client::Open(options).status().reason, "OPTIONS_INVALID");
}

}  // namespace
}  // namespace tunefarm::client
