#include "server/worker/sandbox/sandbox_limits.h"

#include <fmt/core.h>
#include <grp.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "server/exec/frame_limits.h"
#include "server/sanitizers.h"

namespace tunefarm {
namespace {

constexpr rlim_t kGiB = rlim_t{1} << 30;
constexpr rlim_t kMiB = rlim_t{1} << 20;

// Whether the limit is `value` from now on: a lower hard limit stays.
bool Limit(__rlimit_resource resource, rlim_t value) {
  rlimit limit = {value, value};
  rlimit now;
  if (getrlimit(resource, &now) == 0 && now.rlim_max != RLIM_INFINITY && now.rlim_max < value) {
    limit.rlim_cur = limit.rlim_max = now.rlim_max;
  }
  return setrlimit(resource, &limit) == 0 && limit.rlim_max == value;
}

// Also out of the bounding set where that may be changed; no_new_privs keeps them from coming back where not.
bool DropCapabilities() {
  for (unsigned long capability = 0; prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0; ++capability) {
    (void)prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
  }
  (void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct none[2] = {};
  return syscall(SYS_capset, &header, none) == 0;
}

}  // namespace

void LowerDescriptorLimit(int limit) {
  rlimit now;
  if (getrlimit(RLIMIT_NOFILE, &now) != 0 || now.rlim_cur <= static_cast<rlim_t>(limit)) return;
  now.rlim_cur = static_cast<rlim_t>(limit);
  (void)setrlimit(RLIMIT_NOFILE, &now);
}

bool SetLimits(const WorkerArguments& arguments, bool counts_alone) {
  (void)Limit(RLIMIT_CORE, 0);
  (void)Limit(RLIMIT_NOFILE, 512);
  // What a runner leaves to those after it is a file in memory; beyond, a signal would end it as a violation.
  (void)Limit(RLIMIT_FSIZE, arguments.role == "run" ? kExpectedOutputsBytesMax + 64 * kMiB : 256 * kMiB);
#if !TUNEFARM_ADDRESS_SANITIZER && !TUNEFARM_THREAD_SANITIZER  // Their shadow memory is address space by the terabyte.
  // CUDA maps more address space than any machine has memory.
  const bool uses_gpu = arguments.is_for_gpus() && arguments.role != "compile";
  // Packages of numbers map libraries by the gigabyte.
  if (!uses_gpu) (void)Limit(RLIMIT_AS, arguments.is_python() ? 64 * kGiB : 8 * kGiB);
#endif
  return counts_alone && Limit(RLIMIT_NPROC, kProcessesMax);
}

void DropPrivileges(uid_t uid, SandboxLevel* level) {
  if (uid != 0) {
    if (setgroups(0, nullptr) != 0 || setresgid(uid, uid, uid) != 0 || setresuid(uid, uid, uid) != 0) {
      fmt::print(stderr, "tunefarm-worker: cannot drop to uid {}: {}\n", uid, strerrordesc_np(errno));
      std::fflush(stderr);
      _exit(kWorkerExitSandbox);
    }
  }
  if (geteuid() != 0) {
    level->Had(fmt::format("uid {}", geteuid()));
  } else {
    level->Lacked("unprivileged uid", "it stays root");
  }
  level->Note(DropCapabilities(), "no capabilities");
  level->Note(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no new privileges");
}

void SetInspectable(bool inspectable) { (void)prctl(PR_SET_DUMPABLE, inspectable ? 1 : 0); }

}  // namespace tunefarm
