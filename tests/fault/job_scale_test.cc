// Large jobs on many devices while workers, devices and the daemon die: a space of 10^6 configs, eight GPUs of which
// the slowest takes eight times as long for a trial as the fastest, on a fake clock. Jobs, store, driver, strategies,
// link and agent are the real ones; only the GPUs are not (simulated_gpus.h). At the end of each job the database is
// read apart from them: nothing lost, nothing twice, the best is the smallest. TUNEFARM_NIGHTLY=1: every config of the
// space is tried, by each strategy, and the memory of this process must stay below the bound.
//
// TUNEFARM_SCALE_TRIALS, TUNEFARM_SCALE_STRATEGIES="default,random" and TUNEFARM_SCALE_SEED choose other runs.
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/wait.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/fakes/cuda_definition.h"
#include "tests/fault/simulated_gpus.h"
#include "tests/unit/jobs/farm.h"

namespace tunefarm {
namespace {

using tunefarm::v1::Outcome;

constexpr int kParameters = 6;
constexpr int kValues = 10;  // of each: 10^6 configs
constexpr int kGpus = 8;
constexpr int64_t kProcessMiBMax = 500;

std::string Setting(const char* name, const std::string& otherwise) {
  const char* const value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : otherwise;
}
bool IsNightly() { return Setting("TUNEFARM_NIGHTLY", "0") == "1"; }
int64_t TrialsOfAJob() { return std::stoll(Setting("TUNEFARM_SCALE_TRIALS", IsNightly() ? "1000000" : "2000")); }

// What this process holds and held at most, in MiB.
std::pair<int64_t, int64_t> MemoryMiB() {
  std::ifstream status("/proc/self/status");
  int64_t now = 0, most = 0;
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmRSS:", 0) == 0) now = std::stoll(line.substr(6));
    if (line.rfind("VmHWM:", 0) == 0) most = std::stoll(line.substr(6));
  }
  return {now / 1024, most / 1024};
}

double CpuSeconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

tunefarm::v1::Kernel LargeKernel() {
  std::string parameters;
  for (int p = 0; p < kParameters; ++p) {
    parameters += fmt::format("parameters {{ name: 'P{}' range {{ first: 0 last: {} }} }}\n", p, kValues - 1);
  }
  return CudaDefinition("large", parameters, "P0 + 1", "32");
}

// A rugged bowl: each parameter has its best value, two of them only together, and one config in ten is a little off.
// One in thirty does not compile, one in forty kills its worker; never the default config, which is the reference too.
SimulatedConfig Describe(const Config& config) {
  SimulatedConfig described;
  int values[kParameters] = {};
  for (int p = 0; p < kParameters; ++p) {
    const Value* const value = config.Find(fmt::format("P{}", p));
    values[p] = value == nullptr ? 0 : static_cast<int>(value->int_value());
  }
  double slower = 1;
  const int best[kParameters] = {7, 2, 5, 3, 8, 4};
  const double weight[kParameters] = {0.05, 0.03, 0.02, 0.04, 0.01, 0.06};
  for (int p = 0; p < kParameters; ++p) slower += weight[p] * std::pow(values[p] - best[p], 2);
  if ((values[0] + values[5]) % 3 != 2) slower *= 1.3;
  const uint64_t chance = config.Hash();
  described.median_ns = 1000 * slower * (1 + 0.02 * static_cast<double>(chance % 97) / 97);
  const bool is_default = std::all_of(values, values + kParameters, [](int value) { return value == 0; });
  if (is_default) return described;
  if (chance / 97 % 30 == 0) described.compile = tunefarm::v1::OUTCOME_COMPILE_ERROR;
  if (chance / 3000 % 40 == 0) described.run = tunefarm::v1::OUTCOME_RUN_CRASH;
  return described;
}

std::vector<tunefarm::v1::Device> Gpus() {
  std::vector<tunefarm::v1::Device> devices;
  for (int i = 0; i < kGpus; ++i) devices.push_back(FakeGpu(fmt::format("GPU-{}", i)));
  return devices;
}

// A farm of simulated GPUs that counts over its deaths.
class Machine {
 public:
  Machine(const std::string& directory, uint64_t seed)
      : seed_(seed), farm_(directory, Gpus(), [this](Executor* executor, TestService* service) {
          auto made = MakeGpus(executor, service);
          gpus_ = made.get();
          return made;
        }) {}

