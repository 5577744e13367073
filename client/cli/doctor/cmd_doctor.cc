// doctor: what works here and what does not, with what to do about it. version.

#include <fmt/core.h>
#include <sys/utsname.h>

#include <chrono>
#include <memory>
#include <string_view>

#include "client/cli/commands.h"
#include "client/cli/doctor/diagnosis.h"
#include "client/cli/doctor/doctor_farm.h"
#include "client/cli/doctor/doctor_measure.h"
#include "client/cli/help_format.h"
#include "client/cli/options/kernel_argument.h"
#include "client/cli/python_process.h"
#include "client/cli/studies/report.h"
#include "server/base/file.h"
#include "server/base/format.h"
#include "server/base/socket_paths.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/version.h"

namespace tunefarm::cli {
namespace {

void CheckDataDirectory(const Session& session, Diagnosis* findings) {
  const auto directory = ChosenDataDirectory(session.connect.data_directory, session.environment);
  if (!directory.ok()) {
    findings->Bad("data directory: " + std::string(MessageOf(directory.status())), "Set TUNEFARM_DATA_DIR.");
    return;
  }
  const absl::Status made = MakeDirectories(*directory, 0700);
  if (!made.ok()) {
    findings->Bad("data directory " + *directory + ": " + std::string(MessageOf(made)),
                  "Choose another with TUNEFARM_DATA_DIR.");
    return;
  }
  const auto network = IsNetworkFileSystem(*directory);
  if (network.ok() && *network) {
    findings->Bad("data directory " + *directory + " is on a network file system",
                  "SQLite needs a local disk: set TUNEFARM_DATA_DIR.");
    return;
  }
  const auto free = FreeBytes(*directory);
  if (free.ok()) findings->Good(fmt::format("data directory {}, {} free", *directory, FormatBytes(*free)));
}

void CheckPython(Diagnosis* findings) {
  constexpr std::string_view kVersion =
      "import sys\n"
      "print(('ok ' if sys.version_info >= (3, 9) else 'old ') + '%d.%d.%d' % sys.version_info[:3], end='')";
  const auto version = RunPython(kVersion, "", /*output_bytes_max=*/64, std::chrono::seconds(10));
  if (version.ok() && version->starts_with("ok ")) {
    findings->Good("python3 " + version->substr(3) + " reads T1 files (tunefarm import t1)");
    return;
  }
  findings->Hint(fmt::format("tunefarm import t1 needs python3 from version 3.9 on: {}",
                             version.ok() ? "the one on PATH is " + version->substr(version->find(' ') + 1)
                                          : std::string(MessageOf(version.status()))));
}

absl::StatusOr<ExitCode> Doctor(Session* session) {
  RETURN_IF_ERROR(session->format_without_csv().status());
  Diagnosis findings;
  utsname system = {};
  uname(&system);
  findings.Good(
      fmt::format("tunefarm {} ({}), {} {}", TUNEFARM_VERSION, TUNEFARM_REVISION, system.sysname, system.release));
  CheckDataDirectory(*session, &findings);
  const std::string box = KernelsInTheBox(session->environment);
  if (box.empty()) {
    findings.Hint("the built-in kernels were not found; set TUNEFARM_KERNELS to their folder");
  } else {
    findings.Good("built-in kernels at " + box);
  }
  CheckPython(&findings);
  const absl::StatusOr<Connection*> connection = session->connection();
  if (!connection.ok()) {
    const bool is_private = session->connect.server.empty() && !session->environment("TUNEFARM_SERVER").has_value();
    findings.Bad(std::string(MessageOf(connection.status())),
                 is_private ? "Start it by hand to see why: tunefarmd --log-level debug"
                            : "The address comes from --server or TUNEFARM_SERVER.");
    RETURN_IF_ERROR(findings.Print(*session).status());
    return kExitUnreachable;
  }
  ASSIGN_OR_RETURN(const v1::GetServerInfoResponse info,
                   Connection::Call((*connection)->server(), &v1::ServerService::StubInterface::GetServerInfo,
                                    v1::GetServerInfoRequest()));
  findings.Good(fmt::format("daemon {} answers at {}", info.version(), (*connection)->address()));
  if (info.free_disk_bytes() < info.free_disk_bytes_min()) {
    findings.Bad(fmt::format("jobs are paused: {} free where {} is, the floor is {}",
                             FormatBytes(static_cast<uint64_t>(info.free_disk_bytes())), info.data_directory(),
                             FormatBytes(static_cast<uint64_t>(info.free_disk_bytes_min()))),
                 "Free space there, or lower the daemon's min_free_disk_bytes.");
  }
  if (info.revision() != TUNEFARM_REVISION) {
    findings.Hint(fmt::format("the daemon is another build ({}); tunefarm stop ends it", info.revision()));
  }
  ASSIGN_OR_RETURN(const v1::ListDevicesResponse devices,
                   Connection::Call((*connection)->devices(), &v1::DeviceService::StubInterface::ListDevices,
                                    v1::ListDevicesRequest()));
  for (const v1::Device& device : devices.devices()) {
    if (device.state() == v1::DEVICE_STATE_QUARANTINED) {
      findings.Bad("device " + device.device_class().display_name() + " is quarantined: " + device.state_reason(),
                   "The daemon checks it again on its own. Once the cause is removed: tunefarm devices release " +
                       device.uuid());
    } else {
      findings.Good("device " + DeviceLine(device));
    }
  }
  if (devices.devices().empty())
    findings.Bad("no device to tune on", "Install a C++ compiler, or run on a machine with a GPU.");
  if (info.sandbox_level().substr(0, 2) == "L1") {
    findings.Good("worker isolation " + info.sandbox_level());
  } else if (!info.sandbox_level().empty()) {
    findings.Hint("worker isolation " + info.sandbox_level() +
                  ". Tune only kernels that you trust, or run the daemon as root or where user namespaces are allowed");
  }
  for (const std::string& line : info.toolchains()) findings.Hint(line);
  return findings.Print(*session);
}

}  // namespace

void AddDoctor(CLI::App* app, Session* session) {
  CLI::App* doctor =
      app->add_subcommand("doctor", "Diagnose this machine: what works, what does not, and how to fix it.");
  SetExample(doctor,
             "tunefarm doctor\n"
             "tunefarm doctor --farm\n"
             "tunefarm doctor --repeatability --kernel matmul --dim M=1024 --pairs 100");
  auto measure = std::make_shared<DoctorMeasureOptions>();
  measure->AddTo(doctor);
  auto farm = std::make_shared<bool>(false);
  doctor->add_flag("--farm", *farm, "Check the agents of the farm instead of this machine.");
  doctor->callback([session, measure, farm] {
    session->command = [session, measure, farm] {
      if (*farm) return DoctorFarm(session);
      return measure->wanted ? DoctorMeasure(session, *measure) : Doctor(session);
    };
  });
}

void AddVersion(CLI::App* app, Session* session) {
  CLI::App* version = app->add_subcommand("version", "Version and git revision.");
  SetExample(version, "tunefarm version");
  version->callback([session] {
    session->command = [session]() -> absl::StatusOr<ExitCode> {
      ASSIGN_OR_RETURN(const OutputFormat format, session->format_without_csv());
      session->Print(
          format == OutputFormat::kJson
              ? fmt::format("{{\n \"version\": {},\n \"revision\": {},\n \"build\": {}\n}}\n",
                            JsonString(TUNEFARM_VERSION), JsonString(TUNEFARM_REVISION),
                            JsonString(TUNEFARM_BUILD_TYPE))
              : fmt::format("tunefarm {} ({}, {})\n", TUNEFARM_VERSION, TUNEFARM_REVISION, TUNEFARM_BUILD_TYPE));
      return kExitOk;
    };
  });
}

}  // namespace tunefarm::cli
