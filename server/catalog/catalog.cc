#include "server/catalog/catalog.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/catalog/best_row.h"
#include "server/catalog/catalog_snapshot.h"
#include "server/catalog/change_log.h"
#include "server/catalog/entry_map.h"
#include "server/catalog/nearest_shapes.h"
#include "server/catalog/page_position.h"
#include "server/catalog/shape_index.h"
#include "server/definition/lookup_rules.h"
#include "server/definition/value_proto.h"

namespace tunefarm {

using tunefarm::v1::BestConfig;
using tunefarm::v1::Match;

namespace {

// Configs that the asked definition is asked about before the search among others is given up.
constexpr size_t kAskedMax = 256;

}  // namespace

Catalog::Catalog() : snapshot_(std::make_shared<CatalogSnapshot>()) {}
Catalog::~Catalog() = default;

std::shared_ptr<const CatalogSnapshot> Catalog::Current() const {
  MutexLock lock(&mutex_);
  return snapshot_;
}

int64_t Catalog::revision() const { return Current()->revision; }

int64_t Catalog::version() const {
  MutexLock lock(&mutex_);
  return version_;
}

std::vector<std::shared_ptr<const CatalogEntry>> Catalog::Entries() const {
  std::vector<std::shared_ptr<const CatalogEntry>> entries;
  Current()->by_key.ForEach([&](const auto& entry) { entries.push_back(entry); });
  return entries;
}

std::vector<std::pair<std::string, std::shared_ptr<const DeviceClass>>> Catalog::Classes() const {
  const auto now = Current();
  return {now->classes.begin(), now->classes.end()};
}

absl::Status Catalog::Load(Store* store) {
  CatalogContents contents;
  ASSIGN_OR_RETURN(contents.classes, store->devices()->ListDeviceClasses());
  // First, since others may be changing the rest: what came later is found by its revision.
  ASSIGN_OR_RETURN(contents.revision, store->bests()->CatalogRevision());
  ASSIGN_OR_RETURN(contents.bests, store->bests()->LoadBests());
  ASSIGN_OR_RETURN(contents.removals, store->bests()->LoadBestRemovals());
  return Load(contents);
}

absl::Status Catalog::Load(const CatalogContents& contents) {
  for (const DeviceClassRow& row : contents.classes) {
    tunefarm::v1::DeviceClass proto;
    if (!proto.ParseFromString(row.properties)) {
      return DataLoss("the stored properties of device class {} cannot be read", row.class_id);
    }
    ASSIGN_OR_RETURN(const DeviceClass device_class, DeviceClass::FromProto(proto));
    AddClass(row.class_id, device_class);
  }
  // One snapshot of all: row by row each would copy what the ones before it built.
  std::vector<EntryMap::Item> by_key, by_problem;
  std::map<std::string, std::shared_ptr<KernelShapes>> kernels;
  for (const BestRow& row : contents.bests) {
    ASSIGN_OR_RETURN(const auto entry, MakeEntry(row));
    auto& kernel = kernels[row.kernel_name];
    if (kernel == nullptr) kernel = std::make_shared<KernelShapes>();
    ++kernel->programs[row.program_digest];
    by_key.emplace_back(HashKey(*entry), entry);
    by_problem.emplace_back(HashProblem(*entry), entry);
  }
  MutexLock lock(&change_mutex_);
  auto snapshot = std::make_shared<CatalogSnapshot>();
  snapshot->classes = Current()->classes;
  snapshot->revision = contents.revision;
  snapshot->kernels.insert(kernels.begin(), kernels.end());
  snapshot->by_key = EntryMap(std::move(by_key));
  snapshot->by_problem = EntryMap(std::move(by_problem));
  snapshot->changes = std::make_shared<ChangeLog>(contents.revision, contents.removals);
  Publish(std::move(snapshot));
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const CatalogEntry>> Catalog::MakeEntry(const BestRow& row) {
  ASSIGN_OR_RETURN(BestConfig best, BestOfRow(row));
  auto entry = std::make_shared<CatalogEntry>(row);
  entry->median_ns = best.measurement().median_ns();
  entry->conditions = ConditionsOf(best);
  for (const auto& [name, value] : best.problem().dims()) {
    if (auto own = definition::FromProto(value); own.ok()) entry->dims.Set(name, *std::move(own));
  }
  entry->best = std::make_shared<BestConfig>(std::move(best));
  return entry;
}

absl::Status Catalog::Update(const BestRow& row) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const CatalogEntry> entry, MakeEntry(row));
  MutexLock lock(&change_mutex_);
  const auto now = Current();
  auto snapshot = std::make_shared<CatalogSnapshot>(*now);
  auto changes = std::make_shared<ChangeLog>(*now->changes);
  const CatalogEntry* const old = now->Find(row.program_digest, row.problem_key, row.class_id);  // under whatever name
  if (old != nullptr) {
    if (old->best->revision() >= row.revision) return absl::OkStatus();
    snapshot->Erase(*old);
    if (old->kernel_name != row.kernel_name) {
      changes->Removed(
          {{row.program_digest, row.problem_key, row.class_id}, std::string(old->kernel_name), row.revision});
    }
  }
  snapshot->Insert(entry);
  changes->Filed(entry);
  snapshot->changes = std::move(changes);
  snapshot->revision = std::max(snapshot->revision, row.revision);
  Publish(std::move(snapshot));
  return absl::OkStatus();
}

