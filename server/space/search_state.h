// What one search of a program changes while it runs.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "server/space/search_program.h"

namespace tunefarm::space_internal {

// Asked now and then by a search that shares its bounds with others.
class SearchWatch {
 public:
  virtual ~SearchWatch() = default;
  // False: the search is to stop, with kStopped.
  virtual bool GoOn(uint64_t nodes_left) = 0;
};

struct SearchProgram::State {
  explicit State(const SearchProgram& program)
      : memory(program.memory_), alive(program.depths_.size()), key(program.depths_.size()) {
    positions.resize(program.depths_.size(), 0);
    if (program.uses_bindings_) binding.emplace(program.impl_.parameters.size());
  }

  bool GoOn() {
    ask_below = nodes > kNodesBetween ? nodes - kNodesBetween : 0;
    return watch->GoOn(nodes);
  }

  // How many nodes are visited from one question to the next: some hundred microseconds.
  static constexpr uint64_t kNodesBetween = 1 << 15;

  std::vector<int64_t> memory;
  std::vector<std::vector<uint16_t>> alive;  // by depth
  std::vector<std::vector<int64_t>> key;     // by depth: scratch
  std::vector<uint16_t> positions;           // by depth: the place in the domain of the bound value
  std::optional<Binding> binding;            // for rules that their Expression judges
  uint64_t nodes = 0;
  bool remembers_all = false;
  SearchWatch* watch = nullptr;  // null: nobody
  uint64_t ask_below = 0;        // it is asked when fewer nodes are left
};

}  // namespace tunefarm::space_internal
