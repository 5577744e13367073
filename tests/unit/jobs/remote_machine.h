// A machine of a farm with one device: the real agent, its remote link and its spool on disk, behind a network that
// plays (simulated_network.h), with compilers and a device that play (fake_evaluator.h). The process can die, start
// again over what it had on disk, and stand still.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "server/agent/agent.h"
#include "server/agent/control_list.h"
#include "server/agent/remote_link.h"
#include "server/agent/report_spool.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/fake_entropy.h"
#include "tests/fakes/fake_evaluator.h"
#include "tests/fakes/manual_executor.h"
#include "tests/unit/jobs/simulated_network.h"

namespace tunefarm {

class RemoteMachine {
 public:
  // All pointers outlive it. `directory` is its own, and there.
  RemoteMachine(NetworkWorld* world, FakeClock* clock, FakeEntropy* entropy, tunefarm::v1::Device device,
                std::string directory, FakeEvaluator::Scripter scripter, int compile_slots = 2);
  ~RemoteMachine();

  // The process starts. Its identity is new, and its spool as the one before left it.
  void Boot();
  // As SIGKILL.
  void Kill();
  // The disk is gone too; while it is down.
  void LoseDisk();
  // Takes no more work, and ends when it has reported all. Whoever asks: IsDrained.
  void Drain();
  // It is out of service, or back.
  void SetQuarantine(bool is_out);

  bool is_up() const { return agent_ != nullptr; }
  bool is_drained() const { return is_up() && *drained_; }
  void StandStill(MonotonicTime until) { thaws_ = until; }
  // Those that may run a task now. One that is within a call runs none.
  std::vector<ManualExecutor*> Executors() const;
  // One task of an executor of this machine, unless it has none.
  bool Run(ManualExecutor* executor);

  SimulatedNetwork& network() { return network_; }

 private:
  bool IsBusy(const std::unique_ptr<ManualExecutor>& executor) const;

  NetworkWorld* const world_;
  FakeClock* const clock_;
  FakeEntropy* const entropy_;
  tunefarm::v1::Device device_;
  const std::string directory_;
  const FakeEvaluator::Scripter scripter_;
  const int compile_slots_;
  SimulatedNetwork network_;
  MonotonicTime thaws_{};
  std::vector<ManualExecutor*> busy_;

  std::unique_ptr<ReportSpool> spool_;
  std::unique_ptr<ControlList> controls_;
  std::unique_ptr<RemoteLink> link_;
  std::unique_ptr<ManualExecutor> agent_executor_, evaluator_executor_, calls_, reports_, waits_;
  std::unique_ptr<FakeEvaluator> evaluator_;
  std::unique_ptr<Agent> agent_;
  std::shared_ptr<bool> drained_;
};

}  // namespace tunefarm