void Catalog::Remove(const BestKey& key, int64_t revision) {
  MutexLock lock(&change_mutex_);
  const auto now = Current();
  const CatalogEntry* const old = now->Find(key.program_digest, key.problem_key, key.class_id);
  if (old == nullptr || old->best->revision() >= revision) return;
  auto snapshot = std::make_shared<CatalogSnapshot>(*now);
  snapshot->Erase(*old);
  auto changes = std::make_shared<ChangeLog>(*now->changes);
  changes->Removed({key, std::string(old->kernel_name), revision});
  snapshot->changes = std::move(changes);
  snapshot->revision = std::max(snapshot->revision, revision);
  Publish(std::move(snapshot));
}

CatalogChanges Catalog::ChangesSince(int64_t revision, std::string_view kernel_name) const {
  const auto now = Current();
  CatalogChanges changes;
  changes.revision = now->revision;
  const auto is_asked = [&](const CatalogEntry& entry) {
    return kernel_name.empty() || entry.kernel_name == kernel_name;
  };
  const auto find = [&](std::string_view program, std::string_view problem, std::string_view class_id) {
    return now->Find(program, problem, class_id);
  };
  if (now->changes->Reaches(revision)) {
    for (const auto& entry : now->changes->FiledSince(revision)) {
      const bool is_there = find(entry->program_digest, entry->problem_key, entry->class_id) == entry.get();
      if (is_there && is_asked(*entry)) changes.bests.push_back(entry->best);
    }
  } else {
    now->by_key.ForEach([&](const auto& entry) {
      if (is_asked(*entry) && entry->best->revision() > revision) changes.bests.push_back(entry->best);
    });
  }
  if (revision <= 0) return changes;
  for (const auto& removal : now->changes->RemovedSince(revision)) {
    if (!kernel_name.empty() && removal->kernel_name != kernel_name) continue;
    const BestKey& key = removal->key;
    const CatalogEntry* const entry = find(key.program_digest, key.problem_key, key.class_id);
    if (entry == nullptr || !is_asked(*entry)) changes.removed.push_back(key);
  }
  return changes;
}

void Catalog::AddClass(std::string_view class_id, const DeviceClass& device_class) {
  MutexLock lock(&change_mutex_);
  auto snapshot = std::make_shared<CatalogSnapshot>(*Current());
  snapshot->classes.insert_or_assign(std::string(class_id), std::make_shared<DeviceClass>(device_class));
  Publish(std::move(snapshot));
}

// What is replaced may be the last of its kind, which takes time to free: that is after the lock that readers take.
void Catalog::Publish(std::shared_ptr<const CatalogSnapshot> snapshot) const {
  MutexLock lock(&mutex_);
  snapshot_.swap(snapshot);
  ++version_;
}

std::shared_ptr<const CatalogSnapshot> Catalog::WithIndex(std::string_view kernel_name,
                                                          const ScalingDims& scaling_dims) const {
  MutexLock lock(&change_mutex_);
  const auto now = Current();
  const KernelShapes* const known = now->Shapes(kernel_name);
  if (known == nullptr || known->Find(scaling_dims) != nullptr) return now;
  std::vector<std::shared_ptr<const CatalogEntry>> entries;
  now->by_key.ForEach([&](const auto& entry) {
    if (entry->kernel_name == kernel_name) entries.push_back(entry);
  });
  auto kernel = std::make_shared<KernelShapes>(*known);
  if (kernel->indexes.size() == KernelShapes::kIndexesMax) kernel->indexes.erase(kernel->indexes.begin());
  kernel->indexes.push_back(std::make_shared<ShapeIndex>(scaling_dims, entries));
  auto snapshot = std::make_shared<CatalogSnapshot>(*now);
  snapshot->kernels.find(kernel_name)->second = std::move(kernel);
  Publish(snapshot);
  return snapshot;
}

std::shared_ptr<const BestConfig> Catalog::Find(std::string_view program_digest, std::string_view problem_key,
                                                std::string_view class_id) const {
  const auto snapshot = Current();
  const CatalogEntry* const entry = snapshot->Find(program_digest, problem_key, class_id);
  return entry == nullptr ? nullptr : entry->best;
}

