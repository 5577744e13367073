// devices: what there is to tune on, the classes known without hardware, and the release of a quarantined device.

#include <fmt/core.h>

#include <memory>
#include <optional>

#include "client/cli/commands.h"
#include "client/cli/help_format.h"
#include "client/cli/studies/report.h"
#include "server/base/clock.h"
#include "server/base/format.h"
#include "server/base/status_macros.h"
#include "server/device/device_class.h"

namespace tunefarm::cli {
namespace {

// `uuid` is absent for a class.
void AddClassRow(const v1::DeviceClass& c, const std::string& name, const std::optional<std::string>& uuid,
                 const std::string& last, Style style, Table* table) {
  std::vector<std::string> cells = {
      name,
      c.kind() == v1::DEVICE_KIND_CUDA ? fmt::format("sm_{}", c.compute_capability()) : "host",
      std::to_string(c.sm_count()),
      c.shared_bytes_per_block_optin() > 0 ? FormatBytes(static_cast<uint64_t>(c.shared_bytes_per_block_optin())) : "",
      FormatBytes(static_cast<uint64_t>(c.l2_bytes())),
      fmt::format("{} GiB", c.memory_gib())};
  if (uuid.has_value()) cells.push_back(*uuid);
  cells.push_back(last);
  table->AddRow(std::move(cells), style);
}

std::string StateText(const v1::Device& device) {
  std::string text = "READY";
  if (device.state() == v1::DEVICE_STATE_OFFLINE) return "OFFLINE: " + device.state_reason();
  if (device.state() == v1::DEVICE_STATE_QUARANTINED) {
    const auto age_ns = static_cast<double>(Clock::Real()->WallMs() - device.state_since_ms()) * 1e6;
    const std::string since = device.state_since_ms() > 0 ? fmt::format(" for {}", FormatDuration(age_ns)) : "";
    text = fmt::format("QUARANTINED{}: {}", since, device.state_reason());
  } else if (!device.state_reason().empty()) {
    text = "READY, but " + device.state_reason();
  }
  if (device.foreign_processes() > 0) {
    text += fmt::format("; {} on it", FormatCount(device.foreign_processes(), "other process", "other processes"));
  }
  return text;
}

absl::StatusOr<ExitCode> Release(Session* session, const std::string& uuid) {
  ASSIGN_OR_RETURN(const OutputFormat format, session->format_without_csv());
  ASSIGN_OR_RETURN(Connection* const connection, session->connection());
  v1::ReleaseDeviceRequest request;
  request.set_name(uuid.rfind("devices/", 0) == 0 ? uuid : "devices/" + uuid);
  ASSIGN_OR_RETURN(const v1::ReleaseDeviceResponse response,
                   Connection::Call(connection->devices(), &v1::DeviceService::StubInterface::ReleaseDevice, request));
  if (format == OutputFormat::kJson) {
    session->Print(ToJson(response.device()));
  } else {
    session->Print(
        fmt::format("{} takes work again; its next trial waits for a health check\n", response.device().uuid()));
  }
  return kExitOk;
}

absl::StatusOr<ExitCode> Devices(Session* session, bool known) {
  ASSIGN_OR_RETURN(const OutputFormat format, session->format());
  std::vector<Table::Column> columns = {{"name", false},        {"kind", false},      {"SMs/cores", true},
                                        {"shared/block", true}, {"last cache", true}, {"memory", true}};
  if (!known) columns.push_back({"uuid", false});
  columns.push_back({known ? "class" : "state", false});
  Table table(std::move(columns));
  if (known) {
    v1::ListDeviceClassesResponse response;
    for (const KnownClass& one : KnownClasses()) {
      v1::KnownDeviceClass* added = response.add_classes();
      added->set_short_name(std::string(one.short_name));
      *added->mutable_device_class() = one.device_class.ToProto();
      AddClassRow(added->device_class(), added->short_name(), std::nullopt, added->device_class().id(), Style::kPlain,
                  &table);
    }
    if (format == OutputFormat::kJson) {
      session->Print(ToJson(response));
    } else {
      session->PrintTable(table, format);
    }
    return kExitOk;
  }
  ASSIGN_OR_RETURN(Connection* const connection, session->connection());
  ASSIGN_OR_RETURN(const v1::ListDevicesResponse response,
                   Connection::Call(connection->devices(), &v1::DeviceService::StubInterface::ListDevices,
                                    v1::ListDevicesRequest()));
  if (format == OutputFormat::kJson) {
    session->Print(ToJson(response));
    return kExitOk;
  }
  for (const v1::Device& device : response.devices()) {
    // Of a farm: whose it is.
    const std::string name = device.agent().empty()
                                 ? device.device_class().display_name()
                                 : fmt::format("{}: {}", device.agent(), device.device_class().display_name());
    AddClassRow(device.device_class(), name, device.uuid(), StateText(device),
                device.state() == v1::DEVICE_STATE_READY ? Style::kPlain : Style::kRed, &table);
  }
  session->PrintTable(table, format);
  return kExitOk;
}

}  // namespace

void AddDevices(CLI::App* app, Session* session) {
  auto known = std::make_shared<bool>(false);
  CLI::App* devices = app->add_subcommand("devices", "The devices of the daemon's machine.");
  SetExample(devices, "tunefarm devices --known");
  devices->add_flag("--known", *known, "List the known device classes instead; needs no hardware.");
  devices->callback([session, known] {
    // A subcommand has set its own before.
    if (!session->command) session->command = [session, known] { return Devices(session, *known); };
  });
  auto uuid = std::make_shared<std::string>();
  CLI::App* release = devices->add_subcommand("release", "Put a quarantined device back into service.");
  SetExample(release, "tunefarm devices release GPU-6d3ff2e4-0cf7-9f2a-1f4c-4a1b0e2a77aa");
  release->add_option("uuid", *uuid, "UUID of the device, as 'tunefarm devices' shows it.")->required();
  release->callback([session, uuid] { session->command = [session, uuid] { return Release(session, *uuid); }; });
}

}  // namespace tunefarm::cli
