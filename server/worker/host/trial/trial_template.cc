#include "server/worker/host/trial/trial_template.h"

#include <linux/prctl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "server/base/check.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/worker/host/trial/trial_child.h"
#include "server/worker/sandbox/seccomp_filter.h"

namespace tunefarm {
namespace {

// What the template says first: whether it could bind itself to its filter; then of each trial its pid, or minus errno.
constexpr int32_t kFiltered = 1;
constexpr int32_t kUnfiltered = 2;

using TrialFds = std::array<int, 2>;  // commands, replies

struct TrialFilters {
  SeccompFilter shared;
  SeccompFilter rest;
};

absl::StatusOr<TrialFilters> BuildFilters() {
  TrialFilters filters;
  ASSIGN_OR_RETURN(filters.shared, SeccompFilter::Build(SeccompProfile::kTrialTemplate));
  ASSIGN_OR_RETURN(filters.rest, SeccompFilter::Build(SeccompProfile::kTrialRest));
  return filters;
}

// What the C library's fork does for a process of one thread, but the child becomes our sibling.
class Forker {
 public:
  // False where the kernel does not tell what that takes.
  bool Init() {
    return prctl(PR_GET_TID_ADDRESS, &thread_id_, 0, 0, 0) == 0 && thread_id_ != nullptr &&
           syscall(SYS_get_robust_list, 0, &robust_list_, &robust_list_bytes_) == 0;
  }

  pid_t Fork() const {
    constexpr unsigned long kFlags = CLONE_PARENT | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD;
#if defined(__x86_64__)
    const long pid = syscall(SYS_clone, kFlags, nullptr, nullptr, thread_id_, nullptr);
#else
    const long pid = syscall(SYS_clone, kFlags, nullptr, nullptr, nullptr, thread_id_);
#endif
    if (pid == 0) (void)syscall(SYS_set_robust_list, robust_list_, robust_list_bytes_);
    return pid < 0 ? -errno : static_cast<pid_t>(pid);
  }

 private:
  int* thread_id_ = nullptr;  // where the C library keeps it
  void* robust_list_ = nullptr;
  size_t robust_list_bytes_ = 0;
};

// The request for one trial. False when there will be none any more.
bool ReceiveRequest(int socket, TrialFds* fds) {
  char byte = 0;
  iovec part = {&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(TrialFds))> control;
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t got = 0;
  do {
    got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  const cmsghdr* const header = CMSG_FIRSTHDR(&message);
  if (got != 1 || header == nullptr || header->cmsg_len != CMSG_LEN(sizeof(TrialFds))) return false;
  std::memcpy(fds->data(), CMSG_DATA(header), sizeof(TrialFds));
  return true;
}

bool SendRequest(int socket, const TrialFds& fds) {
  char byte = 0;
  iovec part = {&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(TrialFds))> control = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(TrialFds));
  std::memcpy(CMSG_DATA(header), fds.data(), sizeof(TrialFds));
  ssize_t sent = 0;
  do {
    sent = sendmsg(socket, &message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == 1;
}

bool Say(int socket, int32_t number) {
  ssize_t sent = 0;
  do {
    sent = send(socket, &number, sizeof(number), MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == sizeof(number);
}

bool Hear(int socket, int32_t* number) {
  ssize_t got = 0;
  do {
    got = recv(socket, number, sizeof(*number), 0);
  } while (got < 0 && errno == EINTR);
  return got == sizeof(*number);
}

[[noreturn]] void RunTemplate(const TrialProgram& program, const TrialFilters& filters, pid_t parent, int socket,
                              TrialPage* page) {
  EnterTrialSurroundings(program, parent, {socket, -1}, page);
  GatherHeap();
  Forker forker;
  if (!forker.Init()) _exit(1);
  const int error = filters.shared.Install();
  if (error != 0 && error != EINVAL && error != ENOSYS) _exit(1);
  if (!Say(socket, error == 0 ? kFiltered : kUnfiltered)) _exit(0);
  TrialFds fds;
  while (ReceiveRequest(socket, &fds)) {
    const pid_t pid = forker.Fork();
    if (pid == 0) {
      close(socket);
      BecomeTrial(program, filters.rest, parent, {fds[0], fds[1], page});
    }
    close(fds[0]);
    close(fds[1]);
    if (!Say(socket, pid)) break;
  }
  _exit(0);
}

}  // namespace

absl::StatusOr<std::unique_ptr<TrialTemplate>> TrialTemplate::Start(const TrialProgram& program) {
  static const absl::StatusOr<TrialFilters> filters = BuildFilters();
  RETURN_IF_ERROR(filters.status());
  TUNEFARM_CHECK(!program.load_at_start);
  std::unique_ptr<TrialTemplate> started(new TrialTemplate);
  ASSIGN_OR_RETURN(started->page_, NewTrialPage());
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return ErrnoStatus(errno, "no socket to the template of trials");
  }
  started->socket_.Reset(ends[0]);
  UniqueFd theirs(ends[1]);
  (void)signal(SIGPIPE, SIG_IGN);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) return ErrnoStatus(errno, "cannot fork the template of trials");
  if (pid == 0) RunTemplate(program, *filters, parent, theirs.get(), started->page_.get());
  started->pid_ = pid;
  SpareFromOrphans(pid);
  theirs.Reset();
  int32_t said = 0;
  if (!Hear(ends[0], &said)) return Unimplemented("the template of trials did not start");
  started->is_filtered_ = said == kFiltered;
  return started;
}

TrialTemplate::~TrialTemplate() {
  if (pid_ <= 0) return;
  if (asked_ != nullptr) (void)Take();
  (void)kill(pid_, SIGKILL);
  ReapChild(pid_);
}

absl::Status TrialTemplate::Ask() {
  TUNEFARM_CHECK(asked_ == nullptr);
  TrialPipes pipes;
  RETURN_IF_ERROR(pipes.Open());
  if (!SendRequest(socket_.get(), {pipes.command_read.get(), pipes.reply_write.get()})) {
    return Unavailable("the template of trials is gone");
  }
  asked_.reset(new TrialProcess);
  asked_->page_ = page_;
  asked_->command_fd_ = std::move(pipes.command_write);
  asked_->reply_fd_ = std::move(pipes.reply_read);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<TrialProcess>> TrialTemplate::Take() {
  if (asked_ == nullptr) RETURN_IF_ERROR(Ask());
  std::unique_ptr<TrialProcess> process = std::move(asked_);
  int32_t said = 0;
  if (!Hear(socket_.get(), &said)) return Unavailable("the template of trials is gone");
  if (said < 0) return ErrnoStatus(-said, "cannot fork a trial");
  process->pid_ = said;
  process->may_leave_orphans_ = !is_filtered_;
  SpareFromOrphans(said);
  if (!is_filtered_) {
    ASSIGN_OR_RETURN(process->pidfd_, Pidfd::Open(said));
  }
  return process;
}

}  // namespace tunefarm
