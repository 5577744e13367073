#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/base/executor.h"
#include "server/base/mutex.h"
#include "server/exec/evaluator.h"
#include "server/measure/energy.h"

namespace tunefarm {

// An evaluator that does nothing but follow a script. Results come on the executor after scripted times, or at once
// with LOST when cancelled. It also notes what ran when, so that tests can check order and overlap. Thread-safe.
class FakeEvaluator : public Evaluator {
 public:
  // What a config does. Asked anew for every compile and run.
  struct Script {
    tunefarm::v1::Outcome compile = tunefarm::v1::OUTCOME_OK;
    tunefarm::v1::Outcome run = tunefarm::v1::OUTCOME_OK;
    double median_ns = 1000;
    bool cold_cache = false, self_judged = false;  // of the measurement
    double millijoules = 0;                        // where energy is asked for; 0: the device has no counter
    Duration compile_time = std::chrono::milliseconds(20);
    Duration run_time = std::chrono::milliseconds(10);
    std::string message;
    bool out_of_service = false;  // of a run, which is then LOST
    std::string binary;           // of a compile; empty: as its constants
    // Of a compile: the files outside of the definition that the binary was made of. Null: none.
    std::shared_ptr<const FileSet> inputs;
  };
  // `attempt` counts the runs (compiles for compile) of this config and problem so far, from 0.
  struct Question {
    std::string config;   // canonical text; "baseline" for a baseline
    std::string problem;  // key
    bool is_run = false;
    int attempt = 0;
    std::string device_uuid;  // of a run
    std::string yardstick;    // of a run: the config beside it; empty: alone
  };
  using Scripter = std::function<Script(const Question&)>;

  struct RunRecord {
    std::string config, problem;
    uint64_t input_seed = 0;
    bool had_reference = false;
    bool had_artifact = false;
    std::string device_uuid;
    double race_limit_ns = 0;
    size_t data_files = 0;
    std::string yardstick;
    bool measures_energy = false;
  };

  explicit FakeEvaluator(Executor* executor, int compile_slots = 2)
      : executor_(executor), compile_slots_(compile_slots) {}

  // From now on compiles wait for one of so many workers, first come, first served; without it they never wait.
  void set_compile_workers(int workers) {
    MutexLock lock(&mutex_);
    worker_free_.assign(static_cast<size_t>(workers), executor_->clock()->Now());
  }

  void set_scripter(Scripter scripter) {
    MutexLock lock(&mutex_);
    scripter_ = std::move(scripter);
  }

  Id Compile(CompileRequest request, std::function<void(CompileResult)> done) override {
    MutexLock lock(&mutex_);
    const std::string config = request.config.ToText();
    const Script script =
        Ask({config, request.problem->key, false, compile_counts_[{config, request.problem->key}]++, "", ""});
    compiles_.push_back(config);
    expected_ms_.push_back(request.expected_ms);
    reference_compiles_ += request.reference ? 1 : 0;
    ++compiling_;
    most_compiling_ = std::max(most_compiling_, compiling_);
    overlapped_ = overlapped_ || running_ > 0;
    CompileResult result;
    result.outcome = script.compile;
    result.message = script.message;
    result.compile_ms = std::chrono::duration<double, std::milli>(script.compile_time).count();
    result.inputs = script.inputs;
    if (script.compile == tunefarm::v1::OUTCOME_OK) {
      auto artifact = std::make_shared<Artifact>();
      // As with a real compiler, what is bound at run time does not change the binary.
      const auto constants = request.plan->Constants(*request.problem, request.config, request.device_class);
      if (!constants.ok()) artifact->bytes = config;
      for (const auto& [name, value] : constants.ok() ? *constants : ConstantList()) {
        artifact->bytes += name + "=" + value + "\n";
      }
      if (!script.binary.empty()) artifact->bytes = script.binary;
      result.artifact = std::move(artifact);
    }
    return Schedule(WaitForWorker(script.compile_time) + script.compile_time,
                    [this, done = std::move(done), result = std::move(result)](bool cancelled) mutable {
                      {
                        MutexLock inner(&mutex_);
                        --compiling_;
                      }
                      if (cancelled) result = CompileResult();
                      done(std::move(result));
                    });
  }

  Id Run(RunRequest request, std::function<void(RunResult)> done) override {
    MutexLock lock(&mutex_);
    const std::string config = request.baseline ? "baseline" : request.config.ToText();
    const std::string yardstick = request.yardstick.has_value() ? request.yardstick->config.ToText() : "";
    const Script script = Ask({config, request.problem->key, true, run_counts_[{config, request.problem->key}]++,
                               request.device_uuid, yardstick});
    runs_.push_back({config, request.problem->key, request.input_seed, request.reference_artifact != nullptr,
                     request.artifact != nullptr, request.device_uuid, request.race_limit_ns, request.data_files.size(),
                     yardstick, request.policy.measure_energy()});
    ++running_;
    most_running_ = std::max(most_running_, running_);
    overlapped_ = overlapped_ || compiling_ > 0;
    RunResult result;
    result.outcome = script.out_of_service ? tunefarm::v1::OUTCOME_LOST : script.run;
    result.out_of_service = script.out_of_service;
    result.message = script.message;
    if (script.run != tunefarm::v1::OUTCOME_OK) result.phase = tunefarm::v1::PHASE_MEASURE;
    result.run_ms = std::chrono::duration<double, std::milli>(script.run_time).count();
    if (result.outcome == tunefarm::v1::OUTCOME_OK || script.run == tunefarm::v1::OUTCOME_NOISY) {
      auto& measurement = result.measurement;
      measurement.set_median_ns(script.median_ns);
      measurement.set_ci_low_ns(script.median_ns * 0.99);
      measurement.set_ci_high_ns(script.median_ns * 1.01);
      measurement.set_samples(5);
      measurement.set_cold_cache(script.cold_cache);
      measurement.set_self_judged(script.self_judged);
      measurement.set_converged(true);
      if (request.policy.measure_energy()) {
        auto& energy = *measurement.mutable_energy();
        energy.set_millijoules(script.millijoules);
        energy.set_ci_low_millijoules(script.millijoules * 0.99);
        energy.set_ci_high_millijoules(script.millijoules * 1.01);
        if (script.millijoules == 0) energy.set_missing_because(kNoEnergyCounter);
      }
      for (int i = -2; request.keep_samples && i <= 2; ++i) {
        measurement.add_sample_ns(static_cast<float>(script.median_ns * (1 + 0.0005 * i)));
        if (!yardstick.empty()) measurement.add_yardstick_ns(1000);
      }
    }
    return Schedule(script.run_time,
                    [this, done = std::move(done), result = std::move(result)](bool cancelled) mutable {
                      {
                        MutexLock inner(&mutex_);
                        --running_;
                      }
                      if (cancelled) result = RunResult();
                      done(std::move(result));
                    });
  }

