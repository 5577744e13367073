#include "server/worker/sandbox/sandbox_view.h"

#include <dirent.h>
#include <fmt/core.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <memory>
#include <set>
#include <string_view>

#include "server/base/file.h"
#include "server/worker/cuda/library_search.h"

namespace tunefarm {
namespace {

constexpr uint64_t kLoaderCacheBytesMax = 8 << 20;
constexpr size_t kDirectoryEntriesMax = 65'536;
// Compilers keep their temporary files there; a kernel has no reason to.
constexpr int64_t kCompileScratchBytes = int64_t{512} << 20;
constexpr int64_t kRunScratchBytes = int64_t{64} << 20;
// Caches of compilers that are modules.
constexpr int64_t kPythonScratchBytes = int64_t{1} << 30;

// The loader, its libraries, and what both consult. /sys tells of cores and caches.
constexpr const char* kEveryRole[] = {"/usr/lib",
                                      "/usr/lib64",
                                      "/lib",
                                      "/lib64",
                                      "/etc/ld.so.cache",
                                      "/etc/alternatives",
                                      "/sys/devices/system/cpu",
                                      "/sys/devices/system/node"};
constexpr const char* kCompilers[] = {"/usr", "/bin"};
// Of the driver as a whole; dxg: of WSL.
constexpr const char* kDriverNodes[] = {"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/dxg"};

// At most kDirectoryEntriesMax names.
std::vector<std::string> Entries(const std::string& directory) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> handle(opendir(directory.c_str()), closedir);
  while (handle != nullptr && names.size() < kDirectoryEntriesMax) {
    const dirent* const entry = readdir(handle.get());
    if (entry == nullptr) break;
    names.emplace_back(entry->d_name);
  }
  return names;
}

bool HoldsAny(const std::string& directory, const std::vector<std::string_view>& prefixes) {
  const std::vector<std::string> names = Entries(directory);
  return std::any_of(names.begin(), names.end(), [&prefixes](const std::string& name) {
    return std::any_of(prefixes.begin(), prefixes.end(),
                       [&name](std::string_view prefix) { return name.compare(0, prefix.size(), prefix) == 0; });
  });
}

bool Exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

std::string Parent(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos || slash == 0 ? "/" : path.substr(0, slash);
}

bool IsWithin(const std::string& path, const std::string& directory) {
  return path == directory || path.compare(0, directory.size() + 1, directory + "/") == 0;
}

std::vector<std::string> SplitPath(const std::string& path) {
  std::vector<std::string> directories;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find(':', begin), path.size());
    if (end > begin && path[begin] == '/') directories.push_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
  return directories;
}

std::string FromEnvironment(const char* name) {
  const char* const value = getenv(name);
  return value == nullptr ? "" : value;
}

// A compiler is more than one file: its prefix holds its headers and programs. Unless that prefix is somebody's home.
void ShowCompiler(const WorkerArguments& arguments, const std::string& path, RootView* view) {
  std::string compiler = arguments.host_compiler.empty() ? "c++" : arguments.host_compiler;
  if (compiler.find('/') == std::string::npos) {
    for (const std::string& directory : SplitPath(path)) {
      if (access((directory + "/" + compiler).c_str(), X_OK) != 0) continue;
      compiler = directory + "/" + compiler;
      break;
    }
  }
  char real[PATH_MAX];
  if (compiler.front() != '/' || realpath(compiler.c_str(), real) == nullptr) return;
  std::string prefix = Parent(real);
  const std::string above = Parent(prefix), home = FromEnvironment("TUNEFARM_USER_HOME");
  const bool is_private = IsWithin(arguments.scratch, above) || (!home.empty() && IsWithin(home, above));
  if (prefix.size() > 4 && prefix.compare(prefix.size() - 4, 4, "/bin") == 0 && above != "/" && !is_private) {
    prefix = above;
  }
  // A store of packages that refer to each other by their full names.
  constexpr const char* kPackageStore = "/nix/store";
  view->shown.push_back(IsWithin(prefix, kPackageStore) ? kPackageStore : prefix);
  view->shown.push_back(compiler);
}

// An interpreter is more than one file: its prefix holds its packages, and a virtual environment's those of its own.
void ShowInterpreter(const WorkerArguments& arguments, RootView* view) {
  const std::string home = FromEnvironment("TUNEFARM_USER_HOME");
  char real[PATH_MAX];
  std::vector<std::string> names = {arguments.python};
  if (realpath(arguments.python.c_str(), real) != nullptr) names.emplace_back(real);
  for (const std::string& name : names) {
    view->shown.push_back(name);
    const std::string folder = Parent(name), above = Parent(folder);
    const bool is_private = IsWithin(arguments.scratch, above) || (!home.empty() && IsWithin(home, above));
    const bool is_prefix = folder.size() > 4 && folder.compare(folder.size() - 4, 4, "/bin") == 0 && above != "/";
    if (is_prefix && !is_private) view->shown.push_back(above);
  }
}

void ShowToolkit(const ViewSources& sources, bool compiles_only, RootView* view) {
  std::vector<std::string_view> libraries = {"libnvrtc"};
  if (!compiles_only) libraries.insert(libraries.end(), {"libcuda.", "libnvidia-", "libcublas"});
  std::vector<std::string> includes = sources.include_directories;
  for (const std::string& directory : sources.library_directories) {
    // Those of the system are large, and seen by every role; a toolkit's headers may still lie beside them.
    const bool is_system = IsWithin(directory, "/usr/lib") || IsWithin(directory, "/lib");
    if (!is_system && !HoldsAny(directory, libraries)) continue;
    if (!is_system) view->shown.push_back(directory);
    includes.push_back(directory + "/../include");
    includes.push_back(directory + "/../../include");
  }
  for (const std::string& directory : includes) {
    if (Exists(directory + "/cuda_fp16.h")) view->shown.push_back(directory);
  }
}

