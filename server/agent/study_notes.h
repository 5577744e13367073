// StudyNotes: what an agent remembers of the studies whose trials it runs: which work was measured already, the time to
// beat, and how long compiles took.
//
// Two configs are one measurement when their binaries are equal byte for byte and so are their whole evaluated launch
// sequences (definition/launch_digest.h). The second then gets the first one's result without running, if that is a
// verdict (IsVerdict). Verdicts come from trials of this agent and, through control, from those of others.
//
// Nothing here outlives the agent. Control knows what is forgotten (AgentLink::ClaimWork); an agent that does not ask
// measures it again.
//
// Not thread-safe: everything happens on the agent's executor.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <unordered_map>

#include "absl/status/statusor.h"
#include "server/agent/compile_forecast.h"
#include "server/agent/unit_work.h"
#include "server/base/hash.h"
#include "server/device/device_class.h"
#include "tunefarm/v1/trial.pb.h"

namespace tunefarm {

class StudyNotes {
 public:
  static constexpr size_t kStudiesMax = 64;
  static constexpr size_t kVerdictsPerStudyMax = 8192;

  struct Twin {
    bool runs = false;                             // somebody runs the same work right now: wait for it
    const tunefarm::v1::Trial* verdict = nullptr;  // how it ended; valid until the next call of another method
  };
  Twin Find(int64_t study_id, const Digest& work);
  void Begin(int64_t study_id, const Digest& work);
  // Begin's counterpart, always; `ended` is null when there is no verdict.
  void End(int64_t study_id, const Digest& work, const tunefarm::v1::Trial* ended);
  // How a trial that did the work ended; nothing if that is no verdict.
  void Learn(int64_t study_id, const Digest& work, const tunefarm::v1::Trial& ended);

  // The time to beat in nanoseconds, 0 if there is none: the smallest upper end of an interval that was seen here, or
  // what control says if that is smaller.
  double RaceLimitNs(int64_t study_id, double from_control);
  // An ended trial of the search.
  void NoteTime(int64_t study_id, const tunefarm::v1::Trial& trial);

  // Until the next call of any method.
  CompileForecast& Compiles(int64_t study_id) { return Of(study_id).compiles; }

 private:
  struct Study {
    uint64_t used = 0;
    double smallest_high_ns = 0;  // 0: none
    CompileForecast compiles;
    std::set<Digest> running;
    std::unordered_map<Digest, tunefarm::v1::Trial> verdicts;
    std::deque<Digest> order;  // of the verdicts, oldest first
  };
  Study& Of(int64_t study_id);

  std::map<int64_t, Study> studies_;
  uint64_t uses_ = 0;
};

// The work as trials name it (Trial.work).
uint64_t WorkNumber(const Digest& work);

// What a compiled trial makes the device do: its binary and its launches. An error: it must run to get its outcome.
absl::StatusOr<Digest> WorkDigest(const UnitWork& unit, const TrialWork& trial, const DeviceClass& device_class);

}  // namespace tunefarm
