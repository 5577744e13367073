// A ConfigIndex finds the row of a config in a listed space.
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

 private:
  uint64_t HashRow(std::span<const uint16_t> indices) const;

  const ConfigTable* table_;
  uint64_t mask_ = 0;
  std::vector<uint32_t> slots_;  // row + 1, 0 where empty; linear probing
};

}  // namespace tunefarm
