#include "server/worker/host/host_toolchain.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm {
namespace {

constexpr char kDefaultPath[] = "/usr/local/bin:/usr/bin:/bin";
constexpr size_t kVersionBytesMax = 4096;

std::string SearchPath() {
  const char* const path = getenv("PATH");
  return path == nullptr ? kDefaultPath : path;
}

bool IsExecutable(const std::string& path) { return access(path.c_str(), X_OK) == 0; }

std::string FindInPath(const std::string& name) {
  if (name.find('/') != std::string::npos) return IsExecutable(name) ? name : "";
  const std::string path = SearchPath();
  size_t begin = 0;
  while (begin <= path.size()) {
    const size_t end = std::min(path.find(':', begin), path.size());
    const std::string directory = path.substr(begin, end - begin);
    const std::string candidate = directory + "/" + name;
    if (!directory.empty() && IsExecutable(candidate)) return candidate;
    begin = end + 1;
  }
  return "";
}

std::vector<char*> Pointers(std::vector<std::string>* texts) {
  std::vector<char*> pointers;
  for (std::string& text : *texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

[[noreturn]] void Exec(char* const* argv, char* const* environment, const char* directory, int output, pid_t parent,
                       int processor_seconds) {
  (void)setpgid(0, 0);
  // A driver's own children outlive it; the worker's pid namespace ends those.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);
  for (int signal = 1; signal < NSIG; ++signal) (void)::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
  dup2(null, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  close_range(3, ~0u, 0);
  if (processor_seconds > 0) {
    // At the second number the kernel would end it without saying why.
    const rlim_t seconds = static_cast<rlim_t>(processor_seconds);
    const struct rlimit limit = {seconds, seconds + 5};
    if (setrlimit(RLIMIT_CPU, &limit) != 0) _exit(127);
  }
  if (directory[0] != '\0' && chdir(directory) != 0) _exit(127);
  execve(argv[0], argv, environment);
  _exit(127);
}

void ReadAll(int fd, size_t bytes_max, CommandResult* result) {
  char block[4096];
  while (true) {
    const ssize_t got = read(fd, block, sizeof(block));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return;
    const size_t room = bytes_max - std::min(bytes_max, result->output.size());
    result->output.append(block, std::min(room, static_cast<size_t>(got)));
    result->truncated |= static_cast<size_t>(got) > room;
  }
}

}  // namespace

absl::StatusOr<CommandResult> RunCommand(const std::vector<std::string>& argv, const std::string& directory,
                                         const std::string& temporary_directory, size_t output_bytes_max,
                                         int processor_seconds) {
  std::vector<std::string> arguments = argv;
  std::vector<std::string> environment = {"PATH=" + SearchPath(), "LC_ALL=C"};
  if (!temporary_directory.empty()) environment.push_back("TMPDIR=" + temporary_directory);
  const std::vector<char*> argument_pointers = Pointers(&arguments);
  const std::vector<char*> environment_pointers = Pointers(&environment);
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return ErrnoStatus(errno, "no pipe to {}", argv[0]);
  UniqueFd read_end(fds[0]), write_end(fds[1]);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) return ErrnoStatus(errno, "cannot start {}", argv[0]);
  if (pid == 0) {
    Exec(argument_pointers.data(), environment_pointers.data(), directory.c_str(), write_end.get(), parent,
         processor_seconds);
  }
  (void)setpgid(pid, pid);
  write_end.Reset();
  CommandResult result;
  ReadAll(read_end.get(), output_bytes_max, &result);
  siginfo_t info = {};
  while (waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT) < 0 && errno == EINTR) {
  }
  // Before the number is free for others: what the compiler left behind in its group.
  (void)kill(-pid, SIGKILL);
  while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  result.exit.exited = info.si_code == CLD_EXITED;
  (result.exit.exited ? result.exit.exit_code : result.exit.signal) = info.si_status;
  return result;
}

std::string CompilerVersionOf(const std::string& output) {
  const std::string line = output.substr(0, output.find('\n'));
  if (const size_t clang = line.find("clang version "); clang != std::string::npos) {
    const size_t begin = clang + std::strlen("clang version ");
    // "Debian clang version 14.0.6", "clang version 17.0.1 (https://...)", "14.0.6-1".
    return "clang++ " + line.substr(begin, line.find_first_of(" -(", begin) - begin);
  }
  if (output.find("Free Software Foundation") != std::string::npos) {
    // "c++ (Debian 12.2.0-14+deb12u1) 12.2.0", "g++ (GCC) 11.4.1 20230605 (Red Hat 11.4.1-2)".
    const size_t close = line.find(") ");
    const size_t begin = close == std::string::npos ? line.rfind(' ') + 1 : close + 2;
    return "g++ " + line.substr(begin, line.find(' ', begin) - begin);
  }
  return line.substr(0, 64);
}

absl::StatusOr<HostToolchain> FindHostToolchain(const std::string& compiler) {
  const std::string name = compiler.empty() ? "c++" : compiler;
  HostToolchain toolchain;
  toolchain.path = FindInPath(name);
  if (toolchain.path.empty()) {
    return FailedPrecondition(
        "no C++ compiler for host kernels: '{}' is not in PATH; install g++ or set the compiler in "
        "the configuration",
        name);
  }
  ASSIGN_OR_RETURN(const CommandResult result, RunCommand({toolchain.path, "--version"}, "", "", kVersionBytesMax));
  if (!result.exit.ok()) {
    return FailedPrecondition("the C++ compiler {} does not work: --version ended with {}", toolchain.path,
                              result.exit.ToString());
  }
  toolchain.version = CompilerVersionOf(result.output);
  return toolchain;
}

}  // namespace tunefarm
