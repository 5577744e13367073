// EntryMap: catalog entries by a 64-bit hash, made to be copied. Copies share 1024 parts, and a change copies the one
// part that it is in, so that each promotion can have a snapshot of its own among a hundred thousand entries.
//
// Threads: a map that others may read is const; a writer changes its own copy.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "server/catalog/catalog_entry.h"

namespace tunefarm {

class EntryMap {
 public:
  using Item = std::pair<uint64_t, std::shared_ptr<const CatalogEntry>>;  // entry under its hash; hashes may repeat

  EntryMap() = default;
  explicit EntryMap(std::vector<Item> items);

  void Insert(uint64_t hash, std::shared_ptr<const CatalogEntry> entry);
  // Takes out this very entry; nothing if it is not there.
  void Erase(uint64_t hash, const CatalogEntry* entry);

  // Calls `use` with each entry (a shared_ptr) under this hash; others may be among them whose hash is the same by
  // chance.
  template <typename Use>
  void ForEach(uint64_t hash, const Use& use) const {
    const Part* const part = parts_[hash % kParts].get();
    if (part == nullptr) return;
    // Hashes are spread evenly: the first item of this one is near, and the way there reads fewer lines of memory than
    // a binary search.
    size_t at = static_cast<size_t>((hash >> 32) * part->size() >> 32);
    while (at > 0 && (*part)[at - 1].first >= hash) --at;
    while (at < part->size() && (*part)[at].first < hash) ++at;
    for (; at < part->size() && (*part)[at].first == hash; ++at) use((*part)[at].second);
  }

  // All entries, in no order that means anything.
  template <typename Use>
  void ForEach(const Use& use) const {
    for (const auto& part : parts_) {
      if (part == nullptr) continue;
      for (const Item& item : *part) use(item.second);
    }
  }

 private:
  using Part = std::vector<Item>;  // by hash
  static constexpr size_t kParts = 1024;

  static bool IsBefore(const Item& item, uint64_t hash) { return item.first < hash; }

  std::array<std::shared_ptr<const Part>, kParts> parts_;  // null: empty
};

}  // namespace tunefarm
