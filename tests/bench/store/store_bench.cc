// How many reports a second the store makes durable: trials per report (1, 32) by reporting threads (1, 8).
#include <benchmark/benchmark.h>

#include <memory>
#include <string>
#include <vector>

#include "server/base/check.h"
#include "server/base/mutex.h"
#include "server/store/agent_store.h"
#include "server/store/job_store.h"
#include "server/store/store.h"
#include "server/store/study_store.h"
#include "server/store/unit_store.h"
#include "tests/fakes/temporary_directory.h"

namespace tunefarm {
namespace {

constexpr int kUnitTrialsMax = 64;
constexpr size_t kUnitsPerStep = 256;

// A store with one endless study; every call of Claim proposes more when there is nothing to claim. Thread-safe.
class Farm {
 public:
  Farm() {
    SqliteOptions options;
    options.path = directory_.File("tunefarm.db");
    auto opened = OpenSqliteStore(options);
    TUNEFARM_CHECK_OK(opened);
    store_ = *std::move(opened);
    SubmitRequest request;
    request.kernel = KernelRow{"kernel", "program", "name", "definition", 1, ""};
    request.job.kernel_id = "kernel";
    request.job.uid = "job";
    request.job.studies.resize(1);
    request.job.studies[0].number = 1;
    request.job.studies[0].class_id = "class";
    request.now_ms = 1;
    const auto job = store_->jobs()->SubmitJob(request);
    TUNEFARM_CHECK_OK(job);
    study_id_ = store_->jobs()->GetJob(job->job_id)->studies[0].study_id;
  }

  Store* store() { return store_.get(); }

  ClaimedUnit Claim(const ClaimRequest& claimer) {
    while (true) {
      auto units = store_->units()->ClaimUnits(claimer);
      TUNEFARM_CHECK_OK(units);
      if (!units->empty()) return (*units)[0];
      Propose();
    }
  }

 private:
  void Propose() {
    MutexLock lock(&mutex_);
    DriveStep step;
    step.study_id = study_id_;
    for (size_t i = 0; i < kUnitsPerStep; ++i, next_ordinal_ += kUnitTrialsMax) {
      UnitRow unit;
      unit.first_ordinal = next_ordinal_;
      unit.trial_count = kUnitTrialsMax;
      unit.payload.assign(1024, 'p');
      step.new_units.push_back(std::move(unit));
    }
    TUNEFARM_CHECK_OK(store_->studies()->Drive(step));
  }

  TemporaryDirectory directory_;
  std::unique_ptr<Store> store_;
  int64_t study_id_ = 0;
  Mutex mutex_;
  int64_t next_ordinal_ GUARDED_BY(mutex_) = 0;
};

std::unique_ptr<Farm> farm;

void StartFarm(const benchmark::State&) { farm = std::make_unique<Farm>(); }
void StopFarm(const benchmark::State&) { farm.reset(); }

void BM_ReportTrials(benchmark::State& state) {
  const auto trials = static_cast<int>(state.range(0));
  const std::string agent_id = "agent-" + std::to_string(state.thread_index());
  const auto epoch = farm->store()->agents()->RegisterAgent({agent_id, "host", "", 0, 1});
  TUNEFARM_CHECK_OK(epoch);
  const ClaimRequest claimer{agent_id, *epoch, "gpu", "class", 1, 1};
  ClaimedUnit unit;
  int64_t used = kUnitTrialsMax;
  for (auto _ : state) {
    state.PauseTiming();
    if (used + trials > kUnitTrialsMax) {
      unit = farm->Claim(claimer);
      used = 0;
    }
    ReportRequest report{agent_id, *epoch, unit.unit.unit_id, unit.unit.token, {}, used + 2 * trials > kUnitTrialsMax,
                         1};
    for (int i = 0; i < trials; ++i, ++used) {
      TrialRow trial;
      trial.ordinal = unit.unit.first_ordinal + used;
      trial.outcome = 1;
      trial.config = "block_m=128,block_n=64,stages=3,warps=8";
      trial.median_ns = 1000.0 + static_cast<double>(used);
      trial.device_uuid = "gpu";
      trial.detail.assign(600, 'd');
      trial.ended_at_ms = 1;
      report.trials.push_back(std::move(trial));
    }
    state.ResumeTiming();
    const auto verdict = farm->store()->units()->ReportTrials(report);
    TUNEFARM_CHECK_OK(verdict);
    TUNEFARM_CHECK(*verdict == ReportVerdict::kAccepted);
  }
  state.counters["reports"] = benchmark::Counter(static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
  state.counters["trials"] =
      benchmark::Counter(static_cast<double>(state.iterations() * trials), benchmark::Counter::kIsRate);
}
BENCHMARK(BM_ReportTrials)
    ->Arg(1)
    ->Arg(32)
    ->Threads(1)
    ->Threads(8)
    ->UseRealTime()
    ->Setup(StartFarm)
    ->Teardown(StopFarm);

}  // namespace
}  // namespace tunefarm

BENCHMARK_MAIN();
