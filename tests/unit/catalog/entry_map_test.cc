#include "server/catalog/entry_map.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "server/base/random.h"
#include "server/store/best_store.h"

namespace tunefarm {
namespace {

std::vector<const CatalogEntry*> Under(const EntryMap& map, uint64_t hash) {
  std::vector<const CatalogEntry*> found;
  map.ForEach(hash, [&](const auto& entry) { found.push_back(entry.get()); });
  std::sort(found.begin(), found.end());
  return found;
}

// All of one part of a map, of which there are 1024.
uint64_t OfOnePart(uint64_t number) { return number * 1024 + 5; }

TEST(EntryMap, FindsEntriesHoweverTheirHashesAreSpread) {
  PhiloxStream random(1, 1);
  const std::vector<std::function<uint64_t(uint64_t)>> spreads = {
      [](uint64_t i) { return i; },
      [](uint64_t i) { return ~i; },
      [](uint64_t i) { return OfOnePart(i / 3); },
      [](uint64_t i) { return ~OfOnePart(i / 3); },
      [](uint64_t i) { return i % 2 == 0 ? OfOnePart(i) : ~OfOnePart(i); },
      [](uint64_t i) { return i % 4 == 0 ? OfOnePart(7) : OfOnePart(i << 40); },
      [&](uint64_t) { return OfOnePart(random.UniformInt(uint64_t{1} << 54)); },
  };
  for (size_t spread = 0; spread < spreads.size(); ++spread) {
    SCOPED_TRACE(testing::Message() << "spread " << spread);
    std::vector<EntryMap::Item> items;
    for (uint64_t i = 0; i < 300; ++i) {
      items.emplace_back(spreads[spread](i), std::make_shared<CatalogEntry>(BestRow()));
    }
    EntryMap map({items.begin(), items.begin() + 150});
    for (size_t i = 150; i < items.size(); ++i) map.Insert(items[i].first, items[i].second);
    for (size_t i = 0; i < items.size(); i += 10) map.Erase(items[i].first, items[i].second.get());
    for (const auto& [hash, entry] : items) {
      std::vector<const CatalogEntry*> expected;
      for (size_t i = 0; i < items.size(); ++i) {
        if (i % 10 != 0 && items[i].first == hash) expected.push_back(items[i].second.get());
      }
      std::sort(expected.begin(), expected.end());
      ASSERT_EQ(Under(map, hash), expected) << hash;
    }
    EXPECT_TRUE(Under(map, OfOnePart(uint64_t{1} << 53) + 1).empty());
  }
}

}  // namespace
}  // namespace tunefarm
