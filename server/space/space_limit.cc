#include "server/space/space_limit.h"

#include <fmt/core.h>

#include <utility>

namespace tunefarm {

std::shared_ptr<WorkLimit> MakeSpaceLimit(std::string_view kernel, WorkGrant grant) {
  WorkLimit::Bounds bounds;
  bounds.subject = fmt::format("searching the space of kernel '{}'", kernel.substr(0, 64));
  bounds.advice =
      "give the parameters fewer values, let each constraint use fewer of them, or pin some of them to one value";
  bounds.grant = std::move(grant);
  bounds.memory = std::make_shared<MemoryBudget>(kSpaceBytesMax, SpaceMemory());
  return std::make_shared<WorkLimit>(std::move(bounds));
}

const std::shared_ptr<MemoryBudget>& SpaceMemory() {
  static const auto* const memory =
      new std::shared_ptr<MemoryBudget>(std::make_shared<MemoryBudget>(kAllSpacesBytesMax));
  return *memory;
}

}  // namespace tunefarm
