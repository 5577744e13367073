// The system's C++ compiler: where it is, what it is, and running it without a shell.
//
// Forks, so only for processes with one thread (worker roles that may fork). Blocks until the compiler ends.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/base/pidfd.h"

namespace tunefarm {

struct HostToolchain {
  std::string path;     // absolute
  std::string version;  // "g++ 12.2.0"

  // "g++ 12.2.0 (/usr/bin/c++)"
  std::string Description() const { return version + " (" + path + ")"; }
};

// Looks `compiler` up in PATH unless it has a '/', and asks it for its version. FailedPrecondition when there is none.
absl::StatusOr<HostToolchain> FindHostToolchain(const std::string& compiler);

// "g++ 12.2.0" or "clang++ 14.0.6" from what --version prints; the first line, shortened, of other compilers.
std::string CompilerVersionOf(const std::string& output);

struct CommandResult {
  ExitStatus exit;
  std::string output;  // both streams, at most the bytes asked for
  bool truncated = false;
};

// Runs argv[0] (a path) in its own process group, with a small fixed environment (PATH, LC_ALL=C, TMPDIR), no input,
// and `directory` as the working directory ("" keeps ours), from which a relative `temporary_directory` starts. Each of
// its processes may use `processor_seconds` (0: any number) before SIGXCPU ends it. Internal when it cannot be started.
absl::StatusOr<CommandResult> RunCommand(const std::vector<std::string>& argv, const std::string& directory,
                                         const std::string& temporary_directory, size_t output_bytes_max,
                                         int processor_seconds = 0);

}  // namespace tunefarm
