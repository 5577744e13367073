// A client without a daemon: a snapshot file and compiled-in defaults.
#include <gtest/gtest.h>

#include "client/cpp/snapshot/snapshot_writer.h"
#include "server/base/file.h"
#include "tests/fakes/temporary_directory.h"
#include "tunefarm/client/client.h"

namespace tunefarm::client {
namespace {

snapshot::Best MakeBest(int64_t m, const std::string& device, int64_t tile, const std::string& dtype = "bf16") {
  snapshot::Best best;
  best.class_id = device + "-class";
  best.class_name = device;
  best.dims = {{"M", m}, {"dtype", dtype}};
  best.problem = "M=" + std::to_string(m) + ",dtype=" + dtype;
  best.config = {{"TILE", tile}};
  best.median_ns = 100;
  best.revision = 3;
  return best;
}

class OfflineTest : public testing::Test {
 protected:
  OfflineTest() {
    snapshot::Best pinned = MakeBest(3, "H200", 9);
    pinned.problem += "|pinned:TILE=9";
    snapshot::Contents contents;
    contents.revision = 12;
    contents.kernels = {
        {"matmul",
         "id-1",
         "program-1",
         {{"M", {}}, {"dtype", std::string("bf16")}},
         {MakeBest(1, "H200", 1), MakeBest(2, "H200", 2), MakeBest(1, "H200", 7, "f32"), pinned}},
        {"both", "id-2", "program-2", {{"M", {}}, {"dtype", {}}}, {MakeBest(1, "H200", 1), MakeBest(1, "T4", 4)}}};
    EXPECT_TRUE(WriteFileAtomically(directory_.File("snapshot"), *snapshot::Encode(contents)).ok());
    options_.snapshot = directory_.File("snapshot");
  }

  static QuestionSpec Spec(const std::string& kernel, const std::string& device) {
    QuestionSpec spec;
    spec.kernel = kernel;
    spec.varying_dims = {"M"};
    spec.device = device;
    return spec;
  }

