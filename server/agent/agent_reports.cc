// How results go to control: as units end, gathered where trials are short, or with a unit that is given back.

#include <utility>

#include "server/agent/agent_session.h"
#include "server/base/failpoint.h"
#include "server/base/format.h"
#include "server/base/log.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm {

namespace wire = tunefarm::agent::v1;

namespace {

// How long a device that gave its work back asks for nothing.
constexpr Duration kRest = std::chrono::seconds(1);
// Results of a device whose trials take less than a commit wait so long for others, and go into one report.
constexpr Duration kReportDelay = std::chrono::milliseconds(4);

absl::StatusOr<wire::ReportTrialsResponse> SendReport(AgentLink* link, const wire::ReportTrialsRequest& request) {
  RETURN_IF_ERROR(Failpoint("agent.report.before"));
  ASSIGN_OR_RETURN(wire::ReportTrialsResponse response, link->ReportTrials(request));
  RETURN_IF_ERROR(Failpoint("agent.report.after"));
  return response;
}

}  // namespace

void Agent::Session::Flush() {
  if (stopped_ || epoch_ == 0 || retry_timer_ != 0) return;
  std::vector<int64_t> ids;
  for (const auto& [id, unit] : units_) {
    const bool ended = unit->unfinished() == 0;
    if (unit->revoked || (unit->pending.empty() && !ended)) continue;
    if (ended || !MayGather(*unit)) ids.push_back(id);
  }
  gathered_ = false;
  for (int64_t id : ids) {
    const auto found = units_.find(id);
    if (found == units_.end()) continue;
    if (!FlushUnit(*found->second)) return;
  }
}

bool Agent::Session::MayGather(const UnitWork& unit) {
  const Device* device = FindDevice(unit.assignment.device_uuid());
  if (gathered_ || draining_ || device == nullptr || !device->runner->hurries()) return false;
  if (!gathering_) {
    gathering_ = true;
    options_.executor->PostAfter(kReportDelay, [weak = weak_from_this()] {
      const auto self = weak.lock();
      if (self == nullptr) return;
      self->gathering_ = false;
      self->gathered_ = true;
      self->Pump();
    });
  }
  return true;
}

void Agent::Session::GiveBack(Device& device) {
  if (stopped_ || epoch_ == 0 || retry_timer_ != 0) return;
  std::vector<UnitWork*> given;
  for (const auto& [id, unit] : units_) {
    if (!unit->revoked && FindDevice(unit->assignment.device_uuid()) == &device) given.push_back(unit.get());
  }
  for (UnitWork* unit : given) {
    if (!FlushUnit(*unit, true)) return;  // the retry comes back
  }
  if (std::exchange(device.rests, true)) return;
  options_.executor->PostAfter(kRest, [weak = weak_from_this(), &device] {
    const auto self = weak.lock();
    if (self == nullptr) return;
    device.rests = false;
    device.runner->ReturnToService();
    self->Pump();
    self->Synchronize();
  });
}

bool Agent::Session::FlushUnit(UnitWork& unit, bool returned) {
  wire::ReportTrialsRequest request;
  request.set_agent_id(agent_id_);
  request.set_epoch(epoch_);
  request.set_unit_id(unit.assignment.unit_id());
  request.set_token(unit.assignment.token());
  for (const auto& trial : unit.pending) *request.add_trials() = trial;
  request.set_unit_done(unit.unfinished() == 0);
  request.set_unit_returned(returned && !request.unit_done());
  const auto response = SendReport(options_.link, request);
  if (!response.ok()) {
    if (response.status().code() == absl::StatusCode::kUnavailable) {
      LogWarn("agent", "control cannot accept {}, trying again: {}",
              FormatCount(static_cast<int64_t>(unit.pending.size()), "result"), MessageOf(response.status()));
      Retry();
      return false;
    }
    LogError("agent", "control refuses the results of unit {}, which is dropped: {}", unit.assignment.unit_id(),
             MessageOf(response.status()));
    Drop(unit);
    return true;
  }
  back_off_ = kBackOffFirst;
  unit.pending.clear();
  if (response->verdict() != wire::REPORT_VERDICT_ACCEPTED) {
    LogInfo("agent", "unit {} has another owner and is dropped", unit.assignment.unit_id());
    Drop(unit);
  } else if (request.unit_done()) {
    unit.revoked = true;  // nothing is left to do; RemoveGoneUnits takes it away
  } else if (request.unit_returned()) {
    Drop(unit);
  }
  return true;
}

}  // namespace tunefarm
