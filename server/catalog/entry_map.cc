#include "server/catalog/entry_map.h"

namespace tunefarm {

EntryMap::EntryMap(std::vector<Item> items) {
  std::sort(items.begin(), items.end(), [](const Item& a, const Item& b) { return a.first < b.first; });
  std::array<std::shared_ptr<Part>, kParts> parts;
  for (Item& item : items) {
    std::shared_ptr<Part>& part = parts[item.first % kParts];
    if (part == nullptr) part = std::make_shared<Part>();
    part->push_back(std::move(item));
  }
  std::copy(parts.begin(), parts.end(), parts_.begin());
}

void EntryMap::Insert(uint64_t hash, std::shared_ptr<const CatalogEntry> entry) {
  std::shared_ptr<const Part>& shared = parts_[hash % kParts];
  auto part = shared == nullptr ? std::make_shared<Part>() : std::make_shared<Part>(*shared);
  part->emplace(std::lower_bound(part->begin(), part->end(), hash, IsBefore), hash, std::move(entry));
  shared = std::move(part);
}

void EntryMap::Erase(uint64_t hash, const CatalogEntry* entry) {
  std::shared_ptr<const Part>& shared = parts_[hash % kParts];
  if (shared == nullptr) return;
  auto part = std::make_shared<Part>(*shared);
  std::erase_if(*part, [&](const Item& item) { return item.first == hash && item.second.get() == entry; });
  shared = std::move(part);
}

}  // namespace tunefarm