  // As SIGKILL: what is in memory is gone, nothing more reaches the store.
  void Kill() {
    deaths_ += gpus_->deaths();
    outages_ += gpus_->outages();
    for (const auto& [uuid, runs] : gpus_->ended_runs()) ended_runs_ += runs;
    farm_.Crash();
  }

  Farm& farm() { return farm_; }
  int64_t deaths() const { return deaths_; }
  int64_t outages() const { return outages_; }
  int64_t ended_runs() const { return ended_runs_; }

 private:
  std::unique_ptr<SimulatedGpus> MakeGpus(Executor* executor, TestService* service) {
    SimulatedGpusOptions options;
    // 2 to 16 ms: shorter than a report, and longer.
    for (int i = 0; i < kGpus; ++i) {
      options.trial_time[fmt::format("GPU-{}", i)] = std::chrono::milliseconds(2 * (i + 1));
    }
    options.seed = seed_ + static_cast<uint64_t>(++boots_);
    options.death_share = 0.01;
    options.outage_share = 0.001;
    return std::make_unique<SimulatedGpus>(executor, options, Describe,
                                           [service](const std::string& uuid, bool is_out) {
                                             service->SetDeviceQuarantine(uuid, is_out ? "it does not answer" : "");
                                           });
  }

  const uint64_t seed_;
  int boots_ = 0;
  int64_t deaths_ = 0, outages_ = 0, ended_runs_ = 0;
  SimulatedGpus* gpus_ = nullptr;
  Farm farm_;
};

// Reads a database that no store has open.
class Database {
 public:
  explicit Database(const std::string& path) {
    TUNEFARM_CHECK(sqlite3_open_v2(path.c_str(), &handle_, SQLITE_OPEN_READWRITE, nullptr) == SQLITE_OK);
  }
  ~Database() { sqlite3_close(handle_); }
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // Calls `row` with each row of a query.
  template <typename Row>
  void ForEach(const std::string& sql, const Row& row) {
    sqlite3_stmt* statement = nullptr;
    TUNEFARM_CHECK(sqlite3_prepare_v2(handle_, sql.c_str(), -1, &statement, nullptr) == SQLITE_OK);
    while (sqlite3_step(statement) == SQLITE_ROW) row(statement);
    sqlite3_finalize(statement);
  }
  int64_t One(const std::string& sql) {
    int64_t value = -1;
    ForEach(sql, [&](sqlite3_stmt* row) { value = sqlite3_column_int64(row, 0); });
    return value;
  }

 private:
  sqlite3* handle_ = nullptr;
};

std::string ColumnText(sqlite3_stmt* row, int column) {
  return reinterpret_cast<const char*>(sqlite3_column_text(row, column));
}

// The config of its stored text, "P0=1,P1=2,...": as a number below 10^6, and as itself.
int NumberOf(const std::string& text, Config* config) {
  int number = 0;
  std::stringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    const size_t equals = part.find('=');
    TUNEFARM_CHECK(equals != std::string::npos);
    const int value = std::stoi(part.substr(equals + 1));
    config->Set(part.substr(0, equals), Value(int64_t{value}));
    number = number * kValues + value;
  }
  return number;
}

class JobScaleTest : public testing::TestWithParam<std::string> {
 protected:
  // A short run of one strategy may have no outage; one of four has some.
  static void TearDownTestSuite() {
    if (runs_ < 4) return;
    EXPECT_GT(outages_, 0) << "no device was out of service";
  }
  // What must hold of a job that has ended, whatever died meanwhile.
  void CheckDatabase(int64_t trials);
  void CheckProgress();
  void RunInvariantChecker();

  TemporaryDirectory directory_;
  std::string path_ = directory_.File("tunefarm.db");
  static inline int64_t outages_ = 0;
  static inline int runs_ = 0;
};

