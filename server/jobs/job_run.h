// JobRun: one job that is driven here, with its studies. It makes their steps and stores them, and shows the job to
// those who read and watch. When what happens, and what becomes of errors, is the scheduler's.
//
// The studies of a job on one class begin one after another, each when those before it leave too little work for the
// devices: so the later ones learn from the earlier ones, and only those at work hold their spaces in memory.
//
// What of a study takes long is a StudyTask, which runs without the turn: to read its history, to make its space, to
// ask its strategy. A study has one at a time, and makes no step meanwhile. A task that makes a space has
// kQuickTaskTime; where that is not enough it is made again as a slow task, which has kTaskTime.
//
// Not thread-safe: the scheduler owns it, and uses it with its turn. Load touches no other run, and may take long.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/base/executor.h"
#include "server/catalog/best_changes.h"
#include "server/catalog/catalog.h"
#include "server/farm/control_link.h"
#include "server/jobs/arriving_units.h"
#include "server/jobs/event_hub.h"
#include "server/jobs/job_board.h"
#include "server/jobs/study.h"
#include "server/jobs/study_loader.h"
#include "server/nodes/node.h"
#include "server/store/store.h"
#include "server/store/study_store.h"

namespace tunefarm {

// What jobs are driven with. All outlive those who use it.
struct JobTools {
  Store* store = nullptr;
  Executor* executor = nullptr;  // steps, with the turn
  TaskRunner* tasks = nullptr;   // what takes long, without it; what takes very long as slow tasks of their jobs
  KernelRegistry* kernels = nullptr;
  DeviceDirectory* devices = nullptr;
  Catalog* catalog = nullptr;
  EventHub* events = nullptr;
  BestChanges* bests = nullptr;
  ControlLink* link = nullptr;
  Node* node = nullptr;
};

// What a StudyTask returns to its run: the study as it was made, or the answer of its proposer.
struct StudyTaskResult {
  std::unique_ptr<Study> study;
  Proposer::Answer answer;
};
// Runs once, on any thread, and touches no run. The errors of the store, of spaces and of strategies.
using StudyTask = std::function<absl::StatusOr<StudyTaskResult>()>;

class JobRun {
 public:
  // Counts of a job whose state stays the same are published no more often.
  static constexpr Duration kPublishPause = std::chrono::milliseconds(100);
  // A job of which no trial ends for this long says what it waits for, and again each time the wait has doubled. Where
  // trials take longer, twice the longest wait so far counts instead (QuietFirst).
  static constexpr Duration kQuietMin = std::chrono::seconds(10);

  // With the history of its studies. DataLoss, or the errors of the store, of spaces and of strategies; WORK_LIMIT
  // where a space takes more than `give_up_after`. Once `is_given_up` is true, this and all tasks of the run end with
  // Cancelled.
  static absl::StatusOr<std::unique_ptr<JobRun>> Load(const JobTools& tools, JobBoard* board, const JobRow& row,
                                                      Duration give_up_after,
                                                      std::shared_ptr<std::atomic<bool>> is_given_up);

  int64_t id() const { return row_.job_id; }
  const JobRow& row() const { return row_; }
  const tunefarm::v1::Job& spec() const { return loader_->spec(); }
  const std::map<int64_t, std::unique_ptr<Study>>& studies() const { return studies_; }
  Study& study(int64_t study_id) { return *studies_.at(study_id); }
  bool IsSearching(const std::string& class_id) const;
  bool HasEnded() const;  // every study

  // It is driven here from now on: as the store has it, under the epoch of its adoption, with what was reported while
  // it was loaded. Publishes it.
  void TakeUp(JobRow row, int64_t epoch, const ArrivingUnits& arriving);
  // As it is stored, with the reason where nobody asked for it. Publishes it.
  void SetState(JobState state, const std::string& reason);
  // Its first trial has been handed out.
  void Begin();
  bool has_begun() const { return done_at_begin_ >= 0; }  // here

  // Trials of a unit that were reported.
  void AddTrials(int64_t study_id, int64_t unit_id, std::vector<tunefarm::v1::Trial> trials);
  // The study's units that are DONE in the store. False: the study must be made again. The store's errors.
  absl::StatusOr<bool> TakeDone(int64_t study_id, const ArrivingUnits& arriving);
  // Studies whose results are to be asked for now.
  std::vector<int64_t> StudiesToAsk(MonotonicTime now) const;
  // A step of it was lost: it is made again from the store before the next one.
  void Break(int64_t study_id) { broken_.insert(study_id); }

  // Nobody needs its tasks any more: they end soon, with an error.
  void GiveUpTasks() { is_given_up_->store(true); }
  // Sends the best so far of every study to its final, and gives up the tasks that would only propose more; nothing if
  // that was done before.
  void StopSearch(std::string because);
  bool is_stopped() const { return !stop_because_.empty(); }
  // Stops it when devices have worked for it as long as its budget allows. Whether it did.
  bool CheckDeviceTime();

