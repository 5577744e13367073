#include "server/farm/farm_agents.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include "server/base/log.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/agent_store.h"
#include "server/store/lease_store.h"

namespace tunefarm {

using tunefarm::v1::Agent;

absl::Status FarmAgents::Load() {
  RETURN_IF_ERROR(orders_->Load());
  return lease_ms_ > 0 ? link_->RefreshAgents(/*reap=*/false) : absl::OkStatus();
}

void FarmAgents::Start() {
  if (lease_ms_ > 0) LookAfter(std::chrono::milliseconds(lease_ms_));
}

void FarmAgents::LookAfter(Duration delay) {
  executor_->PostAfter(delay, [this] {
    if (stopped_.load()) return;
    const int64_t third_ms = std::max<int64_t>(1, lease_ms_ / 3);
    LeaseRequest request;
    request.name = kReaperLease;
    request.holder = link_->control_id();
    request.lease_ms = lease_ms_;
    const absl::StatusOr<LeaseRow> lease = store_->leases()->TakeLease(request);
    const bool reaps = lease.ok() && lease->holder == request.holder;
    absl::Status refreshed = lease.ok() ? orders_->Load() : lease.status();
    if (refreshed.ok()) refreshed = link_->RefreshAgents(reaps);
    if (!refreshed.ok()) LogWarn("jobs", "agents are looked after later: {}", MessageOf(refreshed));
    LookAfter(std::chrono::milliseconds(third_ms));
  });
}

absl::StatusOr<std::vector<Agent>> FarmAgents::List() {
  ASSIGN_OR_RETURN(const std::vector<AgentRow> rows, store_->agents()->ListAgents());
  const std::map<std::string, ControlLink::AgentView> served = link_->Agents();
  std::map<std::string, tunefarm::v1::Device> known;
  for (tunefarm::v1::Device& device : devices_->List()) known[device.uuid()] = std::move(device);
  std::vector<Agent> agents;
  for (const AgentRow& row : rows) {
    Agent agent;
    tunefarm::agent::v1::RegisterRequest about;
    about.ParseFromString(row.detail);  // of another version of the program: what can be read of it
    agent.set_name("agents/" + row.agent_id);
    agent.set_display_name(about.display_name().empty() ? row.host : about.display_name());
    agent.set_host(row.host);
    agent.set_version(about.version());
    agent.set_protocol(about.protocol());
    agent.set_draining(row.draining);
    agent.set_epoch(row.epoch);
    agent.set_registered_at_ms(row.registered_at_ms);
    agent.set_in_process(about.protocol() == 0);
    agent.set_lease_left_ms(row.lease_left_ms.value_or(0));
    for (const auto& device : about.devices()) {
      const auto found = known.find(device.uuid());
      *agent.add_devices() = found == known.end() ? device : found->second;
    }
    agent.mutable_labels()->insert(about.labels().begin(), about.labels().end());
    agent.set_sandbox_level(about.sandbox_level());
    agent.set_compiles_only(about.compiles_only());
    for (const std::string& line : about.toolchains()) agent.add_toolchains(line);
    if (const auto view = served.find(row.agent_id); view != served.end()) {
      agent.set_served_here(true);
      agent.set_clock_skew_ms(view->second.clock_skew_ms);
      agent.set_silent_ms(std::chrono::duration_cast<std::chrono::milliseconds>(view->second.silent).count());
      agent.set_units(view->second.units);
    }
    agents.push_back(std::move(agent));
  }
  std::stable_sort(agents.begin(), agents.end(),
                   [](const Agent& a, const Agent& b) { return a.display_name() < b.display_name(); });
  return agents;
}

absl::StatusOr<Agent> FarmAgents::Drain(std::string_view name, bool draining) {
  ASSIGN_OR_RETURN(const std::vector<Agent> agents, List());
  std::string_view wanted = name;
  if (wanted.substr(0, 7) == "agents/") wanted.remove_prefix(7);
  std::vector<const Agent*> matches;
  for (const Agent& agent : agents) {
    const std::string_view id = std::string_view(agent.name()).substr(7);
    if (id == wanted) {
      matches = {&agent};
      break;
    }
    if (!wanted.empty() && (agent.display_name() == wanted || id.substr(0, wanted.size()) == wanted)) {
      matches.push_back(&agent);
    }
  }
  if (matches.empty()) {
    return WithReason(NotFound("there is no agent '{}'; tunefarm agents lists them", name.substr(0, 256)),
                      "AGENT_NOT_FOUND");
  }
  if (matches.size() > 1) {
    return WithReason(InvalidArgument("{} agents are meant by '{}', among them {} and {}; write one of their ids",
                                      matches.size(), name.substr(0, 256), matches[0]->name(), matches[1]->name()),
                      "AGENT_AMBIGUOUS");
  }
  Agent agent = *matches[0];
  RETURN_IF_ERROR(store_->agents()->SetAgentDraining(agent.name().substr(7), draining));
  if (lease_ms_ > 0) RETURN_IF_ERROR(link_->RefreshAgents(/*reap=*/false));
  link_->WakeAll();
  agent.set_draining(draining);
  return agent;
}

}  // namespace tunefarm
