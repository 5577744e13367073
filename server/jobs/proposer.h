// Proposer: what a study proposes next: its space, and the strategy over it.
//
// It is made and asked apart from everything else of the study, since to list a space and to ask a strategy may take
// seconds. Not thread-safe: one thread at a time, and while it answers nobody else uses it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/base/work_limit.h"
#include "server/definition/kernel_plan.h"
#include "server/jobs/prior_choice.h"
#include "server/jobs/study_context.h"
#include "server/search/strategy.h"
#include "server/space/space.h"
#include "tunefarm/v1/job.pb.h"

namespace tunefarm {

// The processor time of a task that reads a study, makes its space or asks its strategy: what a task has that keeps a
// thread from others, and what a slow task has, after which the job fails.
inline constexpr Duration kQuickTaskTime = std::chrono::seconds(2);
inline constexpr Duration kTaskTime = std::chrono::seconds(60);

// The strategy that a job as accepted (with a strategy name) asks for. The factory's errors.
absl::StatusOr<std::unique_ptr<Strategy>> MakeStudyStrategy(const tunefarm::v1::Job& spec, const Space& space,
                                                            const Priors& priors = {});

// Trials per unit: small enough that a small space is spread, large enough that a large one costs few transactions.
int UnitSize(const tunefarm::v1::SpaceSize& size, const tunefarm::v1::Budget& budget);

// The same near the end of a search that `devices` share (guided self-scheduling, Polychronopoulos and Kuck 1987): a
// unit is at most half of a device's share of what is left, so that all devices finish at about the same time.
// `trials_left` below 0: not known.
int TailUnitSize(int unit_size, int64_t trials_left, int devices);

class Proposer {
 public:
  // One unit is measured while the next one waits.
  static constexpr int kOpenUnitsMin = 2;

  // Of a trial of the search.
  struct Result {
    int64_t ordinal = 0;
    std::string config;  // its canonical text
    ToldOutcome outcome = ToldOutcome::kLost;
    double objective_ns = 0;  // where kOk
  };
  // Results to tell, in their order, and then how much to propose.
  struct Question {
    std::vector<Result> results;
    int64_t proposed = 0;        // configs of the search so far
    int open_units = 0;          // proposed and not ended
    int64_t open_trials = 0;     // of them
    int open_trials_wanted = 0;  // how many there should be
    int devices = 1;             // that take part

    bool HasRoom() const { return open_units < kOpenUnitsMin || open_trials < open_trials_wanted; }
  };
  // The configs of new units, one unit after another, as canonical texts. Empty: the strategy has nothing more, or
  // waits for results.
  using Answer = std::vector<std::vector<std::string>>;

  // With its space and its strategy, which is told `priors` and proposes the job's starting configs first. Errors of
  // both, and DataLoss for priors that cannot be read. `limit`: of all the work on the space; its time starts
  // again with each Ask.
  static absl::StatusOr<std::unique_ptr<Proposer>> Create(const StudyContext& context,
                                                          const std::vector<PriorRow>& priors,
                                                          std::shared_ptr<WorkLimit> limit);

  const Space& space() const { return space_; }
  // The strategy will never propose anything again.
  bool IsExhausted() const { return strategy_->Exhausted(); }
  // Of the job's starting configs, those that are not in the space, and why the first of them is not.
  int64_t left_out() const { return left_out_; }
  const std::string& left_out_because() const { return left_out_because_; }

  // After an error nothing is known of what the strategy was told and asked. The strategy's errors, and Cancelled or
  // WORK_LIMIT (WorkLimit::Why).
  absl::StatusOr<Answer> Ask(Question now);
  // Whether the latest Ask took so long that the next one is better posted as a slow task.
  bool is_slow() const { return is_slow_; }
  WorkLimit& limit() const { return *limit_; }

  // To take up a recorded history: what was proposed and told, in the recorded order, each once. InvalidArgument or the
  // plan's errors for a config that is not of this space.
  absl::Status MarkProposed(const std::string& config);
  absl::Status Tell(const Result& result);

 private:
  Proposer(const StudyContext& context, Space space, std::shared_ptr<WorkLimit> limit);
  absl::StatusOr<Answer> AskStrategy(Question now);
  // Those that are of its space; counts the others.
  std::vector<Config> StartingConfigs(const StudyContext& context);
  // Not yet proposed; -1: not known.
  int64_t TrialsLeft(int64_t proposed) const;

  const std::shared_ptr<const KernelPlan> plan_;
  const tunefarm::v1::SpaceSize size_;
  const int64_t trials_max_;  // of the search; 0: the space's
  const int unit_size_;
  const std::shared_ptr<WorkLimit> limit_;
  const Space space_;
  std::unique_ptr<Strategy> strategy_;
  bool is_slow_ = false;
  int64_t left_out_ = 0;
  std::string left_out_because_;
};

}  // namespace tunefarm
