#include "server/worker/sandbox/seccomp_filter.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <memory>

#include "server/base/freed.h"
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
    TUNEFARM_SYSCALL(process_mrelease),
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
    TUNEFARM_SYSCALL(quotactl_fd),
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
    // Objects that outlive their process and count in no limit of it.
    TUNEFARM_SYSCALL(shmget),
    TUNEFARM_SYSCALL(shmat),
    TUNEFARM_SYSCALL(shmctl),
    TUNEFARM_SYSCALL(shmdt),
    TUNEFARM_SYSCALL(msgget),
    TUNEFARM_SYSCALL(msgsnd),
    TUNEFARM_SYSCALL(msgrcv),
    TUNEFARM_SYSCALL(msgctl),
    TUNEFARM_SYSCALL(semget),
    TUNEFARM_SYSCALL(semop),
    TUNEFARM_SYSCALL(semtimedop),
    TUNEFARM_SYSCALL(semctl),
    TUNEFARM_SYSCALL(mq_open),
    TUNEFARM_SYSCALL(mq_unlink),
    TUNEFARM_SYSCALL(mq_timedsend),
    TUNEFARM_SYSCALL(mq_timedreceive),
    TUNEFARM_SYSCALL(mq_notify),
    TUNEFARM_SYSCALL(mq_getsetattr),
};
// Change the process or thread that the first argument names; 0 is the caller.
constexpr std::array kNamesTarget = {
    TUNEFARM_SYSCALL(prlimit64),          TUNEFARM_SYSCALL(sched_setaffinity), TUNEFARM_SYSCALL(sched_setparam),
    TUNEFARM_SYSCALL(sched_setscheduler), TUNEFARM_SYSCALL(sched_setattr),     TUNEFARM_SYSCALL(move_pages),
    TUNEFARM_SYSCALL(migrate_pages),      TUNEFARM_SYSCALL(get_robust_list),
};
// The same, but the first argument says what kind of number the second is.
struct KindAndTarget {
  Syscall call;
  uint64_t own_kind;
};
constexpr uint64_t kIoprioWhoProcess = 1;  // linux/ioprio.h, which not every system has
constexpr std::array kNamesKindAndTarget = {
    KindAndTarget{TUNEFARM_SYSCALL(setpriority), PRIO_PROCESS},
    KindAndTarget{TUNEFARM_SYSCALL(ioprio_set), kIoprioWhoProcess},
};
// A call with one value of one argument, of which the kernel looks at the lower 32 bits only.
struct ArgumentRule {
  Syscall call;
  unsigned argument;
  uint32_t value;
};
// The owner of a descriptor is sent signals; a lease or a watch on a description that is shared outlives the process.
constexpr std::array kOwners = {
    ArgumentRule{TUNEFARM_SYSCALL(fcntl), 1, F_SETOWN},  ArgumentRule{TUNEFARM_SYSCALL(fcntl), 1, F_SETOWN_EX},
    ArgumentRule{TUNEFARM_SYSCALL(fcntl), 1, F_SETSIG},  ArgumentRule{TUNEFARM_SYSCALL(fcntl), 1, F_SETLEASE},
    ArgumentRule{TUNEFARM_SYSCALL(fcntl), 1, F_NOTIFY},  ArgumentRule{TUNEFARM_SYSCALL(ioctl), 1, FIOSETOWN},
    ArgumentRule{TUNEFARM_SYSCALL(ioctl), 1, SIOCSPGRP},
};
// Memory that no limit counts: files in memory, pages that a pipe keeps after they were unmapped.
constexpr std::array kUncountedMemory = {TUNEFARM_SYSCALL(memfd_create), TUNEFARM_SYSCALL(memfd_secret),
                                         TUNEFARM_SYSCALL(vmsplice)};
