#include "server/daemon/config.h"

#include <fmt/core.h>
#include <toml++/toml.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <functional>
#include <memory>
#include <variant>

#include "server/base/edit_distance.h"
#include "server/base/file.h"
#include "server/base/socket_paths.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/daemon/config_rules.h"
#include "server/daemon/daemon_help.h"
#include "server/version.h"

namespace tunefarm {
namespace {

using Target =
    std::variant<std::string DaemonConfig::*, bool DaemonConfig::*, int DaemonConfig::*, int64_t DaemonConfig::*>;

// One setting under its three names. The table is the only place that knows them.
struct Setting {
  const char* key;  // in the file; TUNEFARM_<UPPER> in the environment
  const char* flag;
  Target target;
  const char* help;
  int64_t min = 0;  // of numbers
  int64_t max = 0;
  bool is_list = false;  // of strings, joined by commas; in the file it may be a list
};

const std::vector<Setting>& Settings() {
  static const auto& settings = *new std::vector<Setting>{
      {"data_dir", "--data-dir", &DaemonConfig::data_directory,
       "Directory of the database, caches and logs (default: $XDG_DATA_HOME/tunefarm)."},
      {"role", "--role", &DaemonConfig::role,
       "all: jobs and the devices of this machine. control: jobs only; agents on other machines do the work. agent: "
       "the devices of this machine, for the control daemons named by control."},
      {"control", "--control", &DaemonConfig::control,
       "Of an agent: addresses of control daemons, such as farm-1:7070,farm-2:7070. It uses one of them, and the next "
       "one when that does not answer.",
       0, 0, true},
      {"agent_name", "--agent-name", &DaemonConfig::agent_name,
       "Name of this machine's agent in tunefarm agents (default: the host's name)."},
      {"compile_only", "--compile-only,!--no-compile-only", &DaemonConfig::compile_only,
       "Of an agent: bring no devices, and compile for the GPUs of other agents (the same CUDA Toolkit is needed)."},
      {"labels", "--labels", &DaemonConfig::labels,
       "Labels of this machine's devices, such as rack=3,room=b, by which jobs may select them.", 0, 0, true},
      {"agent_lease_seconds", "--agent-lease", &DaemonConfig::agent_lease_seconds,
       "Of a control daemon: an agent that is silent for so long loses its units to others.", 5, 3600},
      {"sentinels", "--sentinels", &DaemonConfig::sentinels,
       "In a farm: before this machine's devices take work, measure two small kernels on them, by which control tells "
       "whether their times may be mixed with those of their class: gpus, all (the CPU too) or none."},
      {"sentinel_tolerance_percent", "--sentinel-tolerance", &DaemonConfig::sentinel_tolerance_percent,
       "Of a control daemon: a device whose small kernels take so many percent more or less than usual in its class "
       "leaves service (tunefarm devices shows it, and tunefarm devices release overrules it); 0: never.",
       0, 1000},
      {"spool_bytes_max", "--spool-bytes-max", &DaemonConfig::spool_bytes_max,
       "Of an agent: results kept on disk while no control daemon answers; beyond this no trial starts.", 1 << 20,
       int64_t{1} << 40},
      {"store", "--store", &DaemonConfig::store,
       "Where jobs and results are kept: postgres://USER@HOST:PORT/DATABASE, an existing database of PostgreSQL 14 or "
       "newer, which several daemons may share. Keep its password out of the command line: in this file, in "
       "TUNEFARM_STORE or in ~/.pgpass. Empty: SQLite in the data directory."},
      {"store_connections", "--store-connections", &DaemonConfig::store_connections,
       "Connections of this daemon to a PostgreSQL database at most, opened when they are needed; the server's "
       "max_connections must be enough for those of all daemons.",
       2, 200},
      {"listen", "--listen", &DaemonConfig::listen,
       "Also listen on this address, such as 127.0.0.1:7070 or, with TLS, 0.0.0.0:7070."},
      {"tls_certificate", "--tls-certificate", &DaemonConfig::tls_certificate,
       "Serve TLS with this certificate (PEM, its chain after it). A file that is replaced is read again."},
      {"tls_key", "--tls-key", &DaemonConfig::tls_key, "The certificate's private key (PEM)."},
      {"tls_ca", "--tls-ca", &DaemonConfig::tls_ca,
       "Of an agent: control's certificate must be signed by one of these (PEM). Without it control must be on this "
       "machine, or both must allow plain text (--insecure)."},
      {"tls_client_ca", "--tls-client-ca", &DaemonConfig::tls_client_ca,
       "Certificates that clients' and agents' must be signed by (PEM); without it clients need tokens."},
      {"insecure_plaintext", "--insecure,!--no-insecure", &DaemonConfig::insecure_plaintext,
       "Serve plain text where others can read it: anyone who reaches the address may run kernels, or register as an "
       "agent."},
      {"calls_per_second", "--calls-per-second", &DaemonConfig::calls_per_second,
       "Calls of each certificate or token, but for look-ups; more are refused. 0: no limit.", 0, 1'000'000},
      {"lookups_per_second", "--lookups-per-second", &DaemonConfig::lookups_per_second,
       "Look-ups of each certificate or token; more are refused. 0: no limit.", 0, 100'000'000},
      {"max_jobs_per_principal", "--max-jobs-per-principal", &DaemonConfig::max_jobs_per_principal,
       "Jobs of each certificate or token that have not ended; more are refused. 0: no limit.", 0, 1'000'000},
      {"max_kernels_per_principal", "--max-kernels-per-principal", &DaemonConfig::max_kernels_per_principal,
       "Stored kernel definitions of each certificate or token, and of the local sockets together; more are refused "
       "until some are deleted (tunefarm kernels delete). 0: no limit.",
       0, 1'000'000},
      {"max_kernel_bytes_per_principal", "--max-kernel-bytes-per-principal",
       &DaemonConfig::max_kernel_bytes_per_principal,
       "The same in bytes of the definitions with their sources. 0: no limit.", 0, int64_t{1} << 46},
      {"http_listen", "--http-listen", &DaemonConfig::http_listen,
       "Serve /metrics and /healthz on this loopback address, such as 127.0.0.1:7071 (default: off)."},
      {"dashboard_listen", "--dashboard-listen", &DaemonConfig::dashboard_listen,
       "Serve the dashboard and the HTTP API on this address, such as 127.0.0.1:7072 or, with TLS, 0.0.0.0:7072 "
       "(default: off; tunefarm dashboard opens a free loopback port)."},
      {"dashboard_hosts", "--dashboard-hosts", &DaemonConfig::dashboard_hosts,
       "Further names under which the dashboard is reached, such as that of a reverse proxy: tune.example,farm-1.", 0,
       0, true},
      {"max_active_jobs", "--max-active-jobs", &DaemonConfig::max_active_jobs,
       "Jobs that have not ended; more are refused.", 1, 1'000'000},
      {"max_database_bytes", "--max-database-bytes", &DaemonConfig::max_database_bytes,
       "The SQLite database never grows beyond this (a PostgreSQL one is its server's to bound). From nine tenths of "
       "it on the oldest logs and samples are removed, then "
       "the oldest jobs without a label; best configs stay.",
       16 << 20, int64_t{1} << 46},
      {"max_cache_bytes", "--max-cache-bytes", &DaemonConfig::max_cache_bytes,
       "Compiled binaries kept on disk, those used last; 0 keeps none there.", 0, int64_t{1} << 46},
      {"max_data_file_bytes", "--max-data-file-bytes", &DaemonConfig::max_data_file_bytes,
       "Data files that users have uploaded, and on an agent those that it has fetched. Those that stored kernels name "
       "stay, of the others those used last; those of one certificate or token, and of the local sockets together, may "
       "have half of it.",
       1 << 20, int64_t{1} << 46},
      {"max_remote_cache_bytes", "--max-remote-cache-bytes", &DaemonConfig::max_remote_cache_bytes,
       "Caches that other programs keep here, such as Triton's of compiled kernels; the entries used last stay. 0 "
       "keeps "
       "none. Not of agents.",
       0, int64_t{1} << 46},
      {"min_free_disk_bytes", "--min-free-disk-bytes", &DaemonConfig::min_free_disk_bytes,
       "With less free space in the data directory's file system, new jobs are refused and running jobs pause; 0: "
       "never.",
       0, int64_t{1} << 46},
      {"keep_logs_days", "--keep-logs-days", &DaemonConfig::keep_logs_days,
       "Remove logs and samples of trials this many days after their job has ended; 0 keeps them while there is room.",
       0, 36'500},
      {"keep_jobs_days", "--keep-jobs-days", &DaemonConfig::keep_jobs_days,
       "Delete jobs without a label this many days after they have ended; 0 keeps them while there is room.", 0,
       36'500},
      {"log_file", "--log-file", &DaemonConfig::log_file, "Write the log here (default: to stderr)."},
      {"log_file_max_bytes", "--log-file-max-bytes", &DaemonConfig::log_file_max_bytes,
       "Size at which the log file is renamed and a new one begins.", 4096, int64_t{1} << 40},
      {"log_files", "--log-files", &DaemonConfig::log_files, "Log files kept, the current one included.", 1, 100},
      {"log_level", "--log-level", &DaemonConfig::log_level,
       "debug, info, warn or error; per subsystem as exec=debug,store=info."},
      {"log_json", "--log-json", &DaemonConfig::log_json, "Write one JSON object per log line."},
      {"idle_exit_seconds", "--idle-exit", &DaemonConfig::idle_exit_seconds,
       "Exit after this many seconds without a job or a call; 0: never.", 0, 1'000'000},
      {"cuda_path", "--cuda-path", &DaemonConfig::cuda_path,
       "Toolkit to take NVRTC, headers and cuBLAS from (default: searched for; see tunefarm doctor)."},
      {"host_compiler", "--host-compiler", &DaemonConfig::host_compiler, "Compiler of HOST_CXX kernels."},
      {"python_interpreter", "--python-interpreter", &DaemonConfig::python_interpreter,
       "Interpreter of kernels in Python, such as /usr/bin/python3, or a virtual environment's bin/python3 (default: "
       "none, "
       "such kernels are refused)."},
      {"use_gpu", "--gpu,!--no-gpu", &DaemonConfig::use_gpu, "Use the machine's GPUs."},
      {"standby_runners", "--standby,!--no-standby", &DaemonConfig::standby_runners,
       "Keep a second worker ready on every GPU, which takes over when the first one crashes."},
      {"share_host", "--share-host,!--no-share-host", &DaemonConfig::share_host,
       "Measure on the CPU while other daemons of this machine do; the times of all are then unreliable."},
      {"lookups_first", "--lookups-first,!--no-lookups-first", &DaemonConfig::lookups_first,
       "Jobs and their workers get only idle processor time, so that look-ups are answered sooner while jobs run; on a "
       "machine that is never idle jobs may stop entirely."},
      {"compile_workers", "--compile-workers", &DaemonConfig::compile_workers,
       "Compiler processes at once; 0 takes one per core.", 0, 1024},
      {"compile_timeout_ms", "--compile-timeout-ms", &DaemonConfig::compile_timeout_ms,
       "Longest compilation of one config.", 100, 3'600'000},
      {"launch_timeout_ms", "--launch-timeout-ms", &DaemonConfig::launch_timeout_ms,
       "Longest launch sequence of one config.", 10, 3'600'000},
      {"prepare_timeout_ms", "--prepare-timeout-ms", &DaemonConfig::prepare_timeout_ms,
       "Longest time for building the inputs and the reference output of one problem.", 100, 3'600'000},
      {"worker_path", "--worker", &DaemonConfig::worker_path,
       "The tunefarm-worker program (default: beside this program)."},
      {"required_isolation", "--required-isolation", &DaemonConfig::required_isolation,
       "L1: reject jobs where workers cannot be fully isolated (tunefarm status shows the level). Default: use the "
       "highest level that the machine permits."},
      {"worker_uid_base", "--worker-uid-base", &DaemonConfig::worker_uid_base,
       "As root, worker number n runs under this user id plus n.", 1, 4'000'000'000},
  };
  return settings;
}

std::string EnvironmentName(const Setting& setting) {
  std::string name = "TUNEFARM_";
  for (const char* c = setting.key; *c != 0; ++c) name += static_cast<char>(std::toupper(*c));
  return name;
}

absl::StatusOr<bool> ParseBool(std::string_view text) {
  if (text == "1" || text == "true" || text == "yes" || text == "on") return true;
  if (text == "0" || text == "false" || text == "no" || text == "off") return false;
  return InvalidArgument("'{}' is not true or false", text);
}

absl::Status SetNumber(const Setting& setting, int64_t value, DaemonConfig* config) {
  if (value < setting.min || value > setting.max) {
    return InvalidArgument("{} is {}, but must be from {} to {}", setting.key, value, setting.min, setting.max);
  }
  if (const auto* narrow = std::get_if<int DaemonConfig::*>(&setting.target)) {
    config->** narrow = static_cast<int>(value);
  } else {
    config->*std::get<int64_t DaemonConfig::*>(setting.target) = value;
  }
  return absl::OkStatus();
}

absl::Status SetFromText(const Setting& setting, const std::string& text, DaemonConfig* config) {
  if (const auto* string = std::get_if<std::string DaemonConfig::*>(&setting.target)) {
    config->** string = text;
    return absl::OkStatus();
  }
  if (const auto* boolean = std::get_if<bool DaemonConfig::*>(&setting.target)) {
    ASSIGN_OR_RETURN(config->**boolean, ParseBool(text));
    return absl::OkStatus();
  }
  int64_t value = 0;
  const char* end = text.data() + text.size();
  auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || rest != end) return InvalidArgument("'{}' is not a whole number", text);
  return SetNumber(setting, value, config);
}

// A list of strings as the one text that flags and variables have.
absl::StatusOr<std::string> JoinedList(const Setting& setting, const toml::array& list) {
  std::string joined;
  for (const toml::node& node : list) {
    const std::optional<std::string> value = node.value_exact<std::string>();
    if (!value) return InvalidArgument("{} must be a string or a list of strings", setting.key);
    joined += (joined.empty() ? "" : ",") + *value;
  }
  return joined;
}

absl::Status SetFromToml(const Setting& setting, const toml::node& node, DaemonConfig* config) {
  if (const auto* string = std::get_if<std::string DaemonConfig::*>(&setting.target)) {
    if (setting.is_list && node.is_array()) {
      ASSIGN_OR_RETURN(config->**string, JoinedList(setting, *node.as_array()));
      return absl::OkStatus();
    }
    const std::optional<std::string> value = node.value_exact<std::string>();
    if (!value) return InvalidArgument("{} must be a string", setting.key);
    config->** string = *value;
    return absl::OkStatus();
  }
  if (const auto* boolean = std::get_if<bool DaemonConfig::*>(&setting.target)) {
    const std::optional<bool> value = node.value_exact<bool>();
    if (!value) return InvalidArgument("{} must be true or false", setting.key);
    config->** boolean = *value;
    return absl::OkStatus();
  }
  const std::optional<int64_t> value = node.value_exact<int64_t>();
  if (!value) return InvalidArgument("{} must be a whole number", setting.key);
  return SetNumber(setting, *value, config);
}

// postgres://USER:PASSWORD@HOST/DATABASE, or ...?password=PASSWORD.
bool HasPassword(const std::string& store) {
  const size_t user = store.find("://");
  if (user == std::string::npos) return false;
  const size_t end = store.find('@', user + 3);
  return (end != std::string::npos && store.find(':', user + 3) < end) || store.find("password=") != std::string::npos;
}

absl::Status ApplyFile(const std::string& path, DaemonConfig* config) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path, 1 << 20));
  toml::table table;
  try {
    table = toml::parse(text, path);
  } catch (const toml::parse_error& error) {
    return InvalidArgument("{}:{}:{}: {}", path, error.source().begin.line, error.source().begin.column,
                           error.description());
  }
  for (const auto& [key, node] : table) {
    const std::string name(key.str());
    const toml::source_position at = key.source().begin;
    const auto setting =
        std::find_if(Settings().begin(), Settings().end(), [&](const Setting& s) { return name == s.key; });
    if (setting == Settings().end()) {
      std::vector<std::string> names;
      for (const Setting& known : Settings()) names.push_back(known.key);
      const std::optional<std::string> close = ClosestMatch(name, names);
      return InvalidArgument("{}:{}:{}: unknown key '{}'{}", path, at.line, at.column, name,
                             close ? fmt::format(" (did you mean '{}'?)", *close) : "");
    }
    const absl::Status status = SetFromToml(*setting, node, config);
    if (!status.ok()) return Annotate(status, "{}:{}:{}", path, at.line, at.column);
  }
  if (!HasPassword(config->store)) return absl::OkStatus();
  return CheckSecretFile("the database's password in", path);
}

// Adds the table's flags. Each callback writes into `flags` at once and records the key.
void AddFlags(CLI::App* app, DaemonFlags* flags, absl::Status* error) {
  app->add_option("--config", flags->config_file,
                  "Configuration file (default: tunefarmd.toml in $XDG_CONFIG_HOME/tunefarm).");
  for (const Setting& setting : Settings()) {
    const auto record = [flags, error, &setting](const std::string& text) {
      const absl::Status status = SetFromText(setting, text, &flags->values);
      if (!status.ok() && error->ok()) *error = Annotate(status, "{}", setting.flag);
      flags->given.push_back(setting.key);
    };
    if (std::holds_alternative<bool DaemonConfig::*>(setting.target)) {
      app->add_flag_function(
             setting.flag, [record](int64_t count) { record(count > 0 ? "true" : "false"); }, setting.help)
          ->group(DaemonHelpGroup(setting.key));
    } else {
      app->add_option_function<std::string>(setting.flag, record, setting.help)->group(DaemonHelpGroup(setting.key));
    }
  }
}

void Copy(const Setting& setting, const DaemonConfig& from, DaemonConfig* to) {
  std::visit([&](auto member) { to->*member = from.*member; }, setting.target);
}

}  // namespace

