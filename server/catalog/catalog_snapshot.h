// CatalogSnapshot: the bests at one revision. A catalog publishes a changed copy, which shares what did not change.
// Immutable once published; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/catalog/catalog_entry.h"
#include "server/catalog/change_log.h"
#include "server/catalog/entry_map.h"
#include "server/catalog/match_rules.h"
#include "server/catalog/shape_index.h"
#include "server/device/device_class.h"

namespace tunefarm {

// Of a program or a kernel name, and a class: the questions of a batch have it in common.
uint64_t HashOfOwner(std::string_view program_or_name, std::string_view class_id);
// Of what by_key and by_problem file an entry under.
uint64_t HashKey(const CatalogEntry& entry);
uint64_t HashProblem(const CatalogEntry& entry);

// The bests of one kernel name. Immutable once in a snapshot.
struct KernelShapes {
  // One for each set of scaling dims that definitions of the name have, the one that was first asked for first.
  static constexpr size_t kIndexesMax = 4;

  std::map<std::string, size_t, std::less<>> programs;  // how many bests each has
  std::vector<std::shared_ptr<const ShapeIndex>> indexes;

  const ShapeIndex* Find(const ScalingDims& scaling_dims) const;
};

struct CatalogSnapshot {
  int64_t revision = 0;
  EntryMap by_key;      // names share programs, and a key has one best under whatever name
  EntryMap by_problem;  // by kernel name, problem and class, of whatever program
  std::shared_ptr<const ChangeLog> changes = std::make_shared<ChangeLog>();
  std::map<std::string, std::shared_ptr<const KernelShapes>, std::less<>> kernels;
  std::map<std::string, std::shared_ptr<const DeviceClass>, std::less<>> classes;

  // Of a copy that is not published, which has no entry of this key.
  void Insert(const std::shared_ptr<const CatalogEntry>& entry);
  // One that is filed.
  void Erase(const CatalogEntry& entry);

  // The best of exactly this key; null if there is none.
  const CatalogEntry* Find(std::string_view program_digest, std::string_view problem_key,
                           std::string_view class_id) const;
  // The same, with the HashOfOwner of program and class.
  const CatalogEntry* Find(uint64_t owner_hash, std::string_view program_digest, std::string_view problem_key,
                           std::string_view class_id) const;
  // Of the asked problem and a class, of whatever program of the name.
  std::vector<const CatalogEntry*> OfProblem(const CatalogQuery& query, std::string_view class_id) const;
  // Null if nothing is filed under the name.
  const KernelShapes* Shapes(std::string_view kernel_name) const;
};

}  // namespace tunefarm
