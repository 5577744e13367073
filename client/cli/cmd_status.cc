// status, stop, db {status,backup,copy}: the daemon and its database.

#include <fmt/core.h>
#include <spawn.h>
#include <sys/wait.h>

#include <memory>
#include <vector>

#include "client/cli/commands.h"
#include "client/cli/help_format.h"
#include "server/base/format.h"
#include "server/base/socket_paths.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"

extern char** environ;

namespace tunefarm::cli {
namespace {

using Server = v1::ServerService::StubInterface;

absl::StatusOr<v1::GetServerInfoResponse> Info(Session* session) {
  ASSIGN_OR_RETURN(Connection* const connection, session->connection());
  return Connection::Call(connection->server(), &Server::GetServerInfo, v1::GetServerInfoRequest());
}

// "76 GB free; jobs pause below 512 MB".
std::string DiskText(const v1::GetServerInfoResponse& info) {
  std::string text = FormatBytes(static_cast<uint64_t>(info.free_disk_bytes())) + " free";
  if (info.free_disk_bytes_min() <= 0) return text;
  const bool is_low = info.free_disk_bytes() < info.free_disk_bytes_min();
  return text + fmt::format("{} {}", is_low ? ": jobs are paused, the floor is" : "; jobs pause below",
                            FormatBytes(static_cast<uint64_t>(info.free_disk_bytes_min())));
}

absl::StatusOr<ExitCode> Status(Session* session) {
  ASSIGN_OR_RETURN(const OutputFormat format, session->format_without_csv());
  session->connect.start_if_absent = false;
  ASSIGN_OR_RETURN(const v1::GetServerInfoResponse info, Info(session));
  if (format == OutputFormat::kJson) {
    session->Print(ToJson(info));
    return kExitOk;
  }
  std::string text =
      fmt::format("daemon     tunefarmd {} ({}), pid {}, up {}\n", info.version(), info.revision(), info.pid(),
                  FormatDuration(static_cast<double>(Clock::Real()->WallMs() - info.started_at_ms()) * 1e6));
  if (!info.role().empty() && info.role() != "all") text += "role       " + info.role() + "\n";
  text += "data       " + info.data_directory() + "\n";
  for (const std::string& address : info.addresses()) text += "listens    " + address + "\n";
  if (info.role() == "agent") {
    text += fmt::format("control    {} {}\n", info.control_address(),
                        info.control_connected() ? "answers" : "does not answer: results are kept on disk");
    text += fmt::format("spool      {}\n", FormatBytes(static_cast<uint64_t>(info.spooled_bytes())));
    text += fmt::format("workers    {}, isolation {}\n", FormatCount(info.workers(), "process", "processes"),
                        info.sandbox_level());
    session->Print(text);
    return kExitOk;
  }
  text += fmt::format("database   {}, schema {}, {}\n", FormatBytes(static_cast<uint64_t>(info.database_bytes())),
                      info.schema_version(), FormatCount(info.stored_trials(), "trial"));
  if (!info.database_away().empty()) {
    text += fmt::format("           UNREACHABLE: {}; look-ups are answered from memory, as of {} ago\n",
                        info.database_away(), FormatDuration(static_cast<double>(info.catalog_age_ms()) * 1e6));
  }
  text += info.binary_cache_bytes_max() == 0
              ? std::string("cache      no compiled binaries on disk\n")
              : fmt::format("cache      {} of at most {} of compiled binaries\n",
                            FormatBytes(static_cast<uint64_t>(info.binary_cache_bytes())),
                            FormatBytes(static_cast<uint64_t>(info.binary_cache_bytes_max())));
  text += fmt::format("jobs       {} active\n", info.active_jobs());
  text += fmt::format("workers    {}, isolation {}\n", FormatCount(info.workers(), "process", "processes"),
                      info.sandbox_level().empty() ? "not known yet (no worker has run)" : info.sandbox_level());
  text += fmt::format("memory     {}, {}\n", FormatBytes(static_cast<uint64_t>(info.resident_bytes())),
                      FormatCount(info.open_files(), "open file"));
  text += "disk       " + DiskText(info) + "\n";
  if (!info.http_address().empty()) text += "metrics    " + info.http_address() + "/metrics\n";
  if (!info.dashboard_address().empty()) text += "dashboard  " + info.dashboard_address() + "\n";
  if (info.idle_exit_seconds() > 0) {
    text += fmt::format("idle exit  after {} without work: it was started on demand\n",
                        FormatDuration(info.idle_exit_seconds() * 1e9));
  }
  session->Print(text);
  return kExitOk;
}

absl::StatusOr<ExitCode> Stop(Session* session, bool now) {
  ASSIGN_OR_RETURN(const OutputFormat format, session->format_without_csv());
  session->connect.start_if_absent = false;
  ASSIGN_OR_RETURN(Connection* const connection, session->connection());
  v1::ShutdownRequest request;
  request.set_immediately(now);
  ASSIGN_OR_RETURN(const v1::ShutdownResponse response,
                   Connection::Call(connection->server(), &Server::Shutdown, request));
  if (format == OutputFormat::kJson) session->Print(ToJson(response));
  session->Note(now ? "The daemon is stopping."
                    : "The daemon finishes the running trials and stops; unfinished jobs continue at its next start.");
  return kExitOk;
}

absl::StatusOr<ExitCode> DbStatus(Session* session) {
  ASSIGN_OR_RETURN(const OutputFormat format, session->format_without_csv());
  ASSIGN_OR_RETURN(const v1::GetServerInfoResponse info, Info(session));
  if (format == OutputFormat::kJson) {
    session->Print(ToJson(info));
    return kExitOk;
  }
  session->Print(fmt::format("database  {}/tunefarm.db\nschema    {}\nsize      {}\ntrials    {}\ndisk      {}\n",
                             info.data_directory(), info.schema_version(),
                             FormatBytes(static_cast<uint64_t>(info.database_bytes())),
                             FormatCount(info.stored_trials()), DiskText(info)));
  return kExitOk;
}

absl::StatusOr<ExitCode> Backup(Session* session, const std::string& file_name) {
  ASSIGN_OR_RETURN(const OutputFormat format, session->format_without_csv());
  ASSIGN_OR_RETURN(Connection* const connection, session->connection());
  v1::CreateBackupRequest request;
  request.set_file_name(file_name);
  ASSIGN_OR_RETURN(const v1::CreateBackupResponse response,
                   Connection::Call(connection->server(), &Server::CreateBackup, request, std::chrono::minutes(30)));
  session->Print(format == OutputFormat::kJson ? ToJson(response) : response.path() + "\n");
  session->Note(fmt::format("Backup of {}, checked", FormatBytes(static_cast<uint64_t>(response.size_bytes()))));
  return kExitOk;
}

// The daemon's program does it, since no daemon may serve the directory meanwhile.
absl::StatusOr<ExitCode> CopyDatabase(Session* session, const std::string& to) {
  RETURN_IF_ERROR(session->CheckOneForm());
  ASSIGN_OR_RETURN(const std::string program, DaemonProgram());
  ASSIGN_OR_RETURN(const std::string data, ChosenDataDirectory(session->connect.data_directory, session->environment));
  std::vector<std::string> arguments = {program, "copy-database", "--data-dir", data};
  if (!to.empty()) arguments.insert(arguments.end(), {"--to", to});
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, program.c_str(), nullptr, nullptr, argv.data(), environ);
  if (error != 0) return ErrnoStatus(error, "starting {}", program);
  int status = 0;
  if (waitpid(pid, &status, 0) != pid) return ErrnoStatus(errno, "waiting for {}", program);
  if (!WIFEXITED(status)) return Internal("{} was ended by signal {}", program, WTERMSIG(status));
  return static_cast<ExitCode>(WEXITSTATUS(status));
}

}  // namespace

