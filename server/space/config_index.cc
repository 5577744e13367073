#include "server/space/config_index.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "server/base/check.h"
#include "server/space/space_rules.h"

namespace tunefarm {
namespace {

constexpr uint64_t kMultiplier = 0x9e37'79b9'7f4a'7c15;

// Finds the rows whose every column is among a few values, by descending the table as a trie: its rows are sorted, so
// those that agree with the columns chosen so far stand together.
class BoxQuery {
 public:
  BoxQuery(const ConfigTable& table, const std::vector<std::vector<uint16_t>>& allowed, uint64_t limit,
           std::vector<uint64_t>* rows)
      : table_(table), allowed_(allowed), limit_(limit), rows_(rows) {}

  void Descend(size_t column, uint64_t begin, uint64_t end) {
    if (rows_->size() >= limit_) return;
    if (column == allowed_.size()) {
      rows_->push_back(begin);
      return;
    }
    for (const uint16_t value : allowed_[column]) {
      const uint64_t first = LowerBound(column, begin, end, value);
      if (first == end) return;
      if (table_.Row(first)[column] != value) {
        begin = first;
        continue;
      }
      const uint64_t last = LowerBound(column, first, end, static_cast<uint32_t>(value) + 1);
      Descend(column + 1, first, last);
      begin = last;
      if (begin == end) return;
    }
  }

 private:
  // The first row in [begin, end) whose column is at least `value`.
  uint64_t LowerBound(size_t column, uint64_t begin, uint64_t end, uint32_t value) const {
    // Gallop: what is sought is mostly near.
    uint64_t step = 1;
    uint64_t low = begin;
    while (low + step < end && table_.Row(low + step)[column] < value) {
      low += step;
      step *= 2;
    }
    end = std::min(end, low + step + 1);
    while (low < end) {
      const uint64_t middle = low + (end - low) / 2;
      if (table_.Row(middle)[column] < value) {
        low = middle + 1;
      } else {
        end = middle;
      }
    }
    return low;
  }

  const ConfigTable& table_;
  const std::vector<std::vector<uint16_t>>& allowed_;
  const uint64_t limit_;
  std::vector<uint64_t>* const rows_;
};

}  // namespace

ConfigIndex::ConfigIndex(const ConfigTable& table) : table_(&table) {
  const size_t width = static_cast<size_t>(table.parameter_count());
  TUNEFARM_CHECK(table.size() < UINT32_MAX);
  std::vector<uint16_t> largest(width, 0);
  for (uint64_t row = 0; row < table.size(); ++row) {
    const auto indices = table.Row(row);
    for (size_t column = 0; column < width; ++column) largest[column] = std::max(largest[column], indices[column]);
  }
  std::vector<size_t> begin(width + 1, 0);
  for (size_t column = 0; column < width; ++column) begin[column + 1] = begin[column] + largest[column] + 1;
  std::vector<uint8_t> seen(begin[width], 0);
  // At most two thirds full.
  const uint64_t capacity = std::bit_ceil(table.size() + table.size() / 2 + 2);
  mask_ = capacity - 1;
  slots_.resize(capacity, 0);
  for (uint64_t row = 0; row < table.size(); ++row) {
    const auto indices = table.Row(row);
    // Rows differ, so that none needs to be compared with another.
    uint64_t slot = HashRow(indices) & mask_;
    while (slots_[slot] != 0) slot = (slot + 1) & mask_;
    slots_[slot] = static_cast<uint32_t>(row + 1);
    for (size_t column = 0; column < width; ++column) seen[begin[column] + indices[column]] = 1;
  }
  occurring_.resize(width);
  for (size_t column = 0; column < width; ++column) {
    for (size_t value = 0; begin[column] + value < begin[column + 1]; ++value) {
      if (seen[begin[column] + value] != 0) occurring_[column].push_back(static_cast<uint16_t>(value));
    }
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

std::vector<uint64_t> ConfigIndex::Neighbours(std::span<const uint16_t> indices, Neighbourhood kind,
                                              uint64_t limit) const {
  TUNEFARM_CHECK(indices.size() == static_cast<size_t>(table_->parameter_count()));
  std::vector<uint64_t> rows;
  if (limit == 0) return rows;
  if (kind == Neighbourhood::kHamming) {
    std::vector<uint16_t> changed(indices.begin(), indices.end());
    for (size_t p = 0; p < indices.size(); ++p) {
      for (const uint16_t value : occurring_[p]) {
        if (value == indices[p]) continue;
        changed[p] = value;
        if (const auto row = Find(changed)) rows.push_back(*row);
      }
      changed[p] = indices[p];
    }
    std::sort(rows.begin(), rows.end());
    if (rows.size() > limit) rows.resize(limit);
    return rows;
  }
  if (indices.empty()) return rows;
  std::vector<std::vector<uint16_t>> allowed(indices.size());
  for (size_t p = 0; p < indices.size(); ++p) {
    allowed[p] = space_internal::WithinOneStep(occurring_[p], indices[p], kind == Neighbourhood::kStrictlyAdjacent);
  }
  // One more, as the config itself may be among them.
  BoxQuery(*table_, allowed, limit == UINT64_MAX ? limit : limit + 1, &rows).Descend(0, 0, table_->size());
  if (const auto self = Find(indices)) std::erase(rows, *self);
  if (rows.size() > limit) rows.resize(limit);
  return rows;
}

}  // namespace tunefarm
