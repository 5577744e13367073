#include "server/farm/claim_table.h"

#include <utility>

#include "server/base/check.h"

namespace tunefarm {

Claim* ClaimTable::Find(int64_t unit_id) {
  const auto found = claims_.find(unit_id);
  return found == claims_.end() ? nullptr : &found->second;
}

const Claim* ClaimTable::Find(int64_t unit_id) const {
  const auto found = claims_.find(unit_id);
  return found == claims_.end() ? nullptr : &found->second;
}

std::vector<int64_t> ClaimTable::OfAgent(const std::string& agent_id) const {
  const auto found = of_agent_.find(agent_id);
  if (found == of_agent_.end()) return {};
  return {found->second.begin(), found->second.end()};
}

void ClaimTable::NoteState(const Claim& claim) {
  if (claim.mode == ClaimMode::kDropped && !claim.delivered) {
    ended_.insert(claim.unit_id);
  } else {
    ended_.erase(claim.unit_id);
  }
}

void ClaimTable::Put(Claim claim) {
  const int64_t unit_id = claim.unit_id;
  Erase(unit_id);
  of_agent_[claim.agent_id].insert(unit_id);
  NoteState(claims_[unit_id] = std::move(claim));
}

void ClaimTable::SetMode(Claim* claim, ClaimMode mode) {
  claim->mode = mode;
  NoteState(*claim);
}

void ClaimTable::SetDelivered(Claim* claim, bool delivered) {
  claim->delivered = delivered;
  NoteState(*claim);
}

void ClaimTable::Erase(int64_t unit_id) {
  const auto found = claims_.find(unit_id);
  if (found == claims_.end()) return;
  const auto agent = of_agent_.find(found->second.agent_id);
  TUNEFARM_CHECK(agent != of_agent_.end());
  agent->second.erase(unit_id);
  if (agent->second.empty()) of_agent_.erase(agent);
  ended_.erase(unit_id);
  claims_.erase(found);
}

void ClaimTable::EraseAgent(const std::string& agent_id) {
  for (int64_t unit_id : OfAgent(agent_id)) Erase(unit_id);
}

void ClaimTable::EraseJob(int64_t job_id) {
  std::vector<int64_t> units;
  for (const auto& [unit_id, claim] : claims_) {
    if (claim.job_id == job_id) units.push_back(unit_id);
  }
  for (int64_t unit_id : units) Erase(unit_id);
}

void ClaimTable::Clear() {
  claims_.clear();
  of_agent_.clear();
  ended_.clear();
}

}  // namespace tunefarm
