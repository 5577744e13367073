#include "server/daemon/daemon.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>

#include "server/base/log.h"
#include "server/base/random.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/base/thread.h"
#include "server/exec/probe.h"
#include "server/version.h"

namespace tunefarm {
namespace {

namespace fs = std::filesystem;

// Entries of a folder under /proc; 0 when it cannot be read.
int CountEntries(const char* path) {
  int count = 0;
  DIR* const directory = opendir(path);
  if (directory == nullptr) return 0;
  while (const dirent* entry = readdir(directory)) {
    if (entry->d_name[0] != '.') ++count;
  }
  closedir(directory);
  return count;
}

int64_t ResidentBytes() {
  const absl::StatusOr<std::string> statm = ReadFile("/proc/self/statm", 4096);
  if (!statm.ok()) return 0;
  const size_t space = statm->find(' ');
  return space == std::string::npos ? 0 : std::atoll(statm->c_str() + space) * sysconf(_SC_PAGESIZE);
}

// Direct children: the workers' stubs.
int CountChildren() {
  int count = 0;
  std::error_code error;
  for (fs::directory_iterator it("/proc/self/task", error), end; !error && it != end; it.increment(error)) {
    const absl::StatusOr<std::string> children = ReadFile(it->path().string() + "/children", 1 << 16);
    if (!children.ok()) continue;
    for (const char c : *children) count += c == ' ' ? 1 : 0;
  }
  return count;
}

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "unknown";
}

std::string WorkerBesideThisProgram() {
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const fs::path& candidate : {folder / "tunefarm-worker", folder / "../libexec/tunefarm/tunefarm-worker"}) {
    if (fs::exists(candidate, error)) return candidate.lexically_normal().string();
  }
  return "";
}

// The runtime directory may lie in a folder that anyone can write: it must be ours, and only ours.
absl::Status MakePrivateDirectory(const std::string& path) {
  RETURN_IF_ERROR(MakeDirectories(path, 0700));
  struct stat info = {};
  if (lstat(path.c_str(), &info) != 0) return ErrnoStatus(errno, "looking at {}", path);
  if (!S_ISDIR(info.st_mode) || info.st_uid != geteuid()) {
    return FailedPrecondition("{} does not belong to this user; remove it or set XDG_RUNTIME_DIR", path);
  }
  return absl::OkStatus();
}

bool HasLockHeld(const absl::Status& status) { return ReasonOf(status) == "LOCK_HELD"; }

}  // namespace

Daemon::Daemon(const DaemonConfig& config, const EnvironmentGetter& environment)
    : config_(config), environment_(environment) {}

absl::StatusOr<std::unique_ptr<Daemon>> Daemon::Start(const DaemonConfig& config,
                                                      const EnvironmentGetter& environment) {
  std::unique_ptr<Daemon> daemon(new Daemon(config, environment));
  RETURN_IF_ERROR(daemon->Open());
  return daemon;
}

absl::Status Daemon::OpenDirectories() {
  const std::string& data = config_.data_directory;
  RETURN_IF_ERROR(Annotate(MakeDirectories(data, 0700), "data directory"));
  if (access(data.c_str(), W_OK) != 0) {
    return ErrnoStatus(errno, "the data directory {} cannot be written; choose another with --data-dir", data);
  }
  ASSIGN_OR_RETURN(const bool is_network, IsNetworkFileSystem(data));
  if (is_network) {
    return FailedPrecondition(
        "the data directory {} is on a network file system, where SQLite would lose data; choose a local "
        "disk with --data-dir",
        data);
  }
  absl::StatusOr<FileLock> lock = FileLock::TryLock(data + "/tunefarmd.lock");
  if (!lock.ok()) {
    if (!HasLockHeld(lock.status())) return lock.status();
    return WithReason(FailedPrecondition("another daemon serves {} already ({})", data, MessageOf(lock.status())),
                      "DATA_DIRECTORY_IN_USE");
  }
  lock_ = *std::move(lock);
  ASSIGN_OR_RETURN(sockets_, SocketPathsFor(data, environment_));
  RETURN_IF_ERROR(MakePrivateDirectory(sockets_.directory));
  RETURN_IF_ERROR(MakeDirectories(data + "/backups", 0700));
  // Workers drop to other users and must be able to pass through to their own scratch directories.
  // What a worker left behind and cannot be removed stays: each worker gets a fresh directory of its own anyway.
  if (const absl::Status removed = RemoveTree(data + "/scratch"); !removed.ok()) {
    LogWarn("daemon", "the scratch directory could not be emptied: {}", MessageOf(removed));
  }
  return MakeDirectories(data + "/scratch", 0711);
}

