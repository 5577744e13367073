// How many trials a second agents get through a store, in units of 32: each agent claims a unit and reports it, again
// and again, while a driver keeps the queue filled and tells what is done. On SQLite, or on a PostgreSQL that is
// started for it or named; on PostgreSQL also while another session holds a snapshot, from which vacuum may remove
// nothing.
#include <fmt/core.h>
#include <libpq-fe.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "server/base/check.h"
#include "server/base/mutex.h"
#include "server/base/thread.h"
#include "server/store/agent_store.h"
#include "server/store/job_store.h"
#include "server/store/postgres_store.h"
#include "server/store/store.h"
#include "server/store/study_store.h"
#include "server/store/unit_store.h"
#include "tests/fakes/postgres_server.h"
#include "tests/fakes/temporary_directory.h"

namespace tunefarm {
namespace {

constexpr int kUnitTrials = 32;
constexpr int kUnitsPerStep = 256;
// Units that wait at least, so that no agent finds the queue empty.
constexpr int64_t kReadyMin = 512;

struct Arguments {
  std::string store = "sqlite";  // "postgres": one is started; otherwise a URL
  int agents = 8;
  int seconds = 10;
  int connections = 16;
  double rate = 0;  // trials a second of all agents; 0: as many as the store takes
  bool hold_snapshot = false;
  bool fsync = true;
};

class Bench {
 public:
  explicit Bench(const Arguments& arguments) : arguments_(arguments) {
    Open();
    SubmitRequest request;
    request.kernel = KernelRow{"kernel", "program", "name", "definition", 1, ""};
    request.job.kernel_id = "kernel";
    request.job.uid = "job-" + std::to_string(Clock::Real()->WallMs());
    request.job.studies.resize(1);
    request.job.studies[0].number = 1;
    request.job.studies[0].class_id = request.job.uid;
    class_id_ = request.job.uid;
    request.now_ms = 1;
    const auto job = store_->jobs()->SubmitJob(request);
    TUNEFARM_CHECK_OK(job);
    study_id_ = store_->jobs()->GetJob(job->job_id)->studies[0].study_id;
  }

  void Run() {
    PGconn* const holder = arguments_.hold_snapshot ? PQconnectdb(url_.c_str()) : nullptr;
    if (holder != nullptr) {
      PQclear(PQexec(holder, "BEGIN ISOLATION LEVEL REPEATABLE READ"));
      PQclear(PQexec(holder, "SELECT count(*) FROM work_unit"));
    }
    std::vector<std::vector<double>> claims(static_cast<size_t>(arguments_.agents));
    std::vector<std::vector<double>> reports(claims.size());
    {
      Thread driver("driver", [this] { Drive(); });
      std::vector<Thread> agents;
      for (size_t i = 0; i < claims.size(); ++i) {
        agents.emplace_back("agent",
                            [this, i, &claims, &reports] { Work(static_cast<int>(i), &claims[i], &reports[i]); });
      }
      fmt::print("{} agents, {}{}:", arguments_.agents, arguments_.store.substr(0, 8),
                 arguments_.hold_snapshot ? ", a snapshot held" : "");
      const Notification never;
      int64_t before = 0;
      const int step = std::max(1, arguments_.seconds / 6);
      for (int second = 0; second < arguments_.seconds; second += step) {
        never.WaitFor(std::chrono::seconds(step));
        const int64_t now = trials_.load();
        fmt::print(" {}", (now - before) / step);
        std::fflush(stdout);
        before = now;
      }
      is_over_.store(true);
    }
    if (holder != nullptr) PQfinish(holder);
    fmt::print(
        " trials/s each {} s; mean {:.0f}; claim p50 {:.1f} ms, p99 {:.1f} ms; report p50 {:.1f} ms, p99 {:.1f} ms\n",
        std::max(1, arguments_.seconds / 6), static_cast<double>(trials_.load()) / arguments_.seconds,
        Quantile(claims, 0.5), Quantile(claims, 0.99), Quantile(reports, 0.5), Quantile(reports, 0.99));
  }

 private:
  void Open() {
    if (arguments_.store == "sqlite") {
      SqliteOptions options;
      options.path = directory_.File("tunefarm.db");
      store_ = std::move(OpenSqliteStore(options).value());
      return;
    }
    url_ = arguments_.store;
    if (arguments_.store == "postgres") {
      PostgresServer::Options options;
      options.fsync = arguments_.fsync;
      options.settings = {"shared_buffers=256MB", "max_wal_size=4GB"};
      server_ = std::make_unique<PostgresServer>(options);
      url_ = server_->Url(server_->NewDatabase());
    }
    PostgresOptions options;
    options.url = url_;
    options.connections_max = arguments_.connections;
    store_ = std::move(OpenPostgresStore(options).value());
  }

  static double Quantile(const std::vector<std::vector<double>>& parts, double q) {
    std::vector<double> all;
    for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
    if (all.empty()) return 0;
    std::sort(all.begin(), all.end());
    return all[static_cast<size_t>(q * static_cast<double>(all.size() - 1))];
  }

  static double MsSince(MonotonicTime began) {
    return std::chrono::duration<double, std::milli>(Clock::Real()->Now() - began).count();
  }

