// Study: one problem of a job on one device class. It knows what is proposed, what has ended and who is ahead, and says
// what the next step of the decision log is. It touches no store and no clock: its state is a function of the recorded
// history, and a study whose step could not be committed is thrown away and made again from that history.
//
// A step has two parts, since a strategy may take long: Prepare says what the study's proposer is to be asked, which
// may then be done on any thread while the study goes on to take results; Next makes the step with the answer. Between
// the two neither is called again, and the proposer belongs to who asks it.
//
// A study waits until it begins: until then it has no proposer. What it is told of other studies when it begins is part
// of its history: stored with its first step, in one transaction, kept until it ends, and read back by every replay, so
// that nothing that happens to those others changes what it proposes. A study with a first step and without stored
// priors was told nothing.
//
// Not thread-safe: its job's run owns it.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/jobs/finals.h"
#include "server/jobs/parameter_effects.h"
#include "server/jobs/prior_choice.h"
#include "server/jobs/proposer.h"
#include "server/jobs/stopping_rule.h"
#include "server/jobs/study_context.h"
#include "server/store/study_store.h"
#include "tunefarm/agent/v1/agent.pb.h"
#include "tunefarm/v1/best_config.pb.h"
#include "tunefarm/v1/job.pb.h"

namespace tunefarm {

// What is to be committed: first the promotion, if any, then the drive step.
struct StudyStep {
  struct Promotion {
    tunefarm::v1::Trial winner;
    std::string config;                           // the winner's; canonical text
    std::optional<tunefarm::v1::Trial> baseline;  // measured in the same final
    std::string baseline_label;
    bool refresh = false;  // the incumbent stays and gets its new measurement
  };

  DriveStep drive;
  std::optional<Promotion> promotion;
  std::vector<std::string> messages;  // for people
  bool empty = true;                  // nothing to commit
};

// Whether its studies may learn from others: neither when the job wants none of that, nor with a strategy that makes no
// use of it.
bool UsesPriors(const tunefarm::v1::Job& spec);

class Study {
 public:
  static std::unique_ptr<Study> Create(StudyContext context);

  // Makes its proposer, which is told `priors`. Once; not for a study that has ended. As Proposer::Create.
  absl::Status Begin(const ChosenPriors& priors, std::shared_ptr<WorkLimit> limit);

  // After Begin and before anything else: takes up a recorded history, part by part in their order, each once.
  // `with_samples` reads a trial of a final again with its samples. DataLoss when the history cannot be what this
  // program wrote.
  using TrialReader = std::function<absl::StatusOr<tunefarm::v1::Trial>(int64_t ordinal)>;
  absl::Status Replay(const StudyHistory& history, const TrialReader& with_samples);

  // Trials of a unit, as they are stored. Returns those that are new; others (a repeated report) change nothing.
  // They are valid until the unit is told.
  std::vector<const tunefarm::v1::Trial*> AddTrials(int64_t unit_id, std::vector<tunefarm::v1::Trial> trials);
  // Whether all trials of a unit that is not told have ended.
  bool IsComplete(int64_t unit_id) const;
  // The unit is DONE in the store.
  void UnitDone(int64_t unit_id);

  // Takes up what is DONE for the next step, and says what the proposer is to be asked for it; none: nothing.
  // `stop_because`: why the job's search must end now; empty: it need not, and the study has begun.
  // `open_trials_wanted`: how many trials should be proposed and not ended. `devices`: how many take part.
  std::optional<Proposer::Question> Prepare(const std::string& stop_because, int open_trials_wanted, int devices);
  // The step that was prepared. `answer`: the proposer's, null where it was asked nothing. `stop_because` as it is now.
  // `incumbent`: the catalog's best for this study; may be null. Errors of spaces.
  absl::StatusOr<StudyStep> Next(const std::string& stop_because, const Proposer::Answer* answer,
                                 const tunefarm::v1::BestConfig* incumbent);
  void Committed(const StudyStep& step, const DriveResult& result);
  // The promotion of a step as it was filed.
  void SetBest(const tunefarm::v1::BestConfig& best) { best_ = best; }
  // The promotion of a step was refused: the step records why.
  void NoteNotPromoted(std::string because, StudyStep* step);

  const StudyContext& context() const { return context_; }
  StudyState state() const { return state_; }
  bool has_begun() const { return proposer_ != nullptr || state_ == StudyState::kEnded; }
  // Null before Begin and once the study has ended. It outlives the study where somebody still asks it.
  const std::shared_ptr<Proposer>& proposer() const { return proposer_; }
  // Proposed and not ended.
  int64_t open_trials() const { return OpenTrials(); }
  // A rule of the budget has ended the search: what is still open of it need not run.
  bool search_is_over() const {
    return state_ == StudyState::kSearching &&
           (!rule_.because().empty() || !effects_.none_compiles().empty() || !search_ended_because_.empty());
  }
  // Where its further finals are measured, once one was; empty: wherever they are taken up.
  const std::string& finals_device() const { return summary_.finals_device_uuid(); }
  // Who may run it, as the job wants it; as StudyRow::device_uuid.
  const std::string& device_selector() const { return summary_.device_selector(); }
  // That device takes no work any more: from the next step on the finals may go to another.
  void LeaveFinalsDevice() { leaves_finals_device_ = !finals_device().empty(); }
  // No trial of the search could be run: one sentence without its full stop; empty: some were, or there were none.
  std::string WhyAllWereLost() const;
  // Time that devices worked for it, finals included.
  double device_busy_ms() const { return device_busy_ms_; }
  // Of the open ones and those that are DONE.
  bool HasUnit(int64_t unit_id) const { return units_.count(unit_id) > 0; }
  bool IsDone(int64_t unit_id) const;
  const std::deque<int64_t>& done_units() const { return done_; }
  bool HasOpenUnits() const { return units_.size() > done_.size(); }
  // Of the search or a final, whatever their outcomes.
  bool has_ended_trials() const { return searched_ + finals_ended_ > 0; }
  // Units that are DONE and not part of a step that is prepared.
  bool HasDoneUnits() const { return done_.size() > prepared_; }