  // Whether a step of the study may have something to do, and no task of it is under way.
  bool NeedsStep(int64_t study_id) const;
  // What must be done before the study's next step; null: the step can be made now. FinishTask must follow.
  StudyTask PrepareStep(int64_t study_id, int open_trials_wanted, int devices);
  // Makes and stores the study's next step, which is prepared. Any error: nothing is known of what was stored.
  absl::Status StepStudy(int64_t study_id);
  // Counts a step that the store refused because it has something else than is known here: how many in a row.
  int CountMismatch() { return ++mismatches_; }
  // How many devices take part, at least 1.
  int DevicesFor(int64_t study_id) const;
  // The study that is to begin now, and how; none: none is. FinishTask must follow.
  struct Beginning {
    int64_t study_id = 0;
    StudyTask task;
  };
  std::optional<Beginning> TakeNextToBegin();
  // Whether the study's next task is a slow one.
  bool IsSlow(int64_t study_id) const { return slow_.count(study_id) > 0; }
  // A task has ended. Its error, or the store's, after which the study must be made again.
  absl::Status FinishTask(int64_t study_id, absl::StatusOr<StudyTaskResult> result, const ArrivingUnits& arriving);
  // Whether a device that finals are tied to takes no work, and another one could.
  bool HasLostFinalsDevice() const;
  // A job of which every trial of every study was lost has not been done. Empty: it has.
  std::string WhyAllWereLost() const;

  // To readers, at once.
  void Publish();
  bool has_news() const { return has_news_; }
  MonotonicTime published() const { return published_; }
  // To readers and watchers, if the reason why it waits has changed. Time without a device does not count as a wait for
  // a trial: where there is one again, UntilQuiet counts from then on.
  void PublishWaiting();
  // When PublishWaiting has the next thing to say of a job none of whose trials ends.
  Duration UntilQuiet() const;

 private:
  // When the store was asked for results that others took in, and how long it takes until it is again: longer where it
  // had none.
  struct Asked {
    MonotonicTime at{};
    Duration pause = Duration::zero();
  };

  enum class TaskKind { kBegin, kLoadAgain, kAsk };

  struct Task {
    TaskKind kind = TaskKind::kBegin;
    std::shared_ptr<WorkLimit> limit;  // of the work on its space
  };

  JobRun(const JobTools& tools, JobBoard* board, JobRow row, std::shared_ptr<const StudyLoader> loader,
         std::shared_ptr<std::atomic<bool>> is_given_up);
  Duration GiveUpAfter(int64_t study_id) const { return IsSlow(study_id) ? Duration::max() : kQuickTaskTime; }
  // Takes the units that became DONE while the study's history was read: what was reported then reached no study, or
  // the one that this replaces. The store's errors, after which the study must be made again.
  absl::Status CatchUp(int64_t study_id, const ArrivingUnits& arriving);
  std::shared_ptr<const tunefarm::v1::BestConfig> IncumbentOf(const Study& study) const;
  absl::StatusOr<std::vector<tunefarm::v1::Trial>> TrialsOf(const StudyRow& study, const UnitRow& unit,
                                                            const StudyHistory& done) const;
  bool HasLostFinalsDevice(const Study& study) const;
  // Stores the step, its promotion first.
  absl::Status Commit(Study& study, StudyStep* step, const tunefarm::v1::BestConfig* incumbent);
  // Watchers and agents learn of a step that is stored.
  void Announce(const Study& study, const StudyStep& step);
  tunefarm::v1::Progress Progress() const;
  // Of a job none of whose studies that still run gets a device.
  std::string DeviceReason() const;
  // DeviceReason; else of a job that has no more to do than to make its spaces, or none of whose trials ends.
  std::string WaitingReason() const;
  std::string SpaceReason() const;
  // Of a job none of whose trials ends: the trial that it waits for, and for how long.
  std::string QuietReason() const;
  // The largest of QuietFirst and its doublings that is not longer than the present wait; zero below QuietFirst.
  Duration QuietTime() const;
  Duration QuietFirst() const { return std::max(kQuietMin, 2 * longest_wait_); }
  double DeviceBusyMs() const;
  void PublishJob();
  void PublishStudy(const Study& study);
  void PublishMessage(const std::string& text);

  const JobTools tools_;
  JobBoard* const board_;
  JobRow row_;
  int64_t epoch_ = 0;  // of the adoption
  const std::shared_ptr<const StudyLoader> loader_;
  std::map<int64_t, std::unique_ptr<Study>> studies_;  // by study id
  std::set<int64_t> broken_;                           // a step was lost: to be made again from the store
  const std::shared_ptr<std::atomic<bool>> is_given_up_;
  std::map<int64_t, Task> tasks_;                // under way, by study
  std::set<int64_t> slow_;                       // studies whose tasks take long
  std::map<int64_t, Proposer::Answer> answers_;  // for the next steps, by study
  std::map<int64_t, Asked> asked_;               // by study
  std::string stop_because_;  // a bound of the whole job: its searches must end; empty: they need not
  int mismatches_ = 0;
  MonotonicTime began_{};       // of this run's first trial, for the estimate
  int64_t done_at_begin_ = -1;  // -1: not begun
  std::string told_waiting_;    // the reason that watchers know
  MonotonicTime last_ended_{};  // when its last trial ended here, or when it began, was resumed or got a device again
  bool lacks_device_ = false;   // DeviceReason told why
  Duration longest_wait_{};     // between two of them

  std::shared_ptr<const tunefarm::v1::Job> request_;  // for snapshots
  std::map<int64_t, std::shared_ptr<const tunefarm::v1::Study>> shown_;
  std::set<int64_t> changed_;  // studies that are shown as they were
  bool has_news_ = false;
  std::shared_ptr<const JobSnapshot> snapshot_;
  MonotonicTime published_{};
};

}  // namespace tunefarm
