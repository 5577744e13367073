#pragma once

// A ProcessEvaluator over the fake worker, blocking calls, and the check that it leaves nothing behind.

#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

// glibc's header lacks it.
extern "C" {
#include <sys/pidfd.h>
}

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/base/check.h"
#include "server/base/thread.h"
#include "server/exec/process_evaluator.h"
#include "tests/exec/fake_kernel.h"
#include "tests/fakes/temporary_directory.h"

namespace tunefarm {

// What takes this long does not come any more, on the slowest machine.
inline constexpr int kHangMs = 300'000;

inline size_t OpenDescriptors() {
  size_t count = 0;
  DIR* directory = opendir("/proc/self/fd");
  while (readdir(directory) != nullptr) ++count;
  closedir(directory);
  return count;
}

// Processes other than this one whose command line has the text. Zombies have no command line.
inline std::vector<pid_t> ProcessesWith(const std::string& text) {
  std::vector<pid_t> found;
  DIR* directory = opendir("/proc");
  while (const dirent* entry = readdir(directory)) {
    const pid_t pid = std::atoi(entry->d_name);
    if (pid <= 0 || pid == getpid()) continue;
    // By hand: a process that ends between open and read is an error, for which a stream's iterator would throw.
    const UniqueFd file(open(fmt::format("/proc/{}/cmdline", pid).c_str(), O_RDONLY | O_CLOEXEC));
    std::string line(1 << 16, '\0');
    const ssize_t size = file.valid() ? read(file.get(), line.data(), line.size()) : -1;
    line.resize(static_cast<size_t>(std::max<ssize_t>(size, 0)));
    if (line.find(text) != std::string::npos) found.push_back(pid);
  }
  closedir(directory);
  return found;
}

// Whether it comes true before that. For what nothing tells of.
inline bool ComesTrue(const std::function<bool()>& condition) {
  constexpr int kLookEveryMs = 5;
  for (int waited = 0; waited < kHangMs; waited += kLookEveryMs) {
    if (condition()) return true;
    poll(nullptr, 0, kLookEveryMs);
  }
  return condition();
}

// Whether all of them end, however slow the machine is: a namespace's init is on its way out when its worker is gone.
inline bool AllEnd(const std::vector<pid_t>& processes) {
  for (const pid_t process : processes) {
    UniqueFd pidfd(pidfd_open(process, 0));
    pollfd entry = {pidfd.get(), POLLIN, 0};
    if (pidfd.valid() && poll(&entry, 1, kHangMs) != 1) return false;
  }
  return true;
}

class EvaluatorTest : public testing::Test {
 protected:
  EvaluatorTest() : descriptors_(OpenDescriptors()) {
    options_.worker_binary = std::string(std::getenv("TUNEFARM_BIN_DIR")) + "/fake_worker";
    options_.scratch_directory = directory_.File("scratch");
    options_.compile_workers = 2;
    options_.start_backoff_ms = 1;
    // Only what a test shortens may ever run out, however slow the machine is.
    options_.deadlines = {kHangMs, kHangMs, kHangMs, kHangMs, kHangMs, kHangMs, kHangMs, kHangMs, kHangMs};
    options_.reap_ms = kHangMs;
  }

  ~EvaluatorTest() override {
    evaluator_.reset();
    EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a child process was not reaped";
    EXPECT_TRUE(AllEnd(ProcessesWith(directory_.path())));
    EXPECT_THAT(ProcessesWith(directory_.path()), testing::IsEmpty());
    EXPECT_EQ(OpenDescriptors(), descriptors_);
  }

  ProcessEvaluator* evaluator() {
    if (evaluator_ == nullptr) evaluator_ = std::make_unique<ProcessEvaluator>(options_);
    return evaluator_.get();
  }

  RunRequest RunOf(const std::string& behave, int64_t n = 0, const std::string& device = "device-0",
                   int64_t prepare = 1) {
    RunRequest request;
    request.plan = plan_;
    request.problem = FakeProblem(*plan_, prepare);
    request.device_uuid = device;
    request.device_class = FakeDeviceClass();
    request.config = FakeConfig(behave, n);
    request.artifact = std::make_shared<Artifact>(Artifact{"bytes", {}});
    return request;
  }
  CompileRequest CompileOf(const std::string& behave, int64_t n = 0) {
    return {plan_, FakeProblem(*plan_, 1), FakeDeviceClass(), FakeConfig(behave, n)};
  }

  RunResult Run(RunRequest request) {
    RunResult result;
    Notification done;
    evaluator()->Run(std::move(request), [&](RunResult run) {
      result = std::move(run);
      done.Notify();
    });
    done.WaitForNotification();
    return result;
  }
  RunResult Run(const std::string& behave) { return Run(RunOf(behave)); }
  CompileResult Compile(const std::string& behave, int64_t n = 0) {
    CompileResult result;
    Notification done;
    evaluator()->Compile(CompileOf(behave, n), [&](CompileResult compiled) {
      result = std::move(compiled);
      done.Notify();
    });
    done.WaitForNotification();
    return result;
  }

  const size_t descriptors_;
  TemporaryDirectory directory_;
  ProcessEvaluatorOptions options_;
  std::shared_ptr<const KernelPlan> plan_ = FakeKernelPlan();
  std::unique_ptr<ProcessEvaluator> evaluator_;
};

}  // namespace tunefarm
