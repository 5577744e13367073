#include "tests/unit/jobs/simulated_network.h"

#include <chrono>
#include <utility>

#include "server/base/check.h"
#include "server/base/status.h"

namespace tunefarm {

namespace wire = tunefarm::agent::v1;

namespace {

constexpr char kAddressPrefix[] = "control-";
constexpr int kLateMsMax = 12'000;

// As the other side reads it.
template <typename Message>
Message OverTheWire(const Message& message) {
  Message read;
  TUNEFARM_CHECK(read.ParseFromString(message.SerializeAsString()));
  return read;
}

}  // namespace

class SimulatedNetwork::Channel : public ControlChannel {
 public:
  Channel(SimulatedNetwork* network, int node) : network_(network), node_(node) {}

  absl::StatusOr<wire::RegisterResponse> Register(const wire::RegisterRequest& request, Duration) override {
    return network_->Call(node_, request, &ControlLink::Register);
  }
  absl::StatusOr<wire::SynchronizeResponse> Synchronize(const wire::SynchronizeRequest& request, Duration) override {
    return network_->Call(node_, request, &ControlLink::Synchronize);
  }
  absl::StatusOr<wire::WaitResponse> Wait(const wire::WaitRequest& request, Duration) override {
    return network_->Wait(node_, request);
  }
  absl::StatusOr<wire::ClaimWorkResponse> ClaimWork(const wire::ClaimWorkRequest& request, Duration) override {
    return network_->Call(node_, request, &ControlLink::ClaimWork);
  }
  absl::StatusOr<wire::ReportUnitsResponse> ReportUnits(const wire::ReportUnitsRequest& request, Duration) override {
    return network_->Call(node_, request, &ControlLink::ReportUnits);
  }
  absl::StatusOr<wire::FetchKernelResponse> FetchKernel(const wire::FetchKernelRequest& request, Duration) override {
    return network_->Call(node_, request, &ControlLink::FetchKernel);
  }
  absl::StatusOr<wire::TakeCompilesResponse> TakeCompiles(const wire::TakeCompilesRequest& request, Duration) override {
    return network_->Call(node_, request, &ControlLink::TakeCompiles);
  }
  absl::StatusOr<wire::OfferBinaryResponse> OfferBinary(const wire::OfferBinaryRequest& request, Duration) override {
    return network_->Call(node_, request, &ControlLink::OfferBinary);
  }
  absl::StatusOr<wire::FetchBinaryResponse> FetchBinary(const wire::FetchBinaryRequest& request, Duration) override {
    return network_->Call(node_, request, &ControlLink::FetchBinary);
  }
  absl::StatusOr<wire::FetchDataFileResponse> FetchDataFile(const wire::FetchDataFileRequest& request,
                                                            Duration) override {
    return network_->Call(node_, request, &ControlLink::FetchDataFile);
  }
  absl::StatusOr<wire::DeregisterResponse> Deregister(const wire::DeregisterRequest& request, Duration) override {
    return network_->Call(node_, request, &ControlLink::Deregister);
  }
  void Cancel() override {}

