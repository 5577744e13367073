// doctor --farm: what works in the farm behind a control daemon, agent by agent.
#pragma once

#include <string>
#include <vector>

#include "client/cli/session.h"
#include "tunefarm/v1/farm_service.pb.h"

namespace tunefarm::cli {

struct FarmFinding {
  enum class Kind { kGood, kHint, kBad } kind = Kind::kGood;
  std::string text;
  std::string advice;  // of what is bad
};

// Of all agents, in their order. `version`: the control daemon's.
std::vector<FarmFinding> JudgeFarm(const v1::ListAgentsResponse& agents, const std::string& version);

absl::StatusOr<ExitCode> DoctorFarm(Session* session);

}  // namespace tunefarm::cli
