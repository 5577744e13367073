// From the command line's export to the client's answer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>

#include "client/cli/app.h"
#include "client/cpp/snapshot/snapshot_file.h"
#include "server/base/file.h"
#include "tests/fakes/temporary_directory.h"
#include "tests/unit/client_cpp/fake_daemon.h"

namespace tunefarm::client {
namespace {

class ExportTest : public testing::Test {
 protected:
  ExportTest() : daemon_(&catalog_, directory_.File("s")) { daemon_.Start(); }

  // The exit code; what went to stderr is in `said_`.
  int Export(std::vector<std::string> words) {
    words.insert(words.begin(), {"export", "snapshot"});
    cli::Session session;
    char* text = nullptr;
    size_t size = 0;
    session.err = open_memstream(&text, &size);
    session.environment = [this](const char* name) -> std::optional<std::string> {
      if (std::string_view(name) == "TUNEFARM_SERVER") return daemon_.address();
      return std::nullopt;
    };
    const int code = cli::RunCommandLine(words, &session);
    std::fclose(session.err);
    said_.assign(text, size);
    std::free(text);
    return code;
  }

  TemporaryDirectory directory_;
  FakeCatalog catalog_;
  FakeDaemon daemon_;
  std::string said_;
};

TEST_F(ExportTest, WhatIsExportedAnswersWithoutADaemon) {
  catalog_.Put(MakeBest(64, 32, 5));
  catalog_.Put(MakeBest(65, 8, 6));
  catalog_.Put(MakeBest(66, 32, 7, "program-0"));
  const std::string file = directory_.File("bests.tfsnap");
  EXPECT_EQ(Export({file}), 0) << said_;
  EXPECT_THAT(said_, testing::HasSubstr("Wrote 2 best configs of 1 kernel to"));
  EXPECT_THAT(said_, testing::HasSubstr("Left out 1 of older kernel sources"));
  daemon_.Kill();
  ClientOptions options;
  options.snapshot = file;
  const auto client = Client::Open(options);
  ASSERT_TRUE(client.ok()) << client.status().ToText();
  QuestionSpec spec = MatmulSpec();
  spec.device = "";
  const auto question = client->Prepare(spec);
  ASSERT_TRUE(question.ok()) << question.status().ToText();
  const auto answer = question->Lookup({64, 32});
  EXPECT_EQ(answer->answer->config.Int("TILE"), 5);
  EXPECT_EQ(answer->answer->match, Match::kExact);
  EXPECT_EQ(answer->answer->median_ns, 1005);
  EXPECT_EQ(answer->answer->toolkit_version, "13.0");
  EXPECT_EQ(question->Lookup({66, 32})->answer->match, Match::kNotFound);
  spec.varying_dims = {"M"};  // N takes the definition's default, 8
  spec.device = kClass;
  EXPECT_EQ(client->Prepare(spec)->Lookup({65})->answer->config.Int("TILE"), 6);
}

// A run goes by it, also where the newest change left no best.
TEST_F(ExportTest, ASnapshotHasTheCatalogsRevision) {
  catalog_.Put(MakeBest(64, 32, 5));
  catalog_.Put(MakeBest(65, 8, 6));
  const int64_t revision = catalog_.Retire(MakeBest(65, 8, 6));
  const std::string file = directory_.File("bests.tfsnap");
  ASSERT_EQ(Export({file}), 0) << said_;
  EXPECT_EQ(snapshot::SnapshotFile::Open(file)->revision(), revision);
  ASSERT_EQ(Export({file, "--kernel", "matmul"}), 0) << said_;
  EXPECT_EQ(snapshot::SnapshotFile::Open(file)->revision(), revision);
}

TEST_F(ExportTest, NothingToWriteLeavesTheOldFile) {
  const std::string file = directory_.File("bests.tfsnap");
  EXPECT_EQ(Export({file}), 3);
  EXPECT_FALSE(ReadFile(file, 1 << 20).ok());
  catalog_.Put(MakeBest(64, 32, 5));
  EXPECT_EQ(Export({file, "--kernel", "matmull"}), 3);
  EXPECT_THAT(said_, testing::HasSubstr("there is no kernel 'matmull'"));
  EXPECT_FALSE(ReadFile(file, 1 << 20).ok());
  EXPECT_EQ(Export({file, "--kernel", "matmul", "--kernel", "matmul"}), 0) << said_;
  EXPECT_THAT(said_, testing::HasSubstr("Wrote 1 best config of 1 kernel"));
}

}  // namespace
}  // namespace tunefarm::client