// What one process takes or does and the whole machine feels: contexts of asynchronous I/O, of which all users share
// one number (fs.aio-max-nr), and writing back everybody's files.
constexpr std::array kMachineWide = {TUNEFARM_SYSCALL(io_setup), TUNEFARM_SYSCALL(sync), TUNEFARM_SYSCALL(syncfs)};
// What a trial shares with its runner stays as it is: pages of buffers, the pipe of standard error, a terminal where
// there is one. So do who may look into it and whose cores it shares.
constexpr std::array kSharedState = {
    ArgumentRule{TUNEFARM_SYSCALL(madvise), 2, MADV_REMOVE},  ArgumentRule{TUNEFARM_SYSCALL(fcntl), 1, F_SETPIPE_SZ},
    ArgumentRule{TUNEFARM_SYSCALL(ioctl), 1, TIOCSTI},        ArgumentRule{TUNEFARM_SYSCALL(ioctl), 1, TIOCLINUX},
    ArgumentRule{TUNEFARM_SYSCALL(prctl), 0, PR_SET_PTRACER}, ArgumentRule{TUNEFARM_SYSCALL(prctl), 0, PR_SCHED_CORE},
    ArgumentRule{TUNEFARM_SYSCALL(fcntl), 1, F_OFD_SETLK},    ArgumentRule{TUNEFARM_SYSCALL(fcntl), 1, F_OFD_SETLKW},
};
constexpr int kFchmodat2Number = 452;  // Linux 6.6; the same everywhere
// Attributes and locks of files that outlive the process, and in which later trials could read what this one computed:
// of the binary, of standard error, of the scratch directory.
constexpr std::array kFileAttributes = {
    TUNEFARM_SYSCALL(chmod),     TUNEFARM_SYSCALL(fchmod),
    TUNEFARM_SYSCALL(fchmodat),  Syscall{"fchmodat2", kFchmodat2Number},
    TUNEFARM_SYSCALL(utime),     TUNEFARM_SYSCALL(utimes),
    TUNEFARM_SYSCALL(futimesat), TUNEFARM_SYSCALL(utimensat),
    TUNEFARM_SYSCALL(setxattr),  TUNEFARM_SYSCALL(lsetxattr),
    TUNEFARM_SYSCALL(fsetxattr), TUNEFARM_SYSCALL(flock),
};
// The same by requests: how long the data of a file is expected to live, its flags, its project and its generation.
constexpr std::array kFileAttributeRequests = {
    ArgumentRule{TUNEFARM_SYSCALL(fcntl), 1, F_SET_RW_HINT},
    ArgumentRule{TUNEFARM_SYSCALL(fcntl), 1, F_SET_FILE_RW_HINT},
    ArgumentRule{TUNEFARM_SYSCALL(ioctl), 1, FS_IOC_SETFLAGS},
    ArgumentRule{TUNEFARM_SYSCALL(ioctl), 1, FS_IOC32_SETFLAGS},
    ArgumentRule{TUNEFARM_SYSCALL(ioctl), 1, FS_IOC_FSSETXATTR},
    ArgumentRule{TUNEFARM_SYSCALL(ioctl), 1, FS_IOC_SETVERSION},
    ArgumentRule{TUNEFARM_SYSCALL(ioctl), 1, FS_IOC32_SETVERSION},
};
constexpr std::array kPrograms = {TUNEFARM_SYSCALL(execve), TUNEFARM_SYSCALL(execveat)};
constexpr std::array kForks = {TUNEFARM_SYSCALL(fork), TUNEFARM_SYSCALL(vfork)};
// To others than the process itself.
constexpr std::array kSignals = {TUNEFARM_SYSCALL(kill), TUNEFARM_SYSCALL(tgkill), TUNEFARM_SYSCALL(rt_sigqueueinfo),
                                 TUNEFARM_SYSCALL(rt_tgsigqueueinfo)};
// kTrialRest: of each call the value of the first argument, or its bit, with which it is allowed.
struct RestRule {
  int number;
  enum { kNever, kOwnPid, kThread } allowed;
};
constexpr std::array kRest = {
    RestRule{SCMP_SYS(fork), RestRule::kNever},
    RestRule{SCMP_SYS(vfork), RestRule::kNever},
    RestRule{SCMP_SYS(clone), RestRule::kThread},
    RestRule{SCMP_SYS(kill), RestRule::kOwnPid},
    RestRule{SCMP_SYS(tgkill), RestRule::kOwnPid},
    RestRule{SCMP_SYS(rt_sigqueueinfo), RestRule::kOwnPid},
    RestRule{SCMP_SYS(rt_tgsigqueueinfo), RestRule::kOwnPid},
};
constexpr std::array kProcessHandles = {TUNEFARM_SYSCALL(tkill), TUNEFARM_SYSCALL(pidfd_open),
                                        TUNEFARM_SYSCALL(pidfd_send_signal)};
constexpr std::array kPartly = {
    TUNEFARM_SYSCALL(clone),      TUNEFARM_SYSCALL(socket), TUNEFARM_SYSCALL(socketpair), TUNEFARM_SYSCALL(setpriority),
    TUNEFARM_SYSCALL(ioprio_set), TUNEFARM_SYSCALL(fcntl),  TUNEFARM_SYSCALL(ioctl),      TUNEFARM_SYSCALL(madvise),
    TUNEFARM_SYSCALL(prctl),      TUNEFARM_SYSCALL(setpgid)};

