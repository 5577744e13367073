// Fixture, jobs, kernels, devices, catalog, poison, settings, backup.
#include "tests/store/conformance.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <set>

#include "server/base/status.h"
#include "server/store/agent_store.h"
#include "server/store/device_store.h"
#include "server/store/poison_store.h"
#include "server/store/setting_store.h"
#include "server/store/store_maintenance.h"
#include "server/store/study_store.h"
#include "server/store/transitions.h"

namespace tunefarm {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

KernelRow MakeKernel(const std::string& id, const std::string& name) {
  return {id, "program-" + id, name, std::string("definition\0of ", 14) + id, kNow, ""};
}

StudyRow MakeStudy(int number, const std::string& class_id, const std::string& device_selector) {
  StudyRow study;
  study.number = number;
  study.problem_key = "m=" + std::to_string(number);
  study.problem = "problem";
  study.class_id = class_id;
  study.device_selector = device_selector;
  study.detail = "summary";
  return study;
}

SubmitRequest MakeSubmit(const std::string& uid, std::vector<StudyRow> studies) {
  SubmitRequest request;
  request.job.uid = uid;
  request.job.kernel_id = "kernel";
  request.job.spec = "spec";
  request.job.created_at_ms = kNow;
  request.job.studies = std::move(studies);
  request.kernel = MakeKernel("kernel");
  request.body_digest = "digest";
  request.now_ms = kNow;
  return request;
}

UnitRow MakeUnit(int64_t first_ordinal, int trial_count, const std::string& payload) {
  UnitRow unit;
  unit.first_ordinal = first_ordinal;
  unit.trial_count = trial_count;
  unit.payload = payload;
  return unit;
}

TrialRow MakeTrial(int64_t ordinal, double median_ns, int outcome) {
  TrialRow trial;
  trial.ordinal = ordinal;
  trial.median_ns = median_ns;
  trial.outcome = outcome;
  trial.config = "tile=" + std::to_string(ordinal);
  trial.device_uuid = "gpu-0";
  trial.detail = "detail";
  trial.ended_at_ms = kNow + ordinal;
  return trial;
}

BestRow MakeBest(const std::string& program, const std::string& problem, double median_ns) {
  BestRow best;
  best.kernel_name = "matmul";
  best.kernel_id = "kernel";
  best.program_digest = program;
  best.problem_key = problem;
  best.class_id = "class";
  best.config = "tile=1";
  best.detail = "detail";
  best.median_ns = median_ns;
  best.job_id = 1;
  best.study_id = 2;
  best.ordinal = 3;
  best.promoted_at_ms = kNow;
  return best;
}

std::vector<JobRow> AllJobs(Store* store) {
  std::vector<JobRow> jobs;
  PageRequest request;
  do {
    Page<JobRow> page = store->jobs()->ListJobs({}, request).value();
    jobs.insert(jobs.end(), page.rows.begin(), page.rows.end());
    request.page_token = page.next_page_token;
  } while (!request.page_token.empty());
  return jobs;
}

void StoreConformance::Reopen() {
  store_.reset();
  absl::StatusOr<std::unique_ptr<Store>> opened = GetParam().open(directory_.path());
  ASSERT_TRUE(opened.ok()) << opened.status();
  store_ = *std::move(opened);
}

int64_t StoreConformance::Submit(const SubmitRequest& request) {
  const absl::StatusOr<SubmitResult> result = store_->jobs()->SubmitJob(request);
  EXPECT_TRUE(result.ok()) << result.status();
  return result.ok() ? result->job_id : -1;
}

int64_t StoreConformance::StudyOf(int64_t job_id, int number) {
  const absl::StatusOr<JobRow> job = store_->jobs()->GetJob(job_id);
  EXPECT_TRUE(job.ok()) << job.status();
  return job.ok() ? job->studies.at(static_cast<size_t>(number - 1)).study_id : -1;
}

std::vector<int64_t> StoreConformance::Propose(int64_t study_id, const std::vector<UnitRow>& units) {
  DriveStep step;
  step.study_id = study_id;
  step.new_units = units;
  step.now_ms = kNow;
  const absl::StatusOr<DriveResult> result = store_->studies()->Drive(step);
  EXPECT_TRUE(result.ok()) << result.status();
  return result.ok() ? result->unit_ids : std::vector<int64_t>(units.size(), -1);
}

ClaimRequest StoreConformance::Register(const std::string& id, int units_max) {
  const absl::StatusOr<int64_t> epoch = store_->agents()->RegisterAgent({id, "host", "", 0, kNow});
  EXPECT_TRUE(epoch.ok()) << epoch.status();
  return {id, epoch.value_or(-1), "gpu-0", "class", units_max, kNow};
}

std::vector<ClaimedUnit> StoreConformance::Claim(const ClaimRequest& claimer) {
  absl::StatusOr<std::vector<ClaimedUnit>> units = store_->units()->ClaimUnits(claimer);
  EXPECT_TRUE(units.ok()) << units.status();
  return units.ok() ? *std::move(units) : std::vector<ClaimedUnit>();
}

ClaimedUnit StoreConformance::ClaimOne(ClaimRequest claimer) {
  claimer.units_max = 1;
  std::vector<ClaimedUnit> units = Claim(claimer);
  EXPECT_THAT(units, SizeIs(1));
  return units.empty() ? ClaimedUnit() : units[0];
}

ReportRequest StoreConformance::MakeReport(const ClaimRequest& claimer, const ClaimedUnit& unit,
                                           std::vector<TrialRow> trials, bool unit_done) {
  return {claimer.agent_id, claimer.epoch, unit.unit.unit_id, unit.unit.token, std::move(trials), unit_done, kNow};
}

ReportVerdict StoreConformance::Report(const ReportRequest& request) {
  const absl::StatusOr<ReportVerdict> verdict = store_->units()->ReportTrials(request);
  EXPECT_TRUE(verdict.ok()) << verdict.status();
  return verdict.value_or(ReportVerdict::kStale);
}

ClaimedUnit StoreConformance::Prepare(const ClaimRequest& claimer, const std::string& uid, int trials) {
  Propose(StudyOf(Submit(MakeSubmit(uid))), {MakeUnit(0, trials)});
  return ClaimOne(claimer);
}

JobState StoreConformance::StateOf(int64_t job_id) {
  const absl::StatusOr<JobRow> job = store_->jobs()->GetJob(job_id);
  EXPECT_TRUE(job.ok()) << job.status();
  return job.ok() ? job->state : JobState::kFailed;
}

absl::Status StoreConformance::Set(int64_t job_id, JobState to, const std::vector<JobState>& from) {
  // On the way that a job takes there.
  if (from.empty() && to == JobState::kCancelled && MayBecome(StateOf(job_id), JobState::kCancelling)) {
    const absl::Status cancelling = Set(job_id, JobState::kCancelling);
    if (!cancelling.ok()) return cancelling;
  }
  return store_->jobs()->SetJobState(job_id, from.empty() ? std::vector<JobState>{StateOf(job_id)} : from, to,
                                     "because", kNow + 7);
}

namespace {

TEST_P(StoreConformance, SubmitStoresJobStudiesAndKernelAcrossAReopen) {
  SubmitRequest request = MakeSubmit("uid-1", {MakeStudy(1), MakeStudy(2, "other", "gpu-7")});
  request.job.priority = -3;
  const int64_t job_id = Submit(request);
  Reopen();
  const JobRow job = store_->jobs()->GetJob(job_id).value();
  EXPECT_EQ(job.uid, "uid-1");
  EXPECT_EQ(job.kernel_id, "kernel");
  EXPECT_EQ(job.spec, "spec");
  EXPECT_EQ(job.state, JobState::kQueued);
  EXPECT_EQ(job.priority, -3);
  EXPECT_EQ(job.created_at_ms, kNow);
  EXPECT_EQ(job.started_at_ms, 0);
  EXPECT_EQ(job.ended_at_ms, 0);
  ASSERT_THAT(job.studies, SizeIs(2));
  EXPECT_EQ(job.studies[1].number, 2);
  EXPECT_EQ(job.studies[1].problem_key, "m=2");
  EXPECT_EQ(job.studies[1].problem, "problem");
  EXPECT_EQ(job.studies[1].class_id, "other");
  EXPECT_EQ(job.studies[1].device_selector, "gpu-7");
  EXPECT_EQ(job.studies[1].detail, "summary");
  EXPECT_EQ(job.studies[1].state, StudyState::kSearching);
  EXPECT_EQ(store_->kernels()->GetKernel("kernel")->definition, MakeKernel("kernel").definition);
  EXPECT_TRUE(absl::IsNotFound(store_->jobs()->GetJob(job_id + 1).status()));
}

TEST_P(StoreConformance, SubmitRefusesWhatCannotBeStoredWhole) {
  SubmitRequest request = MakeSubmit("uid");
  request.kernel.reset();
  EXPECT_TRUE(absl::IsNotFound(store_->jobs()->SubmitJob(request).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(store_->jobs()->SubmitJob(MakeSubmit("uid", {})).status()));
  EXPECT_TRUE(
      absl::IsInvalidArgument(store_->jobs()->SubmitJob(MakeSubmit("uid", {MakeStudy(1), MakeStudy(1)})).status()));
  EXPECT_TRUE(
      absl::IsInvalidArgument(store_->jobs()->SubmitJob(MakeSubmit("uid", {MakeStudy(1), MakeStudy(0)})).status()));
  // Nothing of the refused ones is left, so the uid is free and the kernel is not there.
  EXPECT_TRUE(absl::IsNotFound(store_->kernels()->GetKernel("kernel").status()));
  Submit(MakeSubmit("uid"));
  EXPECT_TRUE(absl::IsAlreadyExists(store_->jobs()->SubmitJob(MakeSubmit("uid")).status()));
  EXPECT_THAT(store_->jobs()->ListJobs({}, {}).value().rows, SizeIs(1));
}

TEST_P(StoreConformance, RepeatedSubmitAnswersTheFirstJob) {
  SubmitRequest request = MakeSubmit("uid-1");
  request.request_id = "request";
  const int64_t job_id = Submit(request);
  Reopen();
  request.job.uid = "uid-2";
  const SubmitResult again = store_->jobs()->SubmitJob(request).value();
  EXPECT_TRUE(again.was_duplicate);
  EXPECT_EQ(again.job_id, job_id);
  EXPECT_THAT(AllJobs(store_.get()), SizeIs(1));
  request.body_digest = "another";
  const absl::Status reused = store_->jobs()->SubmitJob(request).status();
  EXPECT_TRUE(absl::IsInvalidArgument(reused)) << reused;
  EXPECT_EQ(ReasonOf(reused), "REQUEST_ID_REUSED");
  EXPECT_THAT(AllJobs(store_.get()), SizeIs(1));
}

TEST_P(StoreConformance, RequestIdsAreForgottenAfterSevenDays) {
  constexpr int64_t kDayMs = 24 * 60 * 60 * 1000;
  SubmitRequest request = MakeSubmit("uid-1");
  request.request_id = "request";
  const int64_t first = Submit(request);
  request.now_ms += 7 * kDayMs - 1;
  EXPECT_TRUE(store_->jobs()->SubmitJob(request).value().was_duplicate);
  request.now_ms += 1;
  request.job.uid = "uid-2";
  const SubmitResult later = store_->jobs()->SubmitJob(request).value();
  EXPECT_FALSE(later.was_duplicate);
  EXPECT_NE(later.job_id, first);
}

TEST_P(StoreConformance, KernelsByIdByNameAndNewestFirst) {
  EXPECT_TRUE(store_->kernels()->PutKernel(MakeKernel("k1")).ok());
  EXPECT_TRUE(store_->kernels()->PutKernel(MakeKernel("k2")).ok());
  EXPECT_TRUE(store_->kernels()->PutKernel(MakeKernel("k3", "softmax")).ok());
  EXPECT_EQ(store_->kernels()->FindKernel("matmul")->kernel_id, "k2");
  EXPECT_EQ(store_->kernels()->FindProgram("matmul", "program-k1")->kernel_id, "k1");
  EXPECT_THAT(store_->kernels()->NewestPrograms().value(),
              ElementsAre(testing::Pair("matmul", "program-k2"), testing::Pair("softmax", "program-k3")));
  EXPECT_TRUE(absl::IsNotFound(store_->kernels()->FindProgram("softmax", "program-k1").status()));
  EXPECT_EQ(store_->kernels()->GetKernel("k1")->program_digest, "program-k1");
  EXPECT_TRUE(absl::IsNotFound(store_->kernels()->FindKernel("other").status()));
  EXPECT_TRUE(absl::IsNotFound(store_->kernels()->GetKernel("other").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(store_->kernels()->PutKernel(MakeKernel(""))));

  const Page<KernelRow> first = store_->kernels()->ListKernels({2, ""}).value();
  ASSERT_THAT(first.rows, SizeIs(2));
  EXPECT_EQ(first.rows[0].kernel_id, "k3");
  EXPECT_EQ(first.rows[1].kernel_id, "k2");
  EXPECT_TRUE(store_->kernels()->PutKernel(MakeKernel("k4")).ok());
  const Page<KernelRow> second = store_->kernels()->ListKernels({2, first.next_page_token}).value();
  ASSERT_THAT(second.rows, SizeIs(1));
  EXPECT_EQ(second.rows[0].kernel_id, "k1");
  EXPECT_EQ(second.next_page_token, "");
}

TEST_P(StoreConformance, AKernelThatIsSubmittedAgainIsTheNewestOfItsName) {
  KernelRow first = MakeKernel("k1");
  first.owner = "alice";
  first.created_at_ms = kNow;
  ASSERT_TRUE(store_->kernels()->PutKernel(first).ok());
  ASSERT_TRUE(store_->kernels()->PutKernel(MakeKernel("k2")).ok());
  EXPECT_EQ(store_->kernels()->FindKernel("matmul")->kernel_id, "k2");
  first.owner = "bob";
  first.created_at_ms = kNow + 5;
  ASSERT_TRUE(store_->kernels()->PutKernel(first).ok());
  const KernelRow newest = store_->kernels()->FindKernel("matmul").value();
  EXPECT_EQ(newest.kernel_id, "k1");
  EXPECT_EQ(newest.owner, "alice");
  EXPECT_EQ(newest.created_at_ms, kNow + 5);
  EXPECT_EQ(newest.definition, first.definition);
  EXPECT_EQ(store_->kernels()->ListKernels({10, ""})->rows[0].kernel_id, "k1");
  // The same with a job.
  SubmitRequest submit = MakeSubmit("uid");
  submit.kernel = MakeKernel("k2");
  submit.job.kernel_id = "k2";
  Submit(submit);
  EXPECT_EQ(store_->kernels()->FindKernel("matmul")->kernel_id, "k2");
  // And one that comes after them all.
  ASSERT_TRUE(store_->kernels()->PutKernel(MakeKernel("k3")).ok());
  EXPECT_EQ(store_->kernels()->FindKernel("matmul")->kernel_id, "k3");
  EXPECT_THAT(store_->kernels()->ListKernels({10, ""})->rows, SizeIs(3));
}

TEST_P(StoreConformance, ADeletedKernelLeavesWhatWasFoundWithIt) {
  SubmitRequest submit = MakeSubmit("uid");
  submit.kernel = MakeKernel("used");
  submit.kernel->owner = "alice";
  submit.job.kernel_id = "used";
  const int64_t job_id = Submit(submit);
  ASSERT_TRUE(store_->kernels()->PutKernel(MakeKernel("unused")).ok());
  BestRow best = MakeBest("program-used", "m=1", 10);
  best.kernel_id = "used";
  ASSERT_TRUE(store_->bests()->PromoteBest(best).ok());

  const absl::Status active = store_->kernels()->DeleteKernel("used", std::nullopt, kNow);
  EXPECT_TRUE(absl::IsFailedPrecondition(active)) << active;
  EXPECT_EQ(ReasonOf(active), "KERNEL_IN_USE");
  EXPECT_THAT(std::string(active.message()), testing::HasSubstr("job " + std::to_string(job_id)));
  ASSERT_TRUE(Set(job_id, JobState::kCancelled).ok());
  const absl::Status others = store_->kernels()->DeleteKernel("used", "bob", kNow);
  EXPECT_TRUE(absl::IsPermissionDenied(others)) << others;
  EXPECT_EQ(ReasonOf(others), "KERNEL_OWNER");
  ASSERT_TRUE(store_->kernels()->DeleteKernel("used", "alice", kNow).ok());
  ASSERT_TRUE(store_->kernels()->DeleteKernel("unused", "", kNow).ok());
  EXPECT_TRUE(absl::IsNotFound(store_->kernels()->DeleteKernel("used", std::nullopt, kNow)));

  const absl::Status gone = store_->kernels()->GetKernel("used").status();
  EXPECT_TRUE(absl::IsNotFound(gone));
  EXPECT_EQ(ReasonOf(gone), "KERNEL_DELETED");
  EXPECT_TRUE(absl::IsNotFound(store_->kernels()->GetKernel("unused").status()));
  EXPECT_TRUE(absl::IsNotFound(store_->kernels()->FindKernel("matmul").status()));
  EXPECT_TRUE(absl::IsNotFound(store_->kernels()->FindProgram("matmul", "program-used").status()));
  EXPECT_THAT(store_->kernels()->ListKernels({10, ""})->rows, testing::IsEmpty());
  EXPECT_THAT(store_->kernels()->NewestPrograms().value(), testing::IsEmpty());
  EXPECT_EQ(store_->jobs()->GetJob(job_id)->kernel_id, "used");
  EXPECT_THAT(store_->bests()->LoadBests().value(), SizeIs(1));
  EXPECT_THAT(store_->bests()->ListBestChanges({})->rows, SizeIs(1));

  // No job is taken of it until its definition is submitted again, by whom it belongs to then.
  SubmitRequest without = MakeSubmit("uid-2");
  without.kernel.reset();
  without.job.kernel_id = "used";
  EXPECT_TRUE(absl::IsNotFound(store_->jobs()->SubmitJob(without).status()));
  KernelRow again = MakeKernel("used");
  again.owner = "bob";
  ASSERT_TRUE(store_->kernels()->PutKernel(again).ok());
  EXPECT_EQ(store_->kernels()->GetKernel("used")->owner, "bob");
  EXPECT_EQ(store_->kernels()->GetKernel("used")->definition, again.definition);
  EXPECT_TRUE(store_->jobs()->SubmitJob(without).ok());
}

TEST_P(StoreConformance, AnOwnerHasNoMoreKernelsThanAllowed) {
  const auto put = [&](const std::string& id, const std::string& owner, int64_t kernels_max, int64_t bytes_max) {
    KernelRow kernel = MakeKernel(id);
    kernel.definition = std::string(100, 'd');
    kernel.owner = owner;
    kernel.owner_kernels_max = kernels_max;
    kernel.owner_bytes_max = bytes_max;
    return store_->kernels()->PutKernel(kernel);
  };
  EXPECT_TRUE(put("a1", "alice", 2, 0).ok());
  EXPECT_TRUE(put("a2", "alice", 2, 0).ok());
  const absl::Status third = put("a3", "alice", 2, 0);
  EXPECT_TRUE(absl::IsResourceExhausted(third)) << third;
  EXPECT_EQ(ReasonOf(third), "KERNEL_QUOTA");
  EXPECT_THAT(std::string(third.message()), testing::HasSubstr("matmul@a1"));
  EXPECT_TRUE(put("a1", "alice", 2, 0).ok());    // stored already
  EXPECT_TRUE(put("b1", "bob", 2, 0).ok());      // others have their own
  EXPECT_TRUE(put("a3", "alice", 0, 300).ok());  // in bytes
  EXPECT_TRUE(absl::IsResourceExhausted(put("a4", "alice", 0, 399)));
  ASSERT_TRUE(store_->kernels()->DeleteKernel("a1", "alice", kNow).ok());
  EXPECT_TRUE(put("a4", "alice", 3, 300).ok());
  // With a job, which is refused too.
  SubmitRequest submit = MakeSubmit("uid");
  submit.kernel = MakeKernel("a5");
  submit.kernel->owner = "alice";
  submit.kernel->owner_kernels_max = 3;
  submit.job.kernel_id = "a5";
  EXPECT_TRUE(absl::IsResourceExhausted(store_->jobs()->SubmitJob(submit).status()));
  EXPECT_THAT(AllJobs(store_.get()), testing::IsEmpty());
}

TEST_P(StoreConformance, DevicesAndTheirClasses) {
  EXPECT_TRUE(store_->devices()->PutDevice({"gpu-1", "b", "p", kNow}, {"b", "B100", "props"}).ok());
  EXPECT_TRUE(store_->devices()->PutDevice({"gpu-0", "a", "p", kNow}, {"a", "A100", "props"}).ok());
  EXPECT_TRUE(store_->devices()->PutDevice({"gpu-0", "a", "p", kNow}, {"a", "A100 80 GB", "more"}).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(store_->devices()->PutDevice({"gpu-0", "a", "p", kNow}, {"b", "B100", "props"})));
  const std::vector<DeviceClassRow> classes = store_->devices()->ListDeviceClasses().value();
  ASSERT_THAT(classes, SizeIs(2));
  EXPECT_EQ(classes[0].class_id, "a");
  EXPECT_EQ(classes[0].display_name, "A100 80 GB");
  EXPECT_EQ(classes[0].properties, "more");
}

TEST_P(StoreConformance, EveryStateTransitionOfAJob) {
  const std::vector<JobState> all = {JobState::kQueued,     JobState::kRunning,   JobState::kPaused,
                                     JobState::kCancelling, JobState::kSucceeded, JobState::kFailed,
                                     JobState::kCancelled};
  int uid = 0;
  for (const JobState from : all) {
    for (const JobState to : all) {
      SCOPED_TRACE(testing::Message() << static_cast<int>(from) << " to " << static_cast<int>(to));
      const int64_t job_id = Submit(MakeSubmit("uid-" + std::to_string(uid++)));
      if (from != JobState::kQueued) {
        ASSERT_TRUE(Set(job_id, from).ok());
      }
      // Not among the states it may leave: refused, and nothing changes.
      std::vector<JobState> others = all;
      others.erase(std::find(others.begin(), others.end(), from));
      EXPECT_TRUE(absl::IsFailedPrecondition(Set(job_id, to, others)));
      EXPECT_EQ(StateOf(job_id), from);
      const absl::Status status = Set(job_id, to, {from});
      if (!MayBecome(from, to)) {
        EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
        EXPECT_EQ(StateOf(job_id), from);
        continue;
      }
      ASSERT_TRUE(status.ok()) << status;
      const JobRow job = store_->jobs()->GetJob(job_id).value();
      EXPECT_EQ(job.state, to);
      EXPECT_EQ(job.state_reason, "because");
      EXPECT_EQ(job.ended_at_ms, IsTerminal(to) ? kNow + 7 : 0);
      EXPECT_EQ(job.started_at_ms != 0, from == JobState::kRunning || to == JobState::kRunning);
      EXPECT_EQ(job.studies[0].state, IsTerminal(to) ? StudyState::kEnded : StudyState::kSearching);
    }
  }
  EXPECT_TRUE(absl::IsNotFound(store_->jobs()->SetJobState(100000, all, JobState::kFailed, "", kNow)));
}

TEST_P(StoreConformance, EveryStateTransitionOfAStudy) {
  const std::vector<StudyState> all = {StudyState::kSearching, StudyState::kFinals, StudyState::kEnded};
  int uid = 0;
  for (const StudyState from : all) {
    for (const StudyState to : all) {
      SCOPED_TRACE(testing::Message() << static_cast<int>(from) << " to " << static_cast<int>(to));
      const int64_t job_id = Submit(MakeSubmit("uid-" + std::to_string(uid++)));
      DriveStep step;
      step.study_id = StudyOf(job_id);
      step.state = from;
      if (from != StudyState::kSearching) {
        ASSERT_TRUE(store_->studies()->Drive(step).ok());
      }
      step.state = to;
      const absl::Status moved = store_->studies()->Drive(step).status();
      EXPECT_EQ(moved.ok(), MayBecome(from, to)) << moved;
      EXPECT_EQ(absl::IsFailedPrecondition(moved), !moved.ok()) << moved;
      EXPECT_EQ(store_->jobs()->GetJob(job_id)->studies[0].state, moved.ok() ? to : from);
    }
  }
}

TEST_P(StoreConformance, ListsOfJobsAreStableUnderInserts) {
  std::vector<int64_t> ids;
  for (int i = 0; i < 5; ++i) ids.push_back(Submit(MakeSubmit("uid-" + std::to_string(i))));
  ASSERT_TRUE(Set(ids[1], JobState::kFailed).ok());
  Page<JobRow> page = store_->jobs()->ListJobs({}, {2, ""}).value();
  std::vector<int64_t> seen;
  for (int guard = 0; guard < 10; ++guard) {
    for (const JobRow& job : page.rows) {
      seen.push_back(job.job_id);
      EXPECT_THAT(job.studies, SizeIs(1));
    }
    if (page.next_page_token.empty()) break;
    Submit(MakeSubmit("late-" + std::to_string(guard)));
    page = store_->jobs()->ListJobs({}, {2, page.next_page_token}).value();
  }
  EXPECT_THAT(seen, ElementsAre(ids[4], ids[3], ids[2], ids[1], ids[0]));
  const Page<JobRow> failed = store_->jobs()->ListJobs({JobState::kFailed, JobState::kCancelled}, {}).value();
  ASSERT_THAT(failed.rows, SizeIs(1));
  EXPECT_EQ(failed.rows[0].job_id, ids[1]);
}

TEST_P(StoreConformance, ListsOfJobsAreFiltered) {
  // Jobs 0 to 11: every second of another kernel, every third with a label, every fourth submitted by somebody,
  // every fifth with a study of another class beside.
  std::vector<int64_t> ids;
  for (int i = 0; i < 12; ++i) {
    SubmitRequest submit = MakeSubmit("uid-" + std::to_string(i));
    if (i % 2 == 1) {
      submit.kernel = MakeKernel("other", "softmax");
      submit.job.kernel_id = "other";
    }
    if (i % 3 == 0) submit.job.label = "night";
    if (i % 4 == 0) submit.job.submitted_by = "alice";
    if (i % 5 == 0) submit.job.studies.push_back(MakeStudy(2, "far"));
    ids.push_back(Submit(submit));
  }
  ASSERT_TRUE(Set(ids[6], JobState::kFailed).ok());
  Reopen();
  // All pages of a list, of two jobs each, as indexes of `ids`.
  const auto list = [&](const JobFilter& filter, const std::vector<JobState>& states = {}) {
    std::vector<int> found;
    std::string token;
    do {
      const Page<JobRow> page = store_->jobs()->ListJobs(states, {2, token}, filter).value();
      for (const JobRow& job : page.rows) {
        found.push_back(static_cast<int>(std::find(ids.begin(), ids.end(), job.job_id) - ids.begin()));
      }
      token = page.next_page_token;
    } while (!token.empty());
    return found;
  };
  EXPECT_THAT(list({"softmax", "", "", ""}), ElementsAre(11, 9, 7, 5, 3, 1));
  EXPECT_THAT(list({"", "night", "", ""}), ElementsAre(9, 6, 3, 0));
  EXPECT_THAT(list({"", "", "alice", ""}), ElementsAre(8, 4, 0));
  EXPECT_THAT(list({"matmul", "night", "", ""}), ElementsAre(6, 0));
  EXPECT_THAT(list({"matmul", "", "alice", ""}), ElementsAre(8, 4, 0));
  EXPECT_THAT(list({"matmul", "night", "alice", ""}), ElementsAre(0));
  EXPECT_THAT(list({"", "", "", "far"}), ElementsAre(10, 5, 0));
  EXPECT_THAT(list({"", "", "alice", "far"}), ElementsAre(0));
  EXPECT_THAT(list({"", "", "", "fa"}), IsEmpty());
  EXPECT_THAT(list({"", "night", "", ""}, {JobState::kQueued}), ElementsAre(9, 3, 0));
  EXPECT_THAT(list({"", "nigh", "", ""}), IsEmpty());
  EXPECT_THAT(list({"' OR ''='", "", "", ""}), IsEmpty());
  // A token belongs to its filter.
  const std::string token = store_->jobs()->ListJobs({}, {1, ""}, {"", "night", "", ""}).value().next_page_token;
  for (const JobFilter& another : {JobFilter{}, JobFilter{"", "", "night", ""}, JobFilter{"", "night ", "", ""},
                                   JobFilter{"", "night", "", "far"}}) {
    EXPECT_EQ(ReasonOf(store_->jobs()->ListJobs({}, {1, token}, another).status()), "PAGE_TOKEN_INVALID");
  }
}

TEST_P(StoreConformance, ForeignPageTokensAreRefused) {
  for (int i = 0; i < 3; ++i) Submit(MakeSubmit("uid-" + std::to_string(i)));
  const std::string token = store_->jobs()->ListJobs({}, {1, ""}).value().next_page_token;
  ASSERT_NE(token, "");
  // The order in which states are named does not matter; which ones does.
  const std::string filtered =
      store_->jobs()->ListJobs({JobState::kQueued, JobState::kFailed}, {1, ""}).value().next_page_token;
  EXPECT_TRUE(store_->jobs()->ListJobs({JobState::kFailed, JobState::kQueued}, {1, filtered}).ok());
  std::string altered = token;
  altered[altered.size() / 2] = altered[altered.size() / 2] == 'A' ? 'B' : 'A';
  for (const std::string& foreign : {std::string("x"), std::string("no token!"), altered, token + "A", filtered}) {
    const absl::Status status = store_->jobs()->ListJobs({}, {1, foreign}).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << foreign << ": " << status;
    EXPECT_EQ(ReasonOf(status), "PAGE_TOKEN_INVALID");
  }
  EXPECT_TRUE(absl::IsInvalidArgument(store_->kernels()->ListKernels({1, token}).status()));
}

TEST_P(StoreConformance, PromotionsRaiseTheRevisionAndReplace) {
  EXPECT_THAT(store_->bests()->LoadBests().value(), IsEmpty());
  EXPECT_EQ(store_->bests()->CatalogRevision().value(), 1);
  EXPECT_EQ(store_->bests()->PromoteBest(MakeBest("p", "m=1", 30))->revision, 2);
  EXPECT_EQ(store_->bests()->PromoteBest(MakeBest("p", "m=2", 20))->revision, 3);
  Reopen();
  EXPECT_EQ(store_->bests()->PromoteBest(MakeBest("p", "m=1", 10))->revision, 4);
  EXPECT_EQ(store_->bests()->CatalogRevision().value(), 4);
  const std::vector<BestRow> bests = store_->bests()->LoadBests().value();
  ASSERT_THAT(bests, SizeIs(2));
  const BestRow best = store_->bests()->FindBest("p", "m=1", "class").value().value();
  EXPECT_EQ(best.revision, 4);
  EXPECT_EQ(best.median_ns, 10);
  EXPECT_EQ(best.kernel_name, "matmul");
  EXPECT_EQ(best.config, "tile=1");
  EXPECT_EQ(best.detail, "detail");
  EXPECT_EQ(best.ordinal, 3);
  EXPECT_FALSE(store_->bests()->FindBest("p", "m=1", "other").value().has_value());
}

TEST_P(StoreConformance, PoisonCountsCrashesPerKey) {
  PoisonRow row{"p", "tile=1", "m=1", "class", "13.0", 10, 1};
  EXPECT_TRUE(store_->poison()->RecordPoison(row).ok());
  row.outcome = 9;
  EXPECT_TRUE(store_->poison()->RecordPoison(row).ok());
  row.problem_key = "m=2";
  EXPECT_TRUE(store_->poison()->RecordPoison(row).ok());
  row.class_id = "other";
  EXPECT_TRUE(store_->poison()->RecordPoison(row).ok());
  const std::vector<PoisonRow> poison = store_->poison()->LoadPoison("p", "class").value();
  ASSERT_THAT(poison, SizeIs(2));
  EXPECT_EQ(poison[0].problem_key, "m=1");
  EXPECT_EQ(poison[0].crashes, 2);
  EXPECT_EQ(poison[0].outcome, 9);
  EXPECT_EQ(poison[0].toolkit, "13.0");
  EXPECT_EQ(poison[1].crashes, 1);
  EXPECT_THAT(store_->poison()->LoadPoison("q", "class").value(), IsEmpty());
}

TEST_P(StoreConformance, SettingsKeepTheirValueUntilItIsReplaced) {
  EXPECT_EQ(store_->settings()->GetOrPutSetting("host", "one").value(), "one");
  Reopen();
  EXPECT_EQ(store_->settings()->GetOrPutSetting("host", "two").value(), "one");
  ASSERT_TRUE(store_->settings()->PutSetting("host", "three").ok());
  ASSERT_TRUE(store_->settings()->PutSetting("fresh", "first").ok());
  EXPECT_EQ(store_->settings()->GetOrPutSetting("host", "two").value(), "three");
  EXPECT_EQ(store_->settings()->GetOrPutSetting("fresh", "two").value(), "first");
  EXPECT_TRUE(absl::IsInvalidArgument(store_->settings()->PutSetting("store.x", "y")));
  EXPECT_TRUE(absl::IsInvalidArgument(store_->settings()->GetOrPutSetting("store.x", "y").status()));
}

TEST_P(StoreConformance, BackupNeverReplacesAFile) {
  Submit(MakeSubmit("uid"));
  const std::string path = directory_.File("copy");
  if (!GetParam().makes_backups) {
    EXPECT_TRUE(absl::IsFailedPrecondition(store_->maintenance()->Backup(path)));
    return;
  }
  EXPECT_TRUE(store_->maintenance()->Backup(path).ok());
  EXPECT_TRUE(absl::IsAlreadyExists(store_->maintenance()->Backup(path)));
  EXPECT_FALSE(store_->maintenance()->Backup(directory_.File("missing/copy")).ok());
}

TEST_P(StoreConformance, DeletingAJobTakesItsTrialsAndLeavesBests) {
  const ClaimRequest claimer = Register("agent");
  const ClaimedUnit unit = Prepare(claimer);
  TrialRow trial = MakeTrial(0);
  trial.log = "log";
  trial.samples = "samples";
  EXPECT_EQ(Report(MakeReport(claimer, unit, {trial}, false)), ReportVerdict::kAccepted);
  ASSERT_TRUE(store_->bests()->PromoteBest(MakeBest("p", "m=1", 30)).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(store_->jobs()->DeleteJob(unit.job_id)));
  ASSERT_TRUE(Set(unit.job_id, JobState::kCancelled).ok());
  EXPECT_EQ(store_->maintenance()->Status()->stored_trials, 1);
  ASSERT_TRUE(store_->jobs()->DeleteJob(unit.job_id).ok());
  EXPECT_TRUE(absl::IsNotFound(store_->jobs()->GetJob(unit.job_id).status()));
  EXPECT_TRUE(absl::IsNotFound(store_->jobs()->DeleteJob(unit.job_id)));
  EXPECT_TRUE(absl::IsNotFound(store_->studies()->LoadHistory(unit.unit.study_id, 0, kWholeHistory).status()));
  EXPECT_EQ(store_->maintenance()->Status()->stored_trials, 0);
  EXPECT_THAT(store_->bests()->LoadBests().value(), SizeIs(1));
  // A late report finds nothing, and the number is not used again.
  EXPECT_EQ(Report(MakeReport(claimer, unit, {MakeTrial(1)}, true)), ReportVerdict::kStale);
  EXPECT_GT(Submit(MakeSubmit("next")), unit.job_id);
}

TEST_P(StoreConformance, StatusCounts) {
  EXPECT_EQ(store_->maintenance()->Status()->active_jobs, 0);
  const int64_t job_id = Submit(MakeSubmit("uid-1"));
  Submit(MakeSubmit("uid-2"));
  ASSERT_TRUE(Set(job_id, JobState::kFailed).ok());
  const StoreStatus status = store_->maintenance()->Status().value();
  EXPECT_GE(status.schema_version, 1);
  EXPECT_GT(status.database_bytes, 0);
  EXPECT_EQ(status.active_jobs, 1);
  EXPECT_EQ(status.stored_trials, 0);
}

}  // namespace
}  // namespace tunefarm
