// Claims: the units that agents hold, and what jobs want to become of them.
//
// A claim is delivered while its agent has the unit, as far as is known here. A claim that the agent does not list in
// its next Synchronize was dropped or never arrived; unless its job was stopped it is handed out again with the same
// token, so a lost answer loses nothing.
//
// All of it was read from one database. When that is replaced (Store::Replacements), everything is forgotten, and
// claims that were read before are not taken in any more: results that they count as stored may be missing now.
//
// Thread-safe. No call blocks, and none calls out.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "server/base/mutex.h"
#include "server/farm/claim.h"
#include "server/farm/claim_table.h"
#include "server/farm/study_works.h"
#include "server/store/unit_store.h"
#include "tunefarm/agent/v1/agent.pb.h"

namespace tunefarm {

class Claims {
 public:
  // What a device still wants.
  struct Demand {
    int units = 0, trials = 0;  // trials 0: units alone count
    void Take(const tunefarm::agent::v1::Assignment& unit) {
      --units;
      if (trials == 0) return;
      trials -= unit.trials_size();
      if (trials <= 0) units = trials = 0;
    }
  };
  // A unit that the store has handed out and that has no claim yet.
  struct Unmade {
    std::string agent_id, device_uuid;
    ClaimedUnit claimed;
    int64_t replacements = 0;  // as Claim's
  };
  // `replacements`: Store::Replacements.
  explicit Claims(int64_t replacements) : replacements_(replacements) {}

  // --- the database ---
  // Takes Store::Replacements in and answers it. If it has grown, everything is forgotten; what is said of jobs is not
  // heard then until BeginAgain, as those who say it may still go by the old database.
  int64_t Follow(int64_t replacements) LOCKS_EXCLUDED(mutex_);
  // Forgets everything: those who drive jobs have read the database again.
  void BeginAgain() LOCKS_EXCLUDED(mutex_);
  // Forgets all claims; no agent is served from now on.
  void Close() LOCKS_EXCLUDED(mutex_);

  // --- jobs ---
  // See ControlLink. Resume, StopStudySearch: whether that changes anything.
  void Hold(int64_t job_id) { Wish(job_id, &JobWishes::held); }
  bool Resume(int64_t job_id) LOCKS_EXCLUDED(mutex_);
  void Cancel(int64_t job_id) { Wish(job_id, &JobWishes::cancelled); }
  void StopSearch(int64_t job_id) { Wish(job_id, &JobWishes::search_stopped); }
  bool StopStudySearch(int64_t job_id, int64_t study_id) LOCKS_EXCLUDED(mutex_);
  void Forget(int64_t job_id) LOCKS_EXCLUDED(mutex_);
  ClaimMode ModeOf(int64_t job_id, int64_t study_id, UnitKind kind) const LOCKS_EXCLUDED(mutex_);
  // Of which agents hold units, by id.
  std::vector<int64_t> Jobs() const LOCKS_EXCLUDED(mutex_);

  // --- agents ---
  // The agent's claims are these from now on; `in_hand`: the units that it has. Unavailable: the database was replaced
  // since they were read, or Close was called.
  absl::Status Serve(const std::string& agent_id, int64_t epoch, int64_t replacements, std::vector<Claim> claims,
                     const std::set<int64_t>& in_hand) LOCKS_EXCLUDED(mutex_);
  // Under which the agent is served; 0: it is not.
  int64_t EpochOf(const std::string& agent_id) const LOCKS_EXCLUDED(mutex_);
  // The agent is gone. Jobs of its units.
  std::set<int64_t> EraseAgent(const std::string& agent_id) LOCKS_EXCLUDED(mutex_);
  // How many units each agent holds; without those that hold none.
  std::map<std::string, int> UnitsByAgent() const LOCKS_EXCLUDED(mutex_);

  // --- handing out ---
  // Around a claim from the store, from before it is asked until what it gave is here: a job that ends meanwhile is
  // remembered, and AddLate waits. EndClaim: jobs that are cancelled, whose end may have waited for this claim.
  void BeginClaim(const std::string& agent_id) LOCKS_EXCLUDED(mutex_);
  std::vector<int64_t> EndClaim(const std::string& agent_id) LOCKS_EXCLUDED(mutex_);
  std::vector<Unmade> TakeUnmade(const std::string& agent_id, const std::string& device_uuid) LOCKS_EXCLUDED(mutex_);
  // Kept for the next TakeUnmade.
  void PutUnmade(const Unmade& unmade) LOCKS_EXCLUDED(mutex_);
  // Whether the agent has another unit in flight, one that must run alone.
  bool HasOtherAlone(const std::string& agent_id, int64_t unit_id) const LOCKS_EXCLUDED(mutex_);
  // Takes a claim in that was made of what the store has just handed out, and adds it to the response if the agent is
  // to have it now. False: it is not, and another unit may be claimed in its place.
  bool HandOut(Claim claim, tunefarm::agent::v1::SynchronizeResponse* response) LOCKS_EXCLUDED(mutex_);
  // Units of which it is known that the agent holds them.
  std::set<int64_t> UnitsOf(const std::string& agent_id) const LOCKS_EXCLUDED(mutex_);
  // Claims of the agent that the store had and UnitsOf had not. They are handed out by the next Compare.
  void AddLate(const std::string& agent_id, int64_t replacements, std::vector<Claim> claims) LOCKS_EXCLUDED(mutex_);
  // What is handed out again, taken back, or gone from the agent, by what it lists. `wanted`, by device, is what is
  // left to be claimed. `left_jobs`: jobs of which units have left the agent. False, with nothing done: the agent is
  // not served under this epoch.
  bool Compare(const tunefarm::agent::v1::SynchronizeRequest& request, std::map<std::string, Demand>* wanted,
               std::set<int64_t>* left_jobs, tunefarm::agent::v1::SynchronizeResponse* response) LOCKS_EXCLUDED(mutex_);

