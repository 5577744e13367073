#include "server/farm/isolation.h"

#include "server/base/status.h"

namespace tunefarm {

absl::Status CheckIsolation(const Isolation& isolation, const std::string& level) {
  if (!level.empty() && level != "L0" && level != "L1") {
    return WithReason(InvalidArgument("required_isolation '{}' is no level of isolation; write L1, or L0", level),
                      "JOB_INVALID");
  }
  const bool required = level == "L1" || isolation.required == "L1";
  if (!required || isolation.reached.substr(0, 2) == "L1") return absl::OkStatus();
  return WithReason(
      FailedPrecondition(
          "{} isolation L1, but workers here reach only {}; run the daemon as root or where user namespaces "
          "are allowed, or require L0",
          level == "L1" ? "the job requires" : "this daemon requires",
          isolation.reached.empty() ? "an unknown level" : isolation.reached),
      "ISOLATION_NOT_REACHED");
}

}  // namespace tunefarm
