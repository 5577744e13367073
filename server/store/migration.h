// Migrations of both databases: numbered SQL texts that are compiled into the program (migrations/README.md).
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "server/base/embedded_file.h"

namespace tunefarm {

struct Migration {
  int number = 0;         // 1, 2, … without gaps
  std::string_view name;  // the file's name, NNNN_name.sql
  std::string_view text;  // SQL; static
};

// Of embedded files.
std::vector<Migration> MigrationsOf(const EmbeddedFile* files, size_t count);

// FailedPrecondition unless a migration that `database` lists, by its name and the SHA-256 of its text in hex, is
// `known`: another text was applied, or the database is older than the first release.
absl::Status CheckMigration(std::string_view database, const Migration& known, std::string_view name,
                            std::string_view sha256);

}  // namespace tunefarm
