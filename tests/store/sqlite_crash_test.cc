// A process killed in the midst of writing or of a migration: what it had acknowledged is there after a reopen.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "server/base/check.h"
#include "server/base/failpoint.h"
#include "server/base/random.h"
#include "server/base/unique_fd.h"
#include "server/store/job_store.h"
#include "server/store/sqlite/open.h"
#include "server/store/store.h"
#include "server/store/store_maintenance.h"
#include "tests/fakes/temporary_directory.h"
#include "tests/store/conformance.h"

extern char** environ;

namespace tunefarm {
namespace {

std::string ChildPath() {
  const char* directory = std::getenv("TUNEFARM_BIN_DIR");
  if (directory != nullptr) return std::string(directory) + "/store_crash_child";
  char self[4096];
  const ssize_t length = readlink("/proc/self/exe", self, sizeof(self));
  TUNEFARM_CHECK(length > 0 && length < static_cast<ssize_t>(sizeof(self)));
  const std::string path(self, static_cast<size_t>(length));
  return path.substr(0, path.rfind('/')) + "/store_crash_child";
}

// Runs the child, kills it once it has acknowledged `count` jobs, and adds every uid that it acknowledged.
void RunAndKill(const std::string& database, size_t count, std::set<std::string>* acknowledged) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, writer.get(), STDOUT_FILENO);
  std::string program = ChildPath();
  std::string argument = database;
  char* arguments[] = {program.data(), argument.data(), nullptr};
  pid_t child = -1;
  ASSERT_EQ(posix_spawn(&child, program.c_str(), &actions, nullptr, arguments, environ), 0) << program;
  posix_spawn_file_actions_destroy(&actions);
  writer.Reset();
  std::string output;
  size_t lines = 0;
  bool is_killed = false;
  char buffer[4096];
  for (ssize_t got = read(reader.get(), buffer, sizeof(buffer)); got > 0;
       got = read(reader.get(), buffer, sizeof(buffer))) {
    output.append(buffer, static_cast<size_t>(got));
    for (ssize_t i = 0; i < got; ++i) lines += buffer[i] == '\n' ? 1 : 0;
    // Wherever it is by now: between two commits, or within one. What it still writes before it dies is read on.
    if (lines >= count && !is_killed) is_killed = kill(child, SIGKILL) == 0;
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
  for (size_t start = 0, end = output.find('\n'); end != std::string::npos;
       start = end + 1, end = output.find('\n', start)) {
    acknowledged->insert(output.substr(start, end - start));
  }
}

TEST(SqliteCrash, AcknowledgedWritesSurviveAKill) {
  constexpr int kRounds = 20;
  const TemporaryDirectory directory;
  SqliteOptions options;
  options.path = directory.File("tunefarm.db");
  PhiloxStream random(20260101);
  std::set<std::string> acknowledged;
  for (int round = 0; round < kRounds; ++round) {
    SCOPED_TRACE(round);
    RunAndKill(options.path, 1 + random.UniformInt(40), &acknowledged);
    if (testing::Test::HasFatalFailure()) return;
    const auto store = OpenSqliteStore(options);
    ASSERT_TRUE(store.ok()) << store.status();
    const std::vector<JobRow> jobs = AllJobs(store->get());
    std::set<std::string> stored;
    for (const JobRow& job : jobs) {
      EXPECT_TRUE(stored.insert(job.uid).second) << job.uid << " twice";
      EXPECT_EQ(job.studies.size(), 2U) << job.uid;
    }
    for (const std::string& uid : acknowledged) EXPECT_TRUE(stored.count(uid)) << uid << " is lost";
    // At most the write that was under way when it died may be there without having been acknowledged.
    EXPECT_LE(stored.size(), acknowledged.size() + static_cast<size_t>(round) + 1);
  }
  EXPECT_GE(acknowledged.size(), static_cast<size_t>(kRounds));
}

TEST(SqliteCrash, ADeathInAMigrationOrInTheBackupBeforeItLeavesOneSchemaOrTheOther) {
  std::vector<Migration> migrations = sqlite::EmbeddedMigrations();
  const int first = static_cast<int>(migrations.size());
  migrations.push_back({first + 1, "0099_more.sql", "CREATE TABLE more (a INTEGER) STRICT"});
  migrations.push_back({first + 2, "0100_most.sql", "CREATE TABLE most (a INTEGER) STRICT; DROP TABLE more"});
  struct Death {
    const char* failpoint;
    int version;  // of the database afterwards
    int backups;  // that the death left
  };
  const TemporaryDirectory directory;
  for (const Death& death : {Death{"store.backup.copied=crash", first, 0},
                             {"store.backup.linked=crash", first, 1},
                             {"store.migrate.before=crash@1", first, 1},
                             {"store.migrate.after=crash@1", first + 1, 1},
                             {"store.migrate.before=crash@2", first + 1, 1},
                             {"store.migrate.after=crash@2", first + 2, 1}}) {
    SCOPED_TRACE(death.failpoint);
    SqliteOptions options;
    options.path = directory.File(std::string(death.failpoint) + ".db");
    options.backup_directory = directory.File(std::string(death.failpoint) + ".backups");
    ASSERT_TRUE(OpenSqliteStore(options).value()->jobs()->SubmitJob(MakeSubmit("uid")).ok());
    EXPECT_EXIT(
        {
          TUNEFARM_CHECK_OK(ArmFailpoints(death.failpoint));
          (void)sqlite::OpenStore(options, migrations);
          _exit(0);
        },
        testing::KilledBySignal(SIGKILL), "");
    {
      const auto database = sqlite::Database::Open(options.path, sqlite::Database::Mode::kReadOnly);
      ASSERT_TRUE(database.ok()) << database.status();
      EXPECT_EQ(sqlite::IdentifySchema(database->get()).value(), death.version);
    }
    const auto named_backups = [&options] {
      int count = 0;
      for (const auto& entry : std::filesystem::directory_iterator(options.backup_directory)) {
        count += entry.path().filename().string().front() != '.' ? 1 : 0;
      }
      return count;
    };
    EXPECT_EQ(named_backups(), death.backups);
    const auto store = sqlite::OpenStore(options, migrations);
    ASSERT_TRUE(store.ok()) << store.status();
    EXPECT_EQ((*store)->maintenance()->Status()->schema_version, first + 2);
    EXPECT_EQ((*store)->maintenance()->Status()->active_jobs, 1);
    EXPECT_EQ(named_backups(), death.backups + (death.version < first + 2 ? 1 : 0));
    for (const auto& entry : std::filesystem::directory_iterator(options.backup_directory)) {
      const auto backup = sqlite::Database::Open(entry.path().string(), sqlite::Database::Mode::kReadOnly);
      ASSERT_TRUE(backup.ok()) << backup.status();
      EXPECT_TRUE((*backup)->QuickCheck().ok()) << entry.path();
    }
  }
}

}  // namespace
}  // namespace tunefarm
