// Driver: moves active jobs on. For each study it tells results to the strategy, records the next proposals, starts the
// final, promotes the winner; it ends jobs, and takes them up again after a restart.
//
// The studies of a job on one class begin one after another, each when those before it leave too little work for the
// devices: so the later ones learn from the earlier ones, and only those at work hold their spaces in memory.
//
// Several daemons may drive jobs of one store (node.h). A job is driven by the one that adopted it last, under that
// adoption's epoch, which every step and change of state of its driver names: a driver that is refused for it drops the
// job, and nothing is lost, since all that a driver knows can be read from the store. What happened through other
// daemons is found by asking the store (Follow), as often as the node's options say.
//
// Threads: all methods may be called from any thread. Steps run on the control executor. What it knows of active jobs
// is guarded by one lock, held for the few milliseconds that a step's transaction takes.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/base/executor.h"
#include "server/base/mutex.h"
#include "server/catalog/best_changes.h"
#include "server/catalog/catalog.h"
#include "server/farm/control_link.h"
#include "server/jobs/event_hub.h"
#include "server/jobs/job_backlog.h"
#include "server/jobs/study.h"
#include "server/nodes/node.h"

namespace tunefarm {

class Driver : public std::enable_shared_from_this<Driver> {
 public:
  // All outlive the driver.
  struct Dependencies {
    Store* store = nullptr;
    Executor* executor = nullptr;
    KernelRegistry* kernels = nullptr;
    DeviceDirectory* devices = nullptr;
    Catalog* catalog = nullptr;
    EventHub* events = nullptr;
    BestChanges* bests = nullptr;
    ControlLink* link = nullptr;
    Node* node = nullptr;
  };

  explicit Driver(const Dependencies& dependencies);

  // No further steps.
  void Stop();

  // Adopts jobs that nobody drives, as many as the node takes at once, and loads them on the executor. A job whose
  // history cannot be read FAILs. The store's errors.
  absl::Status AdoptOrphans();
  // What others did: states of jobs that are driven here or that agents here hold units of, and results that were
  // reported elsewhere. Drops everything when the node's lease is lost. The store's errors.
  absl::Status Follow();
  // Ends of searches of jobs that others drive and agents here hold units of. The store's errors.
  absl::Status FollowSearches();
  // Whether it drives jobs, or agents here hold units.
  bool is_busy() const;
  // Whether the job is driven here, or waits here for its turn.
  bool Drives(int64_t job_id) const;

  // FailedPrecondition (JOB_STATE), NotFound, or the store's errors.
  absl::Status Cancel(int64_t job_id);
  absl::Status Pause(int64_t job_id);
  absl::Status Resume(int64_t job_id);

  // An active job as it is now; none if it is not active here.
  std::optional<tunefarm::v1::Job> Find(int64_t job_id) const;
  // Its state and counts only.
  std::optional<tunefarm::v1::Job> FindSummary(int64_t job_id) const;
  int active_jobs() const;

  // Space has run low: what runs is PAUSED with the reason, which must not be empty, and nothing more is handed out.
  // May be called again: a job that could not be paused is tried again.
  void Suspend(const std::string& reason);
  // Takes up again what Suspend paused, here or in an earlier run.
  void Unsuspend();
  // The reason, while suspended; else empty.
  std::string suspended() const;

  // Whether work waits for a device may have changed: those who watch jobs are told. Returns at once.
  void TellWaiting();
  // The same after agents have come, gone or changed: jobs that are being cancelled may have got their last unit back.
  void AgentsChanged();

  // From the link's hooks.
  void Reported(int64_t study_id, int64_t unit_id, std::vector<tunefarm::v1::Trial> trials, bool done);
  void Claimed(int64_t job_id);
  void Gone(int64_t job_id);

 private:
  // What could not be read or written is tried again after it.
  static constexpr Duration kStepRetryDelay = std::chrono::seconds(1);
  // Steps in a row that the store refuses because it has something else than the driver knows.
  static constexpr int kMismatchesMax = 3;

