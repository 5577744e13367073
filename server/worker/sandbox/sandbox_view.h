#pragma once

// What each role of a worker needs to see of the machine. Reads directories; run it where the whole machine is visible.

#include <string>
#include <vector>

#include "server/worker/sandbox/sandbox_root.h"
#include "server/worker/worker_arguments.h"

namespace tunefarm {

// The parts of the machine that a view is made from, so that tests can bring their own.
struct ViewSources {
  std::string root;  // before /proc/driver/nvidia, /dev and /etc/ld.so.cache; empty: the machine
  std::string path;  // PATH, for the host compiler
  std::vector<std::string> library_directories;  // where CUDA's parts may be: the search places of the worker
  std::vector<std::string> include_directories;

  static ViewSources FromProcess(const WorkerArguments& arguments);
};

struct SandboxView {
  RootView root;
  std::string lacks;  // what the view could not narrow down, with the reason; else empty
};

SandboxView ViewOf(const WorkerArguments& arguments, const ViewSources& sources);

// The directories that hold the libraries of the loader's cache.
std::vector<std::string> LoaderDirectories(const std::string& cache_path);

// The number of the GPU's node from the driver's own list, -1 if it is not there.
int DeviceMinor(const std::string& root, const std::string& uuid);

}  // namespace tunefarm
