#pragma once

// A root directory for one worker: an empty, read-only tmpfs on which chosen files and directories of the machine
// appear at their own paths, read only, with a fresh /proc, a few device nodes, and a bounded tmpfs, the only place to
// write.
//
// For a process with one thread and the rights to mount, in a mount namespace of its own and the pid namespace whose
// processes /proc is to show.

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace tunefarm {

struct RootView {
  // Absolute. Symbolic links on the way are recreated, so that every name that works outside works inside; a link
  // inside a directory that leads out of what is shown leads nowhere. What does not exist is left out.
  std::vector<std::string> shown;
  // Directories that stay empty even when they lie in something shown.
  std::vector<std::string> hidden;
  // Device nodes; left out where they do not exist. /dev/null, zero, full, random and urandom come by themselves.
  std::vector<std::string> devices;
  int64_t scratch_bytes_max = int64_t{64} << 20;
  // What is written there may be run and loaded as a library.
  bool scratch_executable = false;
  // Processes may write into their own files of /proc, as the CUDA driver does to name its threads.
  bool proc_writable = false;
};

// Where the bounded tmpfs is. /tmp leads there, unless something is shown in it.
inline constexpr char kScratchInside[] = "/run/scratch";

// Builds the view on `staging`, an existing directory, and makes it the root of every process of the mount namespace;
// the old root is gone. `owner` owns the scratch directory. Empty on success, else what failed ("cannot show /usr:
// Operation not permitted"), and the root is as it was.
std::string EnterRootView(const RootView& view, const std::string& staging, uid_t owner, gid_t group);

}  // namespace tunefarm