ProcessEvaluatorOptions Daemon::EvaluatorOptions() const {
  ProcessEvaluatorOptions options;
  options.worker_binary = config_.worker_path.empty() ? WorkerBesideThisProgram() : config_.worker_path;
  options.scratch_directory = config_.data_directory + "/scratch";
  options.compile_workers = config_.compile_workers;
  options.cuda_path = config_.cuda_path;
  options.host_compiler = config_.host_compiler;
  options.python_interpreter = config_.python_interpreter;
  options.deadlines.compile_ms = config_.compile_timeout_ms;
  options.deadlines.first_launch_ms = config_.launch_timeout_ms;
  options.lock_directory = "/tmp";
  options.lock_host = !config_.share_host;
  options.standby_runners = config_.standby_runners ? ForDevices::kGpus : ForDevices::kNone;
  options.cache_directory = config_.data_directory + "/cache";
  options.cache_bytes_max = static_cast<uint64_t>(config_.max_cache_bytes);
  // A cache must never be what makes jobs pause.
  options.cache_free_bytes_min = 2 * static_cast<uint64_t>(config_.min_free_disk_bytes);
  options.first_uid = static_cast<uint32_t>(config_.worker_uid_base);
  // What was probed and shown is what every worker must keep: none works with less in silence.
  options.required_isolation = sandbox_level_.substr(0, 2) == "L1" ? "L1" : config_.required_isolation;
  return options;
}

absl::Status Daemon::ProbeAndRegister() {
  const ProcessEvaluatorOptions options = EvaluatorOptions();
  if (options.worker_binary.empty()) {
    return FailedPrecondition("the program tunefarm-worker is not beside tunefarmd; install it there or set --worker");
  }
  absl::StatusOr<ProbeResult> probe = ProbeDevices(options);
  if (!probe.ok()) {
    // Look-ups and lists still work; doctor shows why nothing can be tuned.
    LogError("daemon", "no devices: {}", MessageOf(probe.status()));
    notes_.push_back("no devices: " + std::string(MessageOf(probe.status())));
  } else {
    notes_ = std::move(probe->notes);
    sandbox_level_ = probe->sandbox_level;
    LogInfo("daemon", "worker isolation {}", sandbox_level_);
    for (v1::Device& device : probe->devices) {
      const bool is_host = device.device_class().kind() == v1::DEVICE_KIND_HOST;
      if (!is_host && !config_.use_gpu) continue;
      if (is_host && device.uuid().empty()) {
        ASSIGN_OR_RETURN(const std::string uuid,
                         store_->GetOrPutSetting("host_device_uuid", "CPU-" + NewUuid(EntropySource::Real())));
        device.set_uuid(uuid);
      }
      device.set_name("devices/" + device.uuid());
      if (device.state() == v1::DEVICE_STATE_UNSPECIFIED) device.set_state(v1::DEVICE_STATE_READY);
      devices_.push_back(std::move(device));
    }
  }
  if (probe.ok() && probe->runs_python) jobs_->AllowPython();
  if (config_.python_interpreter.empty()) {
    notes_.emplace_back(
        "Python kernels are off (python_interpreter in the daemon's configuration names an interpreter)");
  }
  jobs_->SetIsolation({sandbox_level_, config_.required_isolation});
  return jobs_->SetDevices(devices_);
}

