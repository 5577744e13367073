// Scheduler: moves the jobs on that are driven here. For each study it tells results to the strategy, records the next
// proposals, starts the final, promotes the winner; it ends jobs, and takes them up again after a restart.
//
// Its parts: job_adoption.h (which jobs are this daemon's), job_admission.h (which of them are held in memory),
// job_run.h (one job that is), other_jobs.h (those of other nodes), job_orders.h (what people want) and job_board.h
// (what readers see). A driver that the store refuses for its epoch drops the job, and nothing is lost, since all that
// is known here can be read from the store. What happened through other daemons is found by asking the store (Follow),
// as often as the node's options say; an order of a person takes the same way, at once.
//
// Threads: all methods may be called from any thread. Steps run on the control executor, with the turn (turn.h), which
// is held for the store calls of a step. What may take long runs on the task runner without the turn: histories are
// read, spaces built and strategies asked there. Nothing that reads waits for the turn, and an order does for at most
// kOrderWait.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/jobs/arriving_units.h"
#include "server/jobs/job_admission.h"
#include "server/jobs/job_adoption.h"
#include "server/jobs/job_board.h"
#include "server/jobs/job_loading.h"
#include "server/jobs/job_orders.h"
#include "server/jobs/job_run.h"
#include "server/jobs/other_jobs.h"
#include "server/jobs/turn.h"
#include "server/store/job_store.h"

namespace tunefarm {

class Scheduler : public std::enable_shared_from_this<Scheduler> {
 public:
  using Dependencies = JobTools;

  explicit Scheduler(const Dependencies& dependencies);

  // No further steps. Tasks that are under way end soon.
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
  bool is_busy() const { return board_.is_busy(); }
  // Whether the job is driven here, or waits here for its turn.
  bool Drives(int64_t job_id) const { return board_.Drives(job_id); }

  // FailedPrecondition (JOB_STATE), NotFound, or the store's errors. When they return, the order is stored and shown.
  // It is in effect too, unless the store or a step takes longer than kOrderWait: then before the next step.
  absl::Status Cancel(int64_t job_id);
  absl::Status Pause(int64_t job_id);
  // ResourceExhausted (LOW_SPACE) while suspended.
  absl::Status Resume(int64_t job_id);

  // An active job as it is now; none if it is not active here. Waits for nothing.
  std::optional<tunefarm::v1::Job> Find(int64_t job_id, bool with_studies = true) const;
  // Its state and counts only.
  std::optional<tunefarm::v1::Job> FindSummary(int64_t job_id) const { return Find(job_id, false); }
  int active_jobs() const { return board_.active(); }

  // Space has run low: what runs is PAUSED with the reason, which must not be empty, and nothing more is handed out.
  // May be called again: a job that could not be paused is tried again. Waits for the step that is under way.
  void Suspend(const std::string& reason);
  // Takes up again what Suspend paused, here or in an earlier run.
  void Unsuspend();
  // The reason, while suspended; else empty.
  std::string suspended() const { return board_.suspended(); }

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
  // Steps in a row that the store refuses because it has something else than is known here.
  static constexpr int kMismatchesMax = 3;
  // How long an order, from its beginning, may wait for a turn: with what the store takes the answer comes within 5 s.
  static constexpr Duration kOrderWait = std::chrono::milliseconds(500);

  struct Driven {
    std::shared_ptr<JobRun> run;  // tasks that are under way know by it whether it is still the one
    bool step_posted = false;
    MonotonicTime stepped{};  // when a step that was posted ran last
    TimerId time_timer = 0;
    TimerId retry_timer = 0;
    TimerId publish_timer = 0;
    TimerId quiet_timer = 0;
  };
  // A job that has room in memory, as it was read when it got it.
  struct AdmittedJob {
    JobRow row;
    int64_t epoch = 0;
    JobLoading::Flag is_given_up;
  };
  // The turn for a scope; at its end the board gets the counts.
  class SCOPED_LOCKABLE Work {
   public:
    explicit Work(Scheduler* scheduler) EXCLUSIVE_LOCK_FUNCTION(scheduler->turn_) : scheduler_(scheduler) {
      scheduler_->turn_.Take();
    }
    // Of a turn that was taken.
    Work(Scheduler* scheduler, std::adopt_lock_t /*taken*/) EXCLUSIVE_LOCKS_REQUIRED(scheduler->turn_)
        : scheduler_(scheduler) {}
    ~Work() UNLOCK_FUNCTION();
    Work(const Work&) = delete;
    Work& operator=(const Work&) = delete;

   private:
    Scheduler* const scheduler_;
  };

  // Runs the task on the executor, at once or after the delay, while the scheduler lives.
  TimerId Post(std::function<void(Scheduler*)> task, Duration delay = Duration::zero());
  // The same on the task runner; not once the scheduler has been stopped. `slow_owner`: a slow task of that principal.
  void PostTask(std::function<void(Scheduler*)> task, std::optional<std::string> slow_owner = std::nullopt)
      EXCLUSIVE_LOCKS_REQUIRED(turn_);
  // Runs the study's task, and then its step.
  void RunTask(const Driven& driven, int64_t study_id, StudyTask task) EXCLUSIVE_LOCKS_REQUIRED(turn_);
  Driven* FindRun(int64_t job_id) EXCLUSIVE_LOCKS_REQUIRED(turn_);