  // --- results ---
  // The claim that a report is about, with the trials of it that are reported; is_part if it has others. None: it is
  // not known here.
  std::optional<Claim> Find(const tunefarm::agent::v1::ReportTrialsRequest& report) const LOCKS_EXCLUDED(mutex_);
  // The trials were stored. Nothing if the claim is another one by now, as with Erase.
  void Reported(const Claim& claim, const std::vector<tunefarm::v1::Trial>& trials) LOCKS_EXCLUDED(mutex_);
  void Erase(const Claim& claim) LOCKS_EXCLUDED(mutex_);

  // --- works: see StudyWorks ---
  // Whether all units of the request are known here; also true of an agent that is not served.
  bool KnowsUnits(const tunefarm::agent::v1::ClaimWorkRequest& request) const LOCKS_EXCLUDED(mutex_);
  // The request as the store is asked, in its order; without a work where it is not known, or where the trial is not
  // known here as assigned to the agent. The agent waits for all of them until EndAsk says which it need not.
  WorkClaimRequest BeginAsk(const tunefarm::agent::v1::ClaimWorkRequest& request) LOCKS_EXCLUDED(mutex_);
  // `answers`: to the request, in its order; none: the store did not answer.
  void EndAsk(const WorkClaimRequest& request, const std::vector<WorkAnswer>& answers) LOCKS_EXCLUDED(mutex_);
  // For trials that were stored; to be called before Reported or Erase. Returns the agents that wait for their work and
  // are to be woken.
  std::set<std::string> EndWorks(const Claim& claim, const std::vector<tunefarm::v1::Trial>& trials)
      LOCKS_EXCLUDED(mutex_);
  bool KnowsWorks(int64_t study_id) const LOCKS_EXCLUDED(mutex_);
  // Of a claim that is handed out or taken over next; `has_works`: UnitStore::HasWorks.
  void NoteWorks(const Claim& claim, bool has_works) LOCKS_EXCLUDED(mutex_);
  void ShareWorks() LOCKS_EXCLUDED(mutex_);
  bool SharesWorks() const LOCKS_EXCLUDED(mutex_);

  // Dropped claims, without their trials, that no agent has, and how they are to end.
  std::vector<std::pair<Claim, UnitAfter>> Dropped() const LOCKS_EXCLUDED(mutex_);

 private:
  struct JobWishes {
    bool held = false, cancelled = false, search_stopped = false;
    std::set<int64_t> stopped_studies;  // whose search is over
  };

  void ForgetAll() EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Wish(int64_t job_id, bool JobWishes::*wish) LOCKS_EXCLUDED(mutex_);
  void ApplyModes(int64_t job_id) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  ClaimMode Mode(int64_t job_id, int64_t study_id, UnitKind kind) const EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Of one whose trials are all stored: kDropped, so that it ends.
  ClaimMode ModeOfNew(const Claim& claim) const EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Another unit of the agent, in its hands, that keeps a unit from being handed to it: `alone`: any; else one that its
  // agent must have alone.
  bool HasOther(const std::string& agent_id, int64_t unit_id, bool alone) const EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsServed(const std::string& agent_id, int64_t epoch) const EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsKnown(const Claim& claim) const EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  int64_t replacements_ GUARDED_BY(mutex_);
  bool closed_ GUARDED_BY(mutex_) = false;
  bool wishes_are_old_ GUARDED_BY(mutex_) = false;  // the database was replaced and there was no BeginAgain since
  std::map<std::string, int64_t> served_ GUARDED_BY(mutex_);  // epochs by agent
  ClaimTable table_ GUARDED_BY(mutex_);
  StudyWorks works_ GUARDED_BY(mutex_);
  std::map<int64_t, JobWishes> jobs_ GUARDED_BY(mutex_);
  std::vector<Unmade> unmade_ GUARDED_BY(mutex_);              // at most a demand's worth per device
  std::multiset<std::string> claiming_ GUARDED_BY(mutex_);     // agents
  std::set<int64_t> ended_while_claiming_ GUARDED_BY(mutex_);  // jobs
};

}  // namespace tunefarm
