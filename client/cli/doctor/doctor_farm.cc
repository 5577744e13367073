#include "client/cli/doctor/doctor_farm.h"

#include <fmt/core.h>

#include <cstdlib>

#include "client/cli/doctor/diagnosis.h"
#include "client/cli/farm_text.h"
#include "server/base/format.h"
#include "server/base/status_macros.h"

namespace tunefarm::cli {
namespace {

// Leases do not depend on clocks; times shown and certificates do.
constexpr int64_t kClockSkewMaxMs = 5'000;

void Judge(const v1::Agent& agent, const std::string& version, std::vector<FarmFinding>* findings) {
  const std::string who = fmt::format("agent {} on {}", agent.display_name(), agent.host());
  if (!agent.in_process() && agent.lease_left_ms() <= 0) {
    findings->push_back({FarmFinding::Kind::kBad,
                         who + " has not reported within its lease; its units go to other agents",
                         "Check there, with tunefarm status, whether the machine runs and reaches this address."});
    return;
  }
  std::string text = fmt::format("{}: {}", who, AgentStateText(agent));
  if (agent.served_here() && !agent.in_process()) {
    text += fmt::format(", last heard {} ago, {} claimed", FormatDuration(static_cast<double>(agent.silent_ms()) * 1e6),
                        FormatCount(agent.units(), "unit"));
  }
  findings->push_back({agent.draining() ? FarmFinding::Kind::kHint : FarmFinding::Kind::kGood, text, ""});
  if (agent.version() != version) {
    findings->push_back({FarmFinding::Kind::kHint,
                         fmt::format("{} runs version {}, control {}: update the one that is behind", who,
                                     agent.version().empty() ? "unknown" : agent.version(), version),
                         ""});
  }
  if (agent.served_here() && std::llabs(agent.clock_skew_ms()) > kClockSkewMaxMs) {
    findings->push_back({FarmFinding::Kind::kHint,
                         fmt::format("the clock of {} is {} {}: certificates may be refused", who,
                                     FormatDuration(static_cast<double>(std::llabs(agent.clock_skew_ms())) * 1e6),
                                     agent.clock_skew_ms() > 0 ? "ahead" : "behind"),
                         ""});
  }
  if (agent.devices().empty()) {
    findings->push_back({FarmFinding::Kind::kBad, who + " has no device to tune on",
                         "Install a C++ compiler there, or end it. What its workers said: tunefarm agents --json"});
  }
  for (const v1::Device& device : agent.devices()) {
    if (device.state() == v1::DEVICE_STATE_QUARANTINED) {
      findings->push_back({FarmFinding::Kind::kBad,
                           fmt::format("{}: device {} is quarantined: {}", who, device.uuid(), device.state_reason()),
                           "Once the cause is removed: tunefarm devices release " + device.uuid()});
    } else {
      findings->push_back({FarmFinding::Kind::kGood,
                           fmt::format("{}: device {} ({})", who, device.device_class().display_name(), device.uuid()),
                           ""});
    }
  }
  if (agent.sandbox_level().substr(0, 2) != "L1") {
    findings->push_back({FarmFinding::Kind::kHint,
                         fmt::format("{}: worker isolation {}. Jobs that require L1 go to others", who,
                                     agent.sandbox_level().empty() ? "unknown" : agent.sandbox_level()),
                         ""});
  }
}

}  // namespace

std::vector<FarmFinding> JudgeFarm(const v1::ListAgentsResponse& agents, const std::string& version) {
  std::vector<FarmFinding> findings;
  for (const v1::Agent& agent : agents.agents()) Judge(agent, version, &findings);
  if (agents.agents().empty()) {
    findings.push_back({FarmFinding::Kind::kBad, "there is no agent: nothing can be tuned",
                        "Start one: tunefarmd --role agent --control HOST:PORT"});
  }
  return findings;
}

absl::StatusOr<ExitCode> DoctorFarm(Session* session) {
  RETURN_IF_ERROR(session->format_without_csv().status());
  ASSIGN_OR_RETURN(Connection* const connection, session->connection());
  ASSIGN_OR_RETURN(const v1::GetServerInfoResponse info,
                   Connection::Call(connection->server(), &v1::ServerService::StubInterface::GetServerInfo,
                                    v1::GetServerInfoRequest()));
  ASSIGN_OR_RETURN(const v1::ListAgentsResponse agents, AllAgents(connection));
  Diagnosis findings;
  findings.Good(fmt::format("control {} answers at {}", info.version(), connection->address()));
  for (const FarmFinding& finding : JudgeFarm(agents, info.version())) {
    switch (finding.kind) {
      case FarmFinding::Kind::kGood:
        findings.Good(finding.text);
        break;
      case FarmFinding::Kind::kHint:
        findings.Hint(finding.text, finding.advice);
        break;
      case FarmFinding::Kind::kBad:
        findings.Bad(finding.text, finding.advice);
        break;
    }
  }
  return findings.Print(*session);
}

}  // namespace tunefarm::cli
