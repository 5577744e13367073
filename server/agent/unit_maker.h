// UnitMaker: from an assignment to a unit that can run: its kernel fetched and compiled to a plan, its problem and
// configs resolved, and the reference that it shares with the other units of its kernel, problem and device.
//
// Not thread-safe: the agent's executor owns it.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "server/agent/agent_link.h"
#include "server/agent/plan_cache.h"
#include "server/agent/unit_work.h"

namespace tunefarm {

class UnitMaker {
 public:
  // `link` outlives the maker.
  explicit UnitMaker(AgentLink* link) : plans_(link) {}

  // Unavailable: ask again later; other errors: the assignment is none.
  absl::StatusOr<std::unique_ptr<UnitWork>> Make(const tunefarm::agent::v1::Assignment& assignment);

 private:
  // Null: it needs none.
  std::shared_ptr<ReferenceWork> ReferenceFor(const UnitWork& unit, bool baseline);

  // Null: the kernel names none.
  std::shared_ptr<DataFilesWork> DataFilesFor(const KernelPlan& plan);

  PlanCache plans_;
  std::vector<std::pair<std::string, std::shared_ptr<ReferenceWork>>> references_;  // the one used last at the back
  std::map<std::string, std::weak_ptr<DataFilesWork>> data_files_;  // by kernel; of units that there are
};

}  // namespace tunefarm
