#include "server/worker/worker_arguments.h"

#include <charconv>
#include <string_view>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/measure/policy.h"

namespace tunefarm {
namespace {

absl::StatusOr<int64_t> ParseNumber(std::string_view name, std::string_view text, int64_t max) {
  int64_t number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0 || number > max) {
    return InvalidArgument("{}={} is not a number from 0 to {}", name, text, max);
  }
  return number;
}

}  // namespace

absl::StatusOr<WorkerArguments> ParseWorkerArguments(int argc, char** argv) {
  WorkerArguments parsed;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.substr(0, 7) == "--fake-") {
      parsed.unknown.emplace_back(argument);
      continue;
    }
    const size_t equals = argument.find('=');
    if (equals == std::string_view::npos)
      return InvalidArgument("unknown argument {}; tunefarmd starts this program", argument);
    const std::string_view name = argument.substr(0, equals);
    const std::string_view value = argument.substr(equals + 1);
    if (name == "--role") {
      parsed.role = value;
    } else if (name == "--backend") {
      parsed.backend = value;
    } else if (name == "--scratch") {
      parsed.scratch = value;
    } else if (name == "--device") {
      parsed.device_uuid = value;
    } else if (name == "--cuda-path") {
      parsed.cuda_path = value;
    } else if (name == "--host-compiler") {
      parsed.host_compiler = value;
    } else if (name == "--python") {
      parsed.python = value;
    } else if (name == "--sandbox" && (value == "on" || value == "off")) {
      parsed.sandbox = value == "on";
    } else if (name == "--required-isolation" && (value == "L0" || value == "L1")) {
      parsed.required_isolation = value;
    } else if (name == "--compile-seconds") {
      ASSIGN_OR_RETURN(parsed.compile_seconds, ParseNumber(name, value, 1 << 20));
    } else if (name == "--clock-mhz") {
      ASSIGN_OR_RETURN(parsed.clock_mhz, ParseNumber(name, value, kLockedClockMhzMax));
    } else if (name == "--clock-marker") {
      parsed.clock_marker = value;
    } else if (name == "--channel-fd") {
      ASSIGN_OR_RETURN(parsed.channel_fd, ParseNumber(name, value, 1023));
    } else if (name == "--parent-pid") {
      ASSIGN_OR_RETURN(parsed.parent_pid, ParseNumber(name, value, 1 << 30));
    } else if (name == "--descriptors") {
      ASSIGN_OR_RETURN(parsed.descriptors, ParseNumber(name, value, 1 << 30));
    } else if (name == "--uid") {
      ASSIGN_OR_RETURN(parsed.uid, ParseNumber(name, value, 1 << 30));
    } else {
      return InvalidArgument("unknown argument {}; tunefarmd starts this program", argument);
    }
  }
  const bool is_clocks = parsed.role == kClocksRole;
  if (parsed.role != "compile" && parsed.role != "run" && parsed.role != "probe" && !is_clocks) {
    return InvalidArgument("--role={} is none of compile, run, probe and clocks; tunefarmd starts this program",
                           parsed.role);
  }
  if (is_clocks && (parsed.device_uuid.empty() || parsed.clock_marker.empty())) {
    return InvalidArgument("--role=clocks needs --device and --clock-marker; tunefarmd starts this program");
  }
  if (parsed.backend != kCudaBackend && parsed.backend != kHostBackend && !parsed.is_python()) {
    return InvalidArgument("--backend={} is none of cuda, host, python-cuda and python-host", parsed.backend);
  }
  if (parsed.is_python() == parsed.python.empty()) {
    return InvalidArgument(
        "--python names the interpreter of the backends python-cuda and python-host, and of no other");
  }
  if (parsed.channel_fd < 3) return InvalidArgument("--channel-fd is missing; tunefarmd starts this program");
  return parsed;
}

}  // namespace tunefarm