absl::Status Daemon::Listen() {
  ServerHooks hooks;
  hooks.info = [this] { return Info(); };
  hooks.backup = [this](const std::string& file_name) { return Backup(file_name); };
  hooks.release_device = [this](const std::string& uuid) { device_watch_->Release(uuid); };
  hooks.shutdown = [this](bool immediately) {
    if (immediately) stop_immediately_.store(true);
    // Taken by the main thread, as any other request to end. A second signal means "at once", so a repeated call sends
    // none.
    if (!stop_requested_.exchange(true) || immediately) kill(getpid(), SIGTERM);
  };
  const auto check_space = [this] {
    if (!jobs_->is_suspended()) return absl::OkStatus();
    return WithReason(ResourceExhausted("space is low (tunefarm status): nothing is imported"), "LOW_SPACE");
  };
  recordings_ = std::make_unique<Recordings>(&store_->recordings(), Clock::Real(), check_space,
                                             LimitsOfDatabase(config_.max_database_bytes));
  api_ = std::make_unique<Api>(jobs_.get(), recordings_.get(), std::move(hooks), Clock::Real());
  // Before anybody can ask where it listens.
  RETURN_IF_ERROR(Monitor());
  RpcServerOptions admin;
  admin.addresses = {"unix:" + sockets_.admin};
  admin.is_admin = true;
  RpcServerOptions client;
  client.addresses = {"unix:" + sockets_.client};
  if (!config_.listen.empty()) client.addresses.push_back(config_.listen);
  for (const RpcServerOptions& options : {client, admin}) {
    ASSIGN_OR_RETURN(std::unique_ptr<RpcServer> server, RpcServer::Start(api_.get(), Clock::Real(), options));
    for (const std::string& address : server->addresses()) addresses_.push_back(address);
    servers_.push_back(std::move(server));
  }
  return absl::OkStatus();
}

absl::Status Daemon::Monitor() {
  if (config_.http_listen.empty()) return absl::OkStatus();
  MonitoringSources sources;
  sources.jobs = jobs_.get();
  sources.store = store_.get();
  sources.fill = [this](MetricsSnapshot* snapshot) {
    snapshot->database_bytes_max = config_.max_database_bytes;
    snapshot->retention = &upkeep_->retention();
    snapshot->evaluator = evaluator_stats_.load();
    for (const v1::Device& device : jobs_->ListDevices()) {
      ++snapshot->devices[v1::DeviceState_Name(device.state()).substr(std::string_view("DEVICE_STATE_").size())];
    }
    snapshot->free_disk_bytes = FreeDiskBytes(config_.data_directory).value_or(0);
    snapshot->free_disk_bytes_min = config_.min_free_disk_bytes;
    snapshot->is_suspended = jobs_->is_suspended();
    snapshot->open_calls = api_->open_calls();
    snapshot->resident_bytes = ResidentBytes();
    snapshot->open_files = CountEntries("/proc/self/fd");
    snapshot->workers = CountChildren();
    snapshot->started_at_ms = started_at_ms_;
  };
  ASSIGN_OR_RETURN(http_, StartMonitoring(config_.http_listen, std::move(sources)));
  return absl::OkStatus();
}

absl::Status Daemon::Open() {
  Clock* const clock = Clock::Real();
  started_at_ms_ = clock->WallMs();
  active_last_ = clock->Now();
  RETURN_IF_ERROR(OpenDirectories());
  ASSIGN_OR_RETURN(store_, OpenSqliteStore({config_.data_directory + "/tunefarm.db",
                                            config_.data_directory + "/backups", config_.max_database_bytes}));
  control_ = std::make_unique<ThreadExecutor>("control", clock);
  agent_executor_ = std::make_unique<ThreadExecutor>("agent", clock);
  watch_executor_ = std::make_unique<ThreadExecutor>("catalog-watch", clock);
  JobServiceOptions service;
  service.store = store_.get();
  service.control = control_.get();
  service.watchers = watch_executor_.get();
  service.entropy = EntropySource::Real();
  service.active_jobs_max = config_.max_active_jobs;
  jobs_ = std::make_unique<JobService>(service);
  RETURN_IF_ERROR(ProbeAndRegister());
  RETURN_IF_ERROR(jobs_->Start());
  device_watch_ = std::make_unique<DeviceWatch>(jobs_.get(), store_.get(), control_.get());
  upkeep_ = std::make_unique<Upkeep>(config_, store_.get(), jobs_.get(), clock);
  // Before there are workers: binding the sockets narrows the umask of the whole process for a moment.
  RETURN_IF_ERROR(Listen());
  ProcessEvaluatorOptions options = EvaluatorOptions();
  device_watch_->Connect(&options);
  evaluator_ = std::make_unique<ProcessEvaluator>(std::move(options));
  device_watch_->SetEvaluator(evaluator_.get());
  evaluator_stats_ = &evaluator_->stats();
  AgentOptions agent;
  agent.link = jobs_->agent_link();
  agent.evaluator = evaluator_.get();
  agent.executor = agent_executor_.get();
  agent.entropy = EntropySource::Real();
  agent.host = HostName();
  agent.devices = devices_;
  agent_ = std::make_unique<Agent>(agent);
  agent_->Start();
  return absl::OkStatus();
}

