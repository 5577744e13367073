// The agents of a load, all in one process: see farm_load.py, which starts it. It prints "registered" when control
// knows all of them, and then, for every line of its standard input: for "begin" nothing, and all counts begin anew;
// for "count" the number of trials that control has stored since; for "end" everything it counted, and ends.
#include <fmt/core.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "server/agent/remote/grpc_channel.h"
#include "server/base/check.h"
#include "server/base/log.h"
#include "tests/bench/farm_load/played_agent.h"
#include "tests/fakes/temporary_directory.h"

namespace tunefarm {
namespace {

// Each agent has a connection and, while a call waits, what gRPC waits with.
void RaiseOpenFiles() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

void Serve(const CallTimes& times, CallTimes* reset) {
  std::string line;
  while (std::getline(std::cin, line)) {
    if (line == "begin") reset->Reset();
    if (line == "count") fmt::print("{}\n", times.trials());
    if (line == "end") break;
    std::fflush(stdout);
  }
  fmt::print("{}\n", times.Report());
  std::fflush(stdout);
}

}  // namespace

int Main(int argc, char** argv) {
  CLI::App app("Agents that only play, against a control daemon");
  DialOptions dial;
  int agents = 8, players = 2;
  double rate = 0;
  app.add_option("--control", dial.address, "host:port")->required();
  app.add_option("--tls-ca", dial.ca)->required();
  app.add_option("--tls-certificate", dial.certificate)->required();
  app.add_option("--tls-key", dial.key)->required();
  app.add_option("--agents", agents)->check(CLI::Range(1, 10'000));
  app.add_option("--rate", rate, "trials per second of all agents; 0: as many as control takes");
  CLI11_PARSE(app, argc, argv);
  LogOptions log;
  log.level = LogLevel::kError;
  TUNEFARM_CHECK_OK(InitLogging(log));
  RaiseOpenFiles();

  TemporaryDirectory directory;
  CallTimes times;
  std::vector<std::unique_ptr<ThreadExecutor>> executors;
  for (int i = 0; i < players; ++i) {
    executors.push_back(std::make_unique<ThreadExecutor>("player", Clock::Real()));
  }
  std::vector<std::unique_ptr<PlayedAgent>> played;
  for (int i = 0; i < agents; ++i) {
    PlayedAgentOptions options;
    options.number = i;
    options.control = dial.address;
    options.dial = [dial, &times](const std::string&) { return CountCalls(DialControl(dial), &times); };
    options.directory = directory.File("");
    options.rate = rate / agents;
    options.player = executors[static_cast<size_t>(i % players)].get();
    played.push_back(std::make_unique<PlayedAgent>(options));
    played.back()->Start();
  }
  const Notification never;
  for (const auto& agent : played) {
    while (!agent->is_registered()) never.WaitFor(std::chrono::milliseconds(50));
  }
  fmt::print("registered\n");
  std::fflush(stdout);
  Serve(times, &times);
  for (const auto& agent : played) agent->Cancel();
  executors.clear();
  return 0;
}

}  // namespace tunefarm

int main(int argc, char** argv) {
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);  // as the daemons
  return tunefarm::Main(argc, argv);
}
