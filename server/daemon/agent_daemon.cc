#include "server/daemon/agent_daemon.h"

#include <fmt/core.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <utility>

#include "server/agent/remote/grpc_channel.h"
#include "server/base/log.h"
#include "server/base/random.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/base/thread.h"
#include "server/daemon/process_stats.h"
#include "server/farm/control_link.h"
#include "server/version.h"

namespace tunefarm {
namespace {

// How long the last results may take on their way to control.
constexpr Duration kFinishPatience = std::chrono::seconds(10);
// When nothing happens: a wake comes at once, and leases are renewed often enough.
constexpr Duration kPoll = std::chrono::milliseconds(1500);

}  // namespace

absl::StatusOr<std::unique_ptr<Daemon>> AgentDaemon::Start(const DaemonConfig& config,
                                                           const EnvironmentGetter& environment) {
  std::unique_ptr<AgentDaemon> daemon(new AgentDaemon(config, environment));
  RETURN_IF_ERROR(daemon->Open());
  return daemon;
}

// Kept in a file of the data directory, so that the CPU is the same device after a restart.
absl::StatusOr<std::string> AgentDaemon::HostUuid() const {
  const std::string path = config_.data_directory + "/host_device_uuid";
  absl::StatusOr<std::string> kept = ReadFile(path, 256);
  if (kept.ok() && kept->rfind("CPU-", 0) == 0) return kept;
  if (!kept.ok() && !absl::IsNotFound(kept.status())) return kept.status();
  const std::string fresh = "CPU-" + NewUuid(EntropySource::Real());
  RETURN_IF_ERROR(WriteFileAtomically(path, fresh, 0600));
  return fresh;
}

absl::Status AgentDaemon::Open() {
  Clock* const clock = Clock::Real();
  started_at_ms_ = clock->WallMs();
  ASSIGN_OR_RETURN(directory_, OpenDataDirectory(config_.data_directory, environment_));
  ASSIGN_OR_RETURN(local_, FindLocalDevices(config_, [this] { return HostUuid(); }));
  {
    MutexLock lock(&mutex_);
    for (const v1::Device& device : local_.devices) devices_[device.uuid()] = device;
  }
  ASSIGN_OR_RETURN(spool_, ReportSpool::Open(config_.data_directory + "/reports.spool",
                                             static_cast<uint64_t>(config_.spool_bytes_max)));
  DialOptions dial;
  dial.ca = config_.tls_ca;
  dial.certificate = config_.tls_certificate;
  dial.key = config_.tls_key;
  const auto new_list = [&] {
    return std::make_unique<ControlList>(
        [dial](const std::string& address) mutable {
          dial.address = address;
          return DialControl(dial);
        },
        ParseAddresses(config_.control), clock, EntropySource::Real());
  };
  controls_ = new_list();
  agent_executor_ = std::make_unique<ThreadExecutor>("agent", clock);
  calls_ = std::make_unique<ThreadExecutor>("link-calls", clock);
  reports_ = std::make_unique<ThreadExecutor>("link-reports", clock);
  waits_ = std::make_unique<ThreadExecutor>("link-waits", clock);
  link_ = std::make_unique<RemoteLink>(
      RemoteLinkOptions{controls_.get(), spool_.get(), calls_.get(), reports_.get(), waits_.get()});
  ASSIGN_OR_RETURN(data_file_store_, DataFileStore::Open(DataFileOptions(config_)));
  data_files_executor_ = std::make_unique<ThreadExecutor>("data-files", clock);
  data_files_ = std::make_unique<AgentDataFiles>(data_file_store_.get(), new_list(), data_files_executor_.get());
  // Before there are workers: binding the socket narrows the umask of the whole process for a moment.
  AgentAdmin::Hooks hooks;
  hooks.info = [this] { return Info(); };
  hooks.shutdown = [this](bool immediately) {
    if (immediately) stop_immediately_.store(true);
    if (!stop_requested_.exchange(true) || immediately) kill(getpid(), SIGTERM);
  };
  RETURN_IF_ERROR(StartPages());
  ASSIGN_OR_RETURN(admin_, AgentAdmin::Start(directory_.sockets.admin, std::move(hooks)));
  StartAgent();
  return absl::OkStatus();
}

void AgentDaemon::ChangeDevice(const std::string& uuid, const std::function<void(v1::Device*)>& change) {
  MutexLock lock(&mutex_);
  const auto found = devices_.find(uuid);
  if (found == devices_.end()) return;
  change(&found->second);
  if (told_ != nullptr) told_->DeviceChanged(found->second);
}

// As control is to know them: with what was noticed of them while their sentinels ran.
std::vector<v1::Device> AgentDaemon::MeasuredDevices() {
  const std::vector<v1::Device> measured = WithSentinels(config_, evaluator_.get(), local_.devices);
  std::vector<v1::Device> devices;
  MutexLock lock(&mutex_);
  for (const v1::Device& device : measured) {
    v1::Device& current = devices_[device.uuid()];
    *current.mutable_sentinels() = device.sentinels();
    devices.push_back(current);
  }
  return devices;
}

void AgentDaemon::StartAgent() {
  ProcessEvaluatorOptions options = EvaluatorOptions(config_, local_.sandbox_level);
  options.on_quarantine = [this](const std::string& uuid, const std::string& reason) {
    ChangeDevice(uuid, [&](v1::Device* device) {
      device->set_state(reason.empty() ? v1::DEVICE_STATE_READY : v1::DEVICE_STATE_QUARANTINED);
      device->set_state_reason(reason);
      device->set_state_since_ms(Clock::Real()->WallMs());
    });
  };
  options.on_wait = [this](const std::string& uuid, const std::string& reason) {
    ChangeDevice(uuid, [&](v1::Device* device) {
      if (device->state() == v1::DEVICE_STATE_QUARANTINED) return;
      device->set_state_reason(reason);
      device->set_state_since_ms(Clock::Real()->WallMs());
    });
  };
  options.on_healthy = [this](const std::string& uuid, double baseline_ns, int foreign_processes) {
    ChangeDevice(uuid, [&](v1::Device* device) {
      device->set_baseline_ns(baseline_ns);
      if (foreign_processes >= 0) device->set_foreign_processes(foreign_processes);
    });
  };
  binaries_executor_ = std::make_unique<ThreadExecutor>("farm-binaries", Clock::Real());
  binaries_ = std::make_unique<FarmBinaries>(link_.get(), binaries_executor_.get(), config_.compile_only);
  options.shared_binaries = binaries_.get();
  evaluator_ = std::make_unique<ProcessEvaluator>(std::move(options));
  AgentOptions agent;
  agent.link = link_.get();
  agent.data_files = data_files_.get();
  agent.evaluator = evaluator_.get();
  agent.executor = agent_executor_.get();
  agent.entropy = EntropySource::Real();
  agent.host = HostName();
  agent.devices = MeasuredDevices();
  agent.poll = kPoll;
  agent.release_device = [this](const std::string& uuid) { evaluator_->ReleaseDevice(uuid); };
  agent.about.set_protocol(ControlLink::kProtocol);
  agent.about.set_version(TUNEFARM_VERSION);
  agent.about.set_display_name(config_.agent_name);
  for (const auto& [name, value] : ParseLabels(config_.labels)) (*agent.about.mutable_labels())[name] = value;
  agent.about.set_sandbox_level(local_.sandbox_level);
  for (const std::string& note : local_.notes) agent.about.add_toolchains(note.substr(0, 1024));
  agent.about.set_runs_python(local_.runs_python);
  agent.about.set_compiles_only(config_.compile_only);
  agent_ = std::make_unique<Agent>(agent);
  {
    MutexLock lock(&mutex_);
    told_ = agent_.get();
  }
  agent_->Start();
  if (!config_.compile_only) return;
  compiler_executor_ = std::make_unique<ThreadExecutor>("farm-compiler", Clock::Real());
  compiler_ =
      std::make_unique<FarmCompiler>(FarmCompilerOptions{link_.get(), evaluator_.get(), compiler_executor_.get()});
  compiler_->Start();
}

void AgentDaemon::Drain(std::function<void()> done) {
  agent_->Drain([this, done = std::move(done)] {
    link_->Finish(kFinishPatience);
    done();
  });
}

AgentDaemon::~AgentDaemon() {
  admin_.reset();
  http_.reset();
  {
    MutexLock lock(&mutex_);
    told_ = nullptr;
  }
  if (link_) link_->Cancel();
  agent_.reset();
  if (agent_executor_) {
    // The agent's end is a task of its executor: until that has run, it may still call the evaluator.
    Notification stopped;
    agent_executor_->Post([&stopped] { stopped.Notify(); });
    stopped.WaitForNotification();
  }
  // Their calls have ended with the link. Both executors have stopped when the evaluator goes.
  compiler_.reset();
  compiler_executor_.reset();
  if (binaries_) binaries_->End();
  binaries_executor_.reset();
  if (data_files_) data_files_->End();
  data_files_executor_.reset();
  evaluator_.reset();
  agent_executor_.reset();
  calls_.reset();
  reports_.reset();
  waits_.reset();
  link_.reset();
}

absl::Status AgentDaemon::StartPages() {
  if (config_.http_listen.empty()) return absl::OkStatus();
  HttpServerOptions options;
  const size_t colon = config_.http_listen.rfind(':');
  options.host = config_.http_listen.substr(0, colon);
  if (options.host == "[::1]") options.host = "::1";
  options.port = std::stoi(config_.http_listen.substr(colon + 1));
  options.pages["/healthz"] = [this]() -> HttpAnswer {
    const RemoteLink::Counts counts = link_->counts();
    if (counts.connected) return {200, "ok\n"};
    return {503, fmt::format("no control daemon answers; {} is asked next\n", counts.control)};
  };
  options.pages["/metrics"] = [this]() -> HttpAnswer {
    return {200, Metrics(), "text/plain; version=0.0.4; charset=utf-8"};
  };
  ASSIGN_OR_RETURN(http_, HttpServer::Start(std::move(options)));
  return absl::OkStatus();
}

std::string AgentDaemon::Metrics() const {
  const RemoteLink::Counts counts = link_->counts();
  std::string text;
  const auto add = [&text](const char* name, const char* type, const char* help, double value) {
    text += fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n{0} {3}\n", name, help, type, value);
  };
  add("tunefarm_agent_connected", "gauge", "Whether a control daemon answers.", counts.connected ? 1 : 0);
  add("tunefarm_agent_reports_sent_total", "counter", "Reports that control has accepted.",
      static_cast<double>(counts.reports_sent));
  add("tunefarm_agent_reports_spooled_total", "counter", "Reports that had to wait on disk.",
      static_cast<double>(counts.reports_spooled));
  add("tunefarm_agent_spool_bytes", "gauge", "Bytes of reports that wait on disk.",
      static_cast<double>(counts.bytes_in_spool));
  add("tunefarm_agent_resident_bytes", "gauge", "Resident memory of the daemon.", static_cast<double>(ResidentBytes()));
  add("tunefarm_agent_workers", "gauge", "Worker processes.", CountChildren());
  return text;
}

v1::GetServerInfoResponse AgentDaemon::Info() const {
  v1::GetServerInfoResponse info;
  info.set_version(TUNEFARM_VERSION);
  info.set_revision(TUNEFARM_REVISION);
  info.set_pid(getpid());
  info.set_started_at_ms(started_at_ms_);
  info.set_data_directory(config_.data_directory);
  info.add_addresses("unix:" + directory_.sockets.admin);
  info.set_workers(CountChildren());
  info.set_resident_bytes(ResidentBytes());
  info.set_open_files(OpenFiles());
  info.set_sandbox_level(local_.sandbox_level);
  if (http_) info.set_http_address(http_->address());
  for (const std::string& note : local_.notes) info.add_toolchains(note);
  info.set_role(config_.role);
  const RemoteLink::Counts counts = link_->counts();
  info.set_control_address(counts.control);
  info.set_control_connected(counts.connected);
  info.set_spooled_bytes(counts.bytes_in_spool);
  return info;
}

}  // namespace tunefarm
