#include "server/exec/worker_command.h"

#include <fmt/core.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>

#include "server/base/file.h"
#include "server/base/log.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/exec/frame_limits.h"

namespace tunefarm {
namespace {

// Where tools and libraries are, and what sanitizers and loaders listen to. Nothing else of the daemon's environment
// (credentials!) reaches a process that runs foreign code.
constexpr std::array<const char*, 10> kInherited = {"PATH",         "LD_LIBRARY_PATH",  "VIRTUAL_ENV",   "CUDA_HOME",
                                                    "CUDA_PATH",    "ASAN_OPTIONS",     "UBSAN_OPTIONS", "TSAN_OPTIONS",
                                                    "LSAN_OPTIONS", "CUDA_DEVICE_ORDER"};

constexpr rlim_t kDescriptorsMost = rlim_t{1} << 30;  // as the worker reads it
// The soft limit before RaiseDescriptorLimit; 0: it was not called.
std::atomic<int> descriptors_found{0};

int DescriptorsNow() {
  rlimit limit = {};
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? static_cast<int>(std::min(limit.rlim_cur, kDescriptorsMost)) : 0;
}

void AddInherited(std::vector<std::string>* environment) {
  for (const char* name : kInherited) {
    if (const char* value = std::getenv(name); value != nullptr)
      environment->push_back(fmt::format("{}={}", name, value));
  }
}

std::vector<std::string> WorkerEnvironment(WorkerRole role, const std::string& scratch) {
  std::vector<std::string> environment = {"LANG=C.UTF-8", "LC_ALL=C.UTF-8", "TMPDIR=" + scratch, "HOME=" + scratch,
                                          "CUDA_CACHE_DISABLE=1"};
  AddInherited(&environment);
  // Where pip installs for the user. HOME itself is the scratch directory, so that nobody writes into the user's.
  if (const char* home = std::getenv("HOME"); home != nullptr)
    environment.push_back(fmt::format("TUNEFARM_USER_HOME={}", home));
  if (role == WorkerRole::kCompile) {
    environment.push_back("CUDA_VISIBLE_DEVICES=");
  } else if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES"); visible != nullptr) {
    environment.push_back(fmt::format("CUDA_VISIBLE_DEVICES={}", visible));
  }
  return environment;
}

absl::StatusOr<std::string> FreshScratch(const std::string& root, const std::string& name) {
  RETURN_IF_ERROR(MakeDirectories(root, 0711));
  absl::Status removed;
  for (int attempt = 0; attempt < 16; ++attempt) {
    std::string path = attempt == 0 ? fmt::format("{}/{}", root, name) : fmt::format("{}/{}.{}", root, name, attempt);
    removed = RemoveTree(path);
    if (removed.ok()) {
      RETURN_IF_ERROR(MakeDirectories(path, 0700));
      return path;
    }
    LogWarn("exec", "a worker's scratch directory cannot be emptied and is left aside: {}", removed);
  }
  return removed;
}

}  // namespace

void RaiseDescriptorLimit() {
  descriptors_found.store(DescriptorsNow());
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &limit);
}

absl::StatusOr<SubprocessOptions> MakeWorkerCommand(const WorkerCommandOptions& options, WorkerRole role,
                                                    const std::string& backend, const std::string& name,
                                                    const std::string& device_uuid, uint32_t uid) {
  ASSIGN_OR_RETURN(const std::string scratch, FreshScratch(options.scratch_root, name));
  const int descriptors = descriptors_found.load() != 0 ? descriptors_found.load() : DescriptorsNow();
  SubprocessOptions command;
  command.executable = options.worker_binary;
  command.environment = WorkerEnvironment(role, scratch);
  command.arguments = {fmt::format("--role={}", NameOf(role)),
                       fmt::format("--backend={}", backend),
                       "--channel-fd=3",
                       fmt::format("--parent-pid={}", getpid()),
                       fmt::format("--descriptors={}", descriptors),
                       fmt::format("--scratch={}", scratch),
                       fmt::format("--sandbox={}", options.sandbox ? "on" : "off")};
  if (!device_uuid.empty()) command.arguments.push_back(fmt::format("--device={}", device_uuid));
  if (!options.cuda_path.empty()) command.arguments.push_back(fmt::format("--cuda-path={}", options.cuda_path));
  if (!options.host_compiler.empty())
    command.arguments.push_back(fmt::format("--host-compiler={}", options.host_compiler));
  if (IsPythonBackend(backend)) {
    if (options.python_interpreter.empty())
      return FailedPrecondition("kernels in Python are off: python_interpreter names no interpreter");
    command.arguments.push_back(fmt::format("--python={}", options.python_interpreter));
  }
  if (!options.required_isolation.empty())
    command.arguments.push_back(fmt::format("--required-isolation={}", options.required_isolation));
  if (role == WorkerRole::kCompile && options.compile_seconds > 0)
    command.arguments.push_back(fmt::format("--compile-seconds={}", options.compile_seconds));
  if (options.sandbox && geteuid() == 0) {
    if (chown(scratch.c_str(), uid, uid) != 0) return ErrnoStatus(errno, "cannot give {} to uid {}", scratch, uid);
    command.arguments.push_back(fmt::format("--uid={}", uid));
  }
  command.arguments.insert(command.arguments.end(), options.extra_arguments.begin(), options.extra_arguments.end());
  return command;
}

SubprocessOptions MakeClockCommand(const std::string& worker_binary, const std::string& device_uuid, int mhz,
                                   const std::string& marker) {
  SubprocessOptions command;
  command.executable = worker_binary;
  command.environment = {"LANG=C.UTF-8", "LC_ALL=C.UTF-8"};
  AddInherited(&command.environment);
  command.arguments = {fmt::format("--role={}", kClocksRole),
                       fmt::format("--backend={}", kCudaBackend),
                       fmt::format("--channel-fd={}", kWorkerChannelFd),
                       fmt::format("--device={}", device_uuid),
                       fmt::format("--clock-mhz={}", mhz),
                       fmt::format("--clock-marker={}", marker)};
  command.own_session = true;
  return command;
}

}  // namespace tunefarm
