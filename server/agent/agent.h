// Agent: claims work units from control, compiles and runs their trials, reports each one as it ends. Units of a device
// that leaves service are given back.
//
// Threads: all methods may be called from any thread; the work happens on the agent's executor, which blocks for as
// long as control takes to answer. Callbacks come on the executor. The link, the evaluator and the executor outlive the
// agent, and the link is not used by another agent at the same time.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "server/agent/agent_data_files.h"
#include "server/agent/agent_link.h"
#include "server/base/executor.h"
#include "server/base/random.h"
#include "server/exec/evaluator.h"
#include "tunefarm/agent/v1/agent.pb.h"
#include "tunefarm/v1/device.pb.h"

namespace tunefarm {

struct AgentOptions {
  AgentLink* link = nullptr;
  Evaluator* evaluator = nullptr;
  Executor* executor = nullptr;
  EntropySource* entropy = nullptr;
  std::string host;                           // for people
  std::vector<tunefarm::v1::Device> devices;  // those that are not READY get no work
  // What else control is told of this agent: version, labels, isolation.
  tunefarm::agent::v1::RegisterRequest about = {};
  // Control wants a device of ours back in service; may be empty.
  std::function<void(const std::string& device_uuid)> release_device = nullptr;
  // How often control is asked when nothing happens.
  Duration poll = std::chrono::seconds(1);
  // Outlives the agent. Null: kernels that name data files cannot be run.
  AgentDataFiles* data_files = nullptr;
};

class Agent {
 public:
  explicit Agent(const AgentOptions& options);
  // Kills what runs, as Stop does. Safe at any time but from within the agent's own callbacks.
  ~Agent();
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  // Registers and asks for work. Once.
  void Start();

  // A device of ours is in another state: control is told. Devices that are not ours are ignored.
  void DeviceChanged(const tunefarm::v1::Device& device);

  // Claims nothing more, kills compiles, finishes the trials that run, reports them, then calls `done`, once. Units
  // that are not finished stay claimed until control returns them. While control cannot be reached, `done` waits; Stop
  // ends that.
  void Drain(std::function<void()> done);

  // Kills everything that runs and reports nothing more; `done`, which may be empty, is called when every evaluation
  // has ended. A Drain under way gets its callback too.
  void Stop(std::function<void()> done);

 private:
  class Session;
  std::shared_ptr<Session> session_;
};

}  // namespace tunefarm