  TemporaryDirectory directory_;
  ClientOptions options_;
};

TEST_F(OfflineTest, ExactAnswersComeFromTheFile) {
  const auto client = Client::Open(options_);
  ASSERT_TRUE(client.ok()) << client.status().ToText();
  const auto question = client->Prepare(Spec("matmul", ""));
  ASSERT_TRUE(question.ok()) << question.status().ToText();
  EXPECT_TRUE(question->WaitForRevision(12, std::chrono::milliseconds(1)).ok());
  Reader reader = question->NewReader();
  ASSERT_NE(reader.Find({2}), nullptr);  // dtype takes its default
  EXPECT_EQ(reader.Find({2})->config.Int("TILE"), 2);
  EXPECT_EQ(reader.Find({2})->match, Match::kExact);
  EXPECT_EQ(reader.Find({2})->source, Source::kSnapshot);
  EXPECT_EQ(reader.Find({2})->device_class_name, "H200");
  EXPECT_EQ(reader.Age().count(), 0);
  EXPECT_EQ(reader.Find({3}), nullptr);  // pinned: another problem
  EXPECT_EQ(question->Lookup({1})->answer->config.Int("TILE"), 1);
  EXPECT_EQ(question->Lookup({3})->answer->match, Match::kNotFound);
  QuestionSpec floats = Spec("kernels/id-1", "h200");
  floats.fixed_dims = {{"dtype", "f32"}};
  EXPECT_EQ(client->Prepare(floats)->Lookup({1})->answer->config.Int("TILE"), 7);
}

// As the daemon answers: the very problem, else the default inputs, else the newest.
TEST_F(OfflineTest, InputsNeverHaveToMatch) {
  const auto drawn = [](int64_t m, const std::string& draw, int64_t tile, int64_t revision) {
    snapshot::Best best = MakeBest(m, "H200", tile);
    best.dims.insert(best.dims.begin() + 1, {"draw", draw});
    best.problem = "M=" + std::to_string(m) + ",draw=" + draw + ",dtype=bf16";
    best.revision = revision;
    return best;
  };
  snapshot::Contents contents;
  contents.kernels = {{"moe",
                       "id-3",
                       "program-3",
                       {{"M", {}}, {"draw", std::string("even")}, {"dtype", std::string("bf16")}},
                       {drawn(1, "even", 1, 3), drawn(1, "skew", 2, 4), drawn(2, "skew", 3, 5), drawn(2, "none", 4, 6)},
                       0b010}};
  ASSERT_TRUE(WriteFileAtomically(directory_.File("drawn"), *snapshot::Encode(contents)).ok());
  options_.snapshot = directory_.File("drawn");
  const auto client = Client::Open(options_);
  ASSERT_TRUE(client.ok()) << client.status().ToText();
  const auto expect = [&](const std::string& draw, int64_t m, Match match, int64_t tile) {
    SCOPED_TRACE(draw + " " + std::to_string(m));
    QuestionSpec spec = Spec("moe", "");
    if (!draw.empty()) spec.fixed_dims = {{"draw", draw}};
    const auto found = client->Prepare(spec)->Lookup({m});
    ASSERT_TRUE(found.ok()) << found.status().ToText();
    EXPECT_EQ(found->answer->match, match);
    EXPECT_EQ(found->answer->config.Int("TILE"), tile);
    EXPECT_EQ(found->answer->distance, 0);
  };
  expect("", 1, Match::kExact, 1);
  expect("skew", 1, Match::kExact, 2);
  expect("none", 1, Match::kNearestShape, 1);
  expect("", 2, Match::kNearestShape, 4);
  expect("skew", 2, Match::kExact, 3);
  QuestionSpec exact = Spec("moe", "");
  exact.worst_match = Match::kExact;
  EXPECT_EQ(client->Prepare(exact)->Lookup({2})->answer->match, Match::kNotFound);
  // A dim that is not marked so must match.
  contents.kernels[0].inputs_only = 0;
  ASSERT_TRUE(WriteFileAtomically(directory_.File("plain"), *snapshot::Encode(contents)).ok());
  options_.snapshot = directory_.File("plain");
  const auto plain = Client::Open(options_);
  ASSERT_TRUE(plain.ok()) << plain.status().ToText();
  EXPECT_EQ(plain->Prepare(Spec("moe", ""))->Lookup({2})->answer->match, Match::kNotFound);
}

TEST_F(OfflineTest, DevicesAreNamedByIdOrName) {
  const auto client = Client::Open(options_);
  QuestionSpec spec = Spec("both", "T4");
  spec.fixed_dims = {{"dtype", "bf16"}};
  EXPECT_EQ(client->Prepare(spec)->Lookup({1})->answer->config.Int("TILE"), 4);
  spec.device = "H200-class";
  EXPECT_EQ(client->Prepare(spec)->Lookup({1})->answer->config.Int("TILE"), 1);
  spec.device = "";
  EXPECT_EQ(client->Prepare(spec).status().reason, "DEVICE_AMBIGUOUS");
  spec.device = "A100";
  EXPECT_EQ(client->Prepare(spec).status().reason, "DEVICE_NOT_FOUND");
  EXPECT_EQ(client->Prepare(Spec("none", "")).status().reason, "KERNEL_NOT_FOUND");
}

TEST_F(OfflineTest, AnotherDefinitionDoesNotAnswer) {
  static constexpr DefaultValue kConfig[] = {{"TILE", 99}};
  static constexpr DefaultConfig kDefaults[] = {{"matmul", "", {}, kConfig}};
  QuestionSpec spec = Spec("matmul", "");
  spec.program_digest = "program-1";
  QuestionSpec edited = spec;
  edited.program_digest = "edited";
  const auto client = Client::Open(options_);
  const auto answer = client->Prepare(spec)->Lookup({1});
  EXPECT_EQ(answer->answer->config.Int("TILE"), 1);
  EXPECT_EQ(answer->answer->match, Match::kExact);
  EXPECT_EQ(answer->answer->program_digest, "program-1");
  const auto refused = client->Prepare(edited);
  EXPECT_EQ(refused.status().code, Code::kNotFound);
  EXPECT_EQ(refused.status().reason, "KERNEL_NOT_FOUND");
  EXPECT_NE(refused.status().message.find("edited: that of program-1"), std::string::npos) << refused.status().message;
  edited.kernel = "kernels/id-1";
  EXPECT_EQ(client->Prepare(edited).status().reason, "KERNEL_NOT_FOUND");
  edited.kernel = "matmul";
  options_.defaults.push_back(kDefaults);
  const auto with_default = Client::Open(options_);
  EXPECT_EQ(with_default->Prepare(edited)->Lookup({1})->answer->match, Match::kDefault);
}

TEST_F(OfflineTest, DefaultsAnswerWhereTheFileDoesNot) {
  static constexpr DefaultValue kConfig[] = {{"TILE", 99}};
  static constexpr DefaultConfig kDefaults[] = {{"matmul", "", {}, kConfig}, {"none", "", {}, kConfig}};
  options_.defaults.push_back(kDefaults);
  const auto client = Client::Open(options_);
  const auto question = client->Prepare(Spec("matmul", "H200"));
  EXPECT_EQ(question->Lookup({1})->answer->config.Int("TILE"), 1);
  EXPECT_EQ(question->Lookup({50})->answer->match, Match::kDefault);
  EXPECT_EQ(question->NewReader().Find({50})->config.Int("TILE"), 99);
  EXPECT_EQ(client->Prepare(Spec("none", "A100"))->Lookup({1})->answer->config.Int("TILE"), 99);
}

TEST_F(OfflineTest, ThereIsNoDaemon) {
  const auto client = Client::Open(options_);
  EXPECT_EQ(client->address(), "");
  EXPECT_EQ(client->GetJob("jobs/1").status().reason, "OFFLINE");
  EXPECT_EQ(client->WaitForJob("jobs/1").status().reason, "OFFLINE");
}

TEST_F(OfflineTest, DamagedAndMissingFilesAreErrors) {
  std::string bytes = *ReadFile(options_.snapshot, 1 << 20);
  bytes[bytes.size() / 2] ^= 1;
  ASSERT_TRUE(WriteFileAtomically(options_.snapshot, bytes).ok());
  EXPECT_EQ(Client::Open(options_).status().code, Code::kDataLoss);
  EXPECT_EQ(Client::Open(options_).status().reason, "SNAPSHOT_DAMAGED");
  options_.snapshot = directory_.File("none");
  EXPECT_EQ(Client::Open(options_).status().code, Code::kNotFound);
}

// The file may be replaced, by renaming, while it is open.
TEST_F(OfflineTest, AnOpenFileStaysWhatItWas) {
  const auto client = Client::Open(options_);
  ASSERT_TRUE(WriteFileAtomically(options_.snapshot, "something else").ok());
  EXPECT_EQ(client->Prepare(Spec("matmul", ""))->Lookup({1})->answer->config.Int("TILE"), 1);
}

}  // namespace
}  // namespace tunefarm::client
