// Studies in memory against a store that is played: trials that are stored out of order, calls that do not wait,
// memory, errors.
#include "server/results/study_results.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "server/base/random.h"
#include "server/base/status.h"
#include "server/base/thread.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/faulty_store.h"
#include "tests/fakes/log_capture.h"
#include "tunefarm/v1/trial.pb.h"

namespace tunefarm {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TrialColumns RowOf(int64_t ordinal, double ns = 100, int purpose = v1::TRIAL_PURPOSE_SEARCH) {
  TrialColumns row;
  row.ordinal = ordinal;
  row.outcome = ns > 0 ? v1::OUTCOME_OK : v1::OUTCOME_RUN_CRASH;
  row.purpose = purpose;
  row.config = "A=" + std::to_string(ordinal % 5);
  row.median_ns = ns;
  row.ended_at_ms = 1000 + ordinal;
  return row;
}

// The trials of studies by id and ordinal.
class PlayedTrials : public FaultyTrials {
 public:
  explicit PlayedTrials(const FaultyStoreState* state) : FaultyTrials(state, &Store::trials) {}

  void Put(int64_t study_id, const TrialColumns& row) {
    MutexLock lock(&mutex_);
    rows_[study_id][row.ordinal] = row;
  }
  // From now on each read waits for as many of these.
  void Hold() {
    MutexLock lock(&mutex_);
    is_held_ = true;
  }
  void Release() {
    MutexLock lock(&mutex_);
    is_held_ = false;
    released_.NotifyAll();
  }
  void set_status(absl::Status status) {
    MutexLock lock(&mutex_);
    status_ = std::move(status);
  }
  // Where reads began since the last call.
  std::vector<int64_t> TakeReads() {
    MutexLock lock(&mutex_);
    return std::exchange(reads_, {});
  }

  absl::StatusOr<std::vector<TrialColumns>> ReadColumns(int64_t study_id, int64_t from, int rows_max) override {
    MutexLock lock(&mutex_);
    while (is_held_) released_.Wait(&mutex_);
    if (!status_.ok()) return status_;
    reads_.push_back(from);
    std::vector<TrialColumns> rows;
    for (auto at = rows_[study_id].lower_bound(from); at != rows_[study_id].end(); ++at) {
      if (static_cast<int>(rows.size()) == rows_max) break;
      rows.push_back(at->second);
    }
    return rows;
  }
  absl::StatusOr<std::vector<OutcomeCountRow>> CountOutcomes(int64_t /*job_id*/) override {
    MutexLock lock(&mutex_);
    std::vector<OutcomeCountRow> counts;
    for (const auto& [study_id, rows] : rows_) {
      for (const auto& [ordinal, row] : rows) counts.push_back({study_id, row.purpose, row.outcome, 1});
    }
    return counts;
  }

 private:
  Mutex mutex_;
  CondVar released_;
  std::map<int64_t, std::map<int64_t, TrialColumns>> rows_ GUARDED_BY(mutex_);
  bool is_held_ GUARDED_BY(mutex_) = false;
  absl::Status status_ GUARDED_BY(mutex_);
  std::vector<int64_t> reads_ GUARDED_BY(mutex_);
};

class PlayedStore : public FaultyStore {
 public:
  PlayedStore() : FaultyStore(nullptr) {}
  PlayedTrials* trials() override { return &trials_; }
  int64_t Replacements() const override { return replacements; }

  int64_t replacements = 0;

 private:
  PlayedTrials trials_{&state_};
};

struct Seen {
  std::vector<int64_t> ordinals;  // by their ends
  int64_t revision = 0, stored = 0, unreadable = 0;
  bool is_cut = false, is_behind = false;
};

class StudyResultsTest : public testing::Test {
 protected:
  void Make(const StudyResultsOptions& options) { results_.emplace(&store_, &clock_, options); }
  // A test that waits this long has failed.
  static StudyResultsOptions Patient(int part_rows = 10) {
    StudyResultsOptions options;
    options.part_rows = part_rows;
    options.wait = std::chrono::minutes(10);
    return options;
  }
  absl::StatusOr<Seen> Read(int64_t study_id = 1, bool is_open = true) {
    Seen seen;
    KnownStudy study;
    study.job_id = 1;
    study.study_id = study_id;
    study.is_open = is_open;
    const absl::Status status = results_->Read(study, [&](const StudyReading& reading) {
      const StudyColumns& columns = reading.data->columns();
      for (size_t at = 0; at < columns.size(); ++at) seen.ordinals.push_back(columns[at].ordinal);
      seen.revision = reading.revision;
      seen.stored = reading.stored;
      seen.unreadable = reading.data->unreadable();
      seen.is_cut = reading.is_cut;
      seen.is_behind = reading.is_behind;
      return absl::OkStatus();
    });
    if (!status.ok()) return status;
    return seen;
  }
  PlayedTrials& trials() { return *store_.trials(); }