void JobScaleTest::CheckDatabase(int64_t trials) {
  Database database(path_);
  // One final outcome for each ordinal that was ever handed out, and none for any other.
  const int64_t proposed = database.One("SELECT next_ordinal FROM study");
  EXPECT_EQ(database.One("SELECT count(*) FROM trial_result"), proposed);
  EXPECT_EQ(database.One("SELECT count(DISTINCT ordinal) FROM trial_result"), proposed);
  EXPECT_EQ(database.One("SELECT min(ordinal) FROM trial_result"), 0);
  EXPECT_EQ(database.One("SELECT max(ordinal) FROM trial_result"), proposed - 1);
  EXPECT_EQ(database.One("SELECT count(*) FROM trial_result WHERE purpose = 1"), trials);
  EXPECT_EQ(database.One("SELECT count(*) FROM work_unit WHERE state <> 4"), 0) << "a unit is not told";
  // No config twice, and each outcome is what is true of its config: nothing was mixed up, deaths stuck to nobody.
  std::vector<bool> is_seen(1'000'000);
  double least = HUGE_VAL;
  int64_t twice = 0, untrue = 0;
  database.ForEach("SELECT config, outcome, median_ns FROM trial_result WHERE purpose = 1", [&](sqlite3_stmt* row) {
    Config config;
    const int number = NumberOf(ColumnText(row, 0), &config);
    twice += is_seen[static_cast<size_t>(number)] ? 1 : 0;
    is_seen[static_cast<size_t>(number)] = true;
    const SimulatedConfig truth = Describe(config);
    const Outcome due = truth.compile != tunefarm::v1::OUTCOME_OK ? truth.compile : truth.run;
    untrue += sqlite3_column_int(row, 1) != due ? 1 : 0;
    if (due != tunefarm::v1::OUTCOME_OK) return;
    untrue += sqlite3_column_double(row, 2) != truth.median_ns ? 1 : 0;
    least = std::min(least, truth.median_ns);
  });
  EXPECT_EQ(twice, 0);
  EXPECT_EQ(untrue, 0);
  // The best is the smallest of all that was accepted.
  EXPECT_EQ(database.One("SELECT count(*) FROM best_config"), 1);
  database.ForEach("SELECT config, median_ns FROM best_config", [&](sqlite3_stmt* row) {
    Config config;
    NumberOf(ColumnText(row, 0), &config);
    EXPECT_NEAR(Describe(config).median_ns, least, 1e-6 * least) << "samples are floats";
    EXPECT_NEAR(sqlite3_column_double(row, 1), least, 1e-6 * least);
  });
  EXPECT_EQ(std::count(is_seen.begin(), is_seen.end(), true), trials);
}

// The faster a device, the more trials it had.
void JobScaleTest::CheckProgress() {
  Database database(path_);
  std::map<std::string, int64_t> by_device;
  database.ForEach(
      "SELECT device_uuid, count(*) FROM trial_result WHERE purpose = 1 AND outcome = 1 GROUP BY device_uuid",
      [&](sqlite3_stmt* row) { by_device[ColumnText(row, 0)] = sqlite3_column_int64(row, 1); });
  ASSERT_EQ(by_device.size(), static_cast<size_t>(kGpus));
  std::string text;
  for (const auto& [uuid, count] : by_device) text += fmt::format(" {}", count);
  fmt::print("  trials by device, fastest first:{}\n", text);
  EXPECT_GT(by_device["GPU-0"], by_device["GPU-3"]);
  EXPECT_GT(by_device["GPU-1"], by_device["GPU-5"]);
  EXPECT_GT(by_device["GPU-3"], by_device["GPU-7"]);
}

// The same one that ends every fault test.
void JobScaleTest::RunInvariantChecker() {
  const std::string command = fmt::format(
      "python3 -c 'import sys; sys.path.insert(0, sys.argv[1]); import invariants\n"
      "with invariants.open_copy(sys.argv[2]) as database:\n"
      "  problems = invariants.DatabaseChecker(database).run()\n"
      "print(\"\\n\".join(problems[:20]))\n"
      "sys.exit(1 if problems else 0)' {}/tests/fault {}",
      Setting("TUNEFARM_SOURCE_DIR", "."), path_);
  EXPECT_EQ(std::system(command.c_str()), 0);
}

