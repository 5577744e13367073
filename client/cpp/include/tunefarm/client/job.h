// Tuning jobs as an embedding program sees them. Plain values, and the handle of a watch.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tunefarm/client/answer.h"
#include "tunefarm/client/status.h"
#include "tunefarm/client/value.h"

namespace tunefarm::client {

// What to tune for.
struct Problem {
  ValueMap dims;                      // dims left out take their defaults
  std::vector<uint64_t> input_seeds;  // empty: one set of inputs, seed 1
  ValueMap pinned;                    // parameters held at a value
};

// A request. 0 and empty mean the daemon's defaults, for budgets no bound.
struct JobSpec {
  std::string kernel;             // display name of a stored kernel, or "kernels/{id}"
  std::vector<Problem> problems;  // 1 to 256
  std::string device;             // UUID, class id, name, "host" or "cuda"
  std::string strategy;           // "default", "bayes", "genetic", "exhaustive", ...
  std::map<std::string, std::string> strategy_options;
  uint64_t seed = 0;
  int64_t max_trials = 0;  // per problem
  int64_t max_seconds = 0;
  double max_device_seconds = 0;
  double stop_within_floor = 0;  // 0.05: at most 5 % above the roofline floor
  int64_t max_trials_without_gain = 0;
  // Knobs of the measurement policy by name: {"preset", "fast"}, {"final_rounds", "9"}, {"no_early_stop", "true"}.
  std::map<std::string, std::string> measure;
  int32_t priority = 0;  // -100 to 100
  bool no_promotion = false, no_memory = false, retry_poisoned = false;
  bool promote_given = false;  // file the winner also where max_trials is 1, which is no search
  std::string label;           // at most 256 bytes
  std::string request_id;      // the same id with the same body is the same job for 7 days. Empty: one is made
};

enum class JobState { kUnspecified = 0, kQueued, kRunning, kPaused, kCancelling, kSucceeded, kFailed, kCancelled };
const char* JobStateName(JobState state);  // "RUNNING"
inline bool HasEnded(JobState state) {
  return state == JobState::kSucceeded || state == JobState::kFailed || state == JobState::kCancelled;
}

struct Progress {
  int64_t total = 0;  // trials of the search; an estimate if total_is_estimate
  bool total_is_estimate = false;
  int64_t done = 0;
  int64_t finals_done = 0, finals_total = 0;
  int64_t eta_ms = 0;  // 0: not known
};

// One problem on one device class.
struct Study {
  std::string problem;  // canonical text
  std::string device_class_id, device_class_name;
  Progress progress;
  std::optional<Answer> best;  // the promoted winner, at the end
};

struct Job {
  std::string name;  // "jobs/17"
  std::string kernel_name;
  JobState state = JobState::kUnspecified;
  std::string state_reason;  // why it is in its state when nobody asked for it
  std::string error;         // why it failed
  std::string label;
  Progress progress;
  std::vector<Study> studies;                                     // empty in lists
  int64_t created_at_ms = 0, started_at_ms = 0, ended_at_ms = 0;  // milliseconds since 1970 UTC; 0: not yet
};

struct JobList {
  std::vector<Job> jobs;        // newest first
  std::string next_page_token;  // empty: there are no more
};

// One trial that has ended.
struct Trial {
  int64_t ordinal = 0;
  std::string outcome;  // "OK", "WRONG_RESULT", ...
  std::string message;
  Config config;
  double median_ns = 0;
};

// One step in a job's life. One of job, trial, study and message is set, or none of an event that is new to this
// library.
struct JobEvent {
  int64_t event_id = 0;
  std::optional<Job> job;  // a whole snapshot: always the first event, and after a gap
  std::optional<Trial> trial;
  std::optional<Study> study;
  std::string message;
  Progress progress;
};

class JobWatchImpl;

// Keeps a watch going; its end (or Stop) ends it. May be moved, and used by one thread at a time; not from the watch's
// own callbacks.
class JobWatch {
 public:
  JobWatch() = default;
  JobWatch(JobWatch&&) noexcept;
  JobWatch& operator=(JobWatch&&) noexcept;
  ~JobWatch();
  // When it returns, no callback runs and none will. Nothing if it has ended.
  void Stop();

 private:
  friend class Client;
  explicit JobWatch(std::shared_ptr<JobWatchImpl> impl);
  std::shared_ptr<JobWatchImpl> impl_;
};

}  // namespace tunefarm::client
