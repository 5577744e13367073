// The conformance suite on SQLite.
#include "tests/store/conformance.h"

namespace tunefarm {
namespace {

absl::StatusOr<std::unique_ptr<Store>> OpenIn(const std::string& directory) {
  SqliteOptions options;
  options.path = directory + "/tunefarm.db";
  options.backup_directory = directory + "/backups";
  return OpenSqliteStore(options);
}

INSTANTIATE_TEST_SUITE_P(Sqlite, StoreConformance, testing::Values(StoreFactory{"sqlite", OpenIn}));

}  // namespace
}  // namespace tunefarm