// The newest call that these lists were made with (Linux 6.10). Later ones do not exist for a worker: programs expect
// that of an older kernel, and nobody has judged what they reach. New calls have the same number everywhere.
constexpr uint32_t kMsealNumber = 462;
constexpr uint32_t kNewestSyscall = kMsealNumber;

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
    if (!IsAnyOf({SeccompProfile::kRunCuda, SeccompProfile::kProbe})) AddTargets();
    if (IsAnyOf({SeccompProfile::kTrial, SeccompProfile::kTrialTemplate})) AddTrial();
    if (IsAnyOf({SeccompProfile::kPythonHost, SeccompProfile::kPythonCompile, SeccompProfile::kPythonCuda})) {
      // Softly: libffi, for one, takes a file in memory where it may and one in the scratch directory where not.
      for (const Syscall& call : kUncountedMemory) {
        if (call.number == SCMP_SYS(memfd_create) && profile_ != SeccompProfile::kPythonHost) continue;
        Forbid(call, SCMP_ACT_ERRNO(EPERM));
      }
    }
    if (profile_ == SeccompProfile::kTrial) {
      for (const Syscall& call : kSignals) Forbid(call, Forbidden(), SCMP_A0(SCMP_CMP_NE, kOwnPid));
    }
    RETURN_IF_ERROR(failure_);
    return Export();
  }

 private:
  bool IsAnyOf(std::initializer_list<SeccompProfile> profiles) const {
    return std::find(profiles.begin(), profiles.end(), profile_) != profiles.end();
  }

  // Drivers probe for what they may do. Only in Python does anything foreign run on the CPU beside them.
  uint32_t Forbidden() const {
    return IsAnyOf({SeccompProfile::kRunCuda, SeccompProfile::kPythonCuda, SeccompProfile::kProbe})
               ? SCMP_ACT_ERRNO(EPERM)
               : SCMP_ACT_TRAP;
  }

  void AddProcesses() {
    // Its flags lie in memory, out of a filter's sight. Without it the C library takes clone.
    Forbid(TUNEFARM_SYSCALL(clone3), SCMP_ACT_ERRNO(ENOSYS));
    if (IsAnyOf({SeccompProfile::kCompileHost, SeccompProfile::kRunHost, SeccompProfile::kPythonHost,
                 SeccompProfile::kPythonCompile, SeccompProfile::kPythonCuda, SeccompProfile::kProbe})) {
      for (const uint64_t flag : kNewNamespaces) {
        Forbid(TUNEFARM_SYSCALL(clone), SCMP_ACT_ERRNO(EPERM), SCMP_A0(SCMP_CMP_MASKED_EQ, flag, flag));
      }
      return;
    }
    if (profile_ == SeccompProfile::kTrialTemplate) {
      for (const Syscall& call : kPrograms) Forbid(call, SCMP_ACT_TRAP);
      return;
    }
    const uint32_t action = profile_ == SeccompProfile::kTrial ? SCMP_ACT_TRAP : SCMP_ACT_ERRNO(EPERM);
    for (const Syscall& call : kForks) Forbid(call, action);
    for (const Syscall& call : kPrograms) Forbid(call, action);
    Forbid(TUNEFARM_SYSCALL(clone), action, SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0));
  }

  void AddSockets() {
    const bool is_trial = IsAnyOf({SeccompProfile::kTrial, SeccompProfile::kTrialTemplate});
    const uint32_t action = is_trial ? SCMP_ACT_TRAP : SCMP_ACT_ERRNO(EAFNOSUPPORT);
    if (IsAnyOf({SeccompProfile::kRunCuda, SeccompProfile::kPythonCuda, SeccompProfile::kProbe})) {
      Forbid(TUNEFARM_SYSCALL(socket), action, SCMP_A0(SCMP_CMP_NE, AF_UNIX));
    } else {
      Forbid(TUNEFARM_SYSCALL(socket), action);
    }
    Forbid(TUNEFARM_SYSCALL(socketpair), action, SCMP_A0(SCMP_CMP_NE, AF_UNIX));
  }

  // Other processes and threads, by their numbers. A filter cannot know which numbers are the caller's own: 0 is.
  void AddTargets() {
    // Compilers and packages of Python do without. The trials of a runner inherit its filter.
    const bool only_trials =
        IsAnyOf({SeccompProfile::kRunHost, SeccompProfile::kTrial, SeccompProfile::kTrialTemplate});
    const uint32_t action = only_trials ? SCMP_ACT_TRAP : SCMP_ACT_ERRNO(EPERM);
    for (const Syscall& call : kNamesTarget) Forbid(call, action, SCMP_A0(SCMP_CMP_NE, 0));
    for (const KindAndTarget& rule : kNamesKindAndTarget) {
      Forbid(rule.call, action, SCMP_A0(SCMP_CMP_NE, rule.own_kind));
      Forbid(rule.call, action, SCMP_A1(SCMP_CMP_NE, 0));
    }
    for (const ArgumentRule& rule : kOwners) Forbid(rule, action);
  }

  void AddTrial() {
    for (const Syscall& call : kProcessHandles) Forbid(call, Forbidden());
    for (const Syscall& call : kUncountedMemory) Forbid(call, Forbidden());
    for (const Syscall& call : kMachineWide) Forbid(call, Forbidden());
    for (const Syscall& call : kFileAttributes) Forbid(call, Forbidden());
    for (const ArgumentRule& rule : kFileAttributeRequests) Forbid(rule, Forbidden());
    for (const ArgumentRule& rule : kSharedState) Forbid(rule, Forbidden());
    // A process group of its own is what a trial begins with.
    Forbid(TUNEFARM_SYSCALL(setpgid), Forbidden(), SCMP_A0(SCMP_CMP_NE, 0));
    Forbid(TUNEFARM_SYSCALL(setpgid), Forbidden(), SCMP_A1(SCMP_CMP_NE, 0));
    // Both are set before: a trial dies with its runner, and its files in /proc are not its own.
    constexpr uint64_t kLower = 0xffffffff;
    Forbid(TUNEFARM_SYSCALL(prctl), Forbidden(), SCMP_A0(SCMP_CMP_MASKED_EQ, kLower, PR_SET_PDEATHSIG),
           SCMP_A1(SCMP_CMP_NE, SIGKILL));
    Forbid(TUNEFARM_SYSCALL(prctl), Forbidden(), SCMP_A0(SCMP_CMP_MASKED_EQ, kLower, PR_SET_DUMPABLE),
           SCMP_A1(SCMP_CMP_NE, 0));
  }

  // Compared as the kernel does, so that nothing in the upper half makes another value of it.
  void Forbid(const ArgumentRule& rule, uint32_t action) {
    Forbid(rule.call, action, SCMP_CMP(rule.argument, SCMP_CMP_MASKED_EQ, 0xffffffff, rule.value));
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
    const size_t count = static_cast<size_t>(bytes) / sizeof(sock_filter);
    // Before its rules, which know calls by their names: the numbers that have none yet.
    std::vector<sock_filter> program = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, kNewestSyscall, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
    };
    const size_t before = program.size();
    program.resize(before + count);
    if (count == 0 || pread(file.get(), &program[before], static_cast<size_t>(bytes), 0) != bytes) {
      return Internal("libseccomp exported a filter of {} bytes that cannot be read back", bytes);
    }
    return program;
  }

  const SeccompProfile profile_;
  std::unique_ptr<void, Freed<seccomp_release>> context_;
  absl::Status failure_;
};

