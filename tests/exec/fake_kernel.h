#pragma once

// The definition that the fake worker understands: `behave` says how to misbehave, `n` tells configs apart without
// changing the binary, the dim `prepare` makes the preparation fail.

#include <fmt/core.h>

#include <memory>
#include <string>
#include <string_view>

#include "server/base/check.h"
#include "server/definition/kernel_plan.h"

namespace tunefarm {

inline std::shared_ptr<const KernelPlan> FakeKernelPlan(const std::string& language = "LANGUAGE_HOST_CXX") {
  constexpr char kText[] = R"(
    display_name: "fake"
    sources { path: "fake.cc" }
    dims { name: "prepare" default_value { int_value: 1 } max: 8 bind: BIND_RUN }
    parameters { name: "behave" values { strings: [
      "ok", "crash", "abort", "hang", "exit_0", "exit_3", "out_of_memory", "killed", "sigsys", "fork_bomb",
      "flood_and_crash", "garbage", "oversized", "empty_packet", "daemon_frame", "second_hello", "wrong_id",
      "bad_phase", "fds_with_log", "close_channel", "compile_error", "pipe_as_artifact", "hang_silently", "crash_in_load",
      "leave_child", "flood", "damaged", "wrong_result", "bad_outcome", "phase_storm", "hang_in_measure", "nan_time",
      "no_time", "crash_in_measure", "escape", "lost", "refused", "child_killed_once",
      "wait_in_measure"] } }
    parameters { name: "n" range { first: 0 last: 4000 } bind: BIND_RUN }
    arguments { name: "out" buffer { data_type: DATA_TYPE_F32 length: "16" access: ACCESS_OUT } }
    launches { kernel { entry: "fake" arguments: "out" } }
    reference { steps { kernel { entry: "fake" arguments: "out" } } }
  )";
  std::string text = "language: " + language + kText;
  constexpr std::string_view kEntry = R"(entry: "fake")";
  const bool on_gpu = language == "LANGUAGE_CUDA";
  for (size_t at = text.find(kEntry); on_gpu && at != std::string::npos; at = text.find(kEntry, at + 1)) {
    text.insert(at, R"(grid: "1" block: "1" )");
    at += kEntry.size() + 20;
  }
  absl::StatusOr<tunefarm::v1::Kernel> kernel =
      LoadKernelText(text, "fake.pbtxt",
                     [](const std::string&) -> absl::StatusOr<std::string> { return "extern \"C\" void fake() {}"; });
  TUNEFARM_CHECK_OK(kernel);
  absl::StatusOr<std::shared_ptr<const KernelPlan>> plan = KernelPlan::Compile(*kernel);
  TUNEFARM_CHECK_OK(plan);
  return *plan;
}

// The same in Python, with the faults that concern frames; the fake worker speaks for the interpreter.
inline std::shared_ptr<const KernelPlan> FakePythonPlan(const std::string& name = "snake") {
  constexpr char kText[] = R"(
    language: LANGUAGE_PYTHON python { device: DEVICE_KIND_HOST } sources { path: "snake.py" }
    dims { name: "prepare" default_value { int_value: 1 } }
    parameters { name: "behave" values { strings: [
      "ok", "garbage", "unknown_field", "wrong_type", "not_utf8", "oversized", "empty_packet", "daemon_frame", "wrong_id",
      "bad_outcome", "nan_time"] } }
    parameters { name: "n" range { first: 0 last: 9 } }
  )";
  absl::StatusOr<tunefarm::v1::Kernel> kernel =
      LoadKernelText(fmt::format("display_name: \"{}\" {}", name, kText), "snake.pbtxt",
                     [](const std::string&) -> absl::StatusOr<std::string> { return "pass"; });
  TUNEFARM_CHECK_OK(kernel);
  absl::StatusOr<std::shared_ptr<const KernelPlan>> plan = KernelPlan::Compile(*kernel);
  TUNEFARM_CHECK_OK(plan);
  return *plan;
}

inline std::shared_ptr<const ResolvedProblem> FakeProblem(const KernelPlan& plan, int64_t prepare) {
  tunefarm::v1::Problem problem;
  (*problem.mutable_dims())["prepare"].set_int_value(prepare);
  absl::StatusOr<ResolvedProblem> resolved = plan.ResolveProblem(problem);
  TUNEFARM_CHECK_OK(resolved);
  return std::make_shared<ResolvedProblem>(*std::move(resolved));
}

inline DeviceClass FakeDeviceClass() {
  DeviceClass device;
  device.kind = DeviceKind::kHost;
  device.display_name = "fake";
  device.sm_count = 1;
  return device;
}

inline Config FakeConfig(const std::string& behave, int64_t n) { return Config({{"behave", behave}, {"n", n}}); }

}  // namespace tunefarm
