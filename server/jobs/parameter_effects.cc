#include "server/jobs/parameter_effects.h"

#include <fmt/core.h>

#include "server/base/format.h"
#include "server/base/hash.h"

namespace tunefarm {

void ParameterEffects::Add(const Config& config, const tunefarm::v1::Trial& trial) {
  AddError(config, trial);
  if (trial.work() == 0 || added_ == kTrialsMax) return;
  ++added_;
  AddWork(config, trial.work());
}

void ParameterEffects::AddWork(const Config& config, uint64_t work) {
  for (const std::string& name : varied_) {
    const Value* const value = config.Find(name);
    const auto known = has_effect_.find(name);
    if (value == nullptr || (known != has_effect_.end() && known->second)) continue;
    std::string others;
    for (const auto& [other, its_value] : config) {
      if (other != name) others += fmt::format("{}={}\n", other, its_value.ToText());
    }
    const std::string text = value->ToText();
    const auto [seen, is_new] = seen_[name].try_emplace(Xxh3(others), Seen{work, text});
    if (is_new || seen->second.value == text) continue;
    has_effect_[name] = seen->second.work != work;
    if (seen->second.work != work) seen_[name].clear();
  }
}

void ParameterEffects::AddError(const Config& config, const tunefarm::v1::Trial& trial) {
  if (alike_ < 0 || trial.outcome() == tunefarm::v1::OUTCOME_LOST) return;
  const bool is_alike = trial.outcome() == tunefarm::v1::OUTCOME_COMPILE_ERROR && !trial.message().empty() &&
                        (alike_ == 0 || trial.message() == error_);
  if (!is_alike) {
    alike_ = -1;
    return;
  }
  if (alike_++ == 0) {
    error_ = trial.message();
    first_ = config;
  }
  for (const auto& [name, value] : config) {
    const Value* const first = first_.Find(name);
    if (first != nullptr && *first != value) unvaried_.erase(name);
  }
  if (alike_ < kAlikeMax || !unvaried_.empty()) return;
  none_compiles_ = fmt::format("the first {} configs fail to compile alike: {}", FormatCount(alike_),
                               error_.substr(0, error_.find('\n')));
  alike_ = -1;
}

std::vector<std::string> ParameterEffects::WithoutEffect() const {
  std::vector<std::string> names;
  for (const auto& [name, has_effect] : has_effect_) {
    if (!has_effect) names.push_back(name);
  }
  return names;
}

}  // namespace tunefarm
