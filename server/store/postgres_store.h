// The store on PostgreSQL (14 or newer), for farms with more than one control daemon.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/base/clock.h"
#include "server/base/random.h"
#include "server/store/store.h"

namespace tunefarm {

struct PostgresOptions {
  std::string url;           // postgres://USER:PASSWORD@HOST:PORT/DATABASE?...; its password is never shown
  int connections_max = 16;  // of this process, opened when they are needed
  // A file of this process that remembers which database it opened: that one is not taken for a new one when it is
  // found empty. "": nothing remembers.
  std::string initialized_marker = {};
  int statement_timeout_ms = 30'000;
  int lock_timeout_ms = 10'000;
  // A call that has no answer after the first makes the store ask the server, with a connection of its own, whether it
  // is there at all; without an answer after the second it is away: all calls fail at once until it answers.
  int silent_after_ms = 2000;
  int probe_ms = 1500;
  Clock* clock = nullptr;            // of waits; outlives the store; null: the real one
  EntropySource* entropy = nullptr;  // of pauses between tries; outlives the store; null: the real one
};

// The URL without its user and password, for people to read; InvalidArgument, which does not repeat it, for one that
// cannot be understood.
absl::StatusOr<std::string> DescribePostgresUrl(const std::string& url);

// Opens the database, which exists, and applies migrations, each with its version row in one transaction.
// FailedPrecondition: not a PostgreSQL of 14 or newer, a read-only one, one that does not let us in, a newer schema
// than this program knows, a migration applied with another text, another program's tables, or none where there were
// some (DATABASE_EMPTIED). Unavailable: it cannot be reached. Any number of processes may open it at once.
//
// Where it differs from the store on SQLite: Backup is refused (pg_dump makes copies); Status estimates the trials
// when there are many; a claim may hand out units of another daemon's new and more urgent job up to a second late.
absl::StatusOr<std::unique_ptr<Store>> OpenPostgresStore(const PostgresOptions& options);

}  // namespace tunefarm
