#include "server/space/config_index.h"

#include <bit>
#include <cstring>

#include "server/base/check.h"

namespace tunefarm {
namespace {

constexpr uint64_t kMultiplier = 0x9e37'79b9'7f4a'7c15;

}  // namespace

ConfigIndex::ConfigIndex(const ConfigTable& table) : table_(&table) {
  TUNEFARM_CHECK(table.size() < UINT32_MAX);
  // At most two thirds full.
  const uint64_t capacity = std::bit_ceil(table.size() + table.size() / 2 + 2);
  mask_ = capacity - 1;
  slots_.resize(capacity, 0);
  for (uint64_t row = 0; row < table.size(); ++row) {
    // Rows differ, so that none needs to be compared with another.
    uint64_t slot = HashRow(table.Row(row)) & mask_;
    while (slots_[slot] != 0) slot = (slot + 1) & mask_;
    slots_[slot] = static_cast<uint32_t>(row + 1);
  }
}

// Four indices at a time: one multiplication for each is most of what building the index would cost.
uint64_t ConfigIndex::HashRow(std::span<const uint16_t> indices) const {
  uint64_t hash = kMultiplier;
  size_t at = 0;
  for (; at + 4 <= indices.size(); at += 4) {
    uint64_t word = 0;
    std::memcpy(&word, indices.data() + at, sizeof(word));
    hash = (std::rotl(hash, 21) ^ word) * kMultiplier;
  }
  uint64_t rest = 0;
  for (; at < indices.size(); ++at) rest = (rest << 16) | indices[at];
  hash = (std::rotl(hash, 21) ^ rest) * kMultiplier;
  return hash ^ (hash >> 32);
}

std::optional<uint64_t> ConfigIndex::Find(std::span<const uint16_t> indices) const {
  TUNEFARM_CHECK(indices.size() == static_cast<size_t>(table_->parameter_count()));
  for (uint64_t slot = HashRow(indices) & mask_; slots_[slot] != 0; slot = (slot + 1) & mask_) {
    const uint64_t row = slots_[slot] - uint64_t{1};
    if (indices.empty() || std::memcmp(table_->Row(row).data(), indices.data(), indices.size_bytes()) == 0) return row;
  }
  return std::nullopt;
}

}  // namespace tunefarm
