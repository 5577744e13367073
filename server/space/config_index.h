// A ConfigIndex finds rows of a listed space: the row of a config, and the rows near it.
//
// Threads: never changes after construction; const use from any thread. Refers to the table, which must outlive it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "server/space/space.h"

namespace tunefarm {

class ConfigIndex {
 public:
  // Memory is six to twelve bytes per config beside the table.
  explicit ConfigIndex(const ConfigTable& table);

  const ConfigTable& table() const { return *table_; }

  // The row that holds these value indices, if any does. `indices` has one entry per parameter; they need not be in
  // range.
  std::optional<uint64_t> Find(std::span<const uint16_t> indices) const;

  // The rows of the neighbours of `indices` (which need not be in the table), ascending. At most `limit` of them: the
  // first ones. The same configs as Space::Neighbours lists.
  std::vector<uint64_t> Neighbours(std::span<const uint16_t> indices, Neighbourhood kind,
                                   uint64_t limit = UINT64_MAX) const;

 private:
  uint64_t HashRow(std::span<const uint16_t> indices) const;

  const ConfigTable* table_;
  uint64_t mask_ = 0;
  std::vector<uint32_t> slots_;  // row + 1, 0 where empty; linear probing
  // By parameter: the value indices that occur, ascending.
  std::vector<std::vector<uint16_t>> occurring_;
};

}  // namespace tunefarm
