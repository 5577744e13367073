#include "server/catalog/catalog.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>

#include "server/base/hash.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/definition/value_proto.h"

namespace tunefarm {

using tunefarm::v1::BestConfig;
using tunefarm::v1::Match;

struct Catalog::Entry {
  std::string kernel_name, program_digest, problem_key, class_id;
  Config dims;  // of the problem it was tuned for
  std::shared_ptr<const BestConfig> best;

  auto Key() const { return std::tie(class_id, problem_key, program_digest); }
};

// All bests of one kernel name, by Key(). Immutable once in a snapshot.
struct Catalog::KernelIndex {
  std::vector<std::shared_ptr<const Entry>> entries;

  auto At(const Entry& entry) {
    return std::lower_bound(entries.begin(), entries.end(), entry,
                            [](const auto& a, const Entry& b) { return a->Key() < b.Key(); });
  }
};

// One part of all bests, by the hash of Key(): names share programs, and a key has one best under whatever name.
// Immutable once in a snapshot.
struct Catalog::KeyIndex {
  std::unordered_multimap<uint64_t, std::shared_ptr<const Entry>> by_hash;
};

struct Catalog::Snapshot {
  static constexpr size_t kParts = 256;  // what a promotion copies is one of them

  int64_t revision = 0;
  std::map<std::string, std::shared_ptr<const KernelIndex>, std::less<>> kernels;
  std::array<std::shared_ptr<const KeyIndex>, kParts> by_key;  // null: empty
  std::map<std::string, std::shared_ptr<const DeviceClass>, std::less<>> classes;

  // The best of exactly this key; null if there is none.
  std::shared_ptr<const Entry> Find(std::string_view program_digest, std::string_view problem_key,
                                    std::string_view class_id) const;
};

namespace {

uint64_t HashKey(std::string_view program_digest, std::string_view problem_key, std::string_view class_id) {
  uint64_t hash = Xxh3(program_digest);
  for (std::string_view part : {problem_key, class_id}) hash = hash * 0x9E3779B97F4A7C15u + Xxh3(part);
  return hash;
}

size_t BucketOf(const tunefarm::v1::Dim& dim, int64_t value) {
  return static_cast<size_t>(std::lower_bound(dim.bucket_bounds().begin(), dim.bucket_bounds().end(), value) -
                             dim.bucket_bounds().begin());
}

// Of definitions that say nothing: four doublings.
constexpr double kDistanceMax = 4;

// The distance between two problems by the dims' rules; none if a rule forbids the match or it is too far.
std::optional<double> Distance(const KernelPlan& plan, const Config& asked, const Config& tuned) {
  if (asked.size() != tuned.size()) return std::nullopt;
  double distance = 0;
  for (const auto& [name, a] : asked) {
    const Value* b = tuned.Find(name);
    if (b == nullptr) return std::nullopt;
    if (a == *b) continue;
    const tunefarm::v1::Dim* dim = nullptr;
    for (const auto& candidate : plan.kernel().dims()) {
      if (candidate.name() == name) dim = &candidate;
    }
    if (dim == nullptr || !a.is_int() || !b->is_int()) return std::nullopt;
    switch (dim->lookup()) {
      case tunefarm::v1::LOOKUP_RULE_LOG:
        if (a.int_value() <= 0 || b->int_value() <= 0) return std::nullopt;
        distance += std::abs(std::log2(static_cast<double>(a.int_value()) / static_cast<double>(b->int_value())));
        break;
      case tunefarm::v1::LOOKUP_RULE_BUCKET:
        if (BucketOf(*dim, a.int_value()) != BucketOf(*dim, b->int_value())) return std::nullopt;
        break;
      default:
        return std::nullopt;
    }
  }
  const double farthest = plan.kernel().has_lookup_distance_max() ? plan.kernel().lookup_distance_max() : kDistanceMax;
  return distance <= farthest ? std::make_optional(distance) : std::nullopt;
}

// Whether the asked definition accepts a config from elsewhere. The space is built on the first question.
class Acceptance {
 public:
  explicit Acceptance(const CatalogQuery& query) : query_(query) {}

  bool Accepts(const BestConfig& best) {
    const auto config = query_.plan->ParseConfig(best.config());
    return config.ok() && Accepts(*config);
  }

