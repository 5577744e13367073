// The daemon's configuration: defaults, then the TOML file, then TUNEFARM_* variables, then flags; the later wins.
//
// Parsed once by main before any thread starts; a plain value afterwards. Unknown keys and wrong types are
// InvalidArgument "tunefarmd.toml:3:1: ...", never ignored.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "server/base/format.h"
#include "server/base/xdg.h"

namespace tunefarm {

struct DaemonConfig {
  std::string data_directory;          // absolute
  std::string worker_path;             // of tunefarm-worker; default: beside this program, or in ../libexec/tunefarm
  std::string role = "all";            // "all", "control": no devices of its own, "agent": nothing but devices
  std::string control;                 // of an agent: "HOST:PORT,..." of control daemons
  std::string agent_name;              // for people; default: the host's name
  bool compile_only = false;           // an agent without devices, which compiles for those of others
  std::string labels;                  // "rack=3,room=b": what jobs may select the agent's devices by
  int agent_lease_seconds = 30;        // an agent that is not heard for so long loses its work
  std::string sentinels = "gpus";      // of a farm: which devices are compared with others: "gpus", "all", "none"
  int sentinel_tolerance_percent = 5;  // of control: how far devices of a class may be apart; 0: not compared
  int64_t spool_bytes_max = int64_t{256} << 20;  // of results that wait for control; then the agent stops running
  std::string listen;                            // "127.0.0.1:PORT" or "[::1]:PORT"; empty: Unix sockets only
  std::string log_level = "info";                // "info" or "exec=debug,store=info"
  std::string tls_certificate;                   // PEM; with tls_key: `listen` serves TLS, on any address
  std::string tls_key;                           // PEM
  std::string tls_ca;                            // PEM; of an agent: what control's certificate must be signed by
  std::string tls_client_ca;                     // PEM; certificates of clients and agents; empty: tokens only
  bool insecure_plaintext = false;               // serve plain text on addresses that are not loopback
  int calls_per_second = 100;                    // of each certificate or token; 0: no limit
  int lookups_per_second = 10'000;               // the same
  int max_jobs_per_principal = 1000;             // active at once, of each certificate or token; 0: no limit
  int max_kernels_per_principal = 10'000;        // stored, of each certificate or token and of the sockets; 0: no limit
  int64_t max_kernel_bytes_per_principal = int64_t{256} << 20;  // the same in bytes of their definitions
  std::string store;                                            // "postgres://..."; empty: SQLite in the data directory
  int store_connections = 16;                                   // to it, of PostgreSQL, at most
  bool log_json = false;
  int idle_exit_seconds = 0;  // 0: never
  std::string cuda_path;      // toolkit to take NVRTC, headers and cuBLAS from; empty: search
  std::string host_compiler = "c++";
  std::string python_interpreter;   // absolute, of kernels in Python; empty: there are none
  bool use_gpu = true;              // false: leave GPUs alone
  bool standby_runners = true;      // one more run worker per GPU, which takes over after a crash
  bool lookups_first = false;       // whatever works for jobs gets only processor time that nobody else wants
  bool share_host = false;          // measure on the CPU also while other daemons of this machine do
  int compile_workers = 0;          // 0: one per core
  int compile_timeout_ms = 60'000;  // of one config
  int launch_timeout_ms = 10'000;   // first launch sequence of one config, and every one after it
  // Inputs and reference of one problem.
  int prepare_timeout_ms = 120'000;
  std::string required_isolation;  // "L1": jobs are refused where workers reach less; empty: whatever can be had
  std::string http_listen;         // loopback address of /metrics and /healthz; empty: off
  std::string dashboard_listen;    // of the dashboard and the HTTP API; with TLS any address; empty: off
  std::string dashboard_hosts;     // "tune.example,farm-1": further names under which it is reached
  int max_active_jobs = 10'000;    // more are refused
  int64_t max_database_bytes = int64_t{16} << 30;     // the file never grows beyond; 0 on PostgreSQL: no bound of ours
  int64_t max_cache_bytes = int64_t{4} << 30;         // of compiled binaries on disk; 0: none are kept there
  int64_t max_data_file_bytes = int64_t{32} << 30;    // of the users' data files on disk; half of it for one caller
  int64_t max_remote_cache_bytes = int64_t{4} << 30;  // of caches of other programs on disk; 0: none are kept there
  int64_t min_free_disk_bytes = int64_t{512} << 20;   // below this jobs pause; 0: never
  int keep_logs_days = 0;  // logs and samples of jobs that ended before are removed; 0: by size only
  int keep_jobs_days = 0;  // jobs without a label that ended before are removed; 0: by size only
  std::string log_file;    // empty: stderr
  int64_t log_file_max_bytes = int64_t{16} << 20;  // then it is renamed and a new one begins
  int log_files = 4;                               // kept in all
  int64_t worker_uid_base = 64'000;                // as root, worker slot n runs under this uid + n
};

// "a=1,b=2" as pairs; checked before.
std::vector<std::pair<std::string, std::string>> ParseLabels(const std::string& labels);
// "a:1,b:2" as a list.
std::vector<std::string> ParseAddresses(const std::string& addresses);

// The flags, as a table of TOML key, flag and help: one source for parsing, --help and the example file.
struct DaemonFlags {
  std::string config_file;
  DaemonConfig values;             // as given on the command line
  std::vector<std::string> given;  // TOML keys that a flag set
};

// Applies the layers. `arguments` without the program name. Cancelled with the text to print when --help or --version
// was asked for, the help in lines of `help_columns`; InvalidArgument for a usage error.
absl::StatusOr<DaemonConfig> ParseDaemonConfig(const std::vector<std::string>& arguments,
                                               const EnvironmentGetter& environment,
                                               size_t help_columns = kHelpColumns);

// Of "host:port": whether only this machine can reach it.
bool IsLoopback(const std::string& address);

// A configuration file with every key, its default and its meaning, commented out.
std::string ExampleDaemonConfig();

}  // namespace tunefarm
