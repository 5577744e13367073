// What each call of the services needs: a right, and how it is counted. The one table of it; a call that is not in it
// is refused, and a test fails for it.
//
// Pure functions.
#pragma once

#include <string_view>
#include <vector>

#include "server/access/principal.h"

namespace tunefarm {

enum class CallRate : uint8_t {
  kLookups,    // many and cheap, and parts of uploads
  kCalls,      // all others of clients
  kUnlimited,  // agents: their own leases and batches bound them
};

struct CallRule {
  std::string_view call;  // "tunefarm.v1.TuningService/CreateJob"
  std::string_view does;  // "submit jobs": what a caller without the right may not do, in the words of a user
  Right right;
  CallRate rate;
  bool is_change;  // what it did is written to the audit log
};

// Null: there is no such call.
const CallRule* RuleOf(std::string_view call);
const std::vector<CallRule>& AllCallRules();

}  // namespace tunefarm