  void Expect(const std::string& device_uuid, const KernelPlan&) override {
    MutexLock lock(&mutex_);
    expected_.push_back(device_uuid);
  }

  void Cancel(Id id) override {
    MutexLock lock(&mutex_);
    const auto found = pending_.find(id);
    if (found == pending_.end() || !executor_->Cancel(found->second.first)) return;
    ++cancelled_;
    executor_->Post([finish = std::move(found->second.second)] { (*finish)(true); });
    pending_.erase(found);
  }

  void ReleaseDevice(const std::string& device_uuid) override {
    MutexLock lock(&mutex_);
    released_.push_back(device_uuid);
  }

  int compile_slots() const override { return compile_slots_; }

  std::vector<RunRecord> runs() const {
    MutexLock lock(&mutex_);
    return runs_;
  }
  std::vector<std::string> compiles() const {
    MutexLock lock(&mutex_);
    return compiles_;
  }
  // How many of them were for a reference.
  int reference_compiles() const {
    MutexLock lock(&mutex_);
    return reference_compiles_;
  }
  // What was expected of each of them, in their order.
  std::vector<double> expected_ms() const {
    MutexLock lock(&mutex_);
    return expected_ms_;
  }
  // Devices on which runs were foretold.
  std::vector<std::string> expected() const {
    MutexLock lock(&mutex_);
    return expected_;
  }
  int most_running() const {
    MutexLock lock(&mutex_);
    return most_running_;
  }
  int most_compiling() const {
    MutexLock lock(&mutex_);
    return most_compiling_;
  }
  int cancelled() const {
    MutexLock lock(&mutex_);
    return cancelled_;
  }
  std::vector<std::string> released() const {
    MutexLock lock(&mutex_);
    return released_;
  }
  int in_flight() const {
    MutexLock lock(&mutex_);
    return compiling_ + running_;
  }
  // Whether a compile and a run were ever under way together.
  bool overlapped() const {
    MutexLock lock(&mutex_);
    return overlapped_;
  }

 private:
  using Finish = std::function<void(bool cancelled)>;
  using ConstantList = std::vector<std::pair<std::string, std::string>>;
  using Counts = std::map<std::pair<std::string, std::string>, int>;

  Script Ask(const Question& question) EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return scripter_ ? scripter_(question) : Script();
  }

  // How long until a worker takes it; the worker is then busy for `compile_time`.
  Duration WaitForWorker(Duration compile_time) EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (worker_free_.empty()) return Duration::zero();
    const MonotonicTime now = executor_->clock()->Now();
    MonotonicTime& free = *std::min_element(worker_free_.begin(), worker_free_.end());
    const MonotonicTime begin = std::max(now, free);
    free = begin + compile_time;
    return begin - now;
  }

  Id Schedule(Duration delay, Finish finish) EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const Id id = ++last_id_;
    auto shared = std::make_shared<Finish>(std::move(finish));
    const TimerId timer = executor_->PostAfter(delay, [this, id, shared] {
      {
        MutexLock lock(&mutex_);
        pending_.erase(id);
      }
      (*shared)(false);
    });
    pending_[id] = {timer, shared};
    return id;
  }

  Executor* const executor_;
  const int compile_slots_;
  mutable Mutex mutex_;
  Scripter scripter_ GUARDED_BY(mutex_);
  Id last_id_ GUARDED_BY(mutex_) = 0;
  std::vector<MonotonicTime> worker_free_ GUARDED_BY(mutex_);
  std::map<Id, std::pair<TimerId, std::shared_ptr<Finish>>> pending_ GUARDED_BY(mutex_);
  Counts compile_counts_ GUARDED_BY(mutex_), run_counts_ GUARDED_BY(mutex_);
  std::vector<RunRecord> runs_ GUARDED_BY(mutex_);
  std::vector<std::string> expected_ GUARDED_BY(mutex_);
  std::vector<std::string> compiles_ GUARDED_BY(mutex_), released_ GUARDED_BY(mutex_);
  std::vector<double> expected_ms_ GUARDED_BY(mutex_);
  int reference_compiles_ GUARDED_BY(mutex_) = 0;
  int compiling_ GUARDED_BY(mutex_) = 0, running_ GUARDED_BY(mutex_) = 0, cancelled_ GUARDED_BY(mutex_) = 0;
  int most_compiling_ GUARDED_BY(mutex_) = 0, most_running_ GUARDED_BY(mutex_) = 0;
  bool overlapped_ GUARDED_BY(mutex_) = false;
};

}  // namespace tunefarm
