#include "server/worker/seccomp_filter.h"

#include <errno.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/base/unique_fd.h"

namespace tunefarm {
namespace {

struct Syscall {
  const char* name;
  int number;  // negative: not on this architecture
};
#define TUNEFARM_SYSCALL(name) \
  Syscall { #name, SCMP_SYS(name) }

// No compiler, driver or kernel needs these, and each reaches beyond the process: other processes' memory, the machine,
// or parts of the kernel that are better left alone by code that nobody knows.
constexpr std::array kNever = {
    TUNEFARM_SYSCALL(mount),
    TUNEFARM_SYSCALL(umount2),
    TUNEFARM_SYSCALL(pivot_root),
    TUNEFARM_SYSCALL(chroot),
    TUNEFARM_SYSCALL(move_mount),
    TUNEFARM_SYSCALL(open_tree),
    TUNEFARM_SYSCALL(fsopen),
    TUNEFARM_SYSCALL(fsconfig),
    TUNEFARM_SYSCALL(fsmount),
    TUNEFARM_SYSCALL(fspick),
    TUNEFARM_SYSCALL(mount_setattr),
    TUNEFARM_SYSCALL(setns),
    TUNEFARM_SYSCALL(unshare),
    TUNEFARM_SYSCALL(ptrace),
    TUNEFARM_SYSCALL(process_vm_readv),
    TUNEFARM_SYSCALL(process_vm_writev),
    TUNEFARM_SYSCALL(process_madvise),
    TUNEFARM_SYSCALL(kcmp),
    TUNEFARM_SYSCALL(pidfd_getfd),
    TUNEFARM_SYSCALL(bpf),
    TUNEFARM_SYSCALL(perf_event_open),
    TUNEFARM_SYSCALL(keyctl),
    TUNEFARM_SYSCALL(add_key),
    TUNEFARM_SYSCALL(request_key),
    TUNEFARM_SYSCALL(userfaultfd),
    TUNEFARM_SYSCALL(io_uring_setup),
    TUNEFARM_SYSCALL(io_uring_enter),
    TUNEFARM_SYSCALL(io_uring_register),
    TUNEFARM_SYSCALL(kexec_load),
    TUNEFARM_SYSCALL(kexec_file_load),
    TUNEFARM_SYSCALL(init_module),
    TUNEFARM_SYSCALL(finit_module),
    TUNEFARM_SYSCALL(delete_module),
    TUNEFARM_SYSCALL(swapon),
    TUNEFARM_SYSCALL(swapoff),
    TUNEFARM_SYSCALL(reboot),
    TUNEFARM_SYSCALL(acct),
    TUNEFARM_SYSCALL(quotactl),
    TUNEFARM_SYSCALL(settimeofday),
    TUNEFARM_SYSCALL(clock_settime),
    TUNEFARM_SYSCALL(sethostname),
    TUNEFARM_SYSCALL(setdomainname),
    TUNEFARM_SYSCALL(iopl),
    TUNEFARM_SYSCALL(ioperm),
    TUNEFARM_SYSCALL(modify_ldt),
    TUNEFARM_SYSCALL(uselib),
    TUNEFARM_SYSCALL(lookup_dcookie),
    TUNEFARM_SYSCALL(name_to_handle_at),
    TUNEFARM_SYSCALL(open_by_handle_at),
    TUNEFARM_SYSCALL(fanotify_init),
    TUNEFARM_SYSCALL(syslog),
    TUNEFARM_SYSCALL(vhangup),
};
constexpr std::array kPrograms = {TUNEFARM_SYSCALL(execve), TUNEFARM_SYSCALL(execveat)};
constexpr std::array kForks = {TUNEFARM_SYSCALL(fork), TUNEFARM_SYSCALL(vfork)};
// To others than the process itself.
constexpr std::array kSignals = {TUNEFARM_SYSCALL(kill), TUNEFARM_SYSCALL(tgkill), TUNEFARM_SYSCALL(rt_sigqueueinfo),
                                 TUNEFARM_SYSCALL(rt_tgsigqueueinfo)};
constexpr std::array kProcessHandles = {TUNEFARM_SYSCALL(tkill), TUNEFARM_SYSCALL(pidfd_open),
                                        TUNEFARM_SYSCALL(pidfd_send_signal)};
constexpr std::array kPartly = {TUNEFARM_SYSCALL(clone), TUNEFARM_SYSCALL(socket), TUNEFARM_SYSCALL(socketpair)};

// Stands for the process's own number until a filter is installed; above any that Linux gives.
constexpr uint32_t kOwnPid = 0x7f5afe01;

constexpr uint64_t kNewNamespaces[] = {CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNS,     CLONE_NEWNET,
                                       CLONE_NEWIPC,  CLONE_NEWUTS, CLONE_NEWCGROUP, CLONE_NEWTIME};

// Collects rules until the first failure.
class Rules {
 public:
  explicit Rules(SeccompProfile profile) : profile_(profile), context_(seccomp_init(SCMP_ACT_ALLOW)) {}

  absl::StatusOr<std::vector<sock_filter>> Build() {
    if (context_ == nullptr) return Internal("libseccomp has no memory for a filter");
    // One look-up in a tree instead of a walk over the list, for every system call there is.
    Check(seccomp_attr_set(context_.get(), SCMP_FLTATR_CTL_OPTIMIZE, 2), "the attributes");
    for (const Syscall& call : kNever) Forbid(call, Forbidden());
    AddProcesses();
    AddSockets();
    if (profile_ == SeccompProfile::kTrial) {
      for (const Syscall& call : kProcessHandles) Forbid(call, Forbidden());
      for (const Syscall& call : kSignals) Forbid(call, Forbidden(), SCMP_A0(SCMP_CMP_NE, kOwnPid));
    }
    RETURN_IF_ERROR(failure_);
    return Export();
  }

 private:
  struct Release {
    void operator()(void* context) const { seccomp_release(context); }
  };

  bool IsAnyOf(std::initializer_list<SeccompProfile> profiles) const {
    return std::find(profiles.begin(), profiles.end(), profile_) != profiles.end();
  }

  // Drivers probe for what they may do; nothing foreign runs on the CPU beside them.
  uint32_t Forbidden() const {
    return IsAnyOf({SeccompProfile::kRunCuda, SeccompProfile::kProbe}) ? SCMP_ACT_ERRNO(EPERM) : SCMP_ACT_TRAP;
  }

  void AddProcesses() {
    // Its flags lie in memory, out of a filter's sight. Without it the C library takes clone.
    Forbid(TUNEFARM_SYSCALL(clone3), SCMP_ACT_ERRNO(ENOSYS));
    if (IsAnyOf({SeccompProfile::kCompileHost, SeccompProfile::kRunHost, SeccompProfile::kProbe})) {
      for (const uint64_t flag : kNewNamespaces) {
        Forbid(TUNEFARM_SYSCALL(clone), SCMP_ACT_ERRNO(EPERM), SCMP_A0(SCMP_CMP_MASKED_EQ, flag, flag));
      }
      return;
    }
    const uint32_t action = profile_ == SeccompProfile::kTrial ? SCMP_ACT_TRAP : SCMP_ACT_ERRNO(EPERM);
    for (const Syscall& call : kForks) Forbid(call, action);
    for (const Syscall& call : kPrograms) Forbid(call, action);
    Forbid(TUNEFARM_SYSCALL(clone), action, SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0));
  }

  void AddSockets() {
    const uint32_t action = profile_ == SeccompProfile::kTrial ? SCMP_ACT_TRAP : SCMP_ACT_ERRNO(EAFNOSUPPORT);
    if (IsAnyOf({SeccompProfile::kRunCuda, SeccompProfile::kProbe})) {
      Forbid(TUNEFARM_SYSCALL(socket), action, SCMP_A0(SCMP_CMP_NE, AF_UNIX));
    } else {
      Forbid(TUNEFARM_SYSCALL(socket), action);
    }
    Forbid(TUNEFARM_SYSCALL(socketpair), action, SCMP_A0(SCMP_CMP_NE, AF_UNIX));
  }

  template <typename... Comparisons>
  void Forbid(const Syscall& call, uint32_t action, Comparisons... comparisons) {
    if (call.number < 0) return;
    Check(seccomp_rule_add(context_.get(), action, call.number, sizeof...(comparisons), comparisons...), call.name);
  }

  void Check(int result, const char* what) {
    if (result != 0 && failure_.ok()) failure_ = ErrnoStatus(-result, "libseccomp refuses {}", what);
  }

  absl::StatusOr<std::vector<sock_filter>> Export() {
    const UniqueFd file(memfd_create("seccomp", MFD_CLOEXEC));
    if (!file) return ErrnoStatus(errno, "no memory for a filter");
    Check(seccomp_export_bpf(context_.get(), file.get()), "to export the filter");
    RETURN_IF_ERROR(failure_);
    const off_t bytes = lseek(file.get(), 0, SEEK_END);
    std::vector<sock_filter> program(static_cast<size_t>(bytes) / sizeof(sock_filter));
    if (program.empty() || pread(file.get(), program.data(), static_cast<size_t>(bytes), 0) != bytes) {
      return Internal("libseccomp exported a filter of {} bytes that cannot be read back", bytes);
    }
    return program;
  }

  const SeccompProfile profile_;
  std::unique_ptr<void, Release> context_;
  absl::Status failure_;
};

template <size_t size>
std::string_view NameIn(const std::array<Syscall, size>& calls, int number) {
  for (const Syscall& call : calls) {
    if (call.number == number) return call.name;
  }
  return "";
}

void OnForbidden(int signal_number, siginfo_t* info, void*) {
  const int saved = errno;
  const std::string_view name = ForbiddenSyscallName(info->si_syscall);
  constexpr std::string_view kBegin = "forbidden system call: ";
  (void)!write(STDERR_FILENO, kBegin.data(), kBegin.size());
  (void)!write(STDERR_FILENO, name.data(), name.size());
  (void)!write(STDERR_FILENO, "\n", 1);
  errno = saved;
  ::signal(signal_number, SIG_DFL);
  raise(signal_number);
}

}  // namespace

absl::StatusOr<SeccompFilter> SeccompFilter::Build(SeccompProfile profile) {
  SeccompFilter filter;
  ASSIGN_OR_RETURN(filter.program_, Rules(profile).Build());
  return filter;
}

int SeccompFilter::Install() const {
  std::array<sock_filter, 1024> program;
  if (program_.size() > program.size()) return E2BIG;
  std::memcpy(program.data(), program_.data(), program_.size() * sizeof(sock_filter));
  const uint32_t pid = static_cast<uint32_t>(getpid());
  for (size_t i = 0; i < program_.size(); ++i) {
    if (BPF_CLASS(program[i].code) == BPF_JMP && program[i].k == kOwnPid) program[i].k = pid;
  }
  const sock_fprog description = {static_cast<unsigned short>(program_.size()), program.data()};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return errno;
  return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &description) == 0 ? 0 : errno;
}

std::string_view ForbiddenSyscallName(int number) {
  for (const std::string_view name :
       {NameIn(kNever, number), NameIn(kPrograms, number), NameIn(kForks, number), NameIn(kSignals, number),
        NameIn(kProcessHandles, number), NameIn(kPartly, number)}) {
    if (!name.empty()) return name;
  }
  return "";
}

void ReportForbiddenSyscalls() {
  struct sigaction action = {};
  action.sa_sigaction = OnForbidden;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSYS, &action, nullptr);
}

}  // namespace tunefarm