 private:
  SimulatedNetwork* const network_;
  const int node_;
};

ControlDialer SimulatedNetwork::Dialer() {
  return [this](const std::string& address) {
    return std::make_shared<Channel>(this, std::stoi(address.substr(sizeof(kAddressPrefix) - 1)));
  };
}

std::vector<std::string> ControlAddresses(int nodes) {
  std::vector<std::string> addresses;
  for (int i = 0; i < nodes; ++i) addresses.push_back(kAddressPrefix + std::to_string(i));
  return addresses;
}

void SimulatedNetwork::CutOff(int node, MonotonicTime until) {
  cut_until_.resize(static_cast<size_t>(world_->nodes()));
  cut_until_[static_cast<size_t>(node)] = until;
}

bool SimulatedNetwork::Reaches(int node) const {
  const size_t index = static_cast<size_t>(node);
  return world_->IsCalm() || index >= cut_until_.size() || world_->Now() >= cut_until_[index];
}

template <typename Request, typename Response>
absl::StatusOr<Response> SimulatedNetwork::Call(int node, const Request& request,
                                                absl::StatusOr<Response> (ControlLink::*method)(const Request&)) {
  Dice& dice = world_->dice();
  if (!Reaches(node) || world_->ControlAt(node) == nullptr) {
    ++counts_.refused;
    return Unavailable("nobody answers there");
  }
  if (!world_->IsCalm() && dice.OneIn(40)) {
    ++counts_.lost;
    world_->LetPass(dice.Ms(0, 1000));
    return Unavailable("the connection was lost");
  }
  if (!world_->IsCalm() && dice.OneIn(40)) {
    ++counts_.late;
    DeliverLate(node, request, method);
    world_->LetPass(dice.Ms(0, 1000));
    return absl::DeadlineExceededError("no answer in time");
  }
  if (dice.OneIn(4)) world_->LetPass(dice.Ms(0, world_->IsCalm() ? 20 : 300));
  ControlLink* const link = world_->ControlAt(node);
  if (link == nullptr) return Unavailable("the connection was lost");
  absl::StatusOr<Response> response = Unavailable("the connection was lost");
  world_->InNode(node, [&] { response = (link->*method)(OverTheWire(request)); });
  if (!world_->IsCalm() && dice.OneIn(40)) {
    ++counts_.unanswered;
    world_->LetPass(dice.Ms(0, 1000));
    return absl::DeadlineExceededError("no answer in time");
  }
  if (dice.OneIn(4)) world_->LetPass(dice.Ms(0, world_->IsCalm() ? 20 : 300));
  if (!response.ok()) return response.status();
  return OverTheWire(*response);
}

template <typename Request, typename Response>
void SimulatedNetwork::DeliverLate(int node, Request request,
                                   absl::StatusOr<Response> (ControlLink::*method)(const Request&)) {
  NetworkWorld* const world = world_;
  world->Later(world->dice().Ms(0, kLateMsMax), [world, node, request = std::move(request), method] {
    ControlLink* const link = world->ControlAt(node);
    if (link == nullptr) return;
    world->InNode(node, [&] { (link->*method)(OverTheWire(request)).status().IgnoreError(); });
  });
}

// ---- Wait ----

bool SimulatedNetwork::MayWaitAgain() const {
  return !wait_.has_value() || wait_->answer->has_value() || world_->Now() >= wait_->until ||
         world_->BootOf(wait_->node) != wait_->boot || !Reaches(wait_->node);
}

// A call that answers now cannot wait. So what it answers first says nothing new, and the agent, which then asks again,
// is not run before there is an answer (MayWaitAgain).
absl::StatusOr<wire::WaitResponse> SimulatedNetwork::Wait(int node, const wire::WaitRequest& request) {
  if (wait_.has_value() &&
      (wait_->node != node || wait_->agent_id != request.agent_id() || wait_->epoch != request.epoch())) {
    wait_.reset();
  }
  ControlLink* const link = world_->ControlAt(node);
  if (wait_.has_value()) {
    const bool is_gone = world_->BootOf(node) != wait_->boot || !Reaches(node);
    if (!is_gone && !wait_->answer->has_value() && link != nullptr) link->ExpireWait(wait_->agent_id, wait_->ticket);
    const std::optional<wire::WaitResponse> answer = *wait_->answer;
    wait_.reset();
    if (is_gone || !answer.has_value()) return Unavailable("the connection was lost");
    return OverTheWire(*answer);
  }
  if (link == nullptr || !Reaches(node)) return Unavailable("nobody answers there");
  auto answer = std::make_shared<std::optional<wire::WaitResponse>>();
  Waiting waiting{node, world_->BootOf(node), request.agent_id(), request.epoch(), 0, {}, answer};
  waiting.until = world_->Now() + std::chrono::milliseconds(request.wait_ms());
  waiting.ticket = link->Wait(OverTheWire(request), [answer](wire::WaitResponse response) { *answer = response; });
  if (answer->has_value()) return OverTheWire(**answer);
  wait_ = std::move(waiting);
  wire::WaitResponse nothing_new;
  nothing_new.set_control(request.control());
  nothing_new.set_seen(request.seen());
  return nothing_new;
}

}  // namespace tunefarm
