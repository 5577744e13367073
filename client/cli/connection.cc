#include "client/cli/connection.h"

#include <fcntl.h>
#include <grpc/support/log.h>
#include <spawn.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <vector>

#include "client/cli/python_process.h"
#include "server/base/file.h"
#include "server/base/pidfd.h"
#include "server/base/socket_paths.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/base/thread.h"
#include "server/dial/dial.h"
#include "server/dial/probe.h"
#include "tunefarm/v1/error.pb.h"

extern char** environ;

namespace tunefarm::cli {
namespace {

constexpr int kIdleExitSeconds = 600;
constexpr Duration kStartTimeout = std::chrono::seconds(60);
constexpr Duration kConnectTimeout = std::chrono::seconds(5);
constexpr int kSentBytesMax = 16 << 20;
// As the daemon sends them: binaries of 64 MiB and what lies around them.
constexpr int kReceivedBytesMax = 72 << 20;

}  // namespace

absl::StatusOr<std::string> DaemonProgram() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path beside = self.parent_path() / "tunefarmd";
  if (!error && std::filesystem::exists(beside, error)) return beside.string();
  return Unavailable("the daemon program tunefarmd is not beside {}; install it there or set TUNEFARM_SERVER",
                     self.string());
}

namespace {

// The absolute path of the interpreter for kernels in Python; empty where PATH has none. What PATH calls python3 may be
// a shim, which does not work in a sandbox: it is asked for the interpreter that it starts.
absl::StatusOr<std::string> Interpreter(const std::string& chosen) {
  std::error_code error;
  if (!chosen.empty()) {
    const std::string file = std::filesystem::absolute(chosen, error).string();
    if (!error && std::filesystem::is_regular_file(file, error) && access(file.c_str(), X_OK) == 0) return file;
    return InvalidArgument("--python {} is no executable file; name an interpreter, for example /usr/bin/python3",
                           chosen);
  }
  const absl::StatusOr<std::string> found =
      RunPython("import sys; sys.stdout.write(sys.executable)", "", 4096, std::chrono::seconds(10));
  if (found.ok() && found->rfind('/', 0) == 0 && std::filesystem::is_regular_file(*found, error)) return *found;
  return std::string();
}

// Starts the daemon in a session of its own, logging into the data directory. Returns a pidfd to see it fail.
absl::StatusOr<Pidfd> StartDaemon(const std::string& data_directory, const std::string& log_path,
                                  const std::string& interpreter) {
  ASSIGN_OR_RETURN(const std::string program, DaemonProgram());
  const std::string idle = std::to_string(kIdleExitSeconds);
  std::vector<std::string> arguments = {program, "--data-dir", data_directory, "--idle-exit",
                                        idle,    "--log-file", log_path};
  if (!interpreter.empty()) arguments.insert(arguments.end(), {"--python-interpreter", interpreter});
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  posix_spawn_file_actions_addclosefrom_np(&actions, 3);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, program.c_str(), &actions, &attributes, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) return ErrnoStatus(error, "starting {}", program);
  return Pidfd::Open(pid);
}

// What the daemon said before it died. Another one that is about to end may write to the same log.
std::string LastError(const std::string& log_path, uint64_t from) {
  const absl::StatusOr<std::string> log = ReadFile(log_path, 64 << 20);
  if (!log.ok()) return "see " + log_path;
  constexpr std::string_view kPrefix = "\ntunefarmd: ";
  const std::string fresh = "\n" + log->substr(std::min<size_t>(from, log->size()));
  const size_t start = fresh.rfind(kPrefix);
  if (start == std::string::npos) return "see " + log_path;
  const size_t line = start + kPrefix.size();
  return fresh.substr(line, fresh.find('\n', line) - line);
}

// True: the daemon answers. False: another daemon holds the directory but does not answer yet.
absl::StatusOr<std::string> StartAndWait(const std::string& data_directory, const EnvironmentGetter& environment,
                                         const std::string& python) {
  ASSIGN_OR_RETURN(const std::string interpreter, Interpreter(python));
  RETURN_IF_ERROR(MakeDirectories(data_directory, 0700));
  RETURN_IF_ERROR(MakeDirectories(data_directory + "/log", 0700));
  const std::string log_path = data_directory + "/log/tunefarmd.log";
  std::error_code ignored;
  const uint64_t log_bytes =
      std::filesystem::exists(log_path, ignored) ? std::filesystem::file_size(log_path, ignored) : 0;
  ASSIGN_OR_RETURN(Pidfd daemon, StartDaemon(data_directory, log_path, interpreter));
  Clock* clock = Clock::Real();
  const MonotonicTime give_up = clock->Now() + kStartTimeout;
  MonotonicTime start_again = give_up;
  bool is_running = true;
  while (clock->Now() < give_up) {
    // Until the daemon has made its own, another data directory's may take the runtime directory.
    ASSIGN_OR_RETURN(const SocketPaths sockets, SocketPathsFor(data_directory, environment));
    if (UnixSocketError(sockets.admin) == 0) return sockets.admin;
    // Unavailable means that it still runs.
    const absl::StatusOr<ExitStatus> ended = is_running ? daemon.Reap() : Unavailable("it is not running");
    if (ended.ok()) {
      if (!ended->exited || ended->exit_code != kExitDataDirectoryInUse)
        return Unavailable("the daemon could not start: {}", LastError(log_path, log_bytes));
      // Another command has started one at the same moment, and then that one is ours too; or one that is about to end
      // still holds the directory, and then it is our turn soon.
      is_running = false;
      start_again = clock->Now() + std::chrono::milliseconds(100);
    }
    if (!is_running && clock->Now() >= start_again) {
      ASSIGN_OR_RETURN(daemon, StartDaemon(data_directory, log_path, interpreter));
      is_running = true;
    }
    // There is no event to wait for before the socket exists.
    Notification().WaitFor(std::chrono::milliseconds(5));
  }
  return Unavailable("the daemon did not answer within {} s; see {}", kStartTimeout / std::chrono::seconds(1),
                     log_path);
}