  // When the store was asked for results that others took in, and how long it takes until it is again: longer where it
  // had none.
  struct Asked {
    MonotonicTime at{};
    Duration pause = Duration::zero();
  };
  struct Active {
    JobRow row;
    int64_t epoch = 0;  // of the adoption
    tunefarm::v1::Job spec;
    std::map<int64_t, std::unique_ptr<Study>> studies;  // by study id
    std::set<int64_t> broken;                           // a step was lost: to be made again from the store
    std::map<int64_t, Asked> asked;                     // by study
    int64_t beginning = 0;                              // the study that is about to begin; 0: none
    std::string stop_because;  // a bound of the whole job: its searches must end; empty: they need not
    int mismatches = 0;
    bool step_posted = false;
    MonotonicTime stepped{};  // when a step that was posted ran last
    TimerId time_timer = 0;
    TimerId retry_timer = 0;
    MonotonicTime began{};       // of this run's first trial, for the estimate
    int64_t done_at_begin = -1;  // -1: not begun
    std::string told_waiting;    // the reason that watchers know
  };

  absl::StatusOr<std::unique_ptr<Active>> Load(const JobRow& row);
  absl::StatusOr<StudyContext> ContextOf(const Active& job, const StudyRow& row);
  // With its history, if it has begun.
  absl::StatusOr<std::unique_ptr<Study>> LoadStudy(const Active& job, const StudyRow& row);
  // From what is stored now.
  absl::StatusOr<std::unique_ptr<Study>> ReloadStudy(const Active& job, int64_t study_id);
  // A job of which this program does not know `unknown` (see newer_job.h).
  absl::Status LeaveAlone(const JobRow& row, int64_t epoch, const std::string& unknown) LOCKS_EXCLUDED(mutex_);
  // Loads the job and takes it up, on the executor.
  void Adopt(int64_t job_id);
  // The same now; tries again later when the store is not available.
  void TryAdopt(int64_t job_id, int64_t epoch) LOCKS_EXCLUDED(mutex_);
  // Whether the node may drive under the name that its jobs were adopted under.
  bool MayDrive() const EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Under a new name nothing of the old one's is driven any more.
  bool KeepName() EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NoteAdopted(const DrivenJob& job) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // After an adoption whose answer was lost: what the store says is this node's. The store's errors.
  absl::Status FindAdopted() EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HoldsEpoch(int64_t job_id, int64_t epoch) const EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Another node drives the job, or will: forgets it here, with no word to the store.
  void Drop(int64_t job_id) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<int64_t> FollowedJobs() EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FollowOwn(const JobStateRow& row) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FollowWaiting(const JobStateRow& row) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Of a job that another node drives: what agents here may do with its units.
  void FollowOther(const JobStateRow& row) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status FollowResults() EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsArriving(int64_t unit_id) LOCKS_EXCLUDED(arriving_mutex_);
  // The study's units that are DONE in the store. False: the study must be made again.
  absl::StatusOr<bool> TakeDone(Active& job, Study& study) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AddTrials(Active& job, Study& study, int64_t unit_id, std::vector<tunefarm::v1::Trial> trials)
      EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // True: the job is to be driven now. False: it waits for room, or for its resumption.
  bool Admit(const JobRow& row) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The job is not driven any more, and another may be.
  void MakeRoom(int64_t job_id) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DriveNext() EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TakeUp(std::unique_ptr<Active> job) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Post(std::function<void(Driver*)> task);
  Active* FindActive(int64_t job_id) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Sends the best so far of every study to its final.
  void StopSearch(Active& job, std::string because) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CheckDeviceTime(Active& job) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static double DeviceBusyMsOf(const Active& job);
  void StartTimer(Active& job) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Begin(Active& job) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Steps all studies that have something to do and ends the job if all have ended. The job may be gone afterwards.
  void Step(int64_t job_id) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // After what has been reported already, and no more often than the node's step_pause: what many agents report is
  // told in one step.
  void StepSoon(Active& job) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // How many trials a study should have proposed and not ended.
  int OpenTrialsWanted(const Active& job, const std::string& class_id, int devices) const
      EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Lets the job's next study begin if there is room for it.
  void BeginNext(Active& job) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Chooses what the study starts from, builds its space and strategy, and makes its first step. Without the lock but
  // for its ends: both may take their time.
  void BeginStudy(int64_t job_id, int64_t study_id) LOCKS_EXCLUDED(mutex_);
  // A study that has begun. The store's, the space's and the strategy's errors.
  absl::StatusOr<std::unique_ptr<Study>> Begun(StudyContext context);
  // A job of which every trial of every study was lost has not been done. Empty: it has.
  static std::string WhyAllWereLost(const Active& job);
  // False: the job's steps must wait for a retry, or the job has failed.
  bool StepStudy(Active& job, int64_t study_id) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Files the winner of the step's final, or says in the step's messages why not.
  absl::Status Promote(Active& job, Study& study, StudyStep* step, const tunefarm::v1::BestConfig* incumbent)
      EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  tunefarm::v1::BestConfig BestOf(const Active& job, const Study& study, const StudyStep::Promotion& promotion) const;
  void RetryLater(Active& job) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether the device that the study's finals are tied to takes no work, and another one could.
  bool HasLostFinalsDevice(const Study& study) const;
  // Steps those studies.
  void FreeFinals() EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // After a failed step: wait and repair, or FAIL.
  void OnStepError(Active& job, int64_t study_id, const absl::Status& status) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndJob(int64_t job_id, JobState to, const std::string& error) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // It has ended in the store.
  void Ended(int64_t job_id, JobState to, const std::string& error) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // CANCELLED, if the store has no unit of it with an agent.
  void FinishCancel(int64_t job_id) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FinishCancelLater(int64_t job_id);
  // `reason`: why, when nobody asked for it.
  absl::Status ChangeState(int64_t job_id, const std::vector<JobState>& from, JobState to, std::string_view verb,
                           const std::string& reason = "") EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status TakeUpPaused(int64_t job_id) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  tunefarm::v1::Progress ProgressOf(const Active& job) const EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Of a job none of whose studies that still run gets a device.
  std::string WaitingReason(const Active& job) const EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  tunefarm::v1::Job ToProto(const Active& job, bool with_studies) const EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PublishJob(const Active& job) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PublishStudy(const Active& job, const Study& study) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PublishMessage(const Active& job, const std::string& text) EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Dependencies deps_;
  mutable Mutex mutex_;
  Mutex arriving_mutex_ ACQUIRED_AFTER(mutex_);
  std::set<int64_t> arriving_ GUARDED_BY(arriving_mutex_);  // units that are DONE and whose Reported is on its way
  bool stopped_ GUARDED_BY(mutex_) = false;
  std::string suspended_ GUARDED_BY(mutex_);  // why; empty: not suspended
  std::map<int64_t, std::unique_ptr<Active>> jobs_ GUARDED_BY(mutex_);
  JobBacklog backlog_ GUARDED_BY(mutex_);
  std::set<int64_t> parked_ GUARDED_BY(mutex_);      // PAUSED before they were ever driven
  std::set<int64_t> left_alone_ GUARDED_BY(mutex_);  // see LeaveAlone
  std::map<int64_t, int64_t> job_of_study_ GUARDED_BY(mutex_);

  std::string name_ GUARDED_BY(mutex_);                   // the node's, under which jobs were adopted
  int64_t replacements_ GUARDED_BY(mutex_) = 0;           // of the database, after which the link has begun again
  std::map<int64_t, int64_t> epochs_ GUARDED_BY(mutex_);  // of all jobs that are the node's, also those that wait
  bool adoption_unknown_ GUARDED_BY(mutex_) = false;
  std::map<int64_t, JobState> told_link_ GUARDED_BY(mutex_);  // of jobs that others drive
  int64_t states_after_ GUARDED_BY(mutex_) = 0;               // where the next part of those that wait begins
  int64_t results_after_ GUARDED_BY(mutex_) = 0;              // the same of studies
};

}  // namespace tunefarm
