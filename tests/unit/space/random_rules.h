// Constraints of random parameters, for tests that compare with brute force.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <initializer_list>
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

// Random rules over P0, P1, ... and small constants of either sign, of all that a search compiles and finds bounds of.
class RandomRules {
 public:
  RandomRules(uint64_t parameters, PhiloxStream* random) : parameters_(parameters), random_(*random) {}

  std::string Truth(int depth) {
    switch (random_.UniformInt(depth > 0 ? 8 : 4)) {
      case 4:
        return fmt::format("({} and {})", Truth(depth - 1), Truth(depth - 1));
      case 5:
        return fmt::format("({} or {})", Truth(depth - 1), Truth(depth - 1));
      case 6:
        return fmt::format("(not {})", Truth(depth - 1));
      case 7:
        return fmt::format("({} <= {} < {})", Number(depth - 1), Number(depth - 1), Number(depth - 1));
      default:
        return fmt::format("({} {} {})", Number(depth), Pick({"<", "<=", ">", ">=", "==", "!="}), Number(depth));
    }
  }

  std::string Number(int depth) {
    if (depth <= 0 || random_.UniformInt(5) == 0) {
      if (random_.UniformInt(4) == 0) return Constant();
      return fmt::format("P{}", random_.UniformInt(parameters_));
    }
    switch (random_.UniformInt(9)) {
      case 0:
        return fmt::format("({} * {})", Number(depth - 1), Constant());
      case 1:
        return fmt::format("({} if {} else {})", Number(depth - 1), Truth(depth - 1), Number(depth - 1));
      case 2:
        return fmt::format("({} {} {})", Number(depth - 1), Pick({"and", "or"}), Number(depth - 1));
      case 3:
        return fmt::format("{}({}, {})", Pick({"min", "max"}), Number(depth - 1), Number(depth - 1));
      case 4:
        return fmt::format("{}({})", Pick({"-", "abs", "bool"}), Number(depth - 1));
      case 5:  // by what is not zero: a rule that fails somewhere says nothing else
        return fmt::format("({} {} {})", Number(depth - 1), Pick({"//", "%", "/"}), Pick({"3", "-2", "0.5", "-1"}));
      case 6:
        return fmt::format("{}({}, {})", Pick({"ceil_div", "round_up"}), Number(depth - 1), Pick({"2", "3", "5"}));
      default:
        return fmt::format("({} {} {})", Number(depth - 1), Pick({"+", "-", "*"}), Number(depth - 1));
    }
  }

 private:
  std::string Pick(std::initializer_list<const char*> choices) {
    return choices.begin()[random_.UniformInt(choices.size())];
  }
  std::string Constant() { return Pick({"-3", "-1", "0", "1", "2", "4", "0.5", "-1.5"}); }

  const uint64_t parameters_;
  PhiloxStream& random_;
};

}  // namespace tunefarm
