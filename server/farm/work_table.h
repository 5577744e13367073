// WorkTable: which works of studies are claimed, and by which trials they were measured. A work is what a config makes
// the device do (Trial.work). Devices with different `scope` (Claim::measured_scope) take over no results from each
// other. One agent at a time has the claim of a work. Its trials that do the work run, in the order that the agent
// chooses; those of other agents wait until there is a verdict (IsVerdict), or until the claim is void: none of the
// trials that hold it is assigned to the agent.
//
// What is forgotten is measured again: works beyond kWorksMax, the oldest first, and everything with the process.
//
// Not thread-safe: Claims guards it.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tunefarm {

class WorkTable {
 public:
  static constexpr size_t kWorksMax = 131'072;  // about 8 MiB

  struct Key {
    int64_t job_id = 0, study_id = 0;
    std::string_view scope;
    uint64_t work = 0;
  };
  // A trial that is assigned to an agent.
  struct Holder {
    std::string agent_id;
    int64_t unit_id = 0, token = 0, ordinal = 0;
  };
  // Nothing set: the trial runs, and holds the claim.
  struct Answer {
    bool is_elsewhere = false;        // another agent has the claim; End returns the asking agent later
    std::optional<int64_t> measured;  // ordinal of the trial with the verdict
  };

  // `is_in_hand`: whether a holder's trial is assigned to its agent and has not ended.
  Answer Ask(const Key& key, const Holder& trial, const std::function<bool(const Holder&)>& is_in_hand);
  // A trial that does the work has ended and is stored; `is_verdict`: others may take its result over. Returns the
  // agents that wait for the work and may ask again.
  std::vector<std::string> End(const Key& key, int64_t ordinal, bool is_verdict);
  void ForgetJob(int64_t job_id);
  void Clear();

 private:
  struct Claimed {
    std::vector<Holder> holders;       // all of one agent
    std::vector<std::string> waiting;  // agents
  };
  struct Study {
    int64_t job_id = 0;
    std::unordered_map<uint64_t, Claimed> claimed;   // by place
    std::unordered_map<uint64_t, int64_t> measured;  // ordinals by place
  };

  static uint64_t PlaceOf(const Key& key);
  // Makes room for a work that is in neither map.
  Study& Add(const Key& key, uint64_t place);

  std::map<int64_t, Study> studies_;
  std::deque<std::pair<int64_t, uint64_t>> order_;  // studies and places, oldest first; some may be forgotten
};

}  // namespace tunefarm