// gRPC goes on trying for as long as it may; what is wrong with TLS does not get right by that.
absl::Status Connect(grpc::Channel* channel, const DialOptions& dial) {
  const gpr_timespec give_up = Connection::Deadline(kConnectTimeout);
  bool has_looked = false;
  while (true) {
    const grpc_connectivity_state state = channel->GetState(/*try_to_connect=*/true);
    if (state == GRPC_CHANNEL_READY) return absl::OkStatus();
    if (state == GRPC_CHANNEL_TRANSIENT_FAILURE && !has_looked) {
      has_looked = true;
      RETURN_IF_ERROR(ExplainTls(dial));
    }
    if (!channel->WaitForStateChange(state, give_up)) return ExplainUnreachable(dial);
  }
}

}  // namespace

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  absl::Status result = tunefarm::internal::MakeStatus(static_cast<absl::StatusCode>(status.error_code()), "{}",
                                                       fmt::make_format_args(status.error_message()));
  v1::ErrorDetail detail;
  if (!status.error_details().empty() && detail.ParseFromString(status.error_details())) {
    result = WithReason(result, detail.reason());
  }
  return result;
}

bool MayResume(const absl::Status& status) {
  return status.code() == absl::StatusCode::kUnavailable || status.code() == absl::StatusCode::kCancelled ||
         status.code() == absl::StatusCode::kAborted;
}

absl::Status Connection::Late(Duration timeout) {
  return DeadlineExceeded(
      "the daemon did not answer within {} s and may still do what it was asked; look before you repeat the command",
      timeout / std::chrono::seconds(1));
}

gpr_timespec Connection::Deadline(Duration timeout) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_nanos(timeout.count(), GPR_TIMESPAN));
}

Connection::Connection(std::string address, std::shared_ptr<grpc::Channel> channel, bool started_daemon)
    : address_(std::move(address)),
      started_daemon_(started_daemon),
      kernels_(v1::KernelService::NewStub(channel)),
      packages_(v1::PackageService::NewStub(channel)),
      tuning_(v1::TuningService::NewStub(channel)),
      studies_(v1::StudyService::NewStub(channel)),
      lookup_(v1::LookupService::NewStub(channel)),
      catalog_(v1::CatalogService::NewStub(channel)),
      data_files_(v1::DataFileService::NewStub(channel)),
      devices_(v1::DeviceService::NewStub(channel)),
      farm_(v1::FarmService::NewStub(channel)),
      server_(v1::ServerService::NewStub(channel)),
      access_(v1::AccessService::NewStub(channel)) {}

absl::StatusOr<std::unique_ptr<Connection>> Connection::Open(const ConnectOptions& options,
                                                             const EnvironmentGetter& environment) {
  std::string address = options.server;
  if (address.empty()) address = environment("TUNEFARM_SERVER").value_or("");
  bool started = false;
  if (address.empty()) {
    ASSIGN_OR_RETURN(const std::string data_directory, ChosenDataDirectory(options.data_directory, environment));
    ASSIGN_OR_RETURN(SocketPaths sockets, SocketPathsFor(data_directory, environment));
    const int error = UnixSocketError(sockets.admin);
    if (error != 0 && error != EACCES && error != EPERM) {
      if (!options.start_if_absent) {
        return Unavailable("no daemon is running for {}; a command that needs one, such as tunefarm devices, starts it",
                           data_directory);
      }
      ASSIGN_OR_RETURN(sockets.admin, StartAndWait(data_directory, environment, options.python));
      started = true;
    }
    address = "unix:" + sockets.admin;
  }
  if (!options.python.empty() && !started) {
    return FailedPrecondition(
        "--python {} is for a private daemon that the command starts, and the daemon at {} runs already; run tunefarm "
        "stop and repeat the command, or start the daemon with tunefarmd --python-interpreter {}",
        options.python, address, options.python);
  }
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kReceivedBytesMax);
  arguments.SetMaxSendMessageSize(kSentBytesMax);
  SetReconnectPauses(std::chrono::milliseconds(100), std::chrono::seconds(1), &arguments);
  // What gRPC writes to stderr about a handshake that fails is said below, in words.
  if (!environment("GRPC_VERBOSITY").has_value()) gpr_set_log_function([](gpr_log_func_args*) {});
  DialOptions dial = options.dial;
  dial.address = address;
  ASSIGN_OR_RETURN(dial, Checked(WithEnvironment(std::move(dial), environment)));
  ASSIGN_OR_RETURN(std::shared_ptr<grpc::Channel> channel, Dial(dial, arguments));
  // A socket that nobody may open or listens on is known at once; gRPC would go on trying.
  const bool is_unix = address.rfind("unix:", 0) == 0;
  if (is_unix && UnixSocketError(address.substr(5)) != 0) return ExplainUnreachable(dial);
  RETURN_IF_ERROR(Connect(channel.get(), dial));
  return std::unique_ptr<Connection>(new Connection(std::move(address), std::move(channel), started));
}

}  // namespace tunefarm::cli
