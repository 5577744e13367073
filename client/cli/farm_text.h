// What `agents` and `doctor --farm` say of an agent.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "client/cli/connection.h"
#include "tunefarm/v1/farm_service.pb.h"

namespace tunefarm::cli {

// All pages as one.
absl::StatusOr<v1::ListAgentsResponse> AllAgents(Connection* connection);
// "ready, lease 27 s", "draining", "not heard for 41 s".
std::string AgentStateText(const v1::Agent& agent);
// "rack=3 room=b", by name.
std::string LabelsText(const v1::Agent& agent);

}  // namespace tunefarm::cli
