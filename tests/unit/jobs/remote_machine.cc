#include "tests/unit/jobs/remote_machine.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <utility>

#include "server/base/check.h"
#include "server/farm/control_link.h"

namespace tunefarm {

namespace {

constexpr uint64_t kSpoolBytesMax = 256 << 10;
constexpr Duration kPoll = std::chrono::milliseconds(1500);  // as the agent daemon's

}  // namespace

RemoteMachine::RemoteMachine(NetworkWorld* world, FakeClock* clock, FakeEntropy* entropy, tunefarm::v1::Device device,
                             std::string directory, FakeEvaluator::Scripter scripter, int compile_slots)
    : world_(world),
      clock_(clock),
      entropy_(entropy),
      device_(std::move(device)),
      directory_(std::move(directory)),
      scripter_(std::move(scripter)),
      compile_slots_(compile_slots),
      network_(world) {}

RemoteMachine::~RemoteMachine() { Kill(); }

void RemoteMachine::Boot() {
  TUNEFARM_CHECK(!is_up());
  auto spool = ReportSpool::Open(directory_ + "/reports.spool", kSpoolBytesMax);
  TUNEFARM_CHECK_OK(spool);
  spool_ = *std::move(spool);
  for (auto* executor : {&agent_executor_, &evaluator_executor_, &calls_, &reports_, &waits_}) {
    *executor = std::make_unique<ManualExecutor>(clock_);
  }
  controls_ = std::make_unique<ControlList>(network_.Dialer(), ControlAddresses(world_->nodes()), clock_, entropy_);
  link_ = std::make_unique<RemoteLink>(
      RemoteLinkOptions{controls_.get(), spool_.get(), calls_.get(), reports_.get(), waits_.get()});
  evaluator_ = std::make_unique<FakeEvaluator>(evaluator_executor_.get(), compile_slots_);
  evaluator_->set_scripter(scripter_);
  device_.set_state(tunefarm::v1::DEVICE_STATE_READY);
  device_.clear_state_reason();
  AgentOptions agent;
  agent.link = link_.get();
  agent.evaluator = evaluator_.get();
  agent.executor = agent_executor_.get();
  agent.entropy = entropy_;
  agent.host = "simulated";
  agent.devices = {device_};
  agent.poll = kPoll;
  agent.about.set_protocol(ControlLink::kProtocol);
  agent.about.set_display_name("machine of " + device_.uuid());
  agent_ = std::make_unique<Agent>(agent);
  drained_ = std::make_shared<bool>(false);
  agent_->Start();
}

void RemoteMachine::Kill() {
  agent_ = nullptr;
  agent_executor_ = nullptr;
  evaluator_executor_ = nullptr;
  calls_ = nullptr;
  reports_ = nullptr;
  waits_ = nullptr;
  evaluator_ = nullptr;
  link_ = nullptr;
  controls_ = nullptr;
  spool_ = nullptr;
  network_.Forget();
}

void RemoteMachine::LoseDisk() {
  TUNEFARM_CHECK(!is_up());
  std::filesystem::remove(directory_ + "/reports.spool");
}

void RemoteMachine::Drain() {
  if (is_up()) agent_->Drain([drained = drained_] { *drained = true; });
}

void RemoteMachine::SetQuarantine(bool is_out) {
  if (!is_up()) return;
  device_.set_state(is_out ? tunefarm::v1::DEVICE_STATE_QUARANTINED : tunefarm::v1::DEVICE_STATE_READY);
  device_.set_state_reason(is_out ? "it does not answer" : "");
  agent_->DeviceChanged(device_);
}

bool RemoteMachine::IsBusy(const std::unique_ptr<ManualExecutor>& executor) const {
  return std::find(busy_.begin(), busy_.end(), executor.get()) != busy_.end();
}

std::vector<ManualExecutor*> RemoteMachine::Executors() const {
  if (!is_up() || (!world_->IsCalm() && clock_->Now() < thaws_)) return {};
  std::vector<ManualExecutor*> executors;
  // While reports are on their way a registration waits for them, and the other way round.
  const bool spool_is_taken = IsBusy(agent_executor_) || IsBusy(reports_);
  if (!spool_is_taken) executors.push_back(agent_executor_.get());
  if (!IsBusy(evaluator_executor_)) executors.push_back(evaluator_executor_.get());
  if (!IsBusy(calls_)) executors.push_back(calls_.get());
  if (!spool_is_taken) executors.push_back(reports_.get());
  if (!IsBusy(waits_) && network_.MayWaitAgain()) executors.push_back(waits_.get());
  return executors;
}

bool RemoteMachine::Run(ManualExecutor* executor) {
  busy_.push_back(executor);
  const bool has_run = executor->RunOne();
  busy_.pop_back();
  return has_run;
}

}  // namespace tunefarm