  bool Accepts(const Config& config) {
    for (const auto& [name, value] : query_.problem->pinned) {
      const Value* own = config.Find(name);
      if (own == nullptr || !(*own == value)) return false;
    }
    if (!tried_) {
      tried_ = true;
      auto space = query_.plan->BuildSpace(*query_.problem, *query_.device_class);
      if (space.ok()) space_ = *std::move(space);
    }
    return space_.has_value() && space_->Contains(config);
  }

 private:
  const CatalogQuery& query_;
  bool tried_ = false;
  std::optional<Space> space_;
};

bool IsStale(const CatalogQuery& query, const BestConfig& best) {
  const auto differs = [](std::string_view asked, std::string_view measured) {
    return !asked.empty() && !measured.empty() && asked != measured;
  };
  return differs(query.driver_version, best.driver_version()) || differs(query.toolkit_version, best.toolkit_version());
}

std::string Hex(std::string_view bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  hex.reserve(bytes.size() * 2);
  for (unsigned char c : bytes) {
    hex += kDigits[c >> 4];
    hex += kDigits[c & 15];
  }
  return hex;
}

std::optional<std::string> Unhex(std::string_view hex) {
  const auto digit = [](char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; };
  if (hex.size() % 2 != 0 || hex.size() > 16384) return std::nullopt;
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2) {
    const int high = digit(hex[i]), low = digit(hex[i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    bytes += static_cast<char>(high * 16 + low);
  }
  return bytes;
}

constexpr char kSeparator = '\x1f';

std::string PagePosition(std::string_view kernel_name, std::string_view class_id, std::string_view problem_key,
                         std::string_view program_digest) {
  std::string position(kernel_name);
  for (std::string_view part : {class_id, problem_key, program_digest}) {
    position += kSeparator;
    position += part;
  }
  return position;
}

absl::Status BadToken() {
  return WithReason(InvalidArgument("the page token is not one of this list; start again without one"),
                    "PAGE_TOKEN_INVALID");
}

}  // namespace

std::shared_ptr<const Catalog::Entry> Catalog::Snapshot::Find(std::string_view program_digest,
                                                              std::string_view problem_key,
                                                              std::string_view class_id) const {
  const uint64_t hash = HashKey(program_digest, problem_key, class_id);
  const auto& part = by_key[hash % kParts];
  if (part == nullptr) return nullptr;
  const auto [first, last] = part->by_hash.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    const Entry& entry = *it->second;
    if (entry.program_digest == program_digest && entry.problem_key == problem_key && entry.class_id == class_id) {
      return it->second;
    }
  }
  return nullptr;
}

Catalog::Catalog() : snapshot_(std::make_shared<Snapshot>()) {}
Catalog::~Catalog() = default;

std::shared_ptr<const Catalog::Snapshot> Catalog::Current() const {
  MutexLock lock(&mutex_);
  return snapshot_;
}

int64_t Catalog::revision() const { return Current()->revision; }

absl::Status Catalog::Load(Store* store) {
  ASSIGN_OR_RETURN(const std::vector<DeviceClassRow> classes, store->ListDeviceClasses());
  for (const DeviceClassRow& row : classes) {
    tunefarm::v1::DeviceClass proto;
    if (!proto.ParseFromString(row.properties)) {
      return DataLoss("the stored properties of device class {} cannot be read", row.class_id);
    }
    ASSIGN_OR_RETURN(const DeviceClass device_class, DeviceClass::FromProto(proto));
    AddClass(row.class_id, device_class);
  }
  ASSIGN_OR_RETURN(const std::vector<BestRow> bests, store->LoadBests());
  // One snapshot of all: row by row each would copy what the ones before it built.
  int64_t revision = 0;
  std::map<std::string, std::shared_ptr<KernelIndex>> kernels;
  std::array<std::shared_ptr<KeyIndex>, Snapshot::kParts> by_key;
  for (const BestRow& row : bests) {
    ASSIGN_OR_RETURN(auto entry, MakeEntry(row));
    auto& kernel = kernels[row.kernel_name];
    if (kernel == nullptr) kernel = std::make_shared<KernelIndex>();
    kernel->entries.push_back(entry);
    const uint64_t hash = HashKey(row.program_digest, row.problem_key, row.class_id);
    auto& part = by_key[hash % Snapshot::kParts];
    if (part == nullptr) part = std::make_shared<KeyIndex>();
    part->by_hash.emplace(hash, std::move(entry));
    revision = std::max(revision, row.revision);
  }
  for (auto& [name, kernel] : kernels) {
    std::sort(kernel->entries.begin(), kernel->entries.end(),
              [](const auto& a, const auto& b) { return a->Key() < b->Key(); });
  }
  MutexLock lock(&mutex_);
  auto snapshot = std::make_shared<Snapshot>();
  snapshot->classes = snapshot_->classes;
  snapshot->revision = revision;
  snapshot->kernels.insert(kernels.begin(), kernels.end());
  std::copy(by_key.begin(), by_key.end(), snapshot->by_key.begin());
  snapshot_ = std::move(snapshot);
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const Catalog::Entry>> Catalog::MakeEntry(const BestRow& row) {
  auto best = std::make_shared<BestConfig>();
  if (!best->ParseFromString(row.detail)) {
    return DataLoss("the stored best config of kernel {} for {} cannot be read", row.kernel_name, row.problem_key);
  }
  best->set_revision(row.revision);
  auto entry = std::make_shared<Entry>();
  entry->kernel_name = row.kernel_name;
  entry->program_digest = row.program_digest;
  entry->problem_key = row.problem_key;
  entry->class_id = row.class_id;
  for (const auto& [name, value] : best->problem().dims()) {
    if (auto own = definition::FromProto(value); own.ok()) entry->dims.Set(name, *std::move(own));
  }
  entry->best = std::move(best);
  return entry;
}

absl::Status Catalog::Update(const BestRow& row) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const Entry> entry, MakeEntry(row));
  MutexLock lock(&mutex_);
  auto snapshot = std::make_shared<Snapshot>(*snapshot_);
  const auto old = snapshot->Find(row.program_digest, row.problem_key, row.class_id);
  if (old != nullptr) {  // under this name or another one
    auto& slot = snapshot->kernels.at(old->kernel_name);
    auto index = std::make_shared<KernelIndex>(*slot);
    index->entries.erase(index->At(*old));
    slot = std::move(index);
    if (slot->entries.empty()) snapshot->kernels.erase(old->kernel_name);
  }
  auto& slot = snapshot->kernels[row.kernel_name];
  auto index = slot == nullptr ? std::make_shared<KernelIndex>() : std::make_shared<KernelIndex>(*slot);
  index->entries.insert(index->At(*entry), entry);
  slot = std::move(index);

