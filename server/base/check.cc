#include "server/base/check.h"

#include <fmt/core.h>

#include <cstdlib>

#include "server/base/log.h"
#include "server/base/status.h"

namespace tunefarm::internal {

void CheckFailed(const char* file, int line, const char* condition) {
  LogCritical(fmt::format("{}:{}: check failed: {}", file, line, condition));
  std::abort();
}

void CheckOkFailed(const char* file, int line, const char* expression, const absl::Status& status) {
  LogCritical(fmt::format("{}:{}: check failed: {} is {}", file, line, expression, status));
  std::abort();
}

}  // namespace tunefarm::internal