Catalog::View Catalog::Read(std::string_view program_digest, std::string_view class_id) const {
  return View(Current(), program_digest, class_id);
}

Catalog::View::View(std::shared_ptr<const CatalogSnapshot> snapshot, std::string_view program_digest,
                    std::string_view class_id)
    : snapshot_(std::move(snapshot)),
      program_digest_(program_digest),
      class_id_(class_id),
      owner_hash_(HashOfOwner(program_digest, class_id)) {}

const CatalogEntry* Catalog::View::Find(std::string_view problem_key) const {
  return snapshot_->Find(owner_hash_, program_digest_, problem_key, class_id_);
}

int64_t Catalog::View::revision() const { return snapshot_->revision; }

std::shared_ptr<const BestConfig> Catalog::OfOtherProgram(const CatalogSnapshot& snapshot, const CatalogQuery& query,
                                                          Acceptance* acceptance) {
  std::vector<const CatalogEntry*> found = snapshot.OfProblem(query, query.class_id);
  return FirstAccepted(&found, query, acceptance);
}

std::shared_ptr<const BestConfig> Catalog::OfOtherClass(const CatalogSnapshot& snapshot, const ShapeIndex& index,
                                                        const CatalogQuery& query, Acceptance* acceptance) {
  const KernelPlan& plan = *query.plan;
  const Config& dims = query.problem->dims;
  const bool has_inputs = std::any_of(plan.kernel().dims().begin(), plan.kernel().dims().end(),
                                      [](const tunefarm::v1::Dim& dim) { return dim.inputs_only(); });
  const auto own = snapshot.classes.find(query.class_id);
  const int capability =
      own != snapshot.classes.end() ? own->second->compute_capability : query.device_class->compute_capability;
  std::vector<const CatalogEntry*> found, of_other_inputs;
  for (const auto& [class_id, device_class] : snapshot.classes) {
    if (capability <= 0 || class_id == query.class_id || device_class->compute_capability != capability) continue;
    const std::vector<const CatalogEntry*> same = snapshot.OfProblem(query, class_id);
    found.insert(found.end(), same.begin(), same.end());
    if (!has_inputs) continue;
    for (const CatalogEntry* const entry : NearestShapes(plan, index, index.Place(class_id, dims)).Next()) {
      if (entry->class_id == class_id && DifferInInputsOnly(plan, dims, entry->dims)) of_other_inputs.push_back(entry);
    }
  }
  auto best = FirstAccepted(&found, query, acceptance);
  return best != nullptr ? best : FirstAccepted(&of_other_inputs, query, acceptance);
}

// The asked program's own first, then those of the usual inputs, then the latest: as promoted, whatever was noted about
// it since.
std::shared_ptr<const BestConfig> Catalog::FirstAccepted(std::vector<const CatalogEntry*>* entries,
                                                         const CatalogQuery& query, Acceptance* acceptance) {
  const Config defaults = InputDefaults(query.plan->kernel());
  const auto rank = [&](const CatalogEntry* entry) {
    return std::make_tuple(entry->program_digest != query.program_digest(), InputsOffDefault(defaults, entry->dims),
                           -entry->best->promoted_at_ms(), -entry->best->revision());
  };
  std::sort(entries->begin(), entries->end(), [&](const auto* a, const auto* b) { return rank(a) < rank(b); });
  if (entries->size() > kAskedMax) entries->resize(kAskedMax);
  for (const CatalogEntry* const entry : *entries) {
    if (acceptance->Accepts(*entry->best)) return entry->best;
  }
  return nullptr;
}

CatalogAnswer Catalog::NearShape(const CatalogSnapshot& snapshot, const ShapeIndex& index, const CatalogQuery& query,
                                 Acceptance* acceptance) {
  const Config& dims = query.problem->dims;
  NearestShapes nearest(*query.plan, index, index.Place(query.class_id, dims));
  CatalogAnswer answer;
  answer.revision = snapshot.revision;
  for (size_t asked = 0; asked < kAskedMax;) {
    std::vector<const CatalogEntry*> shapes = nearest.Next();
    if (shapes.empty()) break;
    asked += shapes.size();
    std::erase_if(shapes, [&](const CatalogEntry* entry) {
      return entry->class_id != query.class_id || entry->problem_key == query.problem->key ||
             !ShapeDistance(*query.plan, dims, entry->dims);
    });
    if (shapes.empty()) continue;
    answer.distance = *ShapeDistance(*query.plan, dims, shapes.front()->dims);
    answer.best = FirstAccepted(&shapes, query, acceptance);
    if (answer.best == nullptr) continue;
    answer.match = tunefarm::v1::MATCH_NEAREST_SHAPE;
    return answer;
  }
  answer.distance = 0;
  return answer;
}

