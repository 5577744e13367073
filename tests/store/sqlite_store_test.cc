// The conformance suite on SQLite.
#include <filesystem>

#include "server/store/store.h"
#include "tests/fakes/fake_clock.h"
#include "tests/store/conformance.h"

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

void Advance(std::chrono::milliseconds by) { TheClock()->Advance(by); }

INSTANTIATE_TEST_SUITE_P(Sqlite, StoreConformance,
                         testing::Values(StoreFactory{"sqlite", OpenIn, Advance, OpenCopyOf}));
INSTANTIATE_TEST_SUITE_P(Sqlite, FarmConformance, testing::Values(StoreFactory{"sqlite", OpenIn, Advance, OpenCopyOf}));

}  // namespace
}  // namespace tunefarm
