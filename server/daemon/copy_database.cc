#include "server/daemon/copy_database.h"

#include <fmt/core.h>

#include "server/base/file.h"
#include "server/base/format.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/daemon/config.h"
#include "server/daemon/host_setting.h"
#include "server/store/postgres/copy_sqlite.h"
#include "server/store/postgres_store.h"

namespace tunefarm {
namespace {

constexpr char kHelp[] =
    "Usage: tunefarmd copy-database [--data-dir DIR] [--to URL]\n\n"
    "Moves all that the SQLite database of a data directory holds into an empty database of PostgreSQL 14 or newer, in "
    "one transaction, and counts the rows. No daemon may serve the directory meanwhile. The SQLite file stays as it "
    "is.\n\n"
    "  --to URL        postgres://USER@HOST:PORT/DATABASE (default: the configured store). Its password is better kept "
    "in ~/.pgpass, or the whole URL in TUNEFARM_STORE, than on a command line.\n"
    "  --data-dir DIR  whose database (default: that of the daemon)\n\n"
    "Then start the daemon with the same URL as its store.\n";

}  // namespace

absl::StatusOr<std::string> CopyDatabase(const std::vector<std::string>& arguments,
                                         const EnvironmentGetter& environment) {
  std::vector<std::string> rest;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--help") return Cancelled("{}", WrapLines(kHelp, HelpColumns(TerminalColumns(stdout))));
    // The daemon's own flag for what this copies to.
    rest.push_back(arguments[i] == "--to" ? "--store" : arguments[i]);
    if (arguments[i].rfind("--to=", 0) == 0) rest.back() = "--store=" + arguments[i].substr(5);
  }
  ASSIGN_OR_RETURN(const DaemonConfig config, ParseDaemonConfig(rest, environment));
  if (config.store.empty()) {
    return InvalidArgument(
        "nothing says where to: give --to postgres://USER@HOST:PORT/DATABASE, or set TUNEFARM_STORE");
  }
  const std::string& data = config.data_directory;
  absl::StatusOr<FileLock> lock = FileLock::TryLock(data + "/tunefarmd.lock");
  if (!lock.ok()) {
    if (ReasonOf(lock.status()) != "LOCK_HELD") return lock.status();
    return FailedPrecondition("a daemon serves {} ({}); stop it first (tunefarm stop)", data, MessageOf(lock.status()));
  }
  PostgresOptions target;
  target.url = config.store;
  ASSIGN_OR_RETURN(
      const std::vector<CopiedTable> copied,
      CopySqliteToPostgres(data + "/tunefarm.db", target, {{HostDeviceSetting(false), HostDeviceSetting(true)}}));
  std::string text;
  for (const CopiedTable& table : copied) text += fmt::format("{:<18}{:>12} rows\n", table.name, table.rows);
  ASSIGN_OR_RETURN(const std::string name, DescribePostgresUrl(config.store));
  return text +
         fmt::format("All of {}/tunefarm.db is in {} now. Start the daemon with that URL as its store.\n", data, name);
}

}  // namespace tunefarm