// By hand: the kernel walks a filter for every system call there is when it is installed, which is what installing
// costs. Foreign architectures are the first part's business, which has ended the process then.
class RestProgram {
 public:
  std::vector<sock_filter> Build() {
    std::vector<RestRule> rules(kRest.begin(), kRest.end());
    std::erase_if(rules, [](const RestRule& rule) { return rule.number < 0; });
    std::sort(rules.begin(), rules.end(), [](const RestRule& a, const RestRule& b) { return a.number < b.number; });
    program_.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)));
    AddTree(rules.data(), rules.size());
    return std::move(program_);
  }

 private:
  void AddTree(const RestRule* rules, size_t count) {
    if (count > 2) {
      const size_t half = count / 2;
      const size_t jump = program_.size();
      program_.push_back(BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, static_cast<uint32_t>(rules[half].number), 0, 0));
      AddTree(rules, half);
      program_[jump].jt = static_cast<uint8_t>(program_.size() - jump - 1);
      AddTree(rules + half, count - half);
      return;
    }
    for (size_t i = 0; i < count; ++i) AddRule(rules[i]);
    program_.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  }

  void AddRule(const RestRule& rule) {
    const bool looks = rule.allowed != RestRule::kNever;
    program_.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(rule.number), 0,
                                static_cast<uint8_t>(looks ? 4 : 1)));
    if (looks) {
      // The kernel takes process ids and these flags from the lower half.
      constexpr size_t kLower = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? 4 : 0;
      program_.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args) + kLower));
      if (rule.allowed == RestRule::kThread) {
        program_.push_back(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 0, 1));
      } else {
        program_.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kOwnPid, 0, 1));
      }
      program_.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    }
    program_.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP));
  }

  std::vector<sock_filter> program_;
};

