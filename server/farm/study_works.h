// StudyWorks: what a daemon remembers of the works of studies besides the store (UnitStore::ClaimWorks): which studies
// have works that an agent may not know of, and which agents wait for a work. All of it may be forgotten at any time: a
// study that is not known is looked up again, and agents that wait ask by themselves (their poll).
//
// Not thread-safe: Claims guards it.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <unordered_map>

namespace tunefarm {

class StudyWorks {
 public:
  static constexpr size_t kStudiesMax = 4096;          // beyond it the oldest is forgotten
  static constexpr size_t kAwaitedPerStudyMax = 8192;  // works; agents that wait for others are not woken

  // --- studies ---
  bool Knows(int64_t study_id) const { return studies_.count(study_id) > 0; }
  // A study of which a unit is handed out. `is_shared`: the store has works of it, or may have. Nothing if it is known.
  void Note(int64_t job_id, int64_t study_id, bool is_shared);
  // There are several agents, or a new one: what one of them measures of the known studies, the others do not know.
  void ShareAll();
  // Whether any known study has works that an agent may not know of.
  bool has_shared() const { return shared_ > 0; }

  // --- agents that wait for a work of a known study ---
  // From before the store is asked for the work, so that no end of it is missed.
  void Wait(int64_t study_id, int64_t work, const std::string& agent_id);
  // The agent need not wait.
  void Stop(int64_t study_id, int64_t work, const std::string& agent_id);
  // A trial of the agent that does the work is stored: the other agents that waited, which may ask again.
  std::set<std::string> End(int64_t study_id, int64_t work, const std::string& agent_id);

  void ForgetJob(int64_t job_id);
  void Clear();

 private:
  struct Study {
    int64_t job_id = 0;
    bool is_shared = false;
    std::unordered_map<int64_t, std::set<std::string>> awaited;  // agents by work
  };

  std::map<int64_t, Study> studies_;
  size_t shared_ = 0;  // of studies_
};

}  // namespace tunefarm