CatalogAnswer Catalog::Lookup(const CatalogQuery& query) const {
  const Match worst = query.worst == tunefarm::v1::MATCH_UNSPECIFIED ? tunefarm::v1::MATCH_DEFAULT : query.worst;
  const std::string& name = query.plan->display_name();
  auto snapshot = Current();
  const auto answer = [&](std::shared_ptr<const BestConfig> best, Match match) {
    CatalogAnswer made;
    made.revision = snapshot->revision;
    if (best == nullptr || match > worst) return made;
    made.best = std::move(best);
    made.match = match;
    return made;
  };
  const auto exact = [&] {
    const auto own = snapshot->Find(query.program_digest(), query.problem->key, query.class_id);
    if (own == nullptr) return answer(nullptr, tunefarm::v1::MATCH_NOT_FOUND);
    return answer(own->best, IsStale(query, *own->best) ? tunefarm::v1::MATCH_STALE : tunefarm::v1::MATCH_EXACT);
  };
  CatalogAnswer found = exact();
  if (found.best != nullptr || worst < tunefarm::v1::MATCH_STALE_SOURCE) return found;

  Acceptance acceptance(query);
  if (snapshot->Shapes(name) != nullptr) {
    const ScalingDims scaling_dims = ScalingDimsOf(query.plan->kernel());
    const ShapeIndex* index = snapshot->Shapes(name)->Find(scaling_dims);
    if (index == nullptr && worst >= tunefarm::v1::MATCH_NEAREST_SHAPE) {
      snapshot = WithIndex(name, scaling_dims);
      found = exact();  // may have been promoted meanwhile
      if (found.best != nullptr) return found;
      const KernelShapes* const shapes = snapshot->Shapes(name);
      index = shapes == nullptr ? nullptr : shapes->Find(scaling_dims);
    }
    found = answer(OfOtherProgram(*snapshot, query, &acceptance), tunefarm::v1::MATCH_STALE_SOURCE);
    if (found.best != nullptr || worst < tunefarm::v1::MATCH_NEAREST_SHAPE) return found;
    if (index != nullptr) found = NearShape(*snapshot, *index, query, &acceptance);
    if (found.best != nullptr || worst < tunefarm::v1::MATCH_SAME_ARCH) return found;
    if (index != nullptr) {
      found = answer(OfOtherClass(*snapshot, *index, query, &acceptance), tunefarm::v1::MATCH_SAME_ARCH);
    }
    if (found.best != nullptr) return found;
  }

  const Config config = query.plan->DefaultConfig(*query.problem);
  if (worst < tunefarm::v1::MATCH_DEFAULT || !acceptance.Accepts(config)) {
    return answer(nullptr, tunefarm::v1::MATCH_NOT_FOUND);
  }
  auto best = std::make_shared<BestConfig>();
  *best->mutable_config() = query.plan->ToProto(config);
  return answer(std::move(best), tunefarm::v1::MATCH_DEFAULT);
}

int Catalog::CountOtherPrograms(const CatalogQuery& query) const {
  const auto snapshot = Current();
  const KernelShapes* const shapes = snapshot->Shapes(query.plan->display_name());
  if (shapes == nullptr || shapes->programs.size() == shapes->programs.count(query.program_digest())) return 0;
  const std::vector<const CatalogEntry*> found = snapshot->OfProblem(query, query.class_id);
  return static_cast<int>(std::count_if(found.begin(), found.end(), [&](const CatalogEntry* entry) {
    return entry->program_digest != query.program_digest();
  }));
}

absl::StatusOr<std::pair<std::vector<std::shared_ptr<const BestConfig>>, std::string>> Catalog::List(
    std::string_view kernel_name, int page_size, std::string_view page_token, std::string_view program_digest,
    std::string_view class_id) const {
  std::string after;
  if (!page_token.empty()) {
    ASSIGN_OR_RETURN(after, PositionOfToken(page_token));
  }
  std::vector<std::pair<std::string, std::shared_ptr<const BestConfig>>> rest;
  Current()->by_key.ForEach([&](const auto& entry) {
    if (!kernel_name.empty() && entry->kernel_name != kernel_name) return;
    if (!program_digest.empty() && entry->program_digest != program_digest) return;
    if (!class_id.empty() && entry->class_id != class_id) return;
    std::string position = PagePosition(*entry);
    if (position > after) rest.emplace_back(std::move(position), entry->best);
  });
  // A listing is rare and its pages are few: nothing is kept in order for it.
  const size_t size = std::min(rest.size(), static_cast<size_t>(std::max(page_size, 1)));
  std::partial_sort(rest.begin(), rest.begin() + static_cast<ptrdiff_t>(size), rest.end(),
                    [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::shared_ptr<const BestConfig>> page;
  for (size_t i = 0; i < size; ++i) page.push_back(std::move(rest[i].second));
  return std::make_pair(std::move(page), size == rest.size() ? std::string() : PageToken(rest[size - 1].first));
}

}  // namespace tunefarm
