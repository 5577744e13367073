#include "server/worker/sandbox/sandbox.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/fsuid.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "server/base/status.h"
#include "server/exec/frame_limits.h"
#include "server/sanitizers.h"
#include "server/worker/sandbox/sandbox_limits.h"
#include "server/worker/sandbox/sandbox_namespaces.h"
#include "server/worker/sandbox/sandbox_root.h"
#include "server/worker/sandbox/sandbox_view.h"
#include "server/worker/sandbox/seccomp_filter.h"

#if TUNEFARM_ADDRESS_SANITIZER
// Asked at the end: looking for leaks takes ptrace, which the sandbox forbids, and would wait for it without an end.
extern "C" int __lsan_is_turned_off();
extern "C" int __lsan_is_turned_off() { return 1; }
#endif

namespace tunefarm {
namespace {

// Whether the uid can work in the directory: it may lie under one that only root enters.
bool Reaches(const std::string& path, uid_t uid) {
  setfsuid(uid);
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  setfsuid(0);
  if (fd < 0) return false;
  close(fd);
  return true;
}

void UseScratch(const char* path) {
  setenv("TMPDIR", path, 1);
  setenv("HOME", path, 1);
}

// With the whole machine in view: the scratch directory by a path that the uid can walk. Where there is none, as for a
// root that may not mount, the worker is put into it and has to stay there. One that cannot be keeps its uid: without
// its scratch directory it could do nothing.
std::string PlaceScratch(WorkerArguments* arguments, bool has_mount_namespace, SandboxLevel* level) {
  const std::string& scratch = arguments->scratch;
  if (scratch.empty() || arguments->uid == 0 || Reaches(scratch, arguments->uid)) return scratch;
  constexpr const char* kWalkable = "/tmp";
  constexpr const char* kWhat = "scratch bound to /tmp";
  if (!has_mount_namespace) {
    level->Lacked(kWhat, "it needs a mount namespace");
  } else if (level->Note(mount(scratch.c_str(), kWalkable, nullptr, MS_BIND, nullptr) == 0, kWhat)) {
    UseScratch(kWalkable);
    return kWalkable;
  }
  constexpr const char* kHere = ".";
  if (chdir(scratch.c_str()) == 0) {
    UseScratch(kHere);
    return kHere;
  }
  // A root without CAP_DAC_OVERRIDE enters only its own. If that fails too, entering it does, and says so.
  (void)!chown(scratch.c_str(), 0, 0);
  arguments->uid = 0;
  return scratch;
}

// The root directory of the role; false if the machine's stays.
bool EnterView(const WorkerArguments& arguments, const SandboxView& view, SandboxLevel* level) {
  constexpr const char* kWhat = "private root";
  if (arguments.scratch.empty()) {
    level->Lacked(kWhat, "there is no scratch directory to build it on");
    return false;
  }
  const std::string staging = arguments.scratch + "/root";
  if (mkdir(staging.c_str(), 0700) != 0 && errno != EEXIST) return level->Note(false, kWhat);
  const uid_t owner = arguments.uid != 0 ? arguments.uid : geteuid();
  const gid_t group = arguments.uid != 0 ? arguments.uid : getegid();
  const std::string failure = EnterRootView(view.root, staging, owner, group);
  if (!failure.empty()) {
    level->Lacked(kWhat, failure);
    return false;
  }
  level->Had(kWhat);
  level->Had("fresh /proc");
  level->Had(fmt::format("{} MiB of scratch", view.root.scratch_bytes_max >> 20));
  if (!view.lacks.empty()) level->Lacked("isolation of devices", view.lacks);
  UseScratch(kScratchInside);
  // Numbers of GPUs that are not to be seen any more would hide the one that is.
  if (!arguments.device_uuid.empty() && getenv("CUDA_VISIBLE_DEVICES") != nullptr && arguments.is_for_gpus()) {
    setenv("CUDA_VISIBLE_DEVICES", arguments.device_uuid.c_str(), 1);
  }
  return true;
}

SeccompProfile ProfileOf(const WorkerArguments& arguments) {
  const bool host = !arguments.is_for_gpus();
  if (arguments.is_python() && !host) return SeccompProfile::kPythonCuda;
  if (arguments.is_python()) {
    return arguments.role == "compile" ? SeccompProfile::kPythonCompile : SeccompProfile::kPythonHost;
  }
  if (arguments.role == "probe") return SeccompProfile::kProbe;
  if (arguments.role == "compile") return host ? SeccompProfile::kCompileHost : SeccompProfile::kCompileCuda;
  return host ? SeccompProfile::kRunHost : SeccompProfile::kRunCuda;
}

void FilterSystemCalls(const WorkerArguments& arguments, SandboxLevel* level) {
  const absl::StatusOr<SeccompFilter> filter = SeccompFilter::Build(ProfileOf(arguments));
  if (!filter.ok()) {
    level->Lacked("seccomp", MessageOf(filter.status()));
    return;
  }
  ReportForbiddenSyscalls();
  errno = filter->Install();
  level->Note(errno == 0, "seccomp");
}

// Fails closed: no work is done below the level that somebody relies on.
void RequireLevel(const WorkerArguments& arguments, const SandboxLevel& level) {
  if (arguments.required_isolation != "L1" || level.is_complete()) return;
  fmt::print(stderr, "tunefarm-worker: isolation L1 is required, this {} worker reaches {}\n", arguments.role,
             level.Text());
  std::fflush(stderr);
  _exit(kWorkerExitSandbox);
}

}  // namespace

SandboxResult EnterSandbox(const WorkerArguments& arguments) {
  DieWithParent(arguments.parent_pid);
  SandboxLevel level;
  if (!arguments.sandbox) {
    level.Lacked("a sandbox", "switched off by the configuration");
    RequireLevel(arguments, level);
    (void)SetLimits(arguments, false);
    (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    return {level.Text(), arguments.scratch, false};
  }
  // Before the daemon's user, its paths and its files are out of sight.
  const SandboxView view = ViewOf(arguments, ViewSources::FromProcess(arguments));
  const Namespaces namespaces = UnshareNamespaces(&level);
  const int alive_fd = ForkWorker(namespaces);
  SandboxResult result;
  WorkerArguments allowed = arguments;
  if (!namespaces.pid || !namespaces.mount) {
    level.Lacked("private root", "it needs pid and mount namespaces");
    result.scratch = PlaceScratch(&allowed, namespaces.mount, &level);
  } else if (EnterView(arguments, view, &level)) {
    result.scratch = kScratchInside;
  } else {
    level.Note(mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) == 0, "fresh /proc");
    result.scratch = PlaceScratch(&allowed, namespaces.mount, &level);
  }
  result.limits_processes = SetLimits(allowed, namespaces.user || allowed.uid != 0);
  DropPrivileges(allowed.uid, &level);
  SetInspectable(arguments.is_for_gpus());
  DieWithStub(alive_fd);
  close(alive_fd);
  FilterSystemCalls(arguments, &level);
  RequireLevel(arguments, level);
  result.level = level.Text();
  return result;
}

}  // namespace tunefarm
