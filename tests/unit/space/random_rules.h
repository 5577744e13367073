// Constraints of random parameters, for tests that compare with brute force.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <span>
#include <string>

#include "server/base/random.h"
#include "server/space/space.h"

namespace tunefarm {

// Adds `count` rules, each of a random shape ("{0} * {1} <= {2}") over three of P0, P1, ... up to `parameters` of them.
inline void AddRandomRules(std::span<const char* const> shapes, uint64_t parameters, uint64_t count,
                           PhiloxStream& random, SpaceDefinition* definition) {
  const auto name = [&] { return fmt::format("P{}", random.UniformInt(parameters)); };
  for (uint64_t rule = 0; rule < count; ++rule) {
    const std::string a = name();
    const std::string b = name();
    const std::string c = name();
    definition->constraints.push_back(
        {fmt::format(fmt::runtime(shapes[random.UniformInt(shapes.size())]), a, b, c), ""});
  }
}

}  // namespace tunefarm
