#include "tests/fakes/postgres_server.h"

#include <fcntl.h>
#include <libpq-fe.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdio>
#include <filesystem>

#include "server/base/check.h"
#include "server/base/thread.h"
#include "server/store/postgres/libpq.h"

extern char** environ;

namespace tunefarm {
namespace {

constexpr uid_t kNobody = 65534;
constexpr char kOwner[] = "tunefarm";

// Of a line of /proc/PID/stat: what stands behind the program's name, which may hold anything.
struct ProcessState {
  char state = 0;
  pid_t parent = -1;
};
ProcessState StateOf(const std::string& process) {
  const std::string stat = ReadFile(process + "/stat", 4096).value_or("");
  ProcessState found;
  const size_t end = stat.rfind(')');
  if (end != std::string::npos) std::sscanf(stat.c_str() + end + 1, " %c %d", &found.state, &found.parent);
  return found;
}

}  // namespace

std::string PostgresServer::Programs() {
  std::vector<std::pair<int, std::string>> found;
  std::error_code error;
  for (std::filesystem::directory_iterator it("/usr/lib/postgresql", error), end; !error && it != end;
       it.increment(error)) {
    const std::string folder = it->path().string() + "/bin";
    if (access((folder + "/initdb").c_str(), X_OK) == 0)
      found.emplace_back(std::atoi(it->path().filename().c_str()), folder);
  }
  return found.empty() ? "" : std::max_element(found.begin(), found.end())->second;
}

PostgresServer* PostgresServer::Shared() {
  static const auto server = std::make_unique<PostgresServer>();
  return server.get();
}

PostgresServer::PostgresServer(const Options& options) : options_(options) {
  TUNEFARM_CHECK(!Programs().empty());
  // The server refuses to run as root, and the test's directory is its user's alone.
  if (geteuid() == 0) TUNEFARM_CHECK(chown(directory_.path().c_str(), kNobody, kNobody) == 0);
  Await(Spawn({Programs() + "/initdb", "--pgdata", directory_.File("data"), "--username", kOwner, "--auth", "trust",
               "--encoding", "UTF8", "--locale", "C", "--no-sync", "--no-instructions"}),
        "initdb");
  Start();
}

PostgresServer::~PostgresServer() {
  Thaw();
  if (server_ > 0) Stop();
}

pid_t PostgresServer::Spawn(const std::vector<std::string>& arguments) const {
  std::vector<std::string> all = {"/usr/bin/setpriv", "--pdeathsig", "KILL"};
  if (geteuid() == 0) {
    const std::string id = std::to_string(kNobody);
    all.insert(all.end(), {"--reuid", id, "--regid", id, "--clear-groups"});
  }
  all.insert(all.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& argument : all) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  const std::string log = directory_.File("log");
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0666);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  pid_t pid = -1;
  TUNEFARM_CHECK(posix_spawn(&pid, pointers[0], &actions, nullptr, pointers.data(), environ) == 0);
  posix_spawn_file_actions_destroy(&actions);
  return pid;
}

std::string PostgresServer::Log() const { return ReadFile(directory_.File("log"), 1 << 20).value_or(""); }

void PostgresServer::Await(pid_t pid, const char* what) const {
  int status = 0;
  TUNEFARM_CHECK(waitpid(pid, &status, 0) == pid);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
  std::fprintf(stderr, "%s failed:\n%s\n", what, Log().c_str());
  TUNEFARM_CHECK(false);
}

void PostgresServer::Start() {
  TUNEFARM_CHECK(server_ < 0 && postgres::LoadLibpq().ok());
  std::vector<std::string> arguments = {Programs() + "/postgres",
                                        "-D",
                                        directory_.File("data"),
                                        "-k",
                                        directory_.path(),
                                        "-c",
                                        "listen_addresses=",
                                        "-c",
                                        "max_connections=300",
                                        "-c",
                                        "shared_buffers=128MB",
                                        "-c",
                                        "timezone=UTC",
                                        "-c",
                                        options_.fsync ? "fsync=on" : "fsync=off"};
  for (const std::string& setting : options_.settings) arguments.insert(arguments.end(), {"-c", setting});
  server_ = Spawn(arguments);
  const std::string url = Url("postgres");
  const Notification never;
  for (int i = 0; i < 3000 && PQping(url.c_str()) != PQPING_OK; ++i) {
    int status = 0;
    if (waitpid(server_, &status, WNOHANG) == server_ && i < 1000) {
      // After a crash: processes of the one before still hold its memory, but not for long.
      server_ = Spawn(arguments);
    } else if (i == 2999) {
      std::fprintf(stderr, "the server does not start:\n%s\n", Log().c_str());
      TUNEFARM_CHECK(false);
    }
    never.WaitFor(std::chrono::milliseconds(20));
  }
}

void PostgresServer::Crash() {
  // Its processes see that their parent is gone, and end.
  TUNEFARM_CHECK(kill(server_, SIGKILL) == 0);
  int status = 0;
  TUNEFARM_CHECK(waitpid(server_, &status, 0) == server_);
  server_ = -1;
}

void PostgresServer::Stop() {
  TUNEFARM_CHECK(kill(server_, SIGINT) == 0);
  int status = 0;
  TUNEFARM_CHECK(waitpid(server_, &status, 0) == server_);
  server_ = -1;
}

std::vector<pid_t> PostgresServer::Processes() const {
  std::vector<pid_t> found = {server_};
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    if (std::isdigit(static_cast<unsigned char>(name[0])) == 0) continue;
    if (StateOf(entry.path().string()).parent == server_) found.push_back(std::atoi(name.c_str()));
  }
  return found;
}

void PostgresServer::Freeze() {
  // The first makes no others from then on.
  const auto stop = [](pid_t pid) {
    if (kill(pid, SIGSTOP) != 0) return;
    const Notification never;
    const std::string process = "/proc/" + std::to_string(pid);
    for (char state = 'R'; state != 'T' && state != 'Z' && state != 0; state = StateOf(process).state) {
      never.WaitFor(std::chrono::milliseconds(1));
    }
  };
  stop(server_);
  frozen_ = Processes();
  for (const pid_t pid : frozen_) stop(pid);
}

void PostgresServer::Thaw() {
  for (const pid_t pid : frozen_) kill(pid, SIGCONT);
  frozen_.clear();
}

std::string PostgresServer::Url(const std::string& database) const {
  std::string host;
  for (const char c : directory_.path()) host += c == '/' ? "%2F" : std::string(1, c);
  return "postgres://" + std::string(kOwner) + "@" + host + "/" + database;
}

std::string PostgresServer::Sql(const std::string& database, const std::string& sql) const {
  PGconn* const connection = PQconnectdb(Url(database).c_str());
  PGresult* const result = PQexec(connection, sql.c_str());
  const ExecStatusType status = PQresultStatus(result);
  if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) {
    std::fprintf(stderr, "%s: %s\n", sql.c_str(), PQerrorMessage(connection));
    TUNEFARM_CHECK(false);
  }
  const std::string value = PQntuples(result) > 0 ? PQgetvalue(result, 0, 0) : "";
  PQclear(result);
  PQfinish(connection);
  return value;
}

std::string PostgresServer::NewDatabase(const std::string& from) {
  const std::string name = "test_" + std::to_string(++databases_);
  Sql("postgres", "CREATE DATABASE " + name + " TEMPLATE " + from);
  return name;
}

void PostgresServer::DropDatabase(const std::string& database) const {
  Sql("postgres", "DROP DATABASE IF EXISTS " + database + " WITH (FORCE)");
}

}  // namespace tunefarm
