#pragma once

// The command line of tunefarm-worker. The daemon writes it (server/exec/worker_command.cc); people do not.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tunefarm {

struct WorkerArguments {
  std::string role;     // "compile", "run" or "probe"
  std::string backend;  // "cuda" or "host"
  int channel_fd = -1;
  int parent_pid = 0;
  std::string scratch;
  std::string device_uuid;
  std::string cuda_path;
  std::string host_compiler = "c++";
  bool sandbox = true;
  uint32_t uid = 0;                  // to drop to; 0: stay
  std::string required_isolation;    // "L1": end rather than work with less; empty: whatever can be had
  int compile_seconds = 0;           // of processor time for one compile; 0: no limit
  std::vector<std::string> unknown;  // arguments that start with --fake-, for test doubles
};

// InvalidArgument for anything it does not know, and for a missing or impossible value.
absl::StatusOr<WorkerArguments> ParseWorkerArguments(int argc, char** argv);

}  // namespace tunefarm
