#include "server/daemon/daemon_help.h"

#include <algorithm>
#include <vector>

#include "server/base/format.h"

namespace tunefarm {
namespace {

struct Group {
  std::string_view title;
  std::vector<std::string_view> keys;
};

// In the order of the help.
const std::vector<Group>& Groups() {
  static const auto& groups = *new std::vector<Group>{
      {"Data and life",
       {"data_dir", "store", "store_connections", "idle_exit_seconds", "max_database_bytes", "max_cache_bytes",
        "max_data_file_bytes", "max_remote_cache_bytes", "min_free_disk_bytes", "keep_jobs_days"}},
      {"Connections",
       {"listen", "tls_certificate", "tls_key", "tls_ca", "tls_client_ca", "insecure_plaintext", "http_listen",
        "dashboard_listen", "dashboard_hosts"}},
      {"Limits of callers",
       {"calls_per_second", "lookups_per_second", "max_jobs_per_principal", "max_active_jobs",
        "max_kernels_per_principal", "max_kernel_bytes_per_principal"}},
      {"Farms",
       {"role", "control", "agent_name", "compile_only", "labels", "agent_lease_seconds", "sentinels",
        "sentinel_tolerance_percent", "spool_bytes_max"}},
      {"Devices and compilers",
       {"use_gpu", "standby_runners", "share_host", "lookups_first", "cuda_path", "host_compiler", "python_interpreter",
        "compile_workers"}},
      {"Trials and their isolation",
       {"compile_timeout_ms", "launch_timeout_ms", "prepare_timeout_ms", "worker_path", "required_isolation",
        "worker_uid_base"}},
      {"Logs", {"log_level", "log_json", "log_file", "log_file_max_bytes", "log_files", "keep_logs_days"}},
      {"Other", {}}};
  return groups;
}

constexpr char kEnd[] =
    "Examples:\n"
    "  tunefarmd                                            on this machine, for its own user\n"
    "  tunefarmd --idle-exit 600 --log-level debug          ends when idle; logs to stderr\n"
    "  tunefarmd --print-example-config > ~/.config/tunefarm/tunefarmd.toml\n"
    "For clients and agents of other machines:\n"
    "  tunefarmd --listen 0.0.0.0:7070 --tls-certificate control.pem --tls-key control.key --tls-client-ca ca.pem\n"
    "This machine's devices for that farm:\n"
    "  tunefarmd --role agent --control farm1:7070 --tls-ca ca.pem --tls-certificate gpu7.pem --tls-key gpu7.key\n"
    "\n"
    "Every flag is also a key of the configuration file and a variable: launch_timeout_ms and "
    "TUNEFARM_LAUNCH_TIMEOUT_MS are --launch-timeout-ms. Flags win over variables, these over the file.\n"
    "The database is moved to PostgreSQL with: tunefarmd copy-database --help\n";

std::string NameOf(const CLI::Option& option) {
  std::string name;
  for (const std::string& one : option.get_snames()) name += (name.empty() ? "-" : ", -") + one;
  for (const std::string& one : option.get_lnames()) name += (name.empty() ? "--" : ", --") + one;
  return option.get_expected_max() == 0 ? name : name + " VALUE";
}

}  // namespace

std::string DaemonHelpGroup(std::string_view key) {
  for (const Group& group : Groups()) {
    if (std::find(group.keys.begin(), group.keys.end(), key) != group.keys.end()) return std::string(group.title);
  }
  return "Other";
}

std::string DaemonHelpFormatter::make_help(const CLI::App* app, std::string name, CLI::AppFormatMode) const {
  std::string text = WrapLines(app->get_description(), columns_) + "\nUsage: " + name + " [OPTIONS]\n";
  std::string general;
  for (const CLI::Option* option : app->get_options()) {
    const std::string title = option->get_group();
    const bool is_grouped =
        std::any_of(Groups().begin(), Groups().end(), [&](const Group& g) { return g.title == title; });
    if (!is_grouped) general += HelpEntry(NameOf(*option), option->get_description(), columns_);
  }
  text += "\nGeneral:\n" + general;
  for (const Group& group : Groups()) {
    std::string entries;
    for (const CLI::Option* option : app->get_options()) {
      if (option->get_group() == group.title)
        entries += HelpEntry(NameOf(*option), option->get_description(), columns_);
    }
    if (!entries.empty()) text += "\n" + std::string(group.title) + ":\n" + entries;
  }
  return text + "\n" + WrapLines(kEnd, columns_);
}

}  // namespace tunefarm
