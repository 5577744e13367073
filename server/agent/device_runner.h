// DeviceRunner: takes the units of one device through compile and run. It compiles ahead of the device up to a
// bound and runs trials in the order of the units; whatever is compiled first runs first when its turn is not ready.
//
// On a CUDA device compiling and running overlap. On a CPU device they share cores, so phases alternate: a batch is
// compiled with nothing running, then run with no compile in flight (of any device of this agent).
//
// Not thread-safe: everything happens on the agent's executor.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/agent/agent_data_files.h"
#include "server/agent/compile_ahead.h"
#include "server/agent/run_ahead.h"
#include "server/agent/study_notes.h"
#include "server/agent/unit_work.h"
#include "server/base/executor.h"
#include "server/device/device_class.h"
#include "server/exec/evaluator.h"

namespace tunefarm {

// Shared by the runners of one agent: keeps compiles off the cores while a CPU device measures, and holds what the
// runners need to know about control.
struct CompileGate {
  int compiles_in_flight = 0;
  int hosts_measuring = 0;   // CPU devices that measure or wait to
  int devices_at_work = 0;   // have units: they share the compile workers
  double round_trip_ms = 0;  // to control; 0 in process
  bool shares_work = false;  // AgentLink::shares_work
};

class DeviceRunner {
 public:
  struct Hooks {
    // A trial has ended; it is in unit.pending. Called from within the runner: it must not add or remove units.
    std::function<void(UnitWork& unit)> trial_ended;
    // Something changed that this runner, others, or the agent's demand may depend on: Pump soon. As for trial_ended.
    std::function<void()> changed;
    // Runs a task on the executor later, unless the agent is gone.
    std::function<void(Duration delay, std::function<void()> task)> later;
    // Opens the data files of a kernel (AgentDataFiles::Open).
    std::function<void(const KernelPlan& plan, AgentDataFiles::Done done)> open_data_files;
    // Wraps a callback of the evaluator's thread: it runs on the executor, unless the agent is gone.
    std::function<void(std::function<void()> task)> post;
  };

  // The pointers outlive the runner and are shared by the runners of one agent.
  DeviceRunner(std::string uuid, const DeviceClass& device_class, Evaluator* evaluator, CompileGate* gate,
               StudyNotes* notes, Hooks hooks);
  ~DeviceRunner();

  const std::string& uuid() const { return uuid_; }
  const DeviceClass& device_class() const { return class_; }

  // The unit is owned by the caller and stays until Remove.
  void Add(UnitWork* unit);
  // Kills its evaluations. The unit may be removed when in_flight() is 0.
  void Revoke(UnitWork* unit);
  // Forgets a unit that has nothing in flight.
  void Remove(UnitWork* unit);
  // Starts what can be started.
  void Pump();
  // The evaluator does not take its runs any more: nothing is started until ReturnToService. Its units are to be given
  // back.
  bool out_of_service() const { return out_of_service_; }
  void ReturnToService() { out_of_service_ = false; }
  // Nothing new is started; compiles and runs that wait for the device are killed, the trial that runs may finish.
  void StopStarting();

  // Trials that have not ended, are not revoked, and need not wait for another agent.
  int unfinished() const;
  // How many trials it must have queued so that neither compilers nor device wait.
  int look_ahead() const;
  // Adds to the request at most `max` trials whose work is to be claimed, and marks them as claimed.
  void TakeClaims(int max, tunefarm::agent::v1::ClaimWorkRequest* request);
  // Control's answer for a trial of the unit; where nothing is set, the trial runs.
  void TakeAnswer(UnitWork& unit, int64_t ordinal, const tunefarm::agent::v1::WorkAnswer& answer);
  // Control has not answered: trials of the request are claimed once more.
  void ClaimLater(const tunefarm::agent::v1::ClaimWorkRequest& request);
  // Trials that wait for other agents are claimed again.
  void ClaimAgain();
  // look_ahead, and as many trials as the device runs during one round trip to control, request and answer.
  int trials_wanted() const { return look_ahead() + run_ahead_.RunsDuring(2 * gate_->round_trip_ms); }
  bool idle() const { return runs_.empty() && compiling_ == 0; }
  // Its trials are so short that what is done for each of them should be done for several at once.
  bool hurries() const { return run_ahead_.hurries(); }

 private:
  struct Turn {
    UnitWork* unit = nullptr;
    TrialWork* trial = nullptr;
  };

  bool may_start() const { return !stopped_ && !out_of_service_; }
  void StartCompiles();
  // Starts the unit's reference if nobody has; true when it is ready. Ends the unit's trials when it has failed.
  bool ReferenceReady(UnitWork& unit);
  void StartReference(UnitWork& unit);
  void CancelReference(UnitWork& unit);
  // Opens the unit's data files if nobody has; true when they are open. Ends the unit's trials when that has failed.
  bool DataFilesReady(UnitWork& unit);
  void OpenDataFiles(const UnitWork& unit);
  // Ends what neither runs nor is compiled.
  void EndWaiting(UnitWork& unit, tunefarm::v1::Outcome outcome, const std::string& message, const std::string& log);
  void StartTrialCompile(UnitWork& unit, TrialWork& trial);
  Turn NextTurn();
  // Whether the trial need not run, or not yet: another trial did or does the same work, or control has not yet
  // answered its claim. Ends the trial if the other one has ended.
  bool FollowsTwin(UnitWork& unit, TrialWork& trial);
  // Starts what has its turn, as far ahead of the device as it should. False: there is nothing to run.
  bool StartRuns();
  void StartRun(Turn turn);
  void OnCompiled(int64_t unit_id, int64_t ordinal, CompileResult result);
  void OnRun(int64_t unit_id, int64_t ordinal, RunResult result);
  void End(UnitWork& unit, TrialWork& trial, tunefarm::v1::Trial ended);
  // After a loss: true if the trial gets another attempt.
  bool RetryAfterLoss(UnitWork& unit, TrialWork& trial, TrialWork::State back_to);
  UnitWork* FindUnit(int64_t unit_id);
  static TrialWork* FindTrial(UnitWork& unit, int64_t ordinal);

  const std::string uuid_;
  const DeviceClass class_;
  Evaluator* const evaluator_;
  CompileGate* const gate_;
  StudyNotes* const notes_;
  const Hooks hooks_;

  std::vector<UnitWork*> units_;  // in the order of the claims
  // Evaluations outlive neither: callbacks of a removed runner are dropped.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  int compiling_ = 0;
  struct RunInFlight {
    int64_t unit_id = 0, ordinal = 0;
    bool interleaved = false;
    int64_t study_id = 0;
    std::optional<Digest> work;
  };
  std::deque<RunInFlight> runs_;  // handed to the evaluator; the first is on the device
  RunAhead run_ahead_;
  CompileAhead compile_ahead_;
  bool measuring_phase_ = false;  // CPU device only
  bool stopped_ = false;
  bool out_of_service_ = false;
};

}  // namespace tunefarm