TEST_P(JobScaleTest, NothingIsLostOrRunTwiceWhileEverythingDies) {
  const std::string strategy = GetParam();
  const int64_t trials = TrialsOfAJob();
  const uint64_t seed = std::stoull(Setting("TUNEFARM_SCALE_SEED", "1"));
  fmt::print("{}: {} trials, seed {}\n", strategy, trials, seed);
  Machine machine(directory_.path(), seed);
  tunefarm::v1::Job job;
  job.mutable_strategy()->set_strategy_name(strategy);
  job.mutable_budget()->set_max_trials(trials);
  Farm& farm = machine.farm();
  const std::string name = farm.SubmitJob({1024}, LargeKernel(), job);

  // The daemon dies after drawn numbers of trials, and at a drawn step from there.
  PhiloxStream random(seed, 1);
  const int kills = IsNightly() ? 20 : 8;
  std::set<int64_t> kill_at;
  while (static_cast<int>(kill_at.size()) < kills) kill_at.insert(static_cast<int64_t>(random.UniformInt(trials)));
  // Memory and the best so far at ten points of the run.
  std::vector<double> best_at;
  double last_cpu = CpuSeconds();
  int64_t last_done = 0;
  fmt::print("{:>10} {:>12} {:>9} {:>9} {:>14}\n", "trials", "best ns", "RSS MiB", "peak MiB", "CPU us/trial");
  while (true) {
    for (int i = 0; i < 500; ++i) ASSERT_TRUE(farm.Step()) << "nothing goes on";
    const tunefarm::v1::Job now = farm.Job(name);
    const int64_t done = now.progress().done();
    if (done >= static_cast<int64_t>(best_at.size() + 1) * trials / 10) {
      best_at.push_back(now.studies(0).incumbent().measurement().median_ns());
      const auto [resident, peak] = MemoryMiB();
      const double cpu = CpuSeconds();
      fmt::print("{:>10} {:>12.1f} {:>9} {:>9} {:>14.1f}\n", done, best_at.back(), resident, peak,
                 1e6 * (cpu - last_cpu) / static_cast<double>(std::max<int64_t>(1, done - last_done)));
      std::fflush(stdout);
      last_cpu = cpu;
      last_done = done;
    }
    if (now.state() == tunefarm::v1::JOB_STATE_SUCCEEDED) break;
    ASSERT_TRUE(now.state() == tunefarm::v1::JOB_STATE_QUEUED || now.state() == tunefarm::v1::JOB_STATE_RUNNING)
        << now.ShortDebugString().substr(0, 2000);
    if (kill_at.empty() || done < *kill_at.begin()) continue;
    kill_at.erase(kill_at.begin());
    const uint64_t more = random.UniformInt(400);
    for (uint64_t i = 0; i < more; ++i) ASSERT_TRUE(farm.Step()) << "nothing goes on";
    const double cpu = CpuSeconds();
    machine.Kill();
    farm.Boot();
    if (trials >= 100'000) fmt::print("  killed at {}; up again after {:.1f} s of CPU\n", done, CpuSeconds() - cpu);
  }
  machine.Kill();
  fmt::print("  {} worker deaths, {} device outages, {} daemon deaths; {} runs came to their end for {} trials\n",
             machine.deaths(), machine.outages(), kills - static_cast<int>(kill_at.size()), machine.ended_runs(),
             trials);
  EXPECT_TRUE(kill_at.empty()) << "the job ended before its last kill";
  EXPECT_GT(machine.deaths(), 0);
  outages_ += machine.outages();
  runs_ += 1;
  CheckDatabase(trials);
  CheckProgress();
  RunInvariantChecker();
  // What ran a second time is what had ended and was not yet stored when the daemon died: at most what is gathered for
  // a report, of each device.
  Database database(path_);
  const int64_t ran = database.One("SELECT count(*) FROM trial_result WHERE purpose = 1 AND outcome <> 4");
  const int64_t in_finals = database.One("SELECT sum(trial_count * rounds) FROM work_unit WHERE kind = 3");
  EXPECT_GE(machine.ended_runs(), ran + in_finals);
  EXPECT_LE(machine.ended_runs(), ran + 4 * in_finals + kills * kGpus * 8);
  const bool learns = strategy == "default" || strategy == "genetic";
  if (strategy != "exhaustive") {
    // Of so many trials the last tenth of the way may have been made before the first look; the final's samples, of
    // which the last is the median, are single precision.
    EXPECT_LE(best_at.back(), best_at.front() * (1 + 1e-6));
    EXPECT_LT(best_at.back(), learns ? 1100 : 1300) << "of 1000 at the least: the search makes no progress";
  }
  EXPECT_LT(MemoryMiB().second, kProcessMiBMax);
}

std::vector<std::string> Strategies() {
  std::vector<std::string> names;
  std::stringstream list(Setting("TUNEFARM_SCALE_STRATEGIES", "default,genetic,random,exhaustive"));
  for (std::string name; std::getline(list, name, ',');) names.push_back(name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Strategies, JobScaleTest, testing::ValuesIn(Strategies()),
                         [](const auto& tested) { return tested.param; });

}  // namespace
}  // namespace tunefarm
