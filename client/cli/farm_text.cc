#include "client/cli/farm_text.h"

#include <fmt/core.h>

#include <map>

#include "server/base/format.h"
#include "server/base/status_macros.h"

namespace tunefarm::cli {

absl::StatusOr<v1::ListAgentsResponse> AllAgents(Connection* connection) {
  v1::ListAgentsResponse all;
  v1::ListAgentsRequest request;
  request.set_page_size(1000);
  do {
    ASSIGN_OR_RETURN(v1::ListAgentsResponse page,
                     Connection::Call(connection->farm(), &v1::FarmService::StubInterface::ListAgents, request));
    for (v1::Agent& agent : *page.mutable_agents()) all.add_agents()->Swap(&agent);
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return all;
}

std::string AgentStateText(const v1::Agent& agent) {
  std::string state = agent.draining() ? "draining" : "ready";
  if (agent.compiles_only()) state += ", compiles only";
  if (agent.in_process()) return state + ", in the daemon";
  if (agent.lease_left_ms() <= 0) return "lost: its lease has run out";
  return fmt::format("{}, lease {}", state, FormatDuration(static_cast<double>(agent.lease_left_ms()) * 1e6));
}

std::string LabelsText(const v1::Agent& agent) {
  std::string text;
  for (const auto& [name, value] : std::map<std::string, std::string>(agent.labels().begin(), agent.labels().end())) {
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, value);
  }
  return text;
}

}  // namespace tunefarm::cli
