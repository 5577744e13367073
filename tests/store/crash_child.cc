// store_crash_child DATABASE: stores one job after another and writes each acknowledged uid as a line to stdout, until
// it is killed. For sqlite_crash_test.cc.
#include <fmt/core.h>
#include <unistd.h>

#include <string>

#include "server/base/check.h"
#include "server/store/job_store.h"
#include "server/store/store.h"

int main(int argc, char** argv) {
  TUNEFARM_CHECK(argc == 2);
  tunefarm::SqliteOptions options;
  options.path = argv[1];
  const auto store = tunefarm::OpenSqliteStore(options);
  TUNEFARM_CHECK_OK(store);
  constexpr int kJobsMax = 1'000'000;  // The parent kills it long before.
  for (int i = 0; i < kJobsMax; ++i) {
    tunefarm::SubmitRequest request;
    request.kernel = tunefarm::KernelRow{"kernel", "program", "name", "definition", 1, ""};
    request.job.kernel_id = "kernel";
    request.job.uid = fmt::format("{}-{}", getpid(), i);
    request.job.spec = std::string(static_cast<size_t>(i % 7) * 3000, 's');
    request.job.studies.resize(2);
    for (int number = 1; number <= 2; ++number) request.job.studies[static_cast<size_t>(number - 1)].number = number;
    request.now_ms = 1;
    TUNEFARM_CHECK_OK((*store)->jobs()->SubmitJob(request));
    const std::string line = request.job.uid + "\n";
    TUNEFARM_CHECK(write(STDOUT_FILENO, line.data(), line.size()) == static_cast<ssize_t>(line.size()));
  }
  return 0;
}
