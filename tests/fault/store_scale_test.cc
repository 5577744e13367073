// Many jobs and many results: what one claim, report, page or look-up costs must not grow with what is stored. Costs
// are counted in steps of SQLite's virtual machine, which do not depend on the machine; times are printed only.
// TUNEFARM_NIGHTLY=1: 10,000,000 results instead of 30,000.
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "server/base/check.h"
#include "server/base/clock.h"
#include "server/store/agent_store.h"
#include "server/store/best_store.h"
#include "server/store/job_store.h"
#include "server/store/store.h"
#include "server/store/study_store.h"
#include "server/store/trial_store.h"
#include "server/store/unit_store.h"
#include "tests/fakes/temporary_directory.h"

namespace tunefarm {
namespace {

constexpr int kQueuedJobs = 10'000;
constexpr int kFewJobs = 100;
constexpr int64_t kFewTrials = 1'000;
constexpr int64_t kNow = 1767225600000;
constexpr int kWriters = 16;

bool IsNightly() {
  const char* const value = std::getenv("TUNEFARM_NIGHTLY");
  return value != nullptr && std::string(value) == "1";
}
int64_t ManyTrials() { return IsNightly() ? 10'000'000 : 30'000; }

// Counts the steps of every statement of every connection that is opened while it lives. One at a time.
class StepCounter {
 public:
  StepCounter() { TUNEFARM_CHECK(sqlite3_auto_extension(reinterpret_cast<void (*)()>(&OnOpen)) == SQLITE_OK); }
  ~StepCounter() { sqlite3_cancel_auto_extension(reinterpret_cast<void (*)()>(&OnOpen)); }

  // Steps of what `call` runs, alone.
  template <typename Call>
  int64_t Of(Call call) {
    {
      const std::lock_guard<std::mutex> lock(mutex);
      steps.clear();
    }
    call();
    const std::lock_guard<std::mutex> lock(mutex);
    int64_t sum = 0;
    for (const auto& [sql, count] : steps) sum += count;
    return sum;
  }

  // The statements of the last Of, the most expensive first.
  static std::string Explain() {
    const std::lock_guard<std::mutex> lock(mutex);
    std::vector<std::pair<int64_t, std::string>> sorted;
    for (const auto& [sql, count] : steps) sorted.emplace_back(count, sql);
    std::sort(sorted.rbegin(), sorted.rend());
    std::string text;
    for (const auto& [count, sql] : sorted) text += fmt::format("{:>9} {}\n", count, sql.substr(0, 200));
    return text;
  }

 private:
  static int OnOpen(sqlite3* handle, char**, const void*) {
    return sqlite3_trace_v2(handle, SQLITE_TRACE_PROFILE, &OnProfile, nullptr);
  }
  static int OnProfile(unsigned, void*, void* statement, void*) {
    auto* const ended = static_cast<sqlite3_stmt*>(statement);
    const char* const sql = sqlite3_sql(ended);
    const std::lock_guard<std::mutex> lock(mutex);
    steps[sql == nullptr ? "" : sql] += sqlite3_stmt_status(ended, SQLITE_STMTSTATUS_VM_STEP, 1);
    return 0;
  }

  static inline std::mutex mutex;
  static inline std::map<std::string, int64_t> steps;
};

class StoreScale : public testing::Test {
 protected:
  StoreScale() { Open(); }

  void Open() {
    SqliteOptions options;
    options.path = directory_.File("tunefarm.db");
    auto opened = OpenSqliteStore(options);
    TUNEFARM_CHECK_OK(opened);
    store_ = *std::move(opened);
  }

  // A job of one study with one unit of `trials` trials that waits.
  int64_t AddJob(const std::string& uid, int trials) {
    SubmitRequest request;
    request.kernel = KernelRow{"kernel", "program", "name", "definition", 1, ""};
    request.job.kernel_id = "kernel";
    request.job.uid = uid;
    request.job.spec = "spec";
    request.job.studies.resize(1);
    request.job.studies[0].number = 1;
    request.job.studies[0].problem_key = "N=1";
    request.job.studies[0].class_id = "class";
    request.now_ms = kNow;
    const auto submitted = store_->jobs()->SubmitJob(request);
    TUNEFARM_CHECK_OK(submitted);
    const int64_t study_id = store_->jobs()->GetJob(submitted->job_id)->studies[0].study_id;
    Propose(study_id, 0, trials);
    return study_id;
  }

  void Propose(int64_t study_id, int64_t first_ordinal, int trials) {
    DriveStep step;
    step.study_id = study_id;
    UnitRow unit;
    unit.study_id = study_id;
    unit.first_ordinal = first_ordinal;
    unit.trial_count = trials;
    unit.payload = "payload";
    step.new_units.push_back(unit);
    step.next_ordinal = first_ordinal + trials;
    step.now_ms = kNow;
    TUNEFARM_CHECK_OK(store_->studies()->Drive(step));
  }

  void AddJobs(int from, int to) {
    std::vector<std::thread> writers;
    std::atomic<int> next{from};
    for (int i = 0; i < kWriters; ++i) {
      writers.emplace_back([&] {
        for (int job = next++; job < to; job = next++) AddJob(fmt::format("job-{}", job), 1);
      });
    }
    for (std::thread& writer : writers) writer.join();
  }

  ClaimRequest Register() {
    ClaimRequest request;
    request.agent_id = "agent";
    request.epoch = store_->agents()->RegisterAgent({"agent", "host", "", 0, kNow}).value();
    request.device_uuid = "gpu-0";
    request.class_id = "class";
    request.now_ms = kNow;
    return request;
  }

  ReportRequest ReportOf(const ClaimRequest& claimer, const ClaimedUnit& claimed) {
    ReportRequest report;
    report.agent_id = claimer.agent_id;
    report.epoch = claimer.epoch;
    report.unit_id = claimed.unit.unit_id;
    report.token = claimed.unit.token;
    report.unit_done = true;
    report.now_ms = kNow;
    for (int i = 0; i < claimed.unit.trial_count; ++i) {
      TrialRow trial;
      trial.ordinal = claimed.unit.first_ordinal + i;
      trial.outcome = 1;
      trial.config = "X=1";
      trial.median_ns = 1000;
      trial.ended_at_ms = kNow;
      report.trials.push_back(trial);
    }
    return report;
  }

  // Results of the study up to `to`, as if reported long ago: straight into the file, while no store has it open.
  void AddResults(int64_t study_id, int64_t from, int64_t to) {
    store_.reset();
    sqlite3* handle = nullptr;
    ASSERT_EQ(sqlite3_open(directory_.File("tunefarm.db").c_str(), &handle), SQLITE_OK);
    const std::string sql = fmt::format(
        "PRAGMA synchronous = OFF; BEGIN; "
        "WITH RECURSIVE ordinals (o) AS (SELECT {1} UNION ALL SELECT o + 1 FROM ordinals WHERE o + 1 < {2}) "
        "INSERT INTO trial_result (study_id, ordinal, attempt, outcome, purpose, config, median_ns, device_uuid, "
        "ended_at_ms, detail) SELECT {0}, o, 1, 1 + (o % 16), 1, 'X=' || o, 1000 + (o * 7919) % 100003, 'gpu-0', {3}, "
        "x'00' FROM ordinals; UPDATE study SET next_ordinal = {2} WHERE study_id = {0}; COMMIT",
        study_id, from, to, kNow);
    EXPECT_EQ(sqlite3_exec(handle, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(handle);
    EXPECT_EQ(sqlite3_close(handle), SQLITE_OK);
    Open();
  }

  // The token of a page in the middle of the listing.
  TrialQuery Middle(TrialQuery query, int pages) {
    for (int i = 0; i < pages; ++i) query.page.page_token = store_->trials()->ListTrials(query)->next_page_token;
    return query;
  }

  // By name, what each costs now.
  void CountReads(int64_t job_id, std::map<std::string, int64_t>* costs) {
    TrialQuery query;
    query.job_id = job_id;
    TrialQuery by_time = query;
    by_time.order_by_time = true;
    TrialQuery finals = query, finals_by_time = by_time;
    finals.purpose = finals_by_time.purpose = 3;
    const TrialQuery deep = Middle(query, 8), deep_by_time = Middle(by_time, 8);
    (*costs)["a page by ordinal"] = steps_.Of([&] { TUNEFARM_CHECK_OK(store_->trials()->ListTrials(query)); });
    (*costs)["a later page by ordinal"] = steps_.Of([&] { TUNEFARM_CHECK_OK(store_->trials()->ListTrials(deep)); });
    (*costs)["a page by time"] = steps_.Of([&] { TUNEFARM_CHECK_OK(store_->trials()->ListTrials(by_time)); });
    (*costs)["a later page by time"] =
        steps_.Of([&] { TUNEFARM_CHECK_OK(store_->trials()->ListTrials(deep_by_time)); });
    (*costs)["finals by ordinal"] = steps_.Of([&] { TUNEFARM_CHECK_OK(store_->trials()->ListTrials(finals)); });
    (*costs)["finals by time"] = steps_.Of([&] { TUNEFARM_CHECK_OK(store_->trials()->ListTrials(finals_by_time)); });
    (*costs)["one trial"] = steps_.Of([&] { TUNEFARM_CHECK_OK(store_->trials()->GetTrial(job_id, 1, 17)); });
    (*costs)["a best"] = steps_.Of([&] { TUNEFARM_CHECK_OK(store_->bests()->FindBest("program", "N=1", "class")); });
    (*costs)["a job"] = steps_.Of([&] { TUNEFARM_CHECK_OK(store_->jobs()->GetJob(job_id)); });
  }

  // Logarithms may show; anything that walks what is stored may not.
  void ExpectFlat(const std::map<std::string, int64_t>& few, const std::map<std::string, int64_t>& many) {
    for (const auto& [name, cost] : few) {
      fmt::print("{:<24} {:>7} steps, {:>7} with many\n", name, cost, many.at(name));
      EXPECT_LE(many.at(name), 2 * cost + 100) << name;
    }
  }

  StepCounter steps_;  // before the store: it counts the connections that are opened later
  TemporaryDirectory directory_;
  std::unique_ptr<Store> store_;
};

TEST_F(StoreScale, AQueueOfManyJobsCostsAsMuchAsAQueueOfFew) {
  AddJobs(0, kFewJobs);
  const ClaimRequest claimer = Register();
  std::map<std::string, int64_t> few, many;
  const auto count = [&](std::map<std::string, int64_t>* costs) {
    std::vector<ClaimedUnit> claimed;
    (*costs)["a claim"] = steps_.Of([&] { claimed = store_->units()->ClaimUnits(claimer).value(); });
    ASSERT_EQ(claimed.size(), 1U) << StepCounter::Explain();
    const ReportRequest report = ReportOf(claimer, claimed[0]);
    (*costs)["a report"] = steps_.Of([&] { TUNEFARM_CHECK_OK(store_->units()->ReportTrials(report)); });
    (*costs)["a page of jobs"] = steps_.Of([&] { TUNEFARM_CHECK_OK(store_->jobs()->ListJobs({}, {})); });
    // None has it.
    (*costs)["a page of a label"] = steps_.Of([&] {
      TUNEFARM_CHECK_OK(store_->jobs()->ListJobs({}, {}, {"", "night", "", ""}));
    });
    (*costs)["a page of a submitter"] = steps_.Of([&] {
      TUNEFARM_CHECK_OK(store_->jobs()->ListJobs({}, {}, {"", "", "alice", ""}));
    });
    (*costs)["a submit"] = steps_.Of([&] { AddJob("one more of " + std::to_string(costs->size() + few.size()), 1); });
  };
  count(&few);
  const MonotonicTime began = Clock::Real()->Now();
  AddJobs(kFewJobs, kQueuedJobs);
  fmt::print("{} jobs queued in {:.1f} s\n", kQueuedJobs,
             std::chrono::duration<double>(Clock::Real()->Now() - began).count());
  count(&many);
  ExpectFlat(few, many);

  std::vector<double> ms;
  for (int i = 0; i < 500; ++i) {
    const MonotonicTime start = Clock::Real()->Now();
    const auto claimed = store_->units()->ClaimUnits(claimer);
    ms.push_back(std::chrono::duration<double, std::milli>(Clock::Real()->Now() - start).count());
    TUNEFARM_CHECK_OK(claimed);
    ASSERT_EQ(claimed->size(), 1U);
  }
  std::sort(ms.begin(), ms.end());
  fmt::print("a claim out of {} jobs: median {:.2f} ms, p99 {:.2f} ms\n", kQueuedJobs, ms[250], ms[495]);

  // Every job appears once, while others come.
  std::set<int64_t> seen;
  PageRequest page{1000, ""};
  int arrived = 0;
  do {
    const auto listed = store_->jobs()->ListJobs({}, page);
    ASSERT_TRUE(listed.ok()) << listed.status();
    for (const JobRow& job : listed->rows) EXPECT_TRUE(seen.insert(job.job_id).second) << job.job_id;
    page.page_token = listed->next_page_token;
    AddJob(fmt::format("arrives {}", arrived++), 1);
  } while (!page.page_token.empty());
  EXPECT_GE(seen.size(), static_cast<size_t>(kQueuedJobs));
}

TEST_F(StoreScale, ManyResultsCostAsMuchToReadAsFew) {
  const int64_t study_id = AddJob("job", 1);
  const int64_t job_id = 1;
  AddResults(study_id, 0, kFewTrials);
  std::map<std::string, int64_t> few, many;
  CountReads(job_id, &few);
  const MonotonicTime began = Clock::Real()->Now();
  AddResults(study_id, kFewTrials, ManyTrials());
  fmt::print("{} results in {:.1f} s\n", ManyTrials(),
             std::chrono::duration<double>(Clock::Real()->Now() - began).count());
  CountReads(job_id, &many);
  ExpectFlat(few, many);
  for (const std::string order : {"ordinal", "time"}) {
    EXPECT_LE(many["a later page by " + order], many["a page by " + order] + 300) << "of an order by " << order;
  }

  // A report among many results costs what it costs among none.
  const ClaimRequest claimer = Register();
  Propose(study_id, ManyTrials(), 32);
  ASSERT_EQ(store_->units()->ClaimUnits(claimer)->size(), 1U);  // the job's first unit, whose trial is stored already
  const auto claimed = store_->units()->ClaimUnits(claimer);
  ASSERT_EQ(claimed->size(), 1U);
  EXPECT_TRUE((*claimed)[0].present_ordinals.empty());
  const ReportRequest report = ReportOf(claimer, (*claimed)[0]);
  const int64_t cost = steps_.Of([&] { TUNEFARM_CHECK_OK(store_->units()->ReportTrials(report)); });
  EXPECT_LE(cost, 32 * 200) << StepCounter::Explain();
}

TEST_F(StoreScale, PagesByTimeAreStableWhileResultsArrive) {
  constexpr int64_t kStored = 20'000;
  const int64_t study_id = AddJob("job", 1);
  AddResults(study_id, 0, kStored);
  const ClaimRequest claimer = Register();
  ASSERT_EQ(store_->units()->ClaimUnits(claimer)->size(), 1U);
  TrialQuery query;
  query.job_id = 1;
  query.order_by_time = true;
  query.page.page_size = 1000;
  std::set<int64_t> seen;
  int64_t next_ordinal = kStored;
  do {
    const auto page = store_->trials()->ListTrials(query);
    ASSERT_TRUE(page.ok()) << page.status();
    for (const TrialRow& row : page->rows) {
      EXPECT_TRUE(seen.insert(row.ordinal).second) << "ordinal " << row.ordinal << " twice";
    }
    query.page.page_token = page->next_page_token;
    // Faster than all, in the middle, and slower than all.
    Propose(study_id, next_ordinal, 3);
    const auto claimed = store_->units()->ClaimUnits(claimer);
    ASSERT_EQ(claimed->size(), 1U);
    ReportRequest report = ReportOf(claimer, (*claimed)[0]);
    report.trials[0].median_ns = 1;
    report.trials[1].median_ns = 50'000;
    report.trials[2].median_ns = 1e9;
    TUNEFARM_CHECK_OK(store_->units()->ReportTrials(report));
    next_ordinal += 3;
  } while (!query.page.page_token.empty());
  for (int64_t ordinal = 0; ordinal < kStored; ++ordinal) {
    EXPECT_TRUE(seen.count(ordinal)) << "ordinal " << ordinal << " was left out";
  }
}

}  // namespace
}  // namespace tunefarm
