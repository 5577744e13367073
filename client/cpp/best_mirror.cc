#include "client/cpp/best_mirror.h"

#include <algorithm>

#include "client/cpp/wire.h"

namespace tunefarm::client {
namespace {

std::string KeyOf(const std::string& program, const std::string& problem, const std::string& class_id) {
  return program + '\n' + problem + '\n' + class_id;
}

size_t BytesOf(const Value& value) { return sizeof(value) + value.string_value().capacity(); }

size_t BytesOf(const std::vector<std::pair<std::string, Value>>& values) {
  size_t bytes = 0;
  for (const auto& [name, value] : values) bytes += sizeof(std::string) + name.capacity() + BytesOf(value);
  return bytes;
}

size_t BytesOf(const Answer& answer) {
  size_t bytes = sizeof(StoredAnswer) + BytesOf(answer.config.values());
  for (const std::string* const text :
       {&answer.kernel, &answer.kernel_id, &answer.program_digest, &answer.problem, &answer.device_class_id,
        &answer.device_class_name, &answer.driver_version, &answer.toolkit_version, &answer.job}) {
    bytes += text->capacity();
  }
  return bytes;
}

}  // namespace

std::shared_ptr<const MirrorBest> MakeMirrorBest(const v1::BestConfig& best) {
  auto own = std::make_shared<MirrorBest>();
  own->program = best.program_digest();
  own->class_id = best.device_class_id();
  own->driver = best.driver_version();
  own->toolkit = best.toolkit_version();
  for (const auto& [name, value] : best.problem().dims()) own->dims.emplace_back(name, FromWire(value));
  std::sort(own->dims.begin(), own->dims.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  const auto& seeds = best.problem().input_seeds();
  own->is_plain = best.problem().pinned().empty() && (seeds.empty() || (seeds.size() == 1 && seeds[0] == 1));
  auto stored = std::make_shared<StoredAnswer>();
  stored->answer = FromBest(best, Match::kExact, Source::kCatalog);
  constexpr size_t kPlaces = 256;  // its entries in maps and tables, more or less
  own->bytes = sizeof(MirrorBest) + BytesOf(own->dims) + BytesOf(stored->answer) + own->program.capacity() +
               own->class_id.capacity() + 2 * best.problem().key().size() + kPlaces;
  own->exact = std::move(stored);
  return own;
}

void BestMirror::Stage(const v1::WatchBestConfigsResponse& part) {
  if (part.reset()) {
    DropStaged();
    staged_reset_ = true;
  }
  for (const v1::BestConfigKey& key : part.retired()) {
    staged_.emplace_back(KeyOf(key.program_digest(), key.problem_key(), key.device_class_id()), nullptr);
  }
  for (const v1::BestConfig& best : part.bests()) {
    // What can never fit is not kept meanwhile, either.
    if (staged_.size() >= budget_->bests_max) {
      ++staged_left_out_;
      continue;
    }
    staged_.emplace_back(KeyOf(best.program_digest(), best.problem().key(), best.device_class_id()),
                         MakeMirrorBest(best));
  }
}

void BestMirror::DropStaged() {
  staged_reset_ = false;
  staged_left_out_ = 0;
  staged_.clear();
}

void BestMirror::Clear() {
  budget_->bests -= bests_.size();
  budget_->bytes -= bytes_;
  bests_.clear();
  bytes_ = 0;
  left_out_ = 0;
}

std::shared_ptr<const MirrorBest> BestMirror::Erase(const std::string& key) {
  const auto found = bests_.find(key);
  if (found == bests_.end()) return nullptr;
  std::shared_ptr<const MirrorBest> best = std::move(found->second);
  bests_.erase(found);
  bytes_ -= best->bytes;
  budget_->bytes -= best->bytes;
  --budget_->bests;
  return best;
}

MirrorChange BestMirror::Commit() {
  MirrorChange change;
  change.reset = staged_reset_;
  if (staged_reset_) Clear();
  left_out_ += staged_left_out_;
  for (auto& [key, best] : staged_) {
    if (auto removed = Erase(key); removed != nullptr && !change.reset) change.removed.push_back(std::move(removed));
    if (best == nullptr) continue;
    if (!budget_->HasRoomFor(best->bytes)) {
      ++left_out_;
      continue;
    }
    bytes_ += best->bytes;
    budget_->bytes += best->bytes;
    ++budget_->bests;
    if (!change.reset) change.added.push_back(best);
    bests_.emplace(key, std::move(best));
  }
  DropStaged();
  return change;
}

}  // namespace tunefarm::client