  void Drive() {
    const Notification never;
    int64_t next_ordinal = 0;
    while (!is_over_.load()) {
      DriveStep step;
      step.study_id = study_id_;
      step.now_ms = 1;
      {
        MutexLock lock(&mutex_);
        step.told_unit_ids.swap(done_);
      }
      if (next_ordinal / kUnitTrials - claimed_.load() < kReadyMin) {
        for (int i = 0; i < kUnitsPerStep; ++i, next_ordinal += kUnitTrials) {
          UnitRow unit;
          unit.first_ordinal = next_ordinal;
          unit.trial_count = kUnitTrials;
          unit.payload.assign(1024, 'p');
          step.new_units.push_back(std::move(unit));
        }
      }
      if (step.new_units.empty() && step.told_unit_ids.size() < 64) {
        MutexLock lock(&mutex_);
        done_.insert(done_.end(), step.told_unit_ids.begin(), step.told_unit_ids.end());
      } else {
        TUNEFARM_CHECK_OK(store_->studies()->Drive(step).status());
        continue;
      }
      never.WaitFor(std::chrono::milliseconds(5));
    }
  }

  void Work(int number, std::vector<double>* claims, std::vector<double>* reports) {
    const std::string agent_id = class_id_ + "-agent-" + std::to_string(number);
    const auto epoch = store_->agents()->RegisterAgent({agent_id, "host", "", 0, 1});
    TUNEFARM_CHECK_OK(epoch.status());
    const ClaimRequest claimer{agent_id, *epoch, "gpu", class_id_, 1, 1};
    const Notification never;
    // Each agent has its own time in the common rhythm.
    const auto each = std::chrono::duration_cast<Duration>(
        std::chrono::duration<double>(arguments_.rate > 0 ? kUnitTrials * arguments_.agents / arguments_.rate : 0));
    MonotonicTime due = Clock::Real()->Now() + each * number / arguments_.agents;
    while (!is_over_.load()) {
      if (due > Clock::Real()->Now()) never.WaitFor(due - Clock::Real()->Now());
      due += each;
      MonotonicTime began = Clock::Real()->Now();
      const auto units = store_->units()->ClaimUnits(claimer);
      TUNEFARM_CHECK_OK(units.status());
      if (units->empty()) continue;
      claims->push_back(MsSince(began));
      ++claimed_;
      const UnitRow& unit = units->at(0).unit;
      ReportRequest report{agent_id, *epoch, unit.unit_id, unit.token, {}, true, 1};
      for (int i = 0; i < unit.trial_count; ++i) {
        TrialRow trial;
        trial.ordinal = unit.first_ordinal + i;
        trial.outcome = 1;
        trial.config = "block_m=128,block_n=64,stages=3,warps=8";
        trial.median_ns = 1000.0 + static_cast<double>((trial.ordinal * 7919) % 100'000);
        trial.device_uuid = "gpu";
        trial.detail.assign(100, 'd');
        trial.ended_at_ms = 1;
        report.trials.push_back(std::move(trial));
      }
      began = Clock::Real()->Now();
      const auto verdict = store_->units()->ReportTrials(report);
      TUNEFARM_CHECK_OK(verdict.status());
      TUNEFARM_CHECK(*verdict == ReportVerdict::kAccepted);
      reports->push_back(MsSince(began));
      trials_ += unit.trial_count;
      MutexLock lock(&mutex_);
      done_.push_back(unit.unit_id);
    }
  }

  const Arguments arguments_;
  TemporaryDirectory directory_;
  std::unique_ptr<PostgresServer> server_;
  std::string url_;
  std::unique_ptr<Store> store_;
  std::string class_id_;
  int64_t study_id_ = 0;
  std::atomic<bool> is_over_{false};
  std::atomic<int64_t> trials_{0}, claimed_{0};
  Mutex mutex_;
  std::vector<int64_t> done_ GUARDED_BY(mutex_);
};

int Usage() {
  fmt::print(stderr,
             "Usage: store_farm_bench [--store sqlite|postgres|URL] [--agents N] [--seconds N] [--connections N]\n"
             "                        [--rate TRIALS_PER_SECOND] [--hold-snapshot] [--no-fsync]\n");
  return 2;
}

}  // namespace

int BenchMain(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    const bool has_value = i + 1 < argc;
    if (name == "--hold-snapshot") {
      arguments.hold_snapshot = true;
    } else if (name == "--no-fsync") {
      arguments.fsync = false;
    } else if (name == "--store" && has_value) {
      arguments.store = argv[++i];
    } else if (name == "--agents" && has_value) {
      arguments.agents = std::atoi(argv[++i]);
    } else if (name == "--seconds" && has_value) {
      arguments.seconds = std::atoi(argv[++i]);
    } else if (name == "--rate" && has_value) {
      arguments.rate = std::atof(argv[++i]);
    } else if (name == "--connections" && has_value) {
      arguments.connections = std::atoi(argv[++i]);
    } else {
      return Usage();
    }
  }
  if (arguments.agents < 1 || arguments.seconds < 1) return Usage();
  Bench(arguments).Run();
  return 0;
}

}  // namespace tunefarm

int main(int argc, char** argv) { return tunefarm::BenchMain(argc, argv); }
