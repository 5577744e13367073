// An agent of a load: everything of an agent that talks to control (RemoteLink over gRPC and mTLS), and a device that
// only plays. It asks for work as agents do, holds as much of it, and reports every trial with an invented time.
//
// Threads: Start and Stop by one thread, everything else on the executor given. A Register blocks it.
#pragma once

#include <deque>
#include <memory>
#include <string>

#include "server/agent/control_list.h"
#include "server/agent/remote_link.h"
#include "server/agent/report_spool.h"
#include "server/base/executor.h"
#include "tests/bench/farm_load/call_times.h"

namespace tunefarm {

struct PlayedAgentOptions {
  int number = 0;
  std::string control;  // address
  ControlDialer dial;
  std::string directory;  // for its spool
  // Trials per second; 0: as many as control takes.
  double rate = 0;
  Executor* player = nullptr;  // several agents may share one; outlives the agent
};

class PlayedAgent {
 public:
  explicit PlayedAgent(const PlayedAgentOptions& options);
  // After Cancel, and when the player has stopped.
  ~PlayedAgent();

  void Start();
  bool is_registered() const { return epoch_.load() != 0; }
  // Ends all calls.
  void Cancel();

 private:
  struct Unit {
    tunefarm::agent::v1::Assignment assignment;
    int next = 0;  // trial
  };

  void Register();
  void Tick();
  void Synchronize();
  bool SynchronizeOnce();
  void PlaySoon(Duration delay);
  void Play();
  // Reports up to so many trials of the first unit. False: control takes nothing now.
  bool PlaySome(int trials_max);
  int trials_wanted() const;
  int trials_in_hand() const;

  const PlayedAgentOptions options_;
  const std::string agent_id_, device_uuid_;
  std::unique_ptr<ReportSpool> spool_;
  ControlList controls_;
  ThreadExecutor calls_, reports_, waits_;
  RemoteLink link_;

  std::atomic<int64_t> epoch_{0};
  bool ticks_ = false;
  std::deque<Unit> units_;
  bool starved_ = false;
  bool play_posted_ = false;
  int64_t reported_ = 0;
  MonotonicTime due_{};  // of the next trial, where there is a rate
};

}  // namespace tunefarm
