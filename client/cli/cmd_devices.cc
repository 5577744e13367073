// devices: what there is to tune on, and the classes known without hardware.

#include <fmt/core.h>

#include <memory>

#include "client/cli/commands.h"
#include "client/cli/help_format.h"
#include "client/cli/report.h"
#include "server/base/format.h"
#include "server/base/status_macros.h"
#include "server/device/device_class.h"

namespace tunefarm::cli {
namespace {

void AddClassRow(const v1::DeviceClass& c, const std::string& name, const std::string& last, Table* table) {
  table->AddRow(
      {name, c.kind() == v1::DEVICE_KIND_CUDA ? fmt::format("sm_{}", c.compute_capability()) : "host",
       std::to_string(c.sm_count()),
       c.shared_bytes_per_block_optin() > 0 ? FormatBytes(static_cast<uint64_t>(c.shared_bytes_per_block_optin())) : "",
       FormatBytes(static_cast<uint64_t>(c.l2_bytes())), fmt::format("{} GiB", c.memory_gib()), last});
}

absl::StatusOr<ExitCode> Devices(Session* session, bool known) {
  ASSIGN_OR_RETURN(const OutputFormat format, session->format());
  Table table({{"name", false},
               {"kind", false},
               {"SMs/cores", true},
               {"shared/block", true},
               {"last cache", true},
               {"memory", true},
               {known ? "class" : "state", false}});
  if (known) {
    v1::ListDeviceClassesResponse response;
    for (const KnownClass& one : KnownClasses()) {
      v1::KnownDeviceClass* added = response.add_classes();
      added->set_short_name(std::string(one.short_name));
      *added->mutable_device_class() = one.device_class.ToProto();
      AddClassRow(added->device_class(), added->short_name(), added->device_class().id(), &table);
    }
    session->Print(format == OutputFormat::kJson  ? ToJson(response)
                   : format == OutputFormat::kCsv ? table.ToCsv()
                                                  : table.ToText());
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
    std::string state =
        device.state() == v1::DEVICE_STATE_QUARANTINED ? "QUARANTINED: " + device.state_reason() : "READY";
    AddClassRow(device.device_class(), device.device_class().display_name(), state, &table);
  }
  session->Print(format == OutputFormat::kCsv ? table.ToCsv() : table.ToText());
  return kExitOk;
}

}  // namespace

void AddDevices(CLI::App* app, Session* session) {
  auto known = std::make_shared<bool>(false);
  CLI::App* devices = app->add_subcommand("devices", "The devices of the daemon's machine.");
  SetExample(devices, "tunefarm devices --known");
  devices->add_flag("--known", *known, "The device classes known without hardware instead.");
  devices->callback([session, known] { session->command = [session, known] { return Devices(session, *known); }; });
}

}  // namespace tunefarm::cli