  const uint64_t hash = HashKey(row.program_digest, row.problem_key, row.class_id);
  auto& shared_part = snapshot->by_key[hash % Snapshot::kParts];
  auto part = shared_part == nullptr ? std::make_shared<KeyIndex>() : std::make_shared<KeyIndex>(*shared_part);
  const auto [first, last] = part->by_hash.equal_range(hash);
  const auto replaced = std::find_if(first, last, [&](const auto& item) { return item.second == old; });
  if (replaced != last) {
    replaced->second = entry;
  } else {
    part->by_hash.emplace(hash, entry);
  }
  shared_part = std::move(part);
  snapshot->revision = std::max(snapshot->revision, row.revision);
  snapshot_ = std::move(snapshot);
  return absl::OkStatus();
}

void Catalog::AddClass(std::string_view class_id, const DeviceClass& device_class) {
  MutexLock lock(&mutex_);
  auto snapshot = std::make_shared<Snapshot>(*snapshot_);
  snapshot->classes.insert_or_assign(std::string(class_id), std::make_shared<DeviceClass>(device_class));
  snapshot_ = std::move(snapshot);
}

std::shared_ptr<const BestConfig> Catalog::Find(std::string_view program_digest, std::string_view problem_key,
                                                std::string_view class_id) const {
  const auto entry = Current()->Find(program_digest, problem_key, class_id);
  return entry == nullptr ? nullptr : entry->best;
}

