#include "server/search/starting_strategy.h"

#include <algorithm>
#include <deque>
#include <unordered_set>
#include <utility>

#include "server/base/status_macros.h"

namespace tunefarm {
namespace {

class StartingStrategy final : public Strategy {
 public:
  StartingStrategy(std::vector<Config> first, std::unique_ptr<Strategy> rest) : rest_(std::move(rest)) {
    std::unordered_set<Config, ConfigHash> seen;
    for (Config& config : first) {
      if (seen.insert(config).second) first_.push_back(std::move(config));
    }
  }

  std::string_view name() const override { return rest_->name(); }
  int version() const override { return rest_->version(); }

  absl::StatusOr<std::vector<Config>> Ask(int n) override {
    std::vector<Config> configs;
    while (!first_.empty() && static_cast<int>(configs.size()) < n) {
      Config config = std::move(first_.front());
      first_.pop_front();
      // Of the space, but perhaps not of the part of it that the other searches.
      if (!rest_->MarkProposed(config).ok()) continue;
      configs.push_back(std::move(config));
    }
    const int left = n - static_cast<int>(configs.size());
    if (left == 0 || rest_->Exhausted()) return configs;
    ASSIGN_OR_RETURN(std::vector<Config> others, rest_->Ask(left));
    configs.insert(configs.end(), std::make_move_iterator(others.begin()), std::make_move_iterator(others.end()));
    return configs;
  }

  absl::Status MarkProposed(const Config& config) override {
    first_.erase(std::remove(first_.begin(), first_.end(), config), first_.end());
    return rest_->MarkProposed(config);
  }

  void Tell(const Told& told) override { rest_->Tell(told); }
  bool Exhausted() const override { return first_.empty() && rest_->Exhausted(); }
  std::optional<uint64_t> Total() const override { return rest_->Total(); }

 private:
  std::deque<Config> first_;
  const std::unique_ptr<Strategy> rest_;
};

}  // namespace

std::unique_ptr<Strategy> MakeStartingStrategy(std::vector<Config> first, std::unique_ptr<Strategy> rest) {
  return std::make_unique<StartingStrategy>(std::move(first), std::move(rest));
}

}  // namespace tunefarm