template <size_t size>
std::string_view NameIn(const std::array<Syscall, size>& calls, int number) {
  for (const Syscall& call : calls) {
    if (call.number == number) return call.name;
  }
  return "";
}

template <size_t size>
[[gnu::noinline]] int InstallCopy(const std::vector<sock_filter>& program) {
  std::array<sock_filter, size> copy;
  if (program.size() > copy.size()) return E2BIG;
  std::memcpy(copy.data(), program.data(), program.size() * sizeof(sock_filter));
  const uint32_t pid = static_cast<uint32_t>(getpid());
  for (size_t i = 0; i < program.size(); ++i) {
    if (BPF_CLASS(copy[i].code) == BPF_JMP && copy[i].k == kOwnPid) copy[i].k = pid;
  }
  const sock_fprog description = {static_cast<unsigned short>(program.size()), copy.data()};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return errno;
  return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &description) == 0 ? 0 : errno;
}

// Arguments and result of the system call that SIGSYS interrupted.
using Registers = std::array<unsigned long, 6>;

#if defined(__x86_64__)
Registers ReadRegisters(const ucontext_t& context) {
  const greg_t* const r = context.uc_mcontext.gregs;
  const auto at = [r](int which) { return static_cast<unsigned long>(r[which]); };
  return {at(REG_RDI), at(REG_RSI), at(REG_RDX), at(REG_R10), at(REG_R8), at(REG_R9)};
}
void SetResult(ucontext_t* context, long result) { context->uc_mcontext.gregs[REG_RAX] = result; }
#elif defined(__aarch64__)
Registers ReadRegisters(const ucontext_t& context) {
  const auto* const r = context.uc_mcontext.regs;
  return {r[0], r[1], r[2], r[3], r[4], r[5]};
}
void SetResult(ucontext_t* context, long result) {
  context->uc_mcontext.regs[0] = static_cast<unsigned long long>(result);
}
#endif

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
  if (profile == SeccompProfile::kTrialRest) {
    filter.program_ = RestProgram().Build();
    return filter;
  }
  ASSIGN_OR_RETURN(filter.program_, Rules(profile).Build());
  return filter;
}

int SeccompFilter::Install() const {
  // Two sizes, so that a small filter does not touch a page of stack for nothing.
  if (program_.size() <= 64) return InstallCopy<64>(program_);
  return InstallCopy<1024>(program_);
}

std::string_view ForbiddenSyscallName(int number) {
  for (const std::string_view name :
       {NameIn(kNever, number), NameIn(kPrograms, number), NameIn(kForks, number), NameIn(kSignals, number),
        NameIn(kProcessHandles, number), NameIn(kNamesTarget, number), NameIn(kUncountedMemory, number),
        NameIn(kMachineWide, number), NameIn(kFileAttributes, number), NameIn(kPartly, number)}) {
    if (!name.empty()) return name;
  }
  return "";
}

bool RepeatForCaller([[maybe_unused]] const siginfo_t& info, [[maybe_unused]] void* context) {
#if defined(__x86_64__) || defined(__aarch64__)
  auto* const interrupted = static_cast<ucontext_t*>(context);
  Registers arguments = ReadRegisters(*interrupted);
  size_t target = 0;
  if (NameIn(kNamesTarget, info.si_syscall).empty()) {
    const auto rule =
        std::find_if(kNamesKindAndTarget.begin(), kNamesKindAndTarget.end(),
                     [&info](const KindAndTarget& known) { return known.call.number == info.si_syscall; });
    if (rule == kNamesKindAndTarget.end() || arguments[0] != rule->own_kind) return false;
    target = 1;
  }
  if (arguments[target] != static_cast<unsigned long>(syscall(SYS_gettid))) return false;
  arguments[target] = 0;
  const int saved = errno;
  const long result =
      syscall(info.si_syscall, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], arguments[5]);
  SetResult(interrupted, result < 0 ? -errno : result);
  errno = saved;
  return true;
#else
  return false;
#endif
}

void ReportForbiddenSyscalls() {
  struct sigaction action = {};
  action.sa_sigaction = OnForbidden;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSYS, &action, nullptr);
}

}  // namespace tunefarm