Daemon::~Daemon() {
  // Calls end first, so that nobody asks what is being taken down; then whoever does work, then what the work reports
  // to.
  for (const auto& server : servers_) server->SetNotServing();
  http_.reset();
  upkeep_.reset();
  if (jobs_) jobs_->Stop();
  for (const auto& server : servers_) server->Shutdown(std::chrono::seconds(2));
  servers_.clear();
  if (jobs_) {
    const absl::Status written = jobs_->WriteMisses();
    if (!written.ok()) LogWarn("daemon", "the latest misses are forgotten: {}", MessageOf(written));
  }
  agent_.reset();
  if (agent_executor_) {
    // The agent's end is a task of its executor: until that has run, it may still call the evaluator.
    Notification stopped;
    agent_executor_->Post([&stopped] { stopped.Notify(); });
    stopped.WaitForNotification();
  }
  if (device_watch_) device_watch_->SetEvaluator(nullptr);
  evaluator_.reset();
  agent_executor_.reset();
  control_.reset();
  watch_executor_.reset();
  device_watch_.reset();
  api_.reset();
  recordings_.reset();
  jobs_.reset();
  store_.reset();
}

void Daemon::Drain(std::function<void()> done) {
  api_->RefuseCalls();
  for (const auto& server : servers_) server->SetNotServing();
  agent_->Drain(std::move(done));
}

std::vector<Executor*> Daemon::vital_executors() const {
  std::vector<Executor*> executors = {watch_executor_.get()};
  if (agent_executor_) executors.push_back(agent_executor_.get());
  return executors;
}

bool Daemon::IsIdleTooLong() {
  if (config_.idle_exit_seconds <= 0) return false;
  const MonotonicTime now = Clock::Real()->Now();
  // The database is asked only when everything else speaks for leaving.
  if (api_->open_calls() > 0) active_last_ = now;
  if (now - std::max(active_last_, api_->last_call_ended()) <= std::chrono::seconds(config_.idle_exit_seconds))
    return false;
  const absl::StatusOr<JobServiceStats> stats = jobs_->Stats();
  if (!stats.ok() || stats->active_jobs > 0) active_last_ = now;
  const MonotonicTime last = std::max(active_last_, api_->last_call_ended());
  return now - last > std::chrono::seconds(config_.idle_exit_seconds);
}

v1::GetServerInfoResponse Daemon::Info() {
  v1::GetServerInfoResponse info;
  info.set_version(TUNEFARM_VERSION);
  info.set_revision(TUNEFARM_REVISION);
  info.set_pid(getpid());
  info.set_started_at_ms(started_at_ms_);
  info.set_data_directory(config_.data_directory);
  for (const std::string& address : addresses_) info.add_addresses(address);
  info.set_idle_exit_seconds(config_.idle_exit_seconds);
  info.set_workers(CountChildren());
  info.set_resident_bytes(ResidentBytes());
  info.set_open_files(CountEntries("/proc/self/fd"));
  info.set_sandbox_level(sandbox_level_);
  info.set_free_disk_bytes(FreeDiskBytes(config_.data_directory).value_or(0));
  info.set_free_disk_bytes_min(config_.min_free_disk_bytes);
  if (http_) info.set_http_address(http_->address());
  for (const std::string& note : notes_) info.add_toolchains(note);
  if (const EvaluatorStats* stats = evaluator_stats_; stats != nullptr) {
    info.set_binary_cache_bytes(stats->cache_bytes);
    info.set_binary_cache_bytes_max(stats->cache_bytes_max);
  }
  return info;
}

absl::StatusOr<v1::CreateBackupResponse> Daemon::Backup(const std::string& file_name) {
  std::string name = file_name;
  if (name.empty()) {
    const std::time_t now = Clock::Real()->WallMs() / 1000;
    std::tm utc = {};
    gmtime_r(&now, &utc);
    char text[64];
    std::strftime(text, sizeof(text), "tunefarm-%Y%m%dT%H%M%SZ.db", &utc);
    name = text;
  }
  if (name.size() > 200 || name.find('/') != std::string::npos || name[0] == '.') {
    return InvalidArgument("backup name '{}' must be a plain file name", name);
  }
  v1::CreateBackupResponse response;
  response.set_path(config_.data_directory + "/backups/" + name);
  RETURN_IF_ERROR(store_->Backup(response.path()));
  std::error_code error;
  response.set_size_bytes(static_cast<int64_t>(fs::file_size(response.path(), error)));
  return response;
}

}  // namespace tunefarm
