#include "server/farm/work_table.h"

#include <algorithm>
#include <utility>

#include "server/base/hash.h"

namespace tunefarm {

uint64_t WorkTable::PlaceOf(const Key& key) { return key.work ^ Xxh3(key.scope); }

WorkTable::Study& WorkTable::Add(const Key& key, uint64_t place) {
  order_.emplace_back(key.study_id, place);
  if (order_.size() > kWorksMax) {
    const auto [study_id, oldest] = order_.front();
    order_.pop_front();
    const auto study = studies_.find(study_id);
    if (study != studies_.end()) {
      study->second.claimed.erase(oldest);
      study->second.measured.erase(oldest);
      if (study->second.claimed.empty() && study->second.measured.empty()) studies_.erase(study);
    }
  }
  Study& study = studies_[key.study_id];
  study.job_id = key.job_id;
  return study;
}

WorkTable::Answer WorkTable::Ask(const Key& key, const Holder& trial,
                                 const std::function<bool(const Holder&)>& is_in_hand) {
  const uint64_t place = PlaceOf(key);
  const auto known = studies_.find(key.study_id);
  if (known != studies_.end()) {
    const auto measured = known->second.measured.find(place);
    if (measured != known->second.measured.end()) return {false, measured->second};
    const auto claimed = known->second.claimed.find(place);
    if (claimed != known->second.claimed.end()) {
      auto& [holders, waiting] = claimed->second;
      std::erase_if(holders, [&](const Holder& holder) { return !is_in_hand(holder); });
      if (!holders.empty() && holders.front().agent_id != trial.agent_id) {
        if (std::find(waiting.begin(), waiting.end(), trial.agent_id) == waiting.end()) {
          waiting.push_back(trial.agent_id);
        }
        return {true, std::nullopt};
      }
      std::erase_if(holders, [&](const Holder& holder) { return holder.ordinal == trial.ordinal; });
      holders.push_back(trial);
      return {};
    }
  }
  Add(key, place).claimed[place].holders.push_back(trial);
  return {};
}

std::vector<std::string> WorkTable::End(const Key& key, int64_t ordinal, bool is_verdict) {
  const uint64_t place = PlaceOf(key);
  std::vector<std::string> waiting;
  bool is_known = false;
  const auto known = studies_.find(key.study_id);
  if (known != studies_.end()) {
    if (known->second.measured.count(place) > 0) return {};
    const auto claimed = known->second.claimed.find(place);
    is_known = claimed != known->second.claimed.end();
    if (is_known) {
      auto& holders = claimed->second.holders;
      std::erase_if(holders, [&](const Holder& holder) { return holder.ordinal == ordinal; });
      // Another trial of the same agent does the work next.
      if (!is_verdict && !holders.empty()) return {};
      waiting = std::exchange(claimed->second.waiting, {});
      if (is_verdict) known->second.claimed.erase(claimed);
    }
  }
  if (is_verdict) (is_known ? known->second : Add(key, place)).measured[place] = ordinal;
  return waiting;
}

void WorkTable::ForgetJob(int64_t job_id) {
  std::erase_if(studies_, [&](const auto& study) { return study.second.job_id == job_id; });
}

void WorkTable::Clear() {
  studies_.clear();
  order_.clear();
}

}  // namespace tunefarm
