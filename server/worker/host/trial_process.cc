#include "server/worker/host/trial_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <new>
#include <utility>

#include "server/base/check.h"
#include "server/base/file.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/worker/host/trial_child.h"
#include "server/worker/seccomp_filter.h"

namespace tunefarm {
namespace {

constexpr int kOrphanRoundsMax = 64;

// Of the TrialProcesses that live, in the one thread that makes them.
std::vector<pid_t>& LivePids() {
  static std::vector<pid_t> pids;
  return pids;
}

absl::Status MakePipe(UniqueFd* read_end, UniqueFd* write_end) {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return ErrnoStatus(errno, "no pipe to a trial");
  read_end->Reset(fds[0]);
  write_end->Reset(fds[1]);
  return absl::OkStatus();
}

// The children of this thread, as the kernel lists them.
std::vector<pid_t> Children() {
  std::vector<pid_t> children;
  const absl::StatusOr<std::string> text = ReadFile("/proc/thread-self/children", 1 << 20);
  if (!text.ok()) return children;
  const char* next = text->data();
  const char* const end = next + text->size();
  while (next < end) {
    pid_t pid = 0;
    const std::from_chars_result read = std::from_chars(next, end, pid);
    if (read.ec != std::errc()) break;
    children.push_back(pid);
    next = read.ptr;
    while (next < end && *next == ' ') ++next;
  }
  return children;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TrialProcess>> TrialProcess::Start(const TrialProgram& program) {
  // Compiled once: every trial gets the same.
  static const absl::StatusOr<SeccompFilter> filter = SeccompFilter::Build(SeccompProfile::kTrial);
  RETURN_IF_ERROR(filter.status());
  std::unique_ptr<TrialProcess> process(new TrialProcess);
  void* const page = mmap(nullptr, sizeof(TrialPage), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return ErrnoStatus(errno, "no memory for a trial's control page");
  process->page_ = new (page) TrialPage;
  UniqueFd command_read, reply_write;
  RETURN_IF_ERROR(MakePipe(&command_read, &process->command_fd_));
  RETURN_IF_ERROR(MakePipe(&process->reply_fd_, &reply_write));
  // The reading end of the commands lives in the child alone, whose death must not be ours.
  (void)signal(SIGPIPE, SIG_IGN);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) return ErrnoStatus(errno, "cannot fork a trial");
  if (pid == 0) RunTrialChild(program, *filter, parent, command_read.get(), reply_write.get(), process->page_);
  process->pid_ = pid;
  LivePids().push_back(pid);
  // Both sides do it, so that it holds for whichever comes first.
  (void)setpgid(pid, pid);
  ASSIGN_OR_RETURN(process->pidfd_, Pidfd::Open(pid));
  return process;
}

TrialProcess::~TrialProcess() {
  if (pid_ > 0) {
    // The leader is not reaped yet, so neither number can have been given to somebody else.
    (void)kill(-pid_, SIGKILL);
    (void)kill(pid_, SIGKILL);
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
    std::erase(LivePids(), pid_);
    KillOrphans();
  }
  if (page_ != nullptr) munmap(page_, sizeof(TrialPage));
}

void TrialProcess::Send(const TrialCommand& command) { Write(&command, sizeof(command)); }

void TrialProcess::SendConfig(std::string_view config) {
  TUNEFARM_CHECK(config.size() <= kTrialConfigBytesMax);
  TrialCommand command;
  command.kind = TrialCommand::kConfig;
  command.count = static_cast<uint32_t>(config.size());
  // In one piece: a child that reads a command finds all of it.
  std::string bytes(reinterpret_cast<const char*>(&command), sizeof(command));
  bytes += config;
  Write(bytes.data(), bytes.size());
}

void TrialProcess::Write(const void* bytes, size_t count) {
  // Never ahead of the child and smaller than the pipe, so this cannot block; a dead child shows in Await.
  while (write(command_fd_.get(), bytes, count) < 0 && errno == EINTR) {
  }
}

TrialReply TrialProcess::Await() {
  while (true) {
    pollfd fds[2] = {{reply_fd_.get(), POLLIN, 0}, {pidfd_.fd(), POLLIN, 0}};
    if (poll(fds, 2, -1) < 0) {
      if (errno == EINTR) continue;
      return TrialReply{};
    }
    // What the child said before it died comes first.
    if ((fds[0].revents & POLLIN) != 0) break;
    if ((fds[1].revents & POLLIN) != 0) return DeadReply();
    if ((fds[0].revents & (POLLHUP | POLLERR)) != 0) {
      // It closed its end and lives on (or is about to die): nothing more can come of it.
      (void)kill(-pid_, SIGKILL);
      pollfd end = {pidfd_.fd(), POLLIN, 0};
      while (poll(&end, 1, 100) < 0 && errno == EINTR) {
      }
      return end.revents != 0 ? DeadReply() : TrialReply{};
    }
  }
  char said = 0;
  TrialReply reply;
  if (read(reply_fd_.get(), &said, 1) != 1) return reply;
  switch (said) {
    case kTrialDone:
      reply.kind = TrialReply::kDone;
      reply.nanoseconds = page_->nanoseconds.load(std::memory_order_acquire);
      break;
    case kTrialLoadError:
      reply.kind = TrialReply::kLoadError;
      reply.text = PageText();
      break;
    case kTrialThrew:
      reply.kind = TrialReply::kThrew;
      reply.text = PageText();
      break;
    case kTrialOutOfMemory:
      reply.kind = TrialReply::kOutOfMemory;
      break;
    default:
      break;
  }
  return reply;
}

TrialReply TrialProcess::DeadReply() {
  TrialReply reply;
  reply.kind = TrialReply::kDied;
  // WNOWAIT leaves the zombie to the destructor, which needs the process group to exist until it has killed it.
  siginfo_t info = {};
  while (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT) < 0 && errno == EINTR) {
  }
  reply.exit.exited = info.si_code == CLD_EXITED;
  (reply.exit.exited ? reply.exit.exit_code : reply.exit.signal) = info.si_status;
  // A bad_alloc that left a noexcept function ends in abort().
  const bool aborted = !reply.exit.exited && reply.exit.signal == SIGABRT;
  if (aborted && page_->out_of_memory.load(std::memory_order_acquire) != 0) reply.kind = TrialReply::kOutOfMemory;
  reply.fault_address_known = page_->faulted.load(std::memory_order_acquire) != 0;
  reply.fault_address = page_->fault_address.load(std::memory_order_acquire);
  reply.forbidden_syscall = page_->forbidden_syscall.load(std::memory_order_acquire);
  return reply;
}

std::string TrialProcess::PageText() const {
  std::string text;
  for (size_t i = 0; i < sizeof(page_->text); ++i) {
    // Read once: the child may still be changing it.
    const char c = const_cast<const volatile char&>(page_->text[i]);
    if (c == '\0') break;
    text += c >= ' ' && c <= '~' ? c : '?';
  }
  return text;
}

void KillOrphans() {
  for (int round = 0; round < kOrphanRoundsMax; ++round) {
    std::vector<pid_t> children = Children();
    for (const pid_t live : LivePids()) std::erase(children, live);
    if (children.empty()) return;
    for (const pid_t child : children) {
      (void)kill(child, SIGKILL);
      while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
      }
    }
  }
}

}  // namespace tunefarm
