#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/fakes/temporary_directory.h"

namespace tunefarm {

// A real PostgreSQL from Debian's package, in a directory of its own, on a Unix socket only, as a user without rights
// when the test is root. Dies with the test. Not thread-safe, but what it serves may be used by any thread.
class PostgresServer {
 public:
  struct Options {
    bool fsync = false;
    std::vector<std::string> settings;  // "name=value"
  };

  // The folder of the newest installed server's programs; empty: none is installed.
  static std::string Programs();

  // Makes a cluster and starts it; aborts with the server's log if that fails.
  explicit PostgresServer(const Options& options);
  PostgresServer() : PostgresServer(Options{}) {}
  ~PostgresServer();
  PostgresServer(const PostgresServer&) = delete;
  PostgresServer& operator=(const PostgresServer&) = delete;

  // One for the whole program, without fsync; ends with it.
  static PostgresServer* Shared();

  // Kills the server as a crash of its machine would, or stops it so that its clients are cut off; Start again later.
  void Crash();
  void Stop();
  void Start();
  // All its processes stand still, with every connection open, until Thaw. Everything else here waits for that.
  void Freeze();
  void Thaw();

  std::string Url(const std::string& database) const;
  const std::string& socket_directory() const { return directory_.path(); }
  // Runs SQL as the owner of all; aborts if it fails. The first column of the first row, or an empty string.
  std::string Sql(const std::string& database, const std::string& sql) const;
  // A database that nobody has yet. Copied from `from`.
  std::string NewDatabase(const std::string& from = "template0");
  void DropDatabase(const std::string& database) const;

 private:
  pid_t Spawn(const std::vector<std::string>& arguments) const;
  void Await(pid_t pid, const char* what) const;
  std::string Log() const;
  // The server's processes; those of its sessions have sessions of their own.
  std::vector<pid_t> Processes() const;

  const Options options_;
  TemporaryDirectory directory_;
  pid_t server_ = -1;
  std::vector<pid_t> frozen_;
  int databases_ = 0;
};

}  // namespace tunefarm
