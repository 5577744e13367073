// Owns an evaluator whose runner hangs in a kernel, says so, and waits to be killed.

#include <unistd.h>

#include <cstdio>

#include "server/base/thread.h"
#include "server/exec/process_evaluator.h"
#include "tests/exec/fake_kernel.h"

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  using namespace tunefarm;  // NOLINT(google-build-using-namespace)
  ProcessEvaluatorOptions options;
  options.worker_binary = argv[1];
  options.scratch_directory = argv[2];
  options.compile_workers = 1;
  options.exclusive_host_runs = false;
  ProcessEvaluator evaluator(options);
  const auto plan = FakeKernelPlan();
  RunRequest request;
  request.plan = plan;
  request.problem = FakeProblem(*plan, 1);
  request.device_uuid = "device-0";
  request.device_class = FakeDeviceClass();
  request.config = FakeConfig("ok", 0);
  Notification ran, compiled;
  evaluator.Run(request, [&](const RunResult&) { ran.Notify(); });
  evaluator.Compile({plan, request.problem, request.device_class, request.config},
                    [&](const CompileResult&) { compiled.Notify(); });
  ran.WaitForNotification();
  compiled.WaitForNotification();
  request.config = FakeConfig("hang", 0);
  evaluator.Run(request, [](const RunResult&) {});
  std::puts("ready");
  std::fflush(stdout);
  while (true) pause();
}
