// What an agent works on: a claimed unit, its trials, and the binary of the default config that its reference needs.
// Plain data, owned and touched by the agent's executor only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/base/hash.h"
#include "server/definition/kernel_plan.h"
#include "server/exec/data_file_handle.h"
#include "server/exec/evaluator.h"
#include "tunefarm/agent/v1/agent.pb.h"
#include "tunefarm/v1/trial.pb.h"

namespace tunefarm {

// A run that the machinery loses is repeated: so many runs in all before the trial is reported LOST.
inline constexpr int kAttemptsMax = 5;

// What the reference of one kernel, problem and class needs, compiled with the default config; shared by all units that
// need it.
struct ReferenceWork {
  enum class State { kWaiting, kCompiling, kReady, kFailed } state = State::kWaiting;
  int attempts = 0;
  bool cancelled = false;  // while kCompiling: every caller has cancelled it, and its loss says nothing
  Evaluator::Id evaluation = 0;
  CompileResult result;
};

// The open data files of one kernel; shared by all units of it.
struct DataFilesWork {
  enum class State { kWaiting, kOpening, kReady, kFailed } state = State::kWaiting;
  std::vector<DataFileHandle> files;
  std::string message;  // why it failed
};

struct TrialWork {
  enum class State { kWaiting, kCompiling, kCompiled, kRunning, kFinished };
  // Control's answer to the claim of its work (AgentLink::ClaimWork): none yet; another agent measures it; the trial
  // may run.
  enum class Claim { kUnknown, kElsewhere, kRuns };

  tunefarm::agent::v1::TrialSpec spec;
  Config config;
  State state = State::kWaiting;
  bool baseline = false;
  bool delayed = false;  // a retry is waiting for its timer
  int losses = 0;        // attempts that the machinery lost
  Evaluator::Id evaluation = 0;
  CompileResult compile;
  std::vector<RunResult> rounds;  // finished runs; one unless interleaved
  double run_ms = 0, device_busy_ms = 0;
  // What it makes the device do (WorkDigest). Only of compiled trials that may share a measurement.
  std::optional<Digest> work;
  Claim claim = Claim::kUnknown;
  bool claim_is_due = true;  // to be in the next ClaimWork, unless `claim` is kRuns

  // Whether it is compiled and waits until another agent has measured its work.
  bool is_elsewhere() const { return state == State::kCompiled && claim == Claim::kElsewhere; }
};

struct UnitWork {
  tunefarm::agent::v1::Assignment assignment;
  std::shared_ptr<const KernelPlan> plan;
  std::shared_ptr<const ResolvedProblem> problem;
  std::shared_ptr<ReferenceWork> reference;   // null: none needed
  std::shared_ptr<DataFilesWork> data_files;  // null: the kernel names none
  std::vector<TrialWork> trials;
  int round = 0;              // interleaved: the one that runs now
  std::vector<size_t> order;  // interleaved: the trials in the order of that round; empty: not drawn yet
  int position = 0;           // interleaved: how many trials of the round have had their turn
  // Interleaved: what every trial is measured beside, from the first run on. None if `is_alone`.
  std::optional<Yardstick> yardstick;
  bool is_alone = false;
  bool revoked = false;
  // To be reported.
  std::vector<tunefarm::v1::Trial> pending;

  bool interleaved() const { return assignment.interleaved_rounds() > 0; }
  int unfinished() const {
    int count = 0;
    for (const TrialWork& trial : trials) count += trial.state != TrialWork::State::kFinished;
    return count;
  }
  // Whether all its unfinished trials wait for other agents.
  bool is_elsewhere() const {
    int left = 0, elsewhere = 0;
    for (const TrialWork& trial : trials) {
      left += trial.state != TrialWork::State::kFinished;
      elsewhere += trial.is_elsewhere();
    }
    return left > 0 && elsewhere == left;
  }
  // Evaluations that have not called back.
  int in_flight() const {
    int count = 0;
    for (const TrialWork& trial : trials) {
      count += trial.state == TrialWork::State::kCompiling || trial.state == TrialWork::State::kRunning;
    }
    return count;
  }
};

}  // namespace tunefarm
