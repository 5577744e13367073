#include "server/catalog/change_log.h"

#include <algorithm>
#include <utility>

namespace tunefarm {

ChangeLog::ChangeLog(int64_t revision, const std::vector<BestRemovalRow>& removals) : filed_after_(revision) {
  auto all = std::make_shared<Removals>();
  for (const BestRemovalRow& removal : removals) all->push_back(std::make_shared<BestRemovalRow>(removal));
  removals_ = std::move(all);
}

void ChangeLog::Filed(std::shared_ptr<const CatalogEntry> entry) {
  if (removals_ != nullptr) {
    const auto is_undone = [&](const std::shared_ptr<const BestRemovalRow>& removal) {
      return removal->key.problem_key == entry->problem_key && removal->key.program_digest == entry->program_digest &&
             removal->key.class_id == entry->class_id && removal->kernel_name == entry->kernel_name;
    };
    if (std::any_of(removals_->begin(), removals_->end(), is_undone)) {
      auto left = std::make_shared<Removals>(*removals_);
      std::erase_if(*left, is_undone);
      removals_ = std::move(left);
    }
  }
  filed_.push_back(std::move(entry));
  if (filed_.size() <= kFiledMax) return;
  filed_after_ = filed_.front()->best->revision();
  filed_.erase(filed_.begin());
}

void ChangeLog::Removed(BestRemovalRow removal) {
  auto all = removals_ == nullptr ? std::make_shared<Removals>() : std::make_shared<Removals>(*removals_);
  // A name is gone once: the last time counts.
  std::erase_if(*all, [&](const std::shared_ptr<const BestRemovalRow>& other) {
    return other->key.problem_key == removal.key.problem_key &&
           other->key.program_digest == removal.key.program_digest && other->key.class_id == removal.key.class_id &&
           other->kernel_name == removal.kernel_name;
  });
  all->push_back(std::make_shared<BestRemovalRow>(std::move(removal)));
  removals_ = std::move(all);
}

std::vector<std::shared_ptr<const CatalogEntry>> ChangeLog::FiledSince(int64_t revision) const {
  const auto first = std::upper_bound(filed_.begin(), filed_.end(), revision,
                                      [](int64_t after, const auto& entry) { return after < entry->best->revision(); });
  return {first, filed_.end()};
}

std::vector<std::shared_ptr<const BestRemovalRow>> ChangeLog::RemovedSince(int64_t revision) const {
  if (removals_ == nullptr) return {};
  const auto first = std::upper_bound(removals_->begin(), removals_->end(), revision,
                                      [](int64_t after, const auto& removal) { return after < removal->revision; });
  return {first, removals_->end()};
}

}  // namespace tunefarm
