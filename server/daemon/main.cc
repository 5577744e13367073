// tunefarmd: parses the configuration, starts the daemon, and waits for the signal to end.

#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <optional>
#include <string_view>

#include "absl/synchronization/mutex.h"
#include "server/base/failpoint.h"
#include "server/base/format.h"
#include "server/base/log.h"
#include "server/base/log_file.h"
#include "server/base/socket_paths.h"
#include "server/base/status.h"
#include "server/daemon/config.h"
#include "server/daemon/copy_database.h"
#include "server/daemon/daemon.h"
#include "server/daemon/heap.h"
#include "server/daemon/notify.h"
#include "server/daemon/watchdog.h"
#include "server/exec/worker_command.h"

namespace {

constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;

// Blocked in main before any thread starts, so that every thread inherits it and sigtimedwait below is the only taker.
sigset_t BlockEndSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  return signals;
}

int Fail(const absl::Status& status, int code) {
  std::fprintf(stderr, "tunefarmd: %s\n", std::string(tunefarm::MessageOf(status)).c_str());
  return code;
}

// The exit status.
int Print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) return 0;
  return Fail(tunefarm::ErrnoStatus(errno, "cannot write standard output"), kExitFailed);
}

// A look takes the lock of each arena in turn, for milliseconds where a busy farm has left many free blocks.
constexpr int kHeapSeconds = 5;

// What the main thread looks after while it waits.
struct Housekeeping {
  tunefarm::HeapTrimmer heap;
  int seconds_without_heap = 0;  // since it was looked at
  std::optional<tunefarm::Watchdog> watchdog;
};

// The next signal, or -1 after a second without one.
int NextSignal(const sigset_t& signals, Housekeeping* housekeeping) {
  const timespec second = {1, 0};
  if (housekeeping->watchdog) housekeeping->watchdog->Poll();
  if (++housekeeping->seconds_without_heap >= kHeapSeconds) {
    housekeeping->seconds_without_heap = 0;
    (void)housekeeping->heap.Poll();
  }
  return sigtimedwait(&signals, nullptr, &second);
}

// Until a signal asks for the end, or the daemon is idle for its limit.
void WaitForEnd(tunefarm::Daemon* daemon, const sigset_t& signals, Housekeeping* housekeeping) {
  while (true) {
    const int signal = NextSignal(signals, housekeeping);
    if (signal == SIGTERM || signal == SIGINT) {
      tunefarm::LogInfo("daemon", "ending on {}", signal == SIGTERM ? "SIGTERM" : "SIGINT");
      return;
    }
    if (signal < 0 && daemon->IsIdleTooLong()) {
      tunefarm::LogInfo("daemon", "ending: idle for longer than idle_exit_seconds");
      return;
    }
  }
}

// Waits for the running trials; a second signal kills them.
void DrainOrGiveUp(tunefarm::Daemon* daemon, const sigset_t& signals, Housekeeping* housekeeping) {
  if (daemon->stop_immediately()) return;
  daemon->Drain([] { kill(getpid(), SIGUSR1); });
  while (true) {
    const int signal = NextSignal(signals, housekeeping);
    if (signal == SIGUSR1) return;
    if (signal == SIGTERM || signal == SIGINT) {
      tunefarm::LogWarn("daemon", "a second signal: the running trials are abandoned");
      return;
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const sigset_t signals = BlockEndSignals();
  tunefarm::LimitHeap();
  tunefarm::RaiseDescriptorLimit();
  // Debian's build of Abseil looks for deadlocks at each lock of gRPC's, which have none to be found by us.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  const tunefarm::EnvironmentGetter environment = tunefarm::RealEnvironment();
  if (argc > 1 && std::string_view(argv[1]) == "copy-database") {
    const auto copied = tunefarm::CopyDatabase({argv + 2, argv + argc}, environment);
    const bool is_help = copied.status().code() == absl::StatusCode::kCancelled;
    if (!copied.ok() && !is_help) {
      const bool is_usage = absl::IsInvalidArgument(copied.status());
      return Fail(copied.status(), is_usage ? kExitUsage : kExitFailed);
    }
    return Print(copied.ok() ? std::string_view(*copied) : tunefarm::MessageOf(copied.status()));
  }
  const auto config = tunefarm::ParseDaemonConfig({argv + 1, argv + argc}, environment,
                                                  tunefarm::HelpColumns(tunefarm::TerminalColumns(stdout)));
  if (config.status().code() == absl::StatusCode::kCancelled) {
    return Print(tunefarm::MessageOf(config.status()));
  }
  if (!config.ok()) return Fail(config.status(), kExitUsage);
  tunefarm::LogOptions log;
  log.subsystem_levels = config->log_level;
  log.json_lines = config->log_json;
  if (const absl::Status status = tunefarm::InitLogging(log); !status.ok()) return Fail(status, kExitUsage);

  if (!config->log_file.empty()) {
    const absl::Status status = tunefarm::LogToFile(config->log_file, config->log_file_max_bytes, config->log_files);
    if (!status.ok()) return Fail(status, kExitUsage);
  }
  const std::string failpoints = environment("TUNEFARM_FAILPOINTS").value_or("");
  if (const absl::Status status = tunefarm::ArmFailpoints(failpoints); !status.ok()) return Fail(status, kExitUsage);
  auto daemon = tunefarm::Daemon::Start(*config, environment);
  if (!daemon.ok()) {
    const bool is_in_use = tunefarm::ReasonOf(daemon.status()) == "DATA_DIRECTORY_IN_USE";
    return Fail(daemon.status(), is_in_use ? tunefarm::kExitDataDirectoryInUse : kExitFailed);
  }
  tunefarm::LogInfo("daemon", "ready data={} pid={}", config->data_directory, getpid());
  tunefarm::NotifyServiceManager("READY=1", environment);
  Housekeeping housekeeping;
  if (const auto period = tunefarm::WatchdogPeriod(environment, getpid())) {
    housekeeping.watchdog.emplace((*daemon)->vital_executors(), *period, tunefarm::Clock::Real(),
                                  [environment] { tunefarm::NotifyServiceManager("WATCHDOG=1", environment); });
  }
  WaitForEnd(daemon->get(), signals, &housekeeping);
  tunefarm::NotifyServiceManager("STOPPING=1", environment);
  DrainOrGiveUp(daemon->get(), signals, &housekeeping);
  daemon->reset();
  tunefarm::LogInfo("daemon", "ended");
  return 0;
}
