// What an Agent does, on its executor: asks for work, hands it to its devices, reports what has ended. For the agent's
// own files only.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/agent/agent.h"
#include "server/agent/device_runner.h"
#include "server/agent/study_notes.h"
#include "server/agent/unit_maker.h"

namespace tunefarm {

// Everything below runs on the executor, but for the constructor.
class Agent::Session : public std::enable_shared_from_this<Agent::Session> {
 public:
  explicit Session(const AgentOptions& options)
      : options_(options), maker_(options.link), known_devices_(options.devices) {}

  void Start();
  void Drain(std::function<void()> done);
  void Stop(std::function<void()> done);
  void DeviceChanged(const tunefarm::v1::Device& device);
  Executor* executor() const { return options_.executor; }

 private:
  static constexpr Duration kBackOffFirst = std::chrono::milliseconds(100);

  struct Device {
    std::unique_ptr<DeviceRunner> runner;
    bool takes_work = true;
    bool rests = false;  // out of service as of late: it asks for nothing
  };

  void MakeRunners();
  // Runs `task` on the executor if the session still lives.
  void PostSelf(void (Session::*step)());
  void PumpSoon();
  void Pump();
  void Tick();
  void Register();
  void Synchronize();
  bool SynchronizeOnce();
  tunefarm::agent::v1::SynchronizeRequest MakeRequest();
  struct InHand {
    int units = 0;
    int elsewhere = 0;  // of them, those all of whose unfinished trials wait for other agents
  };
  // How many units the device should be given now.
  int UnitsWanted(const Device& device, const InHand& in_hand) const;
  // Whether the agent now has the unit.
  bool Adopt(const tunefarm::agent::v1::Assignment& assignment);
  // Claims at control the work of trials that were compiled since the last call; one call at a time.
  void ClaimWork();
  // `call` has ended or timed out. Without an answer its trials are claimed a little later, or run.
  void TakeAnswers(int64_t call, const tunefarm::agent::v1::ClaimWorkRequest& request,
                   const absl::StatusOr<tunefarm::agent::v1::ClaimWorkResponse>& response);
  // Trials that wait for other agents are claimed again: control may know the results by this time.
  void ClaimAgain();
  void Flush();
  // Whether its results may wait a little for more; a timer then brings them on their way.
  bool MayGather(const UnitWork& unit);
  // The units of a device that went out of service go back to the queue, with what has ended; it asks for new ones
  // after a while, and gets them when control finds it in service.
  void GiveBack(Device& device);
  // False: control could not be reached.
  bool FlushUnit(UnitWork& unit, bool returned = false);
  void Drop(UnitWork& unit);
  void LoseEpoch();
  void RemoveGoneUnits();
  void Retry();
  void CheckEnded();
  Device* FindDevice(const std::string& uuid);
  int Backlog() const;

  const AgentOptions options_;
  UnitMaker maker_;
  CompileGate gate_;
  StudyNotes notes_;
  std::vector<Device> devices_;
  std::vector<tunefarm::v1::Device> known_devices_;              // as they are now
  std::map<std::string, tunefarm::v1::Device> changed_devices_;  // that control has not been told
  std::map<int64_t, std::unique_ptr<UnitWork>> units_;           // by unit id
  std::string agent_id_;
  int64_t epoch_ = 0;  // 0: not registered
  bool started_ = false, draining_ = false, stopped_ = false;
  bool pump_posted_ = false;
  bool starved_ = false;       // control had nothing when it was asked last: its wake, or the poll, comes first
  bool gathering_ = false;     // a timer runs, at whose end all results are reported
  bool gathered_ = false;      // it has ended
  int64_t claim_calls_ = 0;    // of ClaimWork
  bool claims_work_ = false;   // the last of them is in flight, or waits to be repeated
  bool claims_again_ = false;  // ClaimAgain was called during it: its answers may be outdated
  TimerId claim_timer_ = 0;    // ends the wait for its answer; 0: it has ended
  MonotonicTime claim_called_at_{};
  std::optional<MonotonicTime> claims_fail_since_;  // the first call after the last answer
  TimerId retry_timer_ = 0;
  Duration back_off_ = kBackOffFirst;
  std::vector<std::function<void()>> drained_, ended_;
};

}  // namespace tunefarm
