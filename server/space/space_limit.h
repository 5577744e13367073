// The limits of the work on search spaces: how long it may take, and how much memory all spaces of a process may hold.
//
// Pure functions; any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "server/base/work_limit.h"

namespace tunefarm {

// What one space may hold while it is listed, and what all spaces of a process may hold together.
inline constexpr uint64_t kSpaceBytesMax = uint64_t{1} << 30;
inline constexpr uint64_t kAllSpacesBytesMax = uint64_t{3} << 30;

// For the work on the spaces of one kernel, by its display name.
std::shared_ptr<WorkLimit> MakeSpaceLimit(std::string_view kernel, WorkGrant grant);

// What all spaces of this process hold. Never null.
const std::shared_ptr<MemoryBudget>& SpaceMemory();

}  // namespace tunefarm
