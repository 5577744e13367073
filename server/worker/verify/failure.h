// Why something about a kernel failed, as results say it.
#pragma once

#include <string>

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

// Returns early with a Failure.
#define TUNEFARM_RETURN_IF_FAILED(...)                             \
  do {                                                             \
    if (::tunefarm::Failure failed = (__VA_ARGS__)) return failed; \
  } while (false)

}  // namespace tunefarm
