// The conformance suite on SQLite.
#include <filesystem>

#include "server/store/sqlite/database.h"
#include "server/store/store.h"
#include "tests/fakes/fake_clock.h"
#include "tests/store/conformance.h"
#include "tests/store/conformance_sql.h"

namespace tunefarm {
namespace {

FakeClock* TheClock() {
  static FakeClock* const clock = new FakeClock;
  return clock;
}

absl::StatusOr<std::unique_ptr<Store>> OpenIn(const std::string& directory) {
  SqliteOptions options;
  options.path = directory + "/tunefarm.db";
  options.backup_directory = directory + "/backups";
  options.clock = TheClock();
  return OpenSqliteStore(options);
}

absl::StatusOr<std::unique_ptr<Store>> OpenCopyOf(const std::string& directory) {
  const std::string copy = directory + "/copy";
  std::filesystem::create_directory(copy);
  std::filesystem::copy_file(directory + "/tunefarm.db", copy + "/tunefarm.db");
  return OpenIn(copy);
}

absl::StatusOr<std::unique_ptr<Sql>> ConnectIn(const std::string& directory) {
  return sqlite::Database::Open(directory + "/sql.db", sqlite::Database::Mode::kReadWrite);
}

void Advance(std::chrono::milliseconds by) { TheClock()->Advance(by); }

INSTANTIATE_TEST_SUITE_P(Sqlite, StoreConformance,
                         testing::Values(StoreFactory{"sqlite", OpenIn, Advance, OpenCopyOf}));
INSTANTIATE_TEST_SUITE_P(Sqlite, FarmConformance, testing::Values(StoreFactory{"sqlite", OpenIn, Advance, OpenCopyOf}));
INSTANTIATE_TEST_SUITE_P(Sqlite, WorkConformance, testing::Values(StoreFactory{"sqlite", OpenIn, Advance, OpenCopyOf}));
INSTANTIATE_TEST_SUITE_P(Sqlite, SqlConformance, testing::Values(SqlFactory{"sqlite", ConnectIn}));

TEST(SqliteSqlTest, RefusesAnArray) {
  const TemporaryDirectory directory;
  const std::unique_ptr<Sql> sql = ConnectIn(directory.path()).value();
  EXPECT_FALSE(sql->Run("SELECT $1", std::vector<int64_t>{1}).ok());
}

}  // namespace
}  // namespace tunefarm
