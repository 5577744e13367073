#include "server/store/migration.h"

#include "server/base/check.h"
#include "server/base/hash.h"
#include "server/base/status.h"

namespace tunefarm {
namespace {

// Of "0012_name.sql".
int NumberOf(std::string_view name) {
  TUNEFARM_CHECK(name.size() > 5 && name[4] == '_');
  int number = 0;
  for (const char digit : name.substr(0, 4)) {
    TUNEFARM_CHECK(digit >= '0' && digit <= '9');
    number = number * 10 + (digit - '0');
  }
  return number;
}

}  // namespace

std::vector<Migration> MigrationsOf(const EmbeddedFile* files, size_t count) {
  std::vector<Migration> migrations;
  for (size_t i = 0; i < count; ++i) {
    migrations.push_back({NumberOf(files[i].name), files[i].name, files[i].bytes});
  }
  return migrations;
}

absl::Status CheckMigration(std::string_view database, const Migration& known, std::string_view name,
                            std::string_view sha256) {
  if (name == known.name && sha256 == Sha256(known.text).Hex()) return absl::OkStatus();
  if (known.number == 1) {
    return FailedPrecondition(
        "{} has a schema from before the first release, which this program cannot read; save its best configs with the "
        "program that wrote it (tunefarm export bests FILE), name another database, and measure them there (tunefarm "
        "tune KERNEL --starting-configs FILE)",
        database);
  }
  return FailedPrecondition(
      "{}: migration {} was applied with another text than this program has for {}; use the program that wrote the "
      "database, or restore a backup",
      database, name, known.name);
}

}  // namespace tunefarm