  FakeClock clock_;
  PlayedStore store_;
  std::optional<StudyResults> results_;
};

TEST_F(StudyResultsTest, TrialsThatAreStoredOutOfOrderAreReadOnce) {
  for (const int part_rows : {1, 7, 1000}) {
    PlayedStore store;
    StudyResults results(&store, &clock_, Patient(part_rows));
    PhiloxStream random(static_cast<uint64_t>(part_rows));
    std::vector<int64_t> order(300);
    std::iota(order.begin(), order.end(), int64_t{0});
    // Each up to 20 places from its turn.
    for (size_t i = 0; i < order.size(); ++i)
      std::swap(order[i], order[std::min(order.size() - 1, i + random.UniformInt(20))]);
    KnownStudy study;
    study.study_id = 1;
    std::vector<int64_t> put;
    int64_t revision = 0;
    for (size_t next = 0; next < order.size();) {
      const size_t until = std::min(order.size(), next + random.UniformInt(30));
      const bool grows = until > next;
      for (; next < until; ++next) {
        store.trials()->Put(1, RowOf(order[next], random.UniformInt(3) == 0 ? 0 : 100));
        put.push_back(order[next]);
      }
      ASSERT_TRUE(results
                      .Read(study,
                            [&](const StudyReading& reading) {
                              std::vector<int64_t> seen;
                              const StudyColumns& columns = reading.data->columns();
                              for (size_t at = 0; at < columns.size(); ++at) seen.push_back(columns[at].ordinal);
                              std::vector<int64_t> sorted = put;
                              std::sort(sorted.begin(), sorted.end());
                              EXPECT_EQ(seen, sorted);
                              EXPECT_EQ(reading.stored, static_cast<int64_t>(put.size()));
                              EXPECT_GT(reading.revision, 0);
                              if (revision > 0) {
                                EXPECT_EQ(reading.revision > revision, grows);
                              }
                              revision = reading.revision;
                              return absl::OkStatus();
                            })
                      .ok());
    }
  }
}

TEST_F(StudyResultsTest, ReadsBeginAtTheLowestOrdinalThatIsOpen) {
  Make(Patient());
  for (const int64_t ordinal : {0, 1, 2, 4, 5}) trials().Put(1, RowOf(ordinal));
  EXPECT_THAT(Read()->ordinals, ElementsAre(0, 1, 2, 4, 5));
  EXPECT_THAT(trials().TakeReads(), ElementsAre(0));
  trials().Put(1, RowOf(3));
  EXPECT_THAT(Read()->ordinals, ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(trials().TakeReads(), ElementsAre(3));
  EXPECT_THAT(Read()->ordinals, ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(trials().TakeReads(), ElementsAre(6));
}

TEST_F(StudyResultsTest, FinalsBaselinesAndLostTrialsAreNoEvaluations) {
  Make(Patient());
  trials().Put(1, RowOf(0, 300, v1::TRIAL_PURPOSE_BASELINE));
  trials().Put(1, RowOf(1, 200));
  TrialColumns lost = RowOf(2, 0);
  lost.outcome = v1::OUTCOME_LOST;
  trials().Put(1, lost);
  const Seen before = *Read();
  EXPECT_THAT(before.ordinals, ElementsAre(1));
  EXPECT_EQ(before.stored, 1);
  trials().Put(1, RowOf(3, 190, v1::TRIAL_PURPOSE_FINALIST));
  trials().Put(1, RowOf(4, 195, v1::TRIAL_PURPOSE_FINALIST));
  const Seen after = *Read();
  EXPECT_THAT(after.ordinals, ElementsAre(1));
  EXPECT_GT(after.revision, before.revision) << "the best of the final is shown too";
  KnownStudy study;
  study.study_id = 1;
  ASSERT_TRUE(results_
                  ->Read(study,
                         [](const StudyReading& reading) {
                           EXPECT_EQ(reading.data->final_ns(), 190);
                           EXPECT_EQ(reading.data->baseline_ns(), 300);
                           return absl::OkStatus();
                         })
                  .ok());
}

TEST_F(StudyResultsTest, ACallDoesNotWaitForASlowStore) {
  StudyResultsOptions options = Patient();
  options.wait = Duration::zero();
  Make(options);
  for (int64_t i = 0; i < 25; ++i) trials().Put(1, RowOf(i));
  trials().Hold();
  const Seen early = *Read();
  EXPECT_THAT(early.ordinals, IsEmpty());
  EXPECT_LE(early.stored, 25);
  EXPECT_TRUE(early.is_behind) << "nothing is read, and perhaps nothing counted";
  trials().Release();
  // The pass that was asked for goes on without a call; each of these looks at what it has read.
  int64_t read = 0;
  while (read < 25) {
    const Seen seen = *Read();
    EXPECT_GE(static_cast<int64_t>(seen.ordinals.size()), read);
    EXPECT_GE(seen.stored, static_cast<int64_t>(seen.ordinals.size()));
    read = static_cast<int64_t>(seen.ordinals.size());
  }
}

TEST_F(StudyResultsTest, AStudyThatHasEndedIsReadOnce) {
  Make(Patient());
  for (int64_t i = 0; i < 25; ++i) trials().Put(1, RowOf(i));
  EXPECT_EQ(Read(1, false)->ordinals.size(), 25u);
  EXPECT_THAT(trials().TakeReads(), ElementsAre(0, 10, 20));
  const Seen again = *Read(1, false);
  EXPECT_EQ(again.ordinals.size(), 25u);
  EXPECT_FALSE(again.is_behind);
  EXPECT_THAT(trials().TakeReads(), IsEmpty());
  // The call saw it before it had ended, or in another database.
  trials().Put(1, RowOf(25));
  EXPECT_EQ(Read(1, true)->ordinals.size(), 26u);
  trials().Put(1, RowOf(26));
  EXPECT_EQ(Read(1, false)->ordinals.size(), 27u);
}

// A call whose answer takes long, such as an analysis, delays no other.
TEST_F(StudyResultsTest, CallsForAStudyAreAnsweredAtTheSameTime) {
  Make(Patient());
  for (int64_t i = 0; i < 25; ++i) trials().Put(1, RowOf(i));
  EXPECT_EQ(Read(1, false)->ordinals.size(), 25u);
  KnownStudy study;
  study.job_id = study.study_id = 1;
  study.is_open = false;
  const absl::Status status = results_->Read(study, [&](const StudyReading& /*reading*/) {
    size_t seen = 0;
    Thread("other-call", [&] { seen = Read(1, false)->ordinals.size(); }).Join();
    EXPECT_EQ(seen, 25u);
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(StudyResultsTest, AnotherDatabaseIsReadAnew) {
  Make(Patient());
  for (int64_t i = 0; i < 5; ++i) trials().Put(1, RowOf(i));
  EXPECT_EQ(Read(1, false)->ordinals.size(), 5u);
  trials().TakeReads();
  store_.replacements = 1;
  trials().Put(1, RowOf(5));
  EXPECT_EQ(Read(1, false)->ordinals.size(), 6u);
  EXPECT_THAT(trials().TakeReads(), ElementsAre(0));
}

TEST_F(StudyResultsTest, WhatWasNotUsedForLongestGoes) {
  StudyResultsOptions options = Patient(1000);
  options.bytes_max = 200'000;  // about 3 of these studies
  Make(options);
  std::map<int64_t, int64_t> revisions;
  for (const int64_t study : {1, 2, 3, 4, 5}) {
    for (int64_t i = 0; i < 1500; ++i) trials().Put(study, RowOf(i));
    revisions[study] = Read(study, false)->revision;
    Read(1, false).IgnoreError();  // stays in use
  }
  trials().TakeReads();
  EXPECT_EQ(Read(1, false)->ordinals.size(), 1500u);
  EXPECT_EQ(Read(5, false)->ordinals.size(), 1500u);
  EXPECT_THAT(trials().TakeReads(), IsEmpty());
  clock_.Advance(std::chrono::seconds(1));
  const Seen again = *Read(2, false);
  EXPECT_EQ(again.ordinals.size(), 1500u);
  EXPECT_THAT(trials().TakeReads(), ElementsAre(0, 1000));
  EXPECT_GT(again.revision, revisions[2]) << "it may have changed meanwhile";
}

TEST_F(StudyResultsTest, StudiesThatAreReadAtOnceShareTheMemory) {
  StudyResultsOptions options = Patient(100);
  options.wait = Duration::zero();
  options.bytes_max = 100'000;  // of 1,000 trials each three of these studies, of 1,500 one
  Make(options);
  trials().Hold();
  for (const int64_t study : {1, 2, 3}) {
    for (int64_t i = 0; i < 1500; ++i) trials().Put(study, RowOf(i));
    EXPECT_TRUE(Read(study, false)->is_behind);
  }
  trials().Release();
  Seen first;
  do first = *Read(1, false);
  while (first.is_behind);
  EXPECT_EQ(first.ordinals.size(), 1500u);
  trials().Hold();
  for (const int64_t study : {2, 3}) EXPECT_THAT(Read(study, false)->ordinals, IsEmpty()) << "it gave way";
  trials().Release();
}

TEST_F(StudyResultsTest, AStudyLargerThanTheMemoryIsCut) {
  StudyResultsOptions options = Patient(1000);
  options.bytes_max = 100'000;
  Make(options);
  for (int64_t i = 0; i < 20'000; ++i) trials().Put(1, RowOf(i));
  const Seen seen = *Read();
  EXPECT_TRUE(seen.is_cut);
  EXPECT_EQ(seen.stored, 20'000);
  EXPECT_LT(seen.ordinals.size(), 20'000u);
  trials().TakeReads();
  EXPECT_EQ(Read()->ordinals, seen.ordinals);
  EXPECT_THAT(trials().TakeReads(), IsEmpty());
}

TEST_F(StudyResultsTest, AfterAnErrorOfTheStoreItGoesOn) {
  Make(Patient());
  for (int64_t i = 0; i < 15; ++i) trials().Put(1, RowOf(i));
  EXPECT_EQ(Read()->ordinals.size(), 15u);
  trials().TakeReads();
  trials().set_status(Unavailable("the database is away"));
  EXPECT_TRUE(absl::IsUnavailable(Read().status()));
  trials().set_status(absl::OkStatus());
  trials().Put(1, RowOf(15));
  EXPECT_EQ(Read()->ordinals.size(), 16u);
  EXPECT_THAT(trials().TakeReads(), ElementsAre(15));
}

TEST_F(StudyResultsTest, TrialsThatCannotBeReadAreLeftOutAndCounted) {
  Make(Patient());
  LogCapture log;
  trials().Put(1, RowOf(0));
  TrialColumns damaged = RowOf(1, 0);
  damaged.detail = "\xff";
  trials().Put(1, damaged);
  TrialColumns of_another_space = RowOf(2);
  of_another_space.config = "B=1";
  trials().Put(1, of_another_space);
  trials().Put(1, RowOf(3));
  const Seen seen = *Read();
  EXPECT_THAT(seen.ordinals, ElementsAre(0, 3));
  EXPECT_EQ(seen.unreadable, 2);
  EXPECT_EQ(seen.stored, 2);
  ASSERT_EQ(log.lines().size(), 1u);
  EXPECT_THAT(log.lines()[0].message, testing::HasSubstr("study 1: 2 trials are not readable"));
  EXPECT_THAT(log.lines()[0].message, testing::HasSubstr("the stored trial 1 cannot be read"));

  trials().Put(1, RowOf(4));
  const Seen later = *Read();
  EXPECT_THAT(later.ordinals, ElementsAre(0, 3, 4));
  EXPECT_EQ(later.unreadable, 2) << "counted once";
  EXPECT_EQ(log.lines().size(), 1u);
}

}  // namespace
}  // namespace tunefarm
