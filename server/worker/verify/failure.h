// Why something about a kernel failed, as results say it.
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "server/base/status.h"
#include "tunefarm/v1/trial.pb.h"

namespace tunefarm {

struct Failure {
  tunefarm::v1::Outcome outcome = tunefarm::v1::OUTCOME_UNSPECIFIED;  // unset: no failure
  std::string message;
  // Whatever this process tries next fails too, or takes longer than it may: it must end. Where trials run in processes
  // of their own, only if none can be started.
  bool sticky = false;
  // The config's process was ended by a SIGKILL that this process did not send.
  bool is_killed = false;

  explicit operator bool() const { return outcome != tunefarm::v1::OUTCOME_UNSPECIFIED; }
};

// What the definition says cannot be for this problem: no other worker could do it either.
inline Failure DefinitionFailure(std::string_view what, const absl::Status& status) {
  return {tunefarm::v1::OUTCOME_INFEASIBLE_LAUNCH, fmt::format("{}: {}.", what, MessageOf(status))};
}

// Returns early with a Failure.
#define TUNEFARM_RETURN_IF_FAILED(...)                             \
  do {                                                             \
    if (::tunefarm::Failure failed = (__VA_ARGS__)) return failed; \
  } while (false)

}  // namespace tunefarm