std::vector<std::string> GpuNodes(const std::string& root) {
  std::vector<std::string> nodes;
  for (const std::string& name : Entries(root + "/dev")) {
    constexpr std::string_view kPrefix = "nvidia";
    const bool is_gpu = name.size() > kPrefix.size() && name.compare(0, kPrefix.size(), kPrefix) == 0 &&
                        std::all_of(name.begin() + kPrefix.size(), name.end(),
                                    [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; });
    if (is_gpu) nodes.push_back("/dev/" + name);
  }
  return nodes;
}

// The run role sees its own GPU alone. A MIG device is a part of one, reached through further nodes.
void ShowGpus(const WorkerArguments& arguments, const ViewSources& sources, SandboxView* view) {
  std::vector<std::string>& devices = view->root.devices;
  devices.insert(devices.end(), std::begin(kDriverNodes), std::end(kDriverNodes));
  const std::vector<std::string> all = GpuNodes(sources.root);
  const bool is_mig = arguments.device_uuid.compare(0, 4, "MIG-") == 0;
  if (is_mig || arguments.role == "probe") devices.push_back("/dev/nvidia-caps");
  if (arguments.role == "probe" || all.size() <= 1) {
    devices.insert(devices.end(), all.begin(), all.end());
    return;
  }
  const int minor = DeviceMinor(sources.root, arguments.device_uuid);
  const std::string own = fmt::format("/dev/nvidia{}", minor);
  if (std::find(all.begin(), all.end(), own) != all.end()) {
    devices.push_back(own);
    return;
  }
  devices.insert(devices.end(), all.begin(), all.end());
  view->lacks = fmt::format("one GPU's node only (the driver does not say which of {} belongs to {})", all.size(),
                            arguments.device_uuid);
}

}  // namespace

ViewSources ViewSources::FromProcess(const WorkerArguments& arguments) {
  ViewSources sources;
  sources.path = FromEnvironment("PATH");
  if (!arguments.is_for_gpus()) return sources;
  sources.library_directories = SplitPath(FromEnvironment("LD_LIBRARY_PATH"));
  for (const std::string& directory : LoaderDirectories("/etc/ld.so.cache")) {
    sources.library_directories.push_back(directory);
  }
  for (const cuda::SearchPlace& place : cuda::ProcessSearchPlaces(arguments.cuda_path)) {
    if (!place.directory.empty()) sources.library_directories.push_back(place.directory);
    for (const std::string& include : place.include_directories) sources.include_directories.push_back(include);
  }
  return sources;
}

SandboxView ViewOf(const WorkerArguments& arguments, const ViewSources& sources) {
  SandboxView view;
  const bool compiles = arguments.role == "compile";
  view.root.scratch_bytes_max = compiles ? kCompileScratchBytes : kRunScratchBytes;
  view.root.proc_writable = arguments.backend != kHostBackend;
  // A module may compile where it runs, and load what came of it.
  if (arguments.is_python() || (arguments.backend == kHostBackend && arguments.role != "run")) {
    view.root.shown.assign(std::begin(kCompilers), std::end(kCompilers));
    ShowCompiler(arguments, sources.path, &view.root);
  }
  if (arguments.is_python()) {
    view.root.scratch_bytes_max = kPythonScratchBytes;
    view.root.scratch_executable = true;
    view.root.shown.push_back("/sbin");  // ldconfig, which packages ask where the driver's library is
    ShowInterpreter(arguments, &view.root);
  }
  view.root.shown.insert(view.root.shown.end(), std::begin(kEveryRole), std::end(kEveryRole));
  if (arguments.is_for_gpus()) {
    ShowToolkit(sources, compiles, &view.root);
    if (!compiles) ShowGpus(arguments, sources, &view);
  }
  // The daemon's directory, two levels up: its database must not show however it was placed.
  if (!arguments.scratch.empty()) view.root.hidden.push_back(Parent(Parent(arguments.scratch)));
  return view;
}

std::vector<std::string> LoaderDirectories(const std::string& cache_path) {
  // Whatever its version, the cache ends in a table of strings: names, and the paths that they stand for.
  const absl::StatusOr<std::string> cache = ReadFile(cache_path, kLoaderCacheBytesMax);
  std::set<std::string> directories;
  if (!cache.ok()) return {};
  for (size_t begin = 0; begin < cache->size();) {
    const size_t end = std::min(cache->find('\0', begin), cache->size());
    const std::string_view text = std::string_view(*cache).substr(begin, end - begin);
    const size_t slash = text.rfind('/');
    const bool is_path = slash != std::string_view::npos && slash > 0 && text.front() == '/' &&
                         text.find(".so", slash) != std::string_view::npos;
    if (is_path) directories.emplace(text.substr(0, slash));
    begin = end + 1;
  }
  return {directories.begin(), directories.end()};
}

int DeviceMinor(const std::string& root, const std::string& uuid) {
  constexpr std::string_view kMinor = "Device Minor:";
  const std::string gpus = root + "/proc/driver/nvidia/gpus";
  for (const std::string& gpu : Entries(gpus)) {
    const absl::StatusOr<std::string> text = ReadFile(gpus + "/" + gpu + "/information", 64 << 10);
    if (!text.ok() || uuid.empty() || text->find(uuid) == std::string::npos) continue;
    const size_t at = text->find(kMinor);
    if (at == std::string::npos) continue;
    const size_t digits = text->find_first_of("0123456789", at + kMinor.size());
    if (digits == std::string::npos) continue;
    int minor = -1;
    std::from_chars(text->data() + digits, text->data() + text->size(), minor);
    return minor;
  }
  return -1;
}

}  // namespace tunefarm
