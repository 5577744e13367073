#include "server/agent/sentinel_run.h"

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "server/agent/sentinel_kernels.h"
#include "server/base/log.h"
#include "server/base/status.h"

namespace tunefarm {

namespace {

using tunefarm::v1::Device;

// The sentinels are known to be right and never crash by themselves: what fails once may be another program's doing.
constexpr int kAttempts = 3;
// From the begin of all. Later there is no other attempt: all devices wait for the slowest one.
constexpr Duration kRepeatedUntil = std::chrono::seconds(10);

// One sentinel after the other, on each device at once.
class SentinelRun : public std::enable_shared_from_this<SentinelRun> {
 public:
  SentinelRun(Evaluator* evaluator, Clock* clock, std::vector<Device> devices,
              std::function<void(std::vector<Device>)> done)
      : evaluator_(evaluator),
        clock_(clock),
        begun_(clock->Now()),
        devices_(std::move(devices)),
        done_(std::move(done)) {}

  void Start() {
    for (size_t i = 0; i < devices_.size(); ++i) {
      if (devices_[i].state() == tunefarm::v1::DEVICE_STATE_QUARANTINED) continue;
      auto device_class = DeviceClass::FromProto(devices_[i].device_class());
      if (!device_class.ok()) continue;  // the agent says so
      auto kernels = SentinelKernels(device_class->kind);
      if (!kernels.ok()) {
        LogError("agent", "the sentinels of {}: {}", devices_[i].uuid(), MessageOf(kernels.status()));
        continue;
      }
      tasks_.push_back({i, *std::move(device_class), *std::move(kernels)});
    }
    open_ = tasks_.size();
    if (open_ == 0) return done_(std::move(devices_));
    for (size_t task = 0; task < tasks_.size(); ++task) Compile(task);
  }

 private:
  struct Task {
    size_t device;
    DeviceClass device_class;
    std::vector<SentinelKernel> kernels;  // of one program
    std::shared_ptr<const Artifact> artifact = nullptr;
    size_t next = 0;
    int failures = 0;  // of the next one
  };

  void Compile(size_t index) {
    Task& task = tasks_[index];
    const SentinelKernel& kernel = task.kernels.front();
    CompileRequest request{kernel.plan, kernel.problem, task.device_class, kernel.plan->DefaultConfig(*kernel.problem)};
    evaluator_->Compile(std::move(request), [self = shared_from_this(), index](CompileResult result) {
      if (result.outcome != tunefarm::v1::OUTCOME_OK) return self->Leave(index, result.outcome, result.message);
      self->tasks_[index].artifact = std::move(result.artifact);
      self->Run(index);
    });
  }

  void Run(size_t index) {
    Task& task = tasks_[index];
    if (task.next == task.kernels.size()) return End();
    const SentinelKernel& kernel = task.kernels[task.next];
    RunRequest request;
    request.plan = kernel.plan;
    request.problem = kernel.problem;
    request.device_uuid = devices_[task.device].uuid();
    request.device_class = task.device_class;
    request.config = kernel.plan->DefaultConfig(*kernel.problem);
    request.artifact = task.artifact;
    request.reference_artifact = task.artifact;
    request.policy.set_preset(tunefarm::v1::MEASUREMENT_PRESET_DEFAULT);
    evaluator_->Run(std::move(request), [self = shared_from_this(), index](RunResult result) {
      Task& measured = self->tasks_[index];
      if (result.outcome == tunefarm::v1::OUTCOME_OK && result.measurement.median_ns() > 0) {
        self->Note(index, result.measurement);
        ++measured.next;
        measured.failures = 0;
      } else if (result.out_of_service || ++measured.failures == kAttempts ||
                 self->clock_->Now() - self->begun_ > kRepeatedUntil) {
        return self->Leave(index, result.outcome, result.message);
      } else {
        LogInfo("agent", "a sentinel of device {} is run again: {} {}", self->devices_[measured.device].uuid(),
                tunefarm::v1::Outcome_Name(result.outcome), result.message);
      }
      self->Run(index);
    });
  }

  void Note(size_t index, const tunefarm::v1::Measurement& measurement) {
    const Task& task = tasks_[index];
    tunefarm::v1::SentinelTime* const time = devices_[task.device].add_sentinels();
    time->set_name(task.kernels[task.next].name);
    time->set_median_ns(measurement.median_ns());
    time->set_relative_half_width((measurement.ci_high_ns() - measurement.ci_low_ns()) / 2 / measurement.median_ns());
    time->set_measured_at_ms(clock_->WallMs());
    LogInfo("agent", "sentinel {} takes {:.1f} us on device {}", time->name(), measurement.median_ns() / 1e3,
            devices_[task.device].uuid());
  }

  void Leave(size_t index, tunefarm::v1::Outcome outcome, const std::string& message) {
    LogWarn("agent", "the sentinel of device {} was not measured, it is compared with no other: {} {}",
            devices_[tasks_[index].device].uuid(), tunefarm::v1::Outcome_Name(outcome), message);
    End();
  }

  void End() {
    if (--open_ == 0) done_(std::move(devices_));
  }

  Evaluator* const evaluator_;
  Clock* const clock_;
  const MonotonicTime begun_;
  std::vector<Device> devices_;
  const std::function<void(std::vector<Device>)> done_;
  std::vector<Task> tasks_;
  size_t open_ = 0;
};

}  // namespace

void MeasureSentinels(Evaluator* evaluator, Clock* clock, std::vector<Device> devices,
                      std::function<void(std::vector<Device>)> done) {
  std::make_shared<SentinelRun>(evaluator, clock, std::move(devices), std::move(done))->Start();
}

}  // namespace tunefarm
