// GPUs that are not there: an Evaluator on a fake clock whose devices differ in speed and whose workers die at random,
// by a seed. What a config takes and whether it fails is a function of the config alone; deaths come between.
//
// It remembers nothing of what has ended but a count for each config, so that a million trials fit. One thread: that of
// the executor.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/base/check.h"
#include "server/base/executor.h"
#include "server/base/hash.h"
#include "server/base/random.h"
#include "server/exec/evaluator.h"

namespace tunefarm {

// What is true of a config, whoever runs it.
struct SimulatedConfig {
  tunefarm::v1::Outcome compile = tunefarm::v1::OUTCOME_OK;
  tunefarm::v1::Outcome run = tunefarm::v1::OUTCOME_OK;
  double median_ns = 1000;
};

struct SimulatedGpusOptions {
  // By UUID: what a trial takes there.
  std::map<std::string, Duration> trial_time;
  Duration compile_time = std::chrono::milliseconds(3);
  int compile_slots = 16;
  uint64_t seed = 1;
  // Of evaluations, that their worker dies under them, through no fault of the config: LOST.
  double death_share = 0;
  // Of runs, that the device dies with its worker and is out of service for `outage`.
  double outage_share = 0;
  Duration outage = std::chrono::seconds(2);
};

class SimulatedGpus final : public Evaluator {
 public:
  using Describe = std::function<SimulatedConfig(const Config& config)>;
  // The device is out of service (true), or back.
  using OnOutage = std::function<void(const std::string& uuid, bool is_out)>;

  SimulatedGpus(Executor* executor, SimulatedGpusOptions options, Describe describe, OnOutage on_outage)
      : executor_(executor),
        options_(std::move(options)),
        describe_(std::move(describe)),
        on_outage_(std::move(on_outage)),
        random_(options_.seed) {
    for (const auto& [uuid, time] : options_.trial_time) devices_[uuid].trial_time = time;
  }

  Id Compile(CompileRequest request, std::function<void(CompileResult)> done) override {
    const SimulatedConfig config = describe_(request.config);
    CompileResult result;
    if (Happens(options_.death_share)) {
      ++deaths_;
    } else {
      result.outcome = config.compile;
      result.compile_ms = Milliseconds(options_.compile_time);
      if (result.outcome == tunefarm::v1::OUTCOME_OK) {
        auto artifact = std::make_shared<Artifact>();
        artifact->bytes = request.config.ToText();
        result.artifact = std::move(artifact);
      } else {
        result.message = "the compiler said no";
      }
    }
    const Id id = ++last_id_;
    auto finish = std::make_shared<std::function<void(bool)>>(
        [done = std::move(done), result = std::move(result)](bool cancelled) mutable {
          done(cancelled ? CompileResult() : std::move(result));
        });
    After(options_.compile_time, id, std::move(finish));
    return id;
  }

  Id Run(RunRequest request, std::function<void(RunResult)> done) override {
    const Id id = ++last_id_;
    const auto found = devices_.find(request.device_uuid);
    TUNEFARM_CHECK(found != devices_.end());
    found->second.waiting.push_back({id, std::move(request), std::move(done)});
    StartNext(&found->second);
    return id;
  }

  void Expect(const std::string&, const KernelPlan&) override {}
  void Cancel(Id id) override {
    for (auto& [uuid, device] : devices_) {
      const auto waits =
          std::find_if(device.waiting.begin(), device.waiting.end(), [&](const Waiting& w) { return w.id == id; });
      if (waits != device.waiting.end()) {
        executor_->Post([done = std::move(waits->done)] { done(RunResult()); });
        device.waiting.erase(waits);
        return;
      }
    }
    const auto found = pending_.find(id);
    if (found == pending_.end() || !executor_->Cancel(found->second.first)) return;
    const auto finish = std::move(found->second.second);
    pending_.erase(found);
    executor_->Post([finish] { (*finish)(true); });
  }

  void ReleaseDevice(const std::string&) override {}
  int compile_slots() const override { return options_.compile_slots; }

