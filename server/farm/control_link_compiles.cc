// What agents without devices compile for those that have some.

#include <algorithm>
#include <utility>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/farm/control_link.h"
#include "server/records/resource_names.h"

namespace tunefarm {

namespace wire = tunefarm::agent::v1;

namespace {

constexpr int kConfigsPerCallMax = 256;

}  // namespace

void ControlLink::WillRun(const JobRow& job, const StudyRow& study, const DeviceClass& device_class,
                          const std::vector<UnitRow>& units, const std::vector<int64_t>& unit_ids) {
  if (!compiles_.is_used()) return;
  CompileDesk::Unit waiting;
  waiting.job_id = job.job_id;
  waiting.study_id = study.study_id;
  waiting.priority = job.priority;
  waiting.task.set_kernel_id(KernelName(job.kernel_id));
  if (!waiting.task.mutable_problem()->ParseFromString(study.problem)) return;
  *waiting.task.mutable_device_class() = device_class.ToProto();
  for (size_t i = 0; i < units.size() && i < unit_ids.size(); ++i) {
    wire::Assignment payload;
    if (units[i].kind != UnitKind::kSearch || !payload.ParseFromString(units[i].payload)) continue;
    CompileDesk::Unit unit = waiting;
    unit.unit_id = unit_ids[i];
    for (wire::TrialSpec& spec : *payload.mutable_trials()) {
      *unit.task.add_configs() = std::move(*spec.mutable_config());
    }
    compiles_.Add(std::move(unit));
  }
}

absl::StatusOr<wire::TakeCompilesResponse> ControlLink::TakeCompiles(const wire::TakeCompilesRequest& request) {
  {
    MutexLock lock(&mutex_);
    if (closed_) return Unavailable("the daemon is stopping");
    const auto agent = agents_.find(request.agent_id());
    if (agent == agents_.end()) return Unavailable("the agent is not known here yet");
    if (agent->second.epoch != request.epoch()) return FailedPrecondition("the agent's epoch is over");
    if (agent->second.draining) return wire::TakeCompilesResponse();
  }
  wire::TakeCompilesResponse response;
  int left = std::clamp(request.configs(), 1, kConfigsPerCallMax);
  while (left > 0) {
    std::vector<CompileDesk::Unit> units = compiles_.Take(left);
    if (units.empty()) break;
    MutexLock lock(&mutex_);
    for (CompileDesk::Unit& unit : units) {
      // What is cancelled or paused is not compiled; of a paused job the rest is compiled where it runs.
      if (ModeOf(unit.job_id, unit.study_id, UnitKind::kSearch) != Mode::kActive) continue;
      left -= unit.task.configs_size();
      *response.add_tasks() = std::move(unit.task);
    }
  }
  return response;
}

absl::StatusOr<wire::OfferBinaryResponse> ControlLink::OfferBinary(const wire::OfferBinaryRequest& request) {
  ASSIGN_OR_RETURN(const Digest key, Digest::FromHex(request.key()));
  RETURN_IF_ERROR(compiles_.Offer(key, request.binary()));
  return wire::OfferBinaryResponse();
}

absl::StatusOr<wire::FetchBinaryResponse> ControlLink::FetchBinary(const wire::FetchBinaryRequest& request) {
  ASSIGN_OR_RETURN(const Digest key, Digest::FromHex(request.key()));
  wire::FetchBinaryResponse response;
  response.set_binary(compiles_.Find(key));
  return response;
}

}  // namespace tunefarm
