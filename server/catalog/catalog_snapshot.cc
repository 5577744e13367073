#include "server/catalog/catalog_snapshot.h"

#include <utility>

#include "server/base/hash.h"
#include "server/definition/kernel_plan.h"

namespace tunefarm {
namespace {

uint64_t Join(uint64_t hash, std::string_view next) { return hash * 0x9E3779B97F4A7C15u + Xxh3(next); }

}  // namespace

uint64_t HashOfOwner(std::string_view program_or_name, std::string_view class_id) {
  return Join(Xxh3(program_or_name), class_id);
}

uint64_t HashKey(const CatalogEntry& entry) {
  return Join(HashOfOwner(entry.program_digest, entry.class_id), entry.problem_key);
}

uint64_t HashProblem(const CatalogEntry& entry) {
  return Join(HashOfOwner(entry.kernel_name, entry.class_id), entry.problem_key);
}

const ShapeIndex* KernelShapes::Find(const ScalingDims& scaling_dims) const {
  for (const auto& index : indexes) {
    if (index->scaling_dims() == scaling_dims) return index.get();
  }
  return nullptr;
}

void CatalogSnapshot::Insert(const std::shared_ptr<const CatalogEntry>& entry) {
  by_key.Insert(HashKey(*entry), entry);
  by_problem.Insert(HashProblem(*entry), entry);
  auto& slot = kernels[std::string(entry->kernel_name)];
  auto kernel = slot == nullptr ? std::make_shared<KernelShapes>() : std::make_shared<KernelShapes>(*slot);
  ++kernel->programs[std::string(entry->program_digest)];
  for (auto& index : kernel->indexes) {
    auto changed = std::make_shared<ShapeIndex>(*index);
    changed->Insert(entry);
    index = std::move(changed);
  }
  slot = std::move(kernel);
}

void CatalogSnapshot::Erase(const CatalogEntry& entry) {
  by_key.Erase(HashKey(entry), &entry);
  by_problem.Erase(HashProblem(entry), &entry);
  const auto named = kernels.find(entry.kernel_name);
  auto kernel = std::make_shared<KernelShapes>(*named->second);
  const auto program = kernel->programs.find(entry.program_digest);
  if (--program->second == 0) kernel->programs.erase(program);
  for (auto& index : kernel->indexes) {
    auto changed = std::make_shared<ShapeIndex>(*index);
    changed->Erase(entry);
    index = std::move(changed);
  }
  if (kernel->programs.empty()) {
    kernels.erase(named);
  } else {
    named->second = std::move(kernel);
  }
}

const CatalogEntry* CatalogSnapshot::Find(std::string_view program_digest, std::string_view problem_key,
                                          std::string_view class_id) const {
  return Find(HashOfOwner(program_digest, class_id), program_digest, problem_key, class_id);
}

const CatalogEntry* CatalogSnapshot::Find(uint64_t owner_hash, std::string_view program_digest,
                                          std::string_view problem_key, std::string_view class_id) const {
  const CatalogEntry* found = nullptr;
  by_key.ForEach(Join(owner_hash, problem_key), [&](const auto& entry) {
    if (entry->problem_key == problem_key && entry->program_digest == program_digest && entry->class_id == class_id) {
      found = entry.get();
    }
  });
  return found;
}

std::vector<const CatalogEntry*> CatalogSnapshot::OfProblem(const CatalogQuery& query,
                                                            std::string_view class_id) const {
  const std::string& name = query.plan->display_name();
  const std::string& key = query.problem->key;
  std::vector<const CatalogEntry*> found;
  by_problem.ForEach(Join(HashOfOwner(name, class_id), key), [&](const auto& entry) {
    if (entry->kernel_name == name && entry->problem_key == key && entry->class_id == class_id) {
      found.push_back(entry.get());
    }
  });
  return found;
}

const KernelShapes* CatalogSnapshot::Shapes(std::string_view kernel_name) const {
  const auto found = kernels.find(kernel_name);
  return found == kernels.end() ? nullptr : found->second.get();
}

}  // namespace tunefarm