  // scheduler_follow.cc: which jobs are driven, and what others want of them.
  // Under a new name nothing of the old one's is driven any more. Whether jobs may be driven.
  bool KeepName() EXCLUSIVE_LOCKS_REQUIRED(turn_);
  // Reads an adopted job and takes it up, on the task runner; tries again later when the store is not available.
  // `admitted`: the same as a slow task, for a job whose spaces take long; null: from the beginning.
  void Adopt(int64_t job_id, std::shared_ptr<const AdmittedJob> admitted = nullptr) LOCKS_EXCLUDED(turn_);
  void TakeUp(std::unique_ptr<JobRun> run, JobRow row, int64_t epoch) EXCLUSIVE_LOCKS_REQUIRED(turn_);
  // The job is not driven here any more, with no word to the store. Others may take its room.
  void Remove(int64_t job_id) EXCLUSIVE_LOCKS_REQUIRED(turn_);
  void AdmitNext() EXCLUSIVE_LOCKS_REQUIRED(turn_);
  void FollowOwn(const JobStateRow& row) EXCLUSIVE_LOCKS_REQUIRED(turn_);
  // Of a job that is not held in memory.
  void FollowWaiting(const JobStateRow& row) EXCLUSIVE_LOCKS_REQUIRED(turn_);
  absl::Status FollowResults() EXCLUSIVE_LOCKS_REQUIRED(turn_);
  // Acts on all orders that are stored; tries again later when the store is not available.
  void TakeOrders() EXCLUSIVE_LOCKS_REQUIRED(turn_);
  // The same at the end of an order, which began then.
  void TakeOrdersSoon(MonotonicTime began) LOCKS_EXCLUDED(turn_);

  // scheduler.cc: the steps.
  // For its bound on time and, once it has begun, for saying that none of its trials ends.
  void StartTimers(Driven& driven) EXCLUSIVE_LOCKS_REQUIRED(turn_);
  // Steps all studies that have something to do, or one of them, and ends the job if all have ended. The job may be
  // gone afterwards.
  void Step(int64_t job_id, std::optional<int64_t> only = std::nullopt) EXCLUSIVE_LOCKS_REQUIRED(turn_);
  // After what has been posted already, and no more often than the node's step_pause: what many agents report is told
  // in one step.
  void StepSoon(Driven& driven) EXCLUSIVE_LOCKS_REQUIRED(turn_);
  // How many trials a study should have proposed and not ended.
  int OpenTrialsWanted(const JobRun& run, const std::string& class_id, int devices) const
      EXCLUSIVE_LOCKS_REQUIRED(turn_);
  // Lets the job's next study begin if there is room for it.
  void BeginNext(Driven& driven) EXCLUSIVE_LOCKS_REQUIRED(turn_);
  // After a failed step: wait and repair, or FAIL.
  void OnStepError(Driven& driven, int64_t study_id, const absl::Status& status) EXCLUSIVE_LOCKS_REQUIRED(turn_);
  void RetryLater(Driven& driven) EXCLUSIVE_LOCKS_REQUIRED(turn_);
  void EndJob(int64_t job_id, JobState to, const std::string& error) EXCLUSIVE_LOCKS_REQUIRED(turn_);
  // It has ended in the store.
  void Ended(int64_t job_id, JobState to, const std::string& error) EXCLUSIVE_LOCKS_REQUIRED(turn_);
  // CANCELLED, if the store has no unit of it with an agent; now or after the delay.
  void FinishCancel(int64_t job_id, Duration delay = Duration::zero()) EXCLUSIVE_LOCKS_REQUIRED(turn_);
  // What has changed of the job, to readers: no more often than every JobRun::kPublishPause.
  void PublishSoon(Driven& driven) EXCLUSIVE_LOCKS_REQUIRED(turn_);

  const Dependencies deps_;
  JobBoard board_;
  JobOrders orders_;
  ArrivingUnits arriving_;

  Turn turn_;
  bool stopped_ GUARDED_BY(turn_) = false;
  std::map<int64_t, Driven> jobs_ GUARDED_BY(turn_);
  JobLoading loading_ GUARDED_BY(turn_);
  std::map<int64_t, int64_t> job_of_study_ GUARDED_BY(turn_);
  JobAdoption adoption_ GUARDED_BY(turn_);
  JobAdmission admission_ GUARDED_BY(turn_);
  OtherJobs others_ GUARDED_BY(turn_);
  int64_t results_after_ GUARDED_BY(turn_) = 0;  // the study with which the last part of FollowResults ended
  TimerId order_timer_ GUARDED_BY(turn_) = 0;
};

}  // namespace tunefarm
