// agents, drain, quarantine: the machines of a farm, and taking them, or one of their devices, out of its work.

#include <fmt/core.h>

#include <cstdlib>
#include <memory>

#include "client/cli/commands.h"
#include "client/cli/farm_text.h"
#include "client/cli/help_format.h"
#include "client/cli/options/problem_options.h"
#include "server/base/format.h"
#include "server/base/status_macros.h"

namespace tunefarm::cli {
namespace {

using Farm = v1::FarmService::StubInterface;

absl::StatusOr<ExitCode> Agents(Session* session, bool as_json) {
  ASSIGN_OR_RETURN(OutputFormat format, session->format());
  if (as_json) format = OutputFormat::kJson;
  ASSIGN_OR_RETURN(Connection* const connection, session->connection());
  ASSIGN_OR_RETURN(const v1::ListAgentsResponse all, AllAgents(connection));
  if (format == OutputFormat::kJson) {
    session->Print(ToJson(all));
    return kExitOk;
  }
  Table table({{"agent", false},
               {"host", false},
               {"version", false},
               {"devices", true},
               {"units", true},
               {"state", false},
               {"labels", false},
               {"id", false}});
  for (const v1::Agent& agent : all.agents()) {
    table.AddRow({agent.display_name(), agent.host(), agent.version(), std::to_string(agent.devices_size()),
                  agent.served_here() ? std::to_string(agent.units()) : "", AgentStateText(agent), LabelsText(agent),
                  agent.name().substr(agent.name().rfind('/') + 1)});
  }
  session->PrintTable(table, format);
  return kExitOk;
}

absl::StatusOr<ExitCode> Drain(Session* session, const std::string& name, bool undo) {
  ASSIGN_OR_RETURN(const OutputFormat format, session->format_without_csv());
  ASSIGN_OR_RETURN(Connection* const connection, session->connection());
  v1::Agent agent;
  if (undo) {
    v1::UndrainAgentRequest request;
    request.set_name(name);
    ASSIGN_OR_RETURN(const v1::UndrainAgentResponse response,
                     Connection::Call(connection->farm(), &Farm::UndrainAgent, request));
    agent = response.agent();
  } else {
    v1::DrainAgentRequest request;
    request.set_name(name);
    ASSIGN_OR_RETURN(const v1::DrainAgentResponse response,
                     Connection::Call(connection->farm(), &Farm::DrainAgent, request));
    agent = response.agent();
  }
  if (format == OutputFormat::kJson) {
    session->Print(ToJson(agent));
  } else if (undo) {
    session->Print(
        fmt::format("agent {} on {} receives work again\n", Visible(agent.display_name()), Visible(agent.host())));
  } else {
    session->Print(
        fmt::format("agent {} on {} finishes its units and receives no new ones; tunefarm drain --undo {} ends this\n",
                    Visible(agent.display_name()), Visible(agent.host()), ShellWord(name)));
  }
  return kExitOk;
}

absl::StatusOr<ExitCode> Quarantine(Session* session, const std::string& uuid, const std::string& reason) {
  ASSIGN_OR_RETURN(const OutputFormat format, session->format_without_csv());
  ASSIGN_OR_RETURN(Connection* const connection, session->connection());
  v1::QuarantineDeviceRequest request;
  request.set_name(uuid.rfind("devices/", 0) == 0 ? uuid : "devices/" + uuid);
  request.set_reason(reason);
  ASSIGN_OR_RETURN(const v1::QuarantineDeviceResponse response,
                   Connection::Call(connection->farm(), &Farm::QuarantineDevice, request));
  if (format == OutputFormat::kJson) {
    session->Print(ToJson(response.device()));
  } else {
    session->Print(fmt::format("{} is out of service; tunefarm devices release {} returns it to service\n",
                               response.device().uuid(), response.device().uuid()));
  }
  return kExitOk;
}

}  // namespace

void AddAgents(CLI::App* app, Session* session) {
  auto as_json = std::make_shared<bool>(false);
  CLI::App* agents =
      app->add_subcommand("agents", "List the agents of the farm, which run trials on the devices of their machines.");
  SetExample(agents, "tunefarm agents --json");
  agents->add_flag("--json", *as_json, "As --output json.");
  agents->callback([session, as_json] { session->command = [=] { return Agents(session, *as_json); }; });

  auto name = std::make_shared<std::string>();
  auto undo = std::make_shared<bool>(false);
  CLI::App* drain =
      app->add_subcommand("drain", "Hand no more work to an agent; it finishes the units that it has claimed.");
  SetExample(drain, "tunefarm drain node-17\ntunefarm drain --undo node-17");
  drain
      ->add_option("agent", *name,
                   "Name of the agent, or its id or the beginning of it, as 'tunefarm agents' shows them.")
      ->required();
  drain->add_flag("--undo", *undo, "Hand work to the agent again.");
  drain->callback([session, name, undo] { session->command = [=] { return Drain(session, *name, *undo); }; });

  auto uuid = std::make_shared<std::string>();
  auto reason = std::make_shared<std::string>();
  CLI::App* quarantine = app->add_subcommand("quarantine", "Take a device out of service.");
  SetExample(quarantine, "tunefarm quarantine GPU-6d3ff2e4-0cf7-9f2a-1f4c-4a1b0e2a77aa --reason 'fan is loud'");
  quarantine->add_option("device", *uuid, "UUID of the device, as 'tunefarm devices' shows it.")->required();
  quarantine->add_option("--reason", *reason, "Reason, shown by tunefarm devices.")->required();
  quarantine->callback(
      [session, uuid, reason] { session->command = [=] { return Quarantine(session, *uuid, *reason); }; });
}

}  // namespace tunefarm::cli
