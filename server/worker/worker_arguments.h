#pragma once

// The command line of tunefarm-worker. The daemon writes it (server/exec/worker_command.cc); people do not.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/exec/frame_limits.h"

namespace tunefarm {

struct WorkerArguments {
  std::string role;     // "compile", "run", "probe" or "clocks" (server/worker/nvml/clock_lock.h)
  std::string backend;  // as server/exec/frame_limits.h names them
  int channel_fd = -1;
  int parent_pid = 0;
  int descriptors = 0;  // soft limit of open files that the daemon found; 0: the one that is inherited
  std::string scratch;
  std::string device_uuid;
  std::string cuda_path;
  std::string host_compiler = "c++";
  std::string python;  // interpreter of kernels in Python; only with their backends
  bool sandbox = true;
  uint32_t uid = 0;                  // to drop to; 0: stay
  std::string required_isolation;    // "L1": end rather than work with less; empty: whatever can be had
  int compile_seconds = 0;           // of processor time for one compile; 0: no limit
  int clock_mhz = 0;                 // "clocks": to hold the device's clock at; 0: only free it
  std::string clock_marker;          // "clocks": the file that tells of a held clock
  std::vector<std::string> unknown;  // arguments that start with --fake-, for test doubles

  bool is_python() const { return IsPythonBackend(backend); }
  // Of the machine's GPUs it may see some; compile workers see none.
  bool is_for_gpus() const { return !IsHostBackend(backend); }
};

// InvalidArgument for anything it does not know, and for a missing or impossible value.
absl::StatusOr<WorkerArguments> ParseWorkerArguments(int argc, char** argv);

}  // namespace tunefarm