void AddStatus(CLI::App* app, Session* session) {
  CLI::App* status = app->add_subcommand("status", "Show daemon status.");
  SetExample(status, "tunefarm status");
  status->callback([session] { session->command = [session] { return Status(session); }; });
  auto now = std::make_shared<bool>(false);
  CLI::App* stop = app->add_subcommand("stop", "Stop the daemon; unfinished jobs continue at its next start.");
  SetExample(stop, "tunefarm stop");
  stop->add_flag("--now", *now, "Do not finish the running trials; they run again at the next start.");
  stop->callback([session, now] { session->command = [session, now] { return Stop(session, *now); }; });
}

void AddDb(CLI::App* app, Session* session) {
  CLI::App* db = app->add_subcommand("db", "The database: its state, backups, and the move to PostgreSQL.");
  SetExample(db, "tunefarm db backup before-upgrade.db");
  db->require_subcommand(1);
  CLI::App* status = db->add_subcommand("status", "Schema, size and number of trials.");
  SetExample(status, "tunefarm db status");
  status->callback([session] { session->command = [session] { return DbStatus(session); }; });
  auto file_name = std::make_shared<std::string>();
  CLI::App* backup = db->add_subcommand("backup", "Make a consistent copy while the daemon works.");
  SetExample(backup, "tunefarm db backup before-upgrade.db");
  backup->add_option("NAME", *file_name, "File name in the data directory's backups folder (default: a time stamp).");
  backup->callback(
      [session, file_name] { session->command = [session, file_name] { return Backup(session, *file_name); }; });
  auto to = std::make_shared<std::string>();
  CLI::App* copy =
      db->add_subcommand("copy", "Copy everything to an empty PostgreSQL database; stop the daemon first.");
  SetExample(copy, "tunefarm db copy --to postgres://tunefarm@db.example/tunefarm");
  copy->add_option("--to", *to, "postgres://USER@HOST:PORT/DATABASE (default: TUNEFARM_STORE).");
  copy->callback([session, to] { session->command = [session, to] { return CopyDatabase(session, *to); }; });
}

}  // namespace tunefarm::cli