  // Adds this study's counts.
  void AddProgress(tunefarm::v1::Progress* progress) const;
  tunefarm::v1::Study ToProto() const;

 private:
  struct Unit {
    UnitKind kind = UnitKind::kSearch;
    std::vector<tunefarm::agent::v1::TrialSpec> specs;
    std::map<int64_t, tunefarm::v1::Trial> trials;  // ended, by ordinal

    // The canonical text of a trial's config.
    const std::string& ConfigOf(int64_t ordinal) const {
      return specs.at(static_cast<size_t>(ordinal - specs.front().ordinal())).config();
    }
  };
  struct Draft {
    Unit unit;
    UnitRow row;
  };

  explicit Study(StudyContext context);
  // Adds the trials of a unit that have ended, as far as the history has them.
  absl::Status ReadTrials(const UnitRow& row, const StudyHistory& history, const TrialReader& with_samples,
                          Unit* unit) const;
  absl::Status ReplayProposal(const UnitRow& row, const StudyHistory& history, const TrialReader& with_samples);
  // What a told unit means to the race. Its results of the search, as the proposer is told them.
  // The parameters that may have more than one value.
  static std::set<std::string> VariedParameters(const StudyContext& context);
  void Fold(const Unit& unit, std::vector<Proposer::Result>* results);
  void Count(const Unit& unit, const tunefarm::v1::Trial& trial);
  void NoteIncumbent(const tunefarm::v1::Trial& trial);
  int64_t OpenTrials() const;
  // Why the search must end; empty: it need not. What was stored stays the reason, whichever node drives the job.
  std::string WhySearchEnds(const std::string& stop_because) const;
  void Propose(const Proposer::Answer& answer, StudyStep* step);
  absl::Status BeginOrEnd(const tunefarm::v1::BestConfig* incumbent, StudyStep* step);
  // `again`: no new finalists but these, again, against the incumbent; empty: the next best.
  absl::StatusOr<bool> AddFinals(const tunefarm::v1::BestConfig* incumbent, const std::vector<std::string>& again,
                                 StudyStep* step);
  // A final that two devices took part in compares nothing: it is measured again, as if it had not been.
  static bool IsVoid(const Unit& unit);
  absl::Status BeginAgain(const Unit& unit, const tunefarm::v1::BestConfig* incumbent, StudyStep* step);
  // All further finals are on this device; empty: on whichever may run the study.
  void TieFinals(const std::string& device_uuid, StudyStep* step);
  void DoubtFinalists(std::vector<FinalTrial>* trials, StudyStep* step) const;
  absl::Status Conclude(const Unit& unit, const tunefarm::v1::BestConfig* incumbent, StudyStep* step);
  void Add(UnitKind kind, std::vector<tunefarm::agent::v1::TrialSpec> specs, int rounds, StudyStep* step);
  void End(StudyStep* step);
  // Records that it must end, while units of it are still with agents.
  void StopSearch(const std::string& because, StudyStep* step);
  // Records why the search has ended, which the row shows from then on.
  void EndSearch(const std::string& stop_because, StudyStep* step);
  // `config`: its canonical text; empty for a baseline.
  tunefarm::agent::v1::TrialSpec Spec(std::string config, tunefarm::v1::TrialPurpose purpose);
  // The incumbent's config, if it can take part; canonical text.
  std::optional<std::string> IncumbentConfig(const tunefarm::v1::BestConfig* incumbent) const;

  const StudyContext context_;
  const tunefarm::v1::MeasurementPolicy policy_;
  tunefarm::v1::Study summary_;  // as stored, with what this run has added
  std::shared_ptr<Proposer> proposer_;
  std::vector<PriorRow> priors_;  // until the first step has stored them

  StudyState state_ = StudyState::kSearching;
  int64_t next_ordinal_ = 0;
  int64_t proposed_ = 0;  // configs of the search
  bool first_step_ = true;
  std::map<int64_t, Unit> units_;  // READY, CLAIMED and DONE, by unit id
  std::deque<int64_t> done_;       // DONE and not told, in order
  size_t prepared_ = 0;            // of done_, from the front: part of the step that is prepared
  std::vector<Draft> drafts_;      // of the step that is being committed
  int finals_ = 0;
  int64_t finals_planned_ = 0;
  std::set<std::string> finalists_;  // configs that have been in a final
  bool leaves_finals_device_ = false;
  Leaderboard leaderboard_;
  StoppingRule rule_;
  ParameterEffects effects_;
  std::string search_ended_because_;  // empty before
  double device_busy_ms_ = 0;
  std::string default_config_;
  bool default_failed_ = false;
  double default_ns_ = 0;  // as Study.default_ns

  std::map<tunefarm::v1::Outcome, int64_t> search_counts_;
  std::string first_loss_;  // the message of the first LOST trial of the search
  int64_t searched_ = 0, finals_ended_ = 0;
  int64_t taken_over_ = 0;  // of the search, from earlier jobs
  std::optional<tunefarm::v1::Trial> incumbent_, baseline_;
  std::optional<tunefarm::v1::BestConfig> best_;
};

}  // namespace tunefarm
