// The kernels an agent has fetched and compiled to plans, by id. Not thread-safe: the agent's executor owns it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/agent/agent_link.h"
#include "server/definition/kernel_plan.h"

namespace tunefarm {

class PlanCache {
 public:
  // At most this many plans are kept; the one used longest ago leaves first.
  static constexpr size_t kPlansMax = 32;

  // `link` outlives the cache.
  explicit PlanCache(AgentLink* link) : link_(link) {}

  // From the cache, or fetched. Unavailable: ask again later; Internal: control answered with something else than the
  // kernel.
  absl::StatusOr<std::shared_ptr<const KernelPlan>> Get(const std::string& kernel_id);

 private:
  struct Slot {
    std::shared_ptr<const KernelPlan> plan;
    uint64_t used = 0;
  };

  AgentLink* const link_;
  uint64_t uses_ = 0;
  std::map<std::string, Slot> plans_;
};

}  // namespace tunefarm