  int64_t deaths() const { return deaths_; }
  int64_t outages() const { return outages_; }
  // Runs that came to their end, finals included, by device.
  const std::map<std::string, int64_t>& ended_runs() const { return ended_runs_; }

 private:
  struct Waiting {
    Id id = 0;
    RunRequest request;
    std::function<void(RunResult)> done;
  };
  struct Device {
    Duration trial_time{};
    bool is_busy = false, is_out = false;
    std::deque<Waiting> waiting;
  };

  static double Milliseconds(Duration time) { return std::chrono::duration<double, std::milli>(time).count(); }
  bool Happens(double share) { return share > 0 && random_.NextDouble() < share; }

  void After(Duration delay, Id id, std::shared_ptr<std::function<void(bool)>> finish) {
    const TimerId timer = executor_->PostAfter(delay, [this, id, finish] {
      pending_.erase(id);
      (*finish)(false);
    });
    pending_[id] = {timer, finish};
  }

  // One run at a time; one that waits for a device that is out of service comes back at once.
  void StartNext(Device* device) {
    if (device->is_out) {
      for (Waiting& waiting : std::exchange(device->waiting, {})) {
        executor_->Post([done = std::move(waiting.done)] {
          RunResult result;
          result.out_of_service = true;
          result.message = "the device is out of service";
          done(result);
        });
      }
      return;
    }
    if (device->is_busy || device->waiting.empty()) return;
    device->is_busy = true;
    Waiting next = std::move(device->waiting.front());
    device->waiting.pop_front();
    const std::string uuid = next.request.device_uuid;
    RunResult result;
    bool goes_out = false;
    if (Happens(options_.outage_share)) {
      goes_out = true;
      result.out_of_service = true;
      result.message = "the device does not answer";
    } else if (Happens(options_.death_share)) {
      ++deaths_;
    } else {
      result = ResultOf(next.request, *device);
    }
    auto finish = std::make_shared<std::function<void(bool)>>(
        [this, device, uuid, goes_out, done = std::move(next.done), result = std::move(result)](bool cancelled) {
          device->is_busy = false;
          if (goes_out) GoOut(device, uuid);
          if (!cancelled && result.outcome != tunefarm::v1::OUTCOME_LOST) ++ended_runs_[uuid];
          done(cancelled ? RunResult() : result);
          StartNext(device);
        });
    After(device->trial_time, next.id, std::move(finish));
  }

  RunResult ResultOf(const RunRequest& request, const Device& device) const {
    const SimulatedConfig config = describe_(request.config);
    RunResult result;
    result.outcome = config.run;
    result.phase = tunefarm::v1::PHASE_MEASURE;
    result.run_ms = result.device_busy_ms = Milliseconds(device.trial_time);
    if (result.outcome != tunefarm::v1::OUTCOME_OK) {
      result.message = "the worker died of the config";
      return result;
    }
    auto& measurement = result.measurement;
    measurement.set_median_ns(config.median_ns);
    measurement.set_ci_low_ns(config.median_ns * 0.999);
    measurement.set_ci_high_ns(config.median_ns * 1.001);
    measurement.set_samples(5);
    measurement.set_converged(true);
    for (int i = 0; request.keep_samples && i < 5; ++i) {
      measurement.add_sample_ns(static_cast<float>(config.median_ns));
    }
    return result;
  }

  void GoOut(Device* device, const std::string& uuid) {
    ++outages_;
    device->is_out = true;
    on_outage_(uuid, true);
    executor_->PostAfter(options_.outage, [this, device, uuid] {
      device->is_out = false;
      on_outage_(uuid, false);
      StartNext(device);
    });
  }

  Executor* const executor_;
  const SimulatedGpusOptions options_;
  const Describe describe_;
  const OnOutage on_outage_;
  PhiloxStream random_;
  std::map<std::string, Device> devices_;
  std::map<Id, std::pair<TimerId, std::shared_ptr<std::function<void(bool)>>>> pending_;
  Id last_id_ = 0;
  int64_t deaths_ = 0, outages_ = 0;
  std::map<std::string, int64_t> ended_runs_;
};

}  // namespace tunefarm
