// The daemon's configuration: defaults, then the TOML file, then TUNEFARM_* variables, then flags; the later wins.
//
// Parsed once by main before any thread starts; a plain value afterwards. Unknown keys and wrong types are
// InvalidArgument "tunefarmd.toml:3:1: ...", never ignored.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/base/xdg.h"

namespace tunefarm {

struct DaemonConfig {
  std::string data_directory;      // absolute
  std::string worker_path;         // of tunefarm-worker; default: beside this program, or in ../libexec/tunefarm
  std::string listen;              // "127.0.0.1:PORT" or "[::1]:PORT"; empty: Unix sockets only
  std::string log_level = "info";  // "info" or "exec=debug,store=info"
  bool log_json = false;
  int idle_exit_seconds = 0;  // 0: never
  std::string cuda_path;      // toolkit to take NVRTC, headers and cuBLAS from; empty: search
  std::string host_compiler = "c++";
  bool use_gpu = true;               // false: leave GPUs alone
  int compile_workers = 0;           // 0: one per core
  int compile_timeout_ms = 60'000;   // of one config
  int launch_timeout_ms = 10'000;    // first launch sequence of one config, and every one after it
  int64_t worker_uid_base = 64'000;  // as root, worker slot n runs under this uid + n
};

// The flags, as a table of TOML key, flag and help: one source for parsing, --help and the example file.
struct DaemonFlags {
  std::string config_file;
  DaemonConfig values;             // as given on the command line
  std::vector<std::string> given;  // TOML keys that a flag set
};

// Applies the layers. `arguments` without the program name. Cancelled with the text to print when --help or --version
// was asked for; InvalidArgument for a usage error.
absl::StatusOr<DaemonConfig> ParseDaemonConfig(const std::vector<std::string>& arguments,
                                               const EnvironmentGetter& environment);

// A configuration file with every key, its default and its meaning, commented out.
std::string ExampleDaemonConfig();

}  // namespace tunefarm
