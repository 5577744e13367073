#include "server/daemon/control_daemon.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>

#include "client/web/page.h"
#include "server/base/log.h"
#include "server/base/random.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/base/thread.h"
#include "server/daemon/host_setting.h"
#include "server/daemon/process_stats.h"
#include "server/records/named_data_files.h"
#include "server/store/postgres_store.h"
#include "server/store/setting_store.h"
#include "server/store/store_maintenance.h"
#include "server/version.h"

namespace tunefarm {
namespace {

namespace fs = std::filesystem;

// For quick tasks and for slow ones (jobs/README.md), whatever the number of cores: most wait most of the time. Where
// there is too little processor time, calls and workers come first, and slow tasks last.
constexpr int kSearchThreads = 6, kSlowSearchThreads = 6;
constexpr int kSearchNice = 5, kSlowSearchNice = 10;

}  // namespace

ControlDaemon::ControlDaemon(const DaemonConfig& config, const EnvironmentGetter& environment)
    : config_(config), environment_(environment) {}

absl::StatusOr<std::unique_ptr<Daemon>> ControlDaemon::Start(const DaemonConfig& config,
                                                             const EnvironmentGetter& environment) {
  std::unique_ptr<ControlDaemon> daemon(new ControlDaemon(config, environment));
  RETURN_IF_ERROR(daemon->Open());
  return daemon;
}

absl::StatusOr<WorkerAbilities> ControlDaemon::Probe() {
  // The agents of a control daemon report what they reach; which of them may run a job is decided when they ask for
  // work.
  if (config_.role == "control") return WorkerAbilities{{"L1", config_.required_isolation}, true};
  ASSIGN_OR_RETURN(local_, FindLocalDevices(config_, [this] {
                     return store_->settings()->GetOrPutSetting(HostDeviceSetting(!config_.store.empty()),
                                                                "CPU-" + NewUuid(EntropySource::Real()));
                   }));
  return WorkerAbilities{{local_.sandbox_level, config_.required_isolation}, local_.runs_python};
}

absl::Status ControlDaemon::OpenGate() {
  Clock* const clock = Clock::Real();
  tokens_ = std::make_unique<TokenBook>(store_->tokens(), EntropySource::Real(), clock);
  if (!config_.tls_client_ca.empty()) {
    ASSIGN_OR_RETURN(certificates_, CertificateCheck::Open(config_.tls_client_ca, clock));
  }
  sessions_ = std::make_unique<SessionBook>(tokens_.get(), EntropySource::Real(), clock);
  rates_ = std::make_unique<RateLimits>(config_.calls_per_second, config_.lookups_per_second, clock);
  AuditOptions audit;
  audit.path = config_.data_directory + "/audit.log";
  audit.bytes_max = config_.log_file_max_bytes;
  audit.files_max = config_.log_files;
  audit.clock = clock;
  ASSIGN_OR_RETURN(audit_, AuditLog::Open(audit));
  gate_ = std::make_unique<Gate>(
      GateOptions{tokens_.get(), certificates_.get(), rates_.get(), audit_.get(), sessions_.get()});
  return absl::OkStatus();
}

std::vector<RpcServerOptions> ControlDaemon::Listeners() {
  RpcServerOptions admin;
  admin.addresses = {"unix:" + directory_.sockets.admin};
  admin.is_admin = true;
  RpcServerOptions client;
  client.addresses = {"unix:" + directory_.sockets.client};
  std::vector<RpcServerOptions> all = {client};
  if (!config_.listen.empty()) {
    RpcServerOptions network;
    network.addresses = {config_.listen};
    network.agents = &plane_->link();
    if (!config_.tls_certificate.empty()) {
      network.tls = TlsFiles{config_.tls_certificate, config_.tls_key, !config_.tls_client_ca.empty()};
    } else {
      network.is_insecure = config_.insecure_plaintext;
    }
    if (network.is_insecure)
      LogWarn("daemon", "plain text on {}: every client that reaches it may run kernels", config_.listen);
    all.push_back(network);
  }
  all.push_back(admin);
  for (RpcServerOptions& options : all) {
    options.gate = gate_.get();
    options.limits = &limits_;
  }
  return all;
}

absl::Status ControlDaemon::Listen() {
  RETURN_IF_ERROR(OpenGate());
  ServerHooks hooks;
  hooks.info = [this] { return Info(); };
  hooks.backup = [this](const std::string& file_name) { return Backup(file_name); };
  hooks.shutdown = [this](bool immediately) {
    if (immediately) stop_immediately_.store(true);
    // Taken by the main thread, as any other request to end. A second signal means "at once", so a repeated call sends
    // none.
    if (!stop_requested_.exchange(true) || immediately) kill(getpid(), SIGTERM);
  };
  hooks.open_dashboard = [this]() -> absl::StatusOr<std::string> {
    if (!WebFiles().empty()) return OpenDashboard("127.0.0.1:0");
    return WithReason(FailedPrecondition("this daemon was built without the dashboard's page: build it where npm is "
                                         "installed (./dev setup)"),
                      "NO_DASHBOARD");
  };
  server_api_ = std::make_unique<ServerApi>(store_.get(), &plane_->node_watch(), std::move(hooks));
  access_api_ = std::make_unique<AccessApi>(tokens_.get(), sessions_.get());
  // All slow; one principal has one of the two at a time.
  package_threads_ = std::make_unique<ThreadPool>("rpc", 0, std::function<void()>(), SlowThreads{"rpc-package", 2});
  services_ = {.calls = &plane_->calls(),
               .kernels = &plane_->kernel_api(),
               .packages = &plane_->package_api(),
               .data_files = &plane_->data_file_api(),
               .caches = &plane_->cache_api(),
               .tuning = &plane_->tuning_api(),
               .studies = &plane_->study_api(),
               .lookup = &plane_->lookup_api(),
               .catalog = &plane_->catalog_api(),
               .farm = &plane_->farm_api(),
               .server = server_api_.get(),
               .access = access_api_.get(),
               .package_threads = package_threads_.get()};
  // Before anybody can ask where it listens.
  RETURN_IF_ERROR(Monitor());
  if (!config_.dashboard_listen.empty()) RETURN_IF_ERROR(OpenDashboard(config_.dashboard_listen).status());
  for (const RpcServerOptions& options : Listeners()) {
    ASSIGN_OR_RETURN(std::unique_ptr<RpcServer> server, RpcServer::Start(services_, Clock::Real(), options));
    {
      MutexLock lock(&listen_mutex_);  // those that are served already may be asked for the addresses
      for (const std::string& address : server->addresses()) addresses_.push_back(address);
    }
    servers_.push_back(std::move(server));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ControlDaemon::OpenDashboard(const std::string& address) {
  MutexLock lock(&listen_mutex_);
  if (web_has_ended_) return WithReason(Unavailable("the daemon is ending"), "DAEMON_ENDING");
  if (web_ == nullptr) {
    WebServerOptions options;
    options.address = address;
    options.hosts = ParseAddresses(config_.dashboard_hosts);
    if (!IsLoopback(address)) {
      options.tls_certificate = config_.tls_certificate;
      options.tls_key = config_.tls_key;
      options.asks_for_certificates = certificates_ != nullptr;
    }
    for (const WebFile& file : WebFiles()) options.files.push_back({file.path, file.content_type, file.bytes});
    options.revision = TUNEFARM_REVISION;
    options.gate = gate_.get();
    options.limits = &limits_;
    options.clock = Clock::Real();
    options.services = services_;
    ASSIGN_OR_RETURN(web_, WebServer::Start(options));
    LogInfo("daemon", "the dashboard is served at {}", web_->address());
  }
  return web_->address();
}

absl::Status ControlDaemon::Monitor() {
  if (config_.http_listen.empty()) return absl::OkStatus();
  const auto fill = [this](MetricsSnapshot* snapshot) {
    snapshot->database_bytes_max = config_.max_database_bytes;
    snapshot->retention = &upkeep_->retention();
    snapshot->evaluator = evaluator_stats_.load();
    for (const v1::Device& device : plane_->devices().List()) {
      ++snapshot->devices[v1::DeviceState_Name(device.state()).substr(std::string_view("DEVICE_STATE_").size())];
    }
    snapshot->free_disk_bytes = FreeDiskBytes(config_.data_directory).value_or(0);
    snapshot->free_disk_bytes_min = config_.min_free_disk_bytes;
    snapshot->data_files = data_files_->counts();
    snapshot->data_file_bytes_max = config_.max_data_file_bytes;
    if (remote_cache_ != nullptr) snapshot->remote_cache = remote_cache_->counts();
    snapshot->remote_cache_bytes_max = config_.max_remote_cache_bytes;
    snapshot->is_suspended = !plane_->scheduler().suspended().empty();
    snapshot->open_calls = plane_->calls().count();
    const AuditStats audit = audit_->stats();
    snapshot->calls_refused = static_cast<int64_t>(audit.refusals);
    snapshot->audit_written = static_cast<int64_t>(audit.written);
    snapshot->audit_left_out = static_cast<int64_t>(audit.left_out);
    snapshot->audit_lost = static_cast<int64_t>(audit.lost);
    snapshot->resident_bytes = ResidentBytes();
    snapshot->open_files = OpenFiles();
    snapshot->workers = CountChildren();
    snapshot->started_at_ms = started_at_ms_;
  };
  ASSIGN_OR_RETURN(http_, StartMonitoring(config_.http_listen, plane_.get(), store_.get(), fill));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Store>> ControlDaemon::OpenStore() const {
  if (config_.store.empty()) {
    return OpenSqliteStore(
        {config_.data_directory + "/tunefarm.db", config_.data_directory + "/backups", config_.max_database_bytes});
  }
  PostgresOptions options;
  options.url = config_.store;
  options.connections_max = config_.store_connections;
  options.initialized_marker = config_.data_directory + "/postgres.initialized";
  ASSIGN_OR_RETURN(const std::string name, DescribePostgresUrl(config_.store));
  ASSIGN_OR_RETURN(std::unique_ptr<Store> store, OpenPostgresStore(options));
  LogInfo("daemon", "jobs and results are kept in {}", name);
  return store;
}

absl::Status ControlDaemon::OpenPlane() {
  Clock* const clock = Clock::Real();
  // A PostgreSQL database may have other daemons; the file in the data directory is this one's alone.
  const bool on_postgres = !config_.store.empty();
  ControlPlaneOptions options;
  options.store = store_.get();
  options.control = control_.get();
  options.job_watchers = job_watch_executor_.get();
  options.watchers = watch_executor_.get();
  options.tasks = search_.get();
  options.lease = watch_executor_.get();
  options.entropy = EntropySource::Real();
  options.data_files = data_files_.get();
  options.remote_cache = remote_cache_.get();
  options.headers = headers_.get();
  options.limits = {config_.max_active_jobs,
                    config_.max_jobs_per_principal,
                    {config_.max_kernels_per_principal, config_.max_kernel_bytes_per_principal}};
  options.agent_lease_ms = int64_t{1000} * config_.agent_lease_seconds;
  options.has_own_agent = config_.role == "all";
  options.sentinel_tolerance = config_.sentinel_tolerance_percent / 100.0;
  options.compile_configs = [this](const CompileOrder& order) { return config_compiler_.Compile(order); };
  options.release_device = [this](const std::string& uuid) { device_watch_->Release(uuid); };
  if (on_postgres) {
    // The lease has a thread that nothing else holds up.
    lease_executor_ = std::make_unique<ThreadExecutor>("node-lease", clock);
    options.node.id = NewUuid(EntropySource::Real());
    options.lease = lease_executor_.get();
    options.local_copy = config_.data_directory + "/catalog.copy";
    options.own_agent_lease_ms = options.agent_lease_ms;
  } else {
    options.node = PermanentNode(NewUuid(EntropySource::Real()));
    ASSIGN_OR_RETURN(const int64_t returned, ReleaseEarlierProcess(store_.get(), clock));
    if (returned > 0) LogInfo("jobs", "units of an earlier run are queued again: {}", returned);
  }
  options.node.detail = fmt::format("{} {}", HostName(), config_.listen);
  ASSIGN_OR_RETURN(options.abilities, Probe());
  plane_ = std::make_unique<ControlPlane>(options);
  device_watch_ = std::make_unique<DeviceWatch>(plane_.get(), store_.get(), control_.get());
  if (config_.role == "all") RETURN_IF_ERROR(plane_->SetDevices(local_.devices));
  RETURN_IF_ERROR(plane_->Start());
  return on_postgres ? absl::OkStatus() : plane_->tuning_api().PauseWhatCannotRun();
}

absl::Status ControlDaemon::Open() {
  Clock* const clock = Clock::Real();
  started_at_ms_ = clock->WallMs();
  active_last_ = clock->Now();
  ASSIGN_OR_RETURN(directory_, OpenDataDirectory(config_.data_directory, environment_));
  ASSIGN_OR_RETURN(store_, OpenStore());
  DataFileStoreOptions files = DataFileOptions(config_);
  files.owner_bytes_max = config_.max_data_file_bytes / 2;
  files.named = [this] { return NamedDataFiles(store_->kernels()); };
  ASSIGN_OR_RETURN(data_files_, DataFileStore::Open(std::move(files)));
  if (config_.max_remote_cache_bytes > 0) {
    RemoteCacheOptions cache;
    cache.path = config_.data_directory + "/remote_cache";
    cache.bytes_max = config_.max_remote_cache_bytes;
    cache.free_bytes_min = config_.min_free_disk_bytes;
    ASSIGN_OR_RETURN(remote_cache_, RemoteCache::Open(std::move(cache)));
  }
  if (config_.role == "all") {
    headers_ = std::make_unique<FileSetBook>(config_.data_directory + "/headers.list", clock);
  }
  control_ = std::make_unique<ThreadExecutor>("control", clock);
  agent_executor_ = std::make_unique<ThreadExecutor>("agent", clock);
  if (config_.lookups_first) {
    control_->Post(YieldToOthers);
    agent_executor_->Post(YieldToOthers);
  }
  const auto begin = [yields = config_.lookups_first](int nice) -> std::function<void()> {
    if (yields) return YieldToOthers;
    return [nice] { LowerPriority(nice); };
  };
  search_ = std::make_unique<ThreadPool>("search", kSearchThreads, begin(kSearchNice),
                                         SlowThreads{"search-slow", kSlowSearchThreads, begin(kSlowSearchNice)});
  job_watch_executor_ = std::make_unique<ThreadExecutor>("job-watch", clock);
  watch_executor_ = std::make_unique<ThreadExecutor>("catalog-watch", clock);
  RETURN_IF_ERROR(OpenPlane());
  UpkeepOptions upkeep;
  upkeep.data_directory = config_.data_directory;
  upkeep.min_free_disk_bytes = config_.min_free_disk_bytes;
  upkeep.max_database_bytes = config_.max_database_bytes;
  upkeep.keep_logs_days = config_.keep_logs_days;
  upkeep.keep_jobs_days = config_.keep_jobs_days;
  upkeep_ = std::make_unique<Upkeep>(upkeep, store_.get(), &plane_->scheduler(), &plane_->misses(), clock);
  // Before there are workers: binding the sockets narrows the umask of the whole process for a moment.
  RETURN_IF_ERROR(Listen());
  if (config_.role == "all") StartAgent();
  return absl::OkStatus();
}

void ControlDaemon::StartAgent() {
  ProcessEvaluatorOptions options = EvaluatorOptions(config_, local_.sandbox_level);
  options.headers = headers_.get();
  device_watch_->Connect(&options);
  evaluator_ = std::make_unique<ProcessEvaluator>(std::move(options));
  device_watch_->SetEvaluator(evaluator_.get());
  config_compiler_.SetEvaluator(evaluator_.get());
  evaluator_stats_ = &evaluator_->stats();
  if (!config_.listen.empty()) {
    // Agents of other machines may bring devices like these.
    for (const v1::Device& device : WithSentinels(config_, evaluator_.get(), local_.devices)) {
      if (device.sentinels_size() > 0) plane_->SetDeviceSentinels(device);
    }
  }
  agent_data_files_ = std::make_unique<AgentDataFiles>(data_files_.get());
  AgentOptions agent;
  agent.link = &plane_->link();
  agent.data_files = agent_data_files_.get();
  agent.evaluator = evaluator_.get();
  agent.executor = agent_executor_.get();
  agent.entropy = EntropySource::Real();
  agent.host = HostName();
  agent.devices = local_.devices;
  agent.about.set_version(TUNEFARM_VERSION);
  agent.about.set_display_name(config_.agent_name);
  agent.about.set_sandbox_level(local_.sandbox_level);
  agent.about.set_runs_python(local_.runs_python);
  for (const auto& [name, value] : ParseLabels(config_.labels)) (*agent.about.mutable_labels())[name] = value;
  agent_ = std::make_unique<Agent>(agent);
  agent_->Start();
}

ControlDaemon::~ControlDaemon() {
  // Calls end first, so that nothing that ends is asked; then what does the work, then what the work reports
  // to.
  for (const auto& server : servers_) server->SetNotServing();
  http_.reset();
  upkeep_.reset();
  if (plane_) plane_->Stop();
  for (const auto& server : servers_) server->Shutdown(std::chrono::seconds(2));
  servers_.clear();
  std::unique_ptr<WebServer> web;
  {
    MutexLock lock(&listen_mutex_);
    web_has_ended_ = true;
    web = std::move(web_);
  }
  web.reset();  // not under the lock, which a call that it waits for may want
  if (plane_) {
    const absl::Status written = plane_->misses().Write();
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
  config_compiler_.SetEvaluator(nullptr);
  evaluator_.reset();
  agent_executor_.reset();
  search_.reset();  // its tasks post to `control`
  control_.reset();
  job_watch_executor_.reset();
  watch_executor_.reset();
  lease_executor_.reset();
  // No thread uses what is left; it goes in the reverse order of making.
}

void ControlDaemon::Drain(std::function<void()> done) {
  plane_->calls().Refuse();
  for (const auto& server : servers_) server->SetNotServing();
  if (agent_) {
    agent_->Drain(std::move(done));
  } else {
    control_->Post(std::move(done));
  }
}

bool ControlDaemon::IsIdleTooLong() {
  if (config_.idle_exit_seconds <= 0) return false;
  const MonotonicTime now = Clock::Real()->Now();
  const OpenCalls& calls = plane_->calls();
  const auto is_idle = [&] {
    return now - std::max(active_last_, calls.last_ended()) > std::chrono::seconds(config_.idle_exit_seconds);
  };
  if (calls.count() > 0) active_last_ = now;
  // The database is asked only when everything else speaks for leaving.
  if (!is_idle()) return false;
  const absl::StatusOr<StoreStatus> status = store_->maintenance()->Status();
  if (status.ok() && status->active_jobs > 0) active_last_ = now;
  return is_idle();
}

v1::GetServerInfoResponse ControlDaemon::Info() {
  v1::GetServerInfoResponse info;
  info.set_version(TUNEFARM_VERSION);
  info.set_revision(TUNEFARM_REVISION);
  info.set_pid(getpid());
  info.set_role(config_.role);
  info.set_started_at_ms(started_at_ms_);
  info.set_data_directory(config_.data_directory);
  {
    MutexLock lock(&listen_mutex_);
    for (const std::string& address : addresses_) info.add_addresses(address);
    if (web_ != nullptr) info.set_dashboard_address(web_->address());
  }
  info.set_idle_exit_seconds(config_.idle_exit_seconds);
  info.set_workers(CountChildren());
  info.set_resident_bytes(ResidentBytes());
  info.set_open_files(OpenFiles());
  info.set_sandbox_level(local_.sandbox_level);
  info.set_free_disk_bytes(FreeDiskBytes(config_.data_directory).value_or(0));
  info.set_free_disk_bytes_min(config_.min_free_disk_bytes);
  if (http_) info.set_http_address(http_->address());
  for (const std::string& note : local_.notes) info.add_toolchains(note);
  if (const EvaluatorStats* stats = evaluator_stats_; stats != nullptr) {
    info.set_binary_cache_bytes(stats->cache_bytes);
    info.set_binary_cache_bytes_max(stats->cache_bytes_max);
  }
  return info;
}

absl::StatusOr<v1::CreateBackupResponse> ControlDaemon::Backup(const std::string& file_name) {
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
  RETURN_IF_ERROR(store_->maintenance()->Backup(response.path()));
  std::error_code error;
  response.set_size_bytes(static_cast<int64_t>(fs::file_size(response.path(), error)));
  return response;
}

}  // namespace tunefarm
