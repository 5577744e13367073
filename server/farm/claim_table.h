// ClaimTable: what agents hold, by unit and by agent, and which claims are dropped and wait for their end. As large as
// a farm, and looked at with every call of every agent: nothing walks over all of it but what concerns a whole job.
//
// Not thread-safe: ControlLink guards it.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "server/farm/claim.h"

namespace tunefarm {

class ClaimTable {
 public:
  // Null: there is none. Valid until the claim is replaced or erased.
  Claim* Find(int64_t unit_id);
  const Claim* Find(int64_t unit_id) const;
  const std::map<int64_t, Claim>& all() const { return claims_; }
  // Units that the agent holds, in their order.
  std::vector<int64_t> OfAgent(const std::string& agent_id) const;

  // In place of an earlier one of the same unit.
  void Put(Claim claim);
  // Mode and delivery are changed by these two alone.
  void SetMode(Claim* claim, ClaimMode mode);
  void SetDelivered(Claim* claim, bool delivered);
  void Erase(int64_t unit_id);
  void EraseAgent(const std::string& agent_id);
  void EraseJob(int64_t job_id);
  void Clear();

  // Dropped units that their agents have let go.
  const std::set<int64_t>& ended() const { return ended_; }

 private:
  void NoteState(const Claim& claim);

  std::map<int64_t, Claim> claims_;
  std::map<std::string, std::set<int64_t>> of_agent_;
  std::set<int64_t> ended_;
};

}  // namespace tunefarm
