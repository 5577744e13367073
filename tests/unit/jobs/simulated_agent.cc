// An agent that only pretends, and whose answers and reports get lost or come twice.
#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "server/base/status.h"
#include "tests/unit/jobs/farm.h"
#include "tests/unit/jobs/simulation.h"

namespace tunefarm {

namespace wire = tunefarm::agent::v1;
using tunefarm::v1::Trial;

namespace {

constexpr size_t kSentKept = 6;

}  // namespace

void SimulatedAgent::Act() {
  Dice& dice = farm_->dice();
  if (epoch_ == 0) {
    AgentLink* const link = farm_->LinkTo(&node_);
    if (link == nullptr) return;
    wire::RegisterRequest request;
    request.set_agent_id(id_);
    request.set_display_name(id_);
    request.set_host("simulated");
    *request.add_devices() = HostDevice(device_);
    const auto response = link->Register(request);
    if (response.ok()) epoch_ = response->epoch();
    held_.clear();
    return;
  }
  if (dice.OneIn(40)) node_ = dice.Below(8);  // it lost its connection
  if (!sent_.empty() && dice.OneIn(12)) {
    Send(sent_[static_cast<size_t>(dice.Below(static_cast<int>(sent_.size())))]);
    return;
  }
  if (held_.empty() || dice.OneIn(3)) {
    Synchronize();
    return;
  }
  auto unit = held_.begin();
  std::advance(unit, dice.Below(static_cast<int>(held_.size())));
  Report(&unit->second);
}

void SimulatedAgent::Synchronize() {
  AgentLink* const link = farm_->LinkTo(&node_);
  if (link == nullptr) return;
  wire::SynchronizeRequest request;
  request.set_agent_id(id_);
  request.set_epoch(epoch_);
  for (const auto& [unit_id, held] : held_) {
    auto* unit = request.add_units();
    unit->set_unit_id(unit_id);
    unit->set_token(held.assignment.token());
  }
  if (held_.size() < 2) {
    auto* demand = request.add_demands();
    demand->set_device_uuid(device_);
    demand->set_units(1 + farm_->dice().Below(2));
  }
  const auto response = link->Synchronize(request);
  if (!response.ok() || farm_->dice().OneIn(30)) return;  // or the answer was lost
  if (response->epoch_expired()) {
    epoch_ = 0;
    held_.clear();
    return;
  }
  for (int64_t unit_id : response->revoked_unit_ids()) held_.erase(unit_id);
  for (const wire::Assignment& assignment : response->assignments()) held_[assignment.unit_id()] = {assignment, {}};
}

uint64_t SimulatedAgent::WorkOf(const Held& held, const wire::TrialSpec& spec) {
  return static_cast<uint64_t>(Simulation::TrueTime(spec.config(), held.assignment.problem().key()));
}

Trial SimulatedAgent::Measure(const Held& held, const wire::TrialSpec& spec) {
  Trial trial;
  trial.set_ordinal(spec.ordinal());
  trial.set_attempt(spec.attempt());
  trial.set_purpose(spec.purpose());
  trial.set_device_uuid(device_);
  trial.set_phase(tunefarm::v1::PHASE_MEASURE);
  if (!spec.config().empty()) trial.set_work(WorkOf(held, spec));
  const std::string& problem = held.assignment.problem().key();
  const std::string config = spec.config();
  if (Simulation::Fails(config, problem)) {
    trial.set_outcome(tunefarm::v1::OUTCOME_WRONG_RESULT);
    return trial;
  }
  trial.set_outcome(tunefarm::v1::OUTCOME_OK);
  auto& measurement = *trial.mutable_measurement();
  const double median = Simulation::TrueTime(config, problem);
  measurement.set_median_ns(median);
  measurement.set_ci_low_ns(median * 0.99);
  measurement.set_ci_high_ns(median * 1.01);
  measurement.set_samples(5);
  measurement.set_converged(true);
  for (int i = 0; i < 5 * std::max(1, held.assignment.interleaved_rounds()); ++i) {
    measurement.add_sample_ns(static_cast<float>(median * (1 + 0.0005 * (i % 5 - 2))));
  }
  return trial;
}

std::map<int64_t, Trial> SimulatedAgent::Claim(const Held& held, const std::vector<wire::TrialSpec>& specs) {
  std::map<int64_t, Trial> measured;
  AgentLink* const link = farm_->LinkTo(&node_);
  if (link == nullptr || held.assignment.interleaved_rounds() > 0) return measured;
  wire::ClaimWorkRequest request;
  request.set_agent_id(id_);
  request.set_epoch(epoch_);
  for (const wire::TrialSpec& spec : specs) {
    if (spec.config().empty()) continue;  // a baseline
    wire::WorkClaim* const claim = request.add_claims();
    claim->set_unit_id(held.assignment.unit_id());
    claim->set_token(held.assignment.token());
    claim->set_ordinal(spec.ordinal());
    claim->set_work(WorkOf(held, spec));
  }
  link->ClaimWork(request, [&](const absl::StatusOr<wire::ClaimWorkResponse>& response) {
    if (!response.ok()) return;
    for (int i = 0; i < response->answers_size(); ++i) {
      const wire::WorkAnswer& answer = response->answers(i);
      if (answer.has_measured()) measured[request.claims(i).ordinal()] = answer.measured();
    }
  });
  return measured;
}

void SimulatedAgent::Report(Held* held) {
  Dice& dice = farm_->dice();
  wire::ReportTrialsRequest request;
  request.set_agent_id(id_);
  request.set_epoch(epoch_);
  request.set_unit_id(held->assignment.unit_id());
  request.set_token(held->assignment.token());
  const auto& specs = held->assignment.trials();
  int left = 1 + dice.Below(4);
  bool all = true;
  std::vector<wire::TrialSpec> next;
  for (const wire::TrialSpec& spec : specs) {
    if (held->reported.count(spec.ordinal()) > 0) continue;  // maybe also what is handed to it no more
    if (left-- > 0) {
      next.push_back(spec);
    } else {
      all = false;
    }
  }
  const std::map<int64_t, Trial> measured = Claim(*held, next);
  for (const wire::TrialSpec& spec : next) {
    const auto known = measured.find(spec.ordinal());
    Trial trial = known != measured.end() ? known->second : Measure(*held, spec);
    if (known != measured.end()) {
      trial.set_ordinal(spec.ordinal());
      trial.set_reused(true);
      trial.set_reused_ordinal(known->second.ordinal());
    }
    *request.add_trials() = std::move(trial);
  }
  if (all) {
    request.set_unit_done(true);
  } else if (dice.OneIn(25)) {
    request.set_unit_returned(true);
  }
  Send(request);
  sent_.push_back(request);
  if (sent_.size() > kSentKept) sent_.pop_front();
}

void SimulatedAgent::Send(const wire::ReportTrialsRequest& request) {
  AgentLink* const link = farm_->LinkTo(&node_);
  if (link == nullptr) return;
  const auto response = link->ReportTrials(request);
  if (!response.ok() || farm_->dice().OneIn(20)) return;
  const auto held = held_.find(request.unit_id());
  if (held == held_.end() || held->second.assignment.token() != request.token()) return;
  if (response->verdict() == wire::REPORT_VERDICT_STALE || request.unit_done() || request.unit_returned()) {
    held_.erase(held);
    return;
  }
  for (const Trial& trial : request.trials()) held->second.reported.insert(trial.ordinal());
}

}  // namespace tunefarm