CatalogAnswer Catalog::Lookup(const CatalogQuery& query) const {
  const auto snapshot = Current();
  const Match worst = query.worst == tunefarm::v1::MATCH_UNSPECIFIED ? tunefarm::v1::MATCH_DEFAULT : query.worst;
  CatalogAnswer none;
  none.revision = snapshot->revision;
  const auto answer = [&](std::shared_ptr<const BestConfig> best, Match match, double distance = 0) {
    if (match > worst) return none;
    return CatalogAnswer{std::move(best), match, distance, snapshot->revision};
  };
  Acceptance acceptance(query);

  const std::string& program = query.plan->program_digest();
  const std::string& key = query.problem->key;
  if (const auto entry = snapshot->Find(program, key, query.class_id)) {
    return answer(entry->best, IsStale(query, *entry->best) ? tunefarm::v1::MATCH_STALE : tunefarm::v1::MATCH_EXACT);
  }
  if (worst < tunefarm::v1::MATCH_STALE_SOURCE) return none;

  const auto found = snapshot->kernels.find(std::string_view(query.plan->display_name()));
  if (found != snapshot->kernels.end()) {
    const KernelIndex& index = *found->second;
    // From here on every candidate is ranked, best first, and the first one that the definition accepts answers.
    struct Candidate {
      Match match;
      double distance;
      bool other_program;
      int64_t revision;
      const Entry* entry;
    };
    std::vector<Candidate> candidates;
    const auto own_class = snapshot->classes.find(query.class_id);
    const int capability = own_class != snapshot->classes.end() ? own_class->second->compute_capability
                                                                : query.device_class->compute_capability;
    for (const auto& entry : index.entries) {
      const bool other_program = entry->program_digest != program;
      const bool same_problem = entry->problem_key == key;
      Candidate candidate{tunefarm::v1::MATCH_NOT_FOUND, 0, other_program, entry->best->revision(), entry.get()};
      if (entry->class_id == query.class_id) {
        if (same_problem) {
          candidate.match = tunefarm::v1::MATCH_STALE_SOURCE;
        } else if (const auto distance = Distance(*query.plan, query.problem->dims, entry->dims)) {
          candidate.match = tunefarm::v1::MATCH_NEAREST_SHAPE;
          candidate.distance = *distance;
        }
      } else if (same_problem && capability > 0) {
        const auto other = snapshot->classes.find(entry->class_id);
        if (other != snapshot->classes.end() && other->second->compute_capability == capability) {
          candidate.match = tunefarm::v1::MATCH_SAME_ARCH;
        }
      }
      if (candidate.match <= worst && candidate.match != tunefarm::v1::MATCH_NOT_FOUND) candidates.push_back(candidate);
    }
    std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
      return std::make_tuple(a.match, a.distance, a.other_program, -a.revision) <
             std::make_tuple(b.match, b.distance, b.other_program, -b.revision);
    });
    for (const Candidate& candidate : candidates) {
      if (acceptance.Accepts(*candidate.entry->best)) {
        return answer(candidate.entry->best, candidate.match, candidate.distance);
      }
    }
  }

  if (worst < tunefarm::v1::MATCH_DEFAULT) return none;
  const Config config = query.plan->DefaultConfig(*query.problem);
  if (!acceptance.Accepts(config)) return none;
  auto best = std::make_shared<BestConfig>();
  *best->mutable_config() = query.plan->ToProto(config);
  return answer(std::move(best), tunefarm::v1::MATCH_DEFAULT);
}

absl::StatusOr<std::pair<std::vector<std::shared_ptr<const BestConfig>>, std::string>> Catalog::List(
    std::string_view kernel_name, int page_size, std::string_view page_token) const {
  std::string after;
  if (!page_token.empty()) {
    auto position = Unhex(page_token);
    if (!position.has_value() || std::count(position->begin(), position->end(), kSeparator) != 3) return BadToken();
    after = *std::move(position);
  }
  const auto snapshot = Current();
  std::vector<std::shared_ptr<const BestConfig>> page;
  std::string last;
  for (const auto& [name, index] : snapshot->kernels) {
    if (!kernel_name.empty() && name != kernel_name) continue;
    for (const auto& entry : index->entries) {
      std::string position = PagePosition(name, entry->class_id, entry->problem_key, entry->program_digest);
      if (!after.empty() && position <= after) continue;
      if (page.size() == static_cast<size_t>(std::max(page_size, 1))) return std::make_pair(std::move(page), Hex(last));
      page.push_back(entry->best);
      last = std::move(position);
    }
  }
  return std::make_pair(std::move(page), std::string());
}

}  // namespace tunefarm