std::vector<std::string> ParseAddresses(const std::string& addresses) {
  std::vector<std::string> list;
  for (size_t begin = 0; begin < addresses.size();) {
    const size_t end = std::min(addresses.find(',', begin), addresses.size());
    if (end > begin) list.push_back(addresses.substr(begin, end - begin));
    begin = end + 1;
  }
  return list;
}

std::vector<std::pair<std::string, std::string>> ParseLabels(const std::string& labels) {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const std::string& label : ParseAddresses(labels)) {
    const size_t equals = label.find('=');
    pairs.emplace_back(label.substr(0, equals), equals == std::string::npos ? "" : label.substr(equals + 1));
  }
  return pairs;
}

absl::StatusOr<DaemonConfig> ParseDaemonConfig(const std::vector<std::string>& arguments,
                                               const EnvironmentGetter& environment, size_t help_columns) {
  DaemonFlags flags;
  absl::Status flag_error;
  CLI::App app("tunefarmd tunes GPU kernels as a service. Its command line is the program tunefarm.", "tunefarmd");
  app.formatter(std::make_shared<DaemonHelpFormatter>(help_columns));
  app.set_help_flag("-h,--help", "Print help and exit.");
  app.set_version_flag("--version", fmt::format("tunefarmd {} ({})", TUNEFARM_VERSION, TUNEFARM_REVISION),
                       "Print the version and exit.");
  bool print_example = false;
  app.add_flag("--print-example-config", print_example, "Print a configuration file with every key and its default.");
  AddFlags(&app, &flags, &flag_error);
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::CallForHelp&) {
    return Cancelled("{}", app.help());
  } catch (const CLI::CallForVersion&) {
    return Cancelled("{}\n", app.version());
  } catch (const CLI::ParseError& error) {
    return InvalidArgument("{}; see tunefarmd --help", error.what());
  }
  if (print_example) return Cancelled("{}", ExampleDaemonConfig());
  RETURN_IF_ERROR(flag_error);

  DaemonConfig config;
  std::string file = flags.config_file;
  if (file.empty()) {
    const absl::StatusOr<std::string> directory = ConfigDir(environment);
    std::error_code ignored;
    if (directory.ok() && std::filesystem::exists(*directory + "/tunefarmd.toml", ignored))
      file = *directory + "/tunefarmd.toml";
  }
  if (!file.empty()) RETURN_IF_ERROR(ApplyFile(file, &config));
  for (const Setting& setting : Settings()) {
    if (const std::optional<std::string> value = environment(EnvironmentName(setting).c_str());
        value && !value->empty()) {
      const absl::Status status = SetFromText(setting, *value, &config);
      if (!status.ok()) return Annotate(status, "environment variable {}", EnvironmentName(setting));
    }
  }
  for (const Setting& setting : Settings()) {
    if (std::find(flags.given.begin(), flags.given.end(), setting.key) != flags.given.end())
      Copy(setting, flags.values, &config);
  }
  ASSIGN_OR_RETURN(config.data_directory, ChosenDataDirectory(config.data_directory, environment));
  RETURN_IF_ERROR(CheckDaemonConfig(config));
  if (!config.store.empty()) config.max_database_bytes = 0;
  return config;
}

bool IsLoopback(const std::string& address) {
  const std::string host = address.substr(0, address.rfind(':'));
  return host == "127.0.0.1" || host == "localhost" || host == "[::1]";
}

std::string ExampleDaemonConfig() {
  const DaemonConfig defaults;
  std::string text =
      "# tunefarmd.toml: every key, commented out with its default. Flags override TUNEFARM_<KEY>\n"
      "# variables, which override this file.\n";
  for (const Setting& setting : Settings()) {
    const std::string value = std::visit(
        [&](auto member) -> std::string {
          using T = std::decay_t<decltype(defaults.*member)>;
          if constexpr (std::is_same_v<T, std::string>) {
            return fmt::format("\"{}\"", defaults.*member);
          } else {
            return fmt::format("{}", defaults.*member);
          }
        },
        setting.target);
    text += fmt::format("\n# {}\n#{} = {}\n", setting.help, setting.key, value);
  }
  return text;
}

}  // namespace tunefarm
