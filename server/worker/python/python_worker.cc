#include "server/worker/python/python_worker.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "server/base/embedded_file.h"
#include "server/base/unique_fd.h"
#include "server/exec/frame_limits.h"

namespace tunefarm {

extern const EmbeddedFile kPythonHarness[];
extern const size_t kPythonHarnessCount;

namespace {

bool WriteAll(const std::string& path, std::string_view bytes) {
  const UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  while (file && !bytes.empty()) {
    const ssize_t written = write(file.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return file.valid();
}

bool WriteHarness(const std::string& folder) {
  if (mkdir(folder.c_str(), 0700) != 0) return false;
  for (size_t i = 0; i < kPythonHarnessCount; ++i) {
    const EmbeddedFile& file = kPythonHarness[i];
    if (!WriteAll(fmt::format("{}/{}", folder, file.name), file.bytes)) return false;
  }
  return true;
}

// Caches of modules that compile; what is not said to have one of its own here is found by TMPDIR or HOME.
void SetEnvironment(const WorkerArguments& arguments, const std::string& scratch) {
  const std::string cache = scratch + "/cache";
  (void)mkdir(cache.c_str(), 0700);
  for (const char* name : {"TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "CUPY_CACHE_DIR", "NUMBA_CACHE_DIR"}) {
    setenv(name, cache.c_str(), 1);
  }
  setenv("PYTHONHASHSEED", "0", 1);
  setenv("USER", "tunefarm", 1);  // There is no list of users to look it up in.
  if (arguments.role == "run" && arguments.is_for_gpus()) {
    setenv("CUDA_VISIBLE_DEVICES", arguments.device_uuid.c_str(), 1);
  } else {
    setenv("CUDA_VISIBLE_DEVICES", "", 1);
  }
}

}  // namespace

int BecomePythonWorker(const WorkerArguments& arguments, const std::string& sandbox_level,
                       const std::string& directory) {
  // An interpreter makes paths absolute, and "." may lie below a folder that the worker's user cannot enter.
  const std::string scratch = directory == "." ? "/proc/self/cwd" : directory;
  // A package, so that no module of a kernel hides one of its parts.
  const std::string harness = scratch + "/tunefarm_worker";
  if (!WriteHarness(harness)) {
    fmt::print(stderr, "cannot write the harness into {}: {}\n", harness, strerrordesc_np(errno));
    return kWorkerExitBackend;
  }
  SetEnvironment(arguments, scratch);
  // Nobody else's packages or settings (-I); no compiled copies beside the sources (-B).
  std::vector<std::string> words = {arguments.python,
                                    "-I",
                                    "-B",
                                    harness + "/main.py",
                                    "--role=" + arguments.role,
                                    "--backend=" + arguments.backend,
                                    fmt::format("--channel-fd={}", arguments.channel_fd),
                                    "--scratch=" + scratch,
                                    "--interpreter=" + arguments.python,
                                    "--sandbox-level=" + sandbox_level};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  execv(arguments.python.c_str(), argv.data());
  fmt::print(stderr, "cannot start the interpreter {}: {}\n", arguments.python, strerrordesc_np(errno));
  return kWorkerExitBackend;
}

}  // namespace tunefarm
