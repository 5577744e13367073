#include "client/cli/python_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <vector>

#include "server/base/memfd.h"
#include "server/base/pidfd.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/base/unique_fd.h"

namespace tunefarm::cli {
namespace {

// A child that is killed and reaped unless it was reaped before.
class Child {
 public:
  Child(pid_t pid, Pidfd pidfd) : pid_(pid), pidfd_(std::move(pidfd)) {}
  ~Child() {
    if (pid_ < 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  int fd() const { return pidfd_.fd(); }
  absl::StatusOr<ExitStatus> Reap() {
    ASSIGN_OR_RETURN(const ExitStatus status, pidfd_.Reap());
    pid_ = -1;
    return status;
  }

 private:
  pid_t pid_;
  Pidfd pidfd_;
};

absl::StatusOr<pid_t> Spawn(std::string_view program, int input, int output) {
  std::vector<std::string> arguments = {"python3", "-I", "-S", "-c", std::string(program)};
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
  pid_t pid = -1;
  const int error = posix_spawnp(&pid, "python3", &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error == ENOENT) return FailedPrecondition("there is no python3 on PATH");
  if (error != 0) return ErrnoStatus(error, "cannot start python3");
  return pid;
}

// Reads what is there. False at the end.
bool Drain(int fd, std::string* output, uint64_t output_bytes_max) {
  std::array<char, 64 << 10> buffer;
  while (output->size() <= output_bytes_max) {
    const ssize_t got = read(fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got < 0 && errno == EAGAIN;
    output->append(buffer.data(), static_cast<size_t>(got));
  }
  return true;
}

}  // namespace

absl::StatusOr<std::string> RunPython(std::string_view program, std::string_view input, uint64_t output_bytes_max,
                                      Duration timeout) {
  // A file, not a pipe: nothing has to be written while the child is waited for.
  ASSIGN_OR_RETURN(const UniqueFd input_file, CreateSealedMemfd("python3 input", input));
  if (lseek(input_file.get(), 0, SEEK_SET) != 0) return ErrnoStatus(errno, "cannot rewind a memory file");
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return ErrnoStatus(errno, "cannot create a pipe for python3");
  const UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  if (fcntl(read_end.get(), F_SETFL, O_NONBLOCK) != 0) return ErrnoStatus(errno, "cannot make a pipe non-blocking");
  ASSIGN_OR_RETURN(const pid_t pid, Spawn(program, input_file.get(), write_end.get()));
  write_end.Reset();
  absl::StatusOr<Pidfd> pidfd = Pidfd::Open(pid);
  Child child(pid, pidfd.ok() ? *std::move(pidfd) : Pidfd());
  if (child.fd() < 0) return pidfd.status();

  const Clock* const clock = Clock::Real();
  const MonotonicTime deadline = clock->Now() + timeout;
  std::string output;
  bool is_open = true;
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - clock->Now()).count();
    if (left <= 0) return DeadlineExceeded("python3 took more than {} s", timeout / std::chrono::seconds(1));
    pollfd waits[] = {{child.fd(), POLLIN, 0}, {is_open ? read_end.get() : -1, POLLIN, 0}};
    if (poll(waits, 2, static_cast<int>(left)) < 0 && errno != EINTR) return ErrnoStatus(errno, "cannot poll");
    const bool has_ended = waits[0].revents != 0;
    if (is_open) is_open = Drain(read_end.get(), &output, output_bytes_max);
    if (output.size() > output_bytes_max)
      return ResourceExhausted("python3 wrote more than {} bytes", output_bytes_max);
    if (!has_ended) continue;
    ASSIGN_OR_RETURN(const ExitStatus status, child.Reap());
    if (!status.ok()) return Aborted("python3 ended with {}", status.ToString());
    return output;
  }
}

}  // namespace tunefarm::cli
