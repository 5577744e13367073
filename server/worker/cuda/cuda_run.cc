#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/base/status_macros.h"
#include "server/worker/backend.h"
#include "server/worker/cuda/cuda_problem.h"
#include "server/worker/cuda/cuda_trial.h"

namespace tunefarm::cuda {
namespace {

using tunefarm::worker::v1::Prepared;
using tunefarm::worker::v1::Result;

// Asking the driver for a device's processes takes a millisecond or more.
constexpr std::chrono::milliseconds kLookForOthersEvery{250};
// Inputs and reference outputs that take longer than this are not made a second time within a trial: a slow reference
// would look like a config that hangs.
constexpr Duration kSecondInputsMax = std::chrono::seconds(5);
constexpr uint64_t kFlushBytesMin = uint64_t{64} << 20;

class CudaRunBackend final : public RunBackend {
 public:
  CudaRunBackend(std::unique_ptr<GpuContext> gpu, HarnessBinary binary, std::unique_ptr<Harness> harness,
                 std::vector<SearchPlace> places)
      : gpu_(std::move(gpu)),
        binary_(std::move(binary)),
        harness_(std::move(harness)),
        cublas_(*gpu_, std::move(places)),
        nvml_(Nvml::Open()),
        conditions_(nvml_.get(), gpu_->uuid()) {}

  std::string toolchain() const override {
    int version = 0;
    (void)gpu_->driver().cuDriverGetVersion(&version);
    return fmt::format("CUDA driver API {}.{}, {}", version / 1000, version % 1000 / 10, binary_.toolchain);
  }
  std::string warm_start() const override { return binary_.Pack(gpu_->compute_capability()); }

  std::string ExpectedOutputs(int64_t bytes_max) override {
    return problem_ == nullptr || bytes_max <= 0 ? std::string()
                                                 : problem_->PackReference(static_cast<uint64_t>(bytes_max));
  }

  tunefarm::worker::v1::HealthReport CheckHealth() override {
    tunefarm::worker::v1::HealthReport report;
    bool right = false;
    double nanoseconds = 0;
    const Failure failure = harness_->CheckHealth(&right, &nanoseconds);
    report.set_ok(!failure && right && nanoseconds > 0);
    report.set_nanoseconds(nanoseconds);
    if (!report.ok()) report.set_message(failure ? failure.message : "a kernel whose result is known computed another");
    const int processes = nvml_ == nullptr ? -1 : nvml_->ProcessCount(gpu_->uuid());
    report.set_foreign_processes(std::max(processes - 1, -1));
    return report;
  }

  Prepared Prepare(std::shared_ptr<const PreparedKernel> kernel, PhaseReporter* reporter) override {
    // The old problem's memory first: both may not fit.
    yardstick_.reset();
    problem_.reset();
    duty_cycle_ = DutyCycle();
    Prepared prepared;
    const uint64_t seed = kernel->input_seed;
    ran_reference_ = kernel->expected_outputs.empty();
    std::unique_ptr<CudaProblem> problem;
    std::function<void()> between;
    if (kernel->standby) {
      between = [reporter] {
        reporter->YieldDevice();
        reporter->TakeDevice();
      };
    }
    reporter->Begin(v1::PHASE_LOAD);
    reporter->TakeDevice();
    Failure failure = damage_;
    if (!failure) failure = ReserveFlush();
    if (!failure) failure = CudaProblem::Create(Tools(), std::move(kernel), &problem);
    const MonotonicTime start = Clock::Real()->Now();
    if (!failure) failure = problem->SelectInputs(seed, between);
    inputs_took_ = Clock::Real()->Now() - start;
    if (!failure && between) failure = gpu_->Synchronize("Building the inputs failed");
    note_ = failure ? "" : problem->Note();
    if (problem != nullptr) prepared.set_footprint_bytes(problem->footprint_bytes());
    prepared.set_ok(!failure);
    if (failure) {
      if (failure.sticky) damage_ = {v1::OUTCOME_LOST, "The runner's GPU context was lost: " + failure.message, false};
      prepared.set_outcome(failure.outcome);
      prepared.set_message(failure.message);
      prepared.set_worker_is_damaged(failure.sticky);
      return prepared;
    }
    problem_ = std::move(problem);
    return prepared;
  }

  Result Run(const RunInput& input, PhaseReporter* reporter) override {
    if (problem_ == nullptr) {
      Result result;
      result.set_outcome(v1::OUTCOME_LOST);
      result.set_message(damage_ ? damage_.message : "The runner has no prepared problem.");
      result.set_worker_is_damaged(static_cast<bool>(damage_));
      return result;
    }
    const ByteRange flush{flush_.data(), flush_.bytes()};
    LookForOthers(input);
    RunInput wanted = input;
    if (inputs_took_ > kSecondInputsMax) wanted.second_input_seed = 0;
    MeasuringTools measuring = {nvml_.get(), &conditions_, flush, &overhead_, &duty_cycle_, &yardstick_, std::nullopt};
    if (ran_reference_) measuring.inputs_took = inputs_took_;
    Result result = RunCudaTrial(Tools(), problem_.get(), measuring, wanted, reporter);
    LookForOthers(input);
    if (result.outcome() == v1::OUTCOME_OK) result.set_message(note_);
    if (result.has_measurement()) result.mutable_measurement()->set_contended(contended_);
    reporter->Log(fmt::format(
        "load {:.2f} ms, launch and verify {:.2f} ms, measure {:.2f} ms, of which the device worked {:.2f} ms",
        result.load_ms(), result.verify_ms(), result.measure_ms(), result.device_busy_ms()));
    return result;
  }

 private:
  // Before and after a trial, but not so often that asking is what takes the time.
  void LookForOthers(const RunInput& input) {
    const MonotonicTime now = Clock::Real()->Now();
    if (nvml_ == nullptr || input.own_processes <= 0 || now < look_again_at_) return;
    look_again_at_ = now + kLookForOthersEvery;
    contended_ = nvml_->ProcessCount(gpu_->uuid()) > input.own_processes;
  }

  RunTools Tools() { return {*gpu_, *harness_, cublas_}; }

  // Twice the cache, so that nothing of the last sample stays.
  Failure ReserveFlush() {
    if (!flush_.empty()) return {};
    const uint64_t bytes = std::max(kFlushBytesMin, 2 * static_cast<uint64_t>(std::max<int64_t>(gpu_->l2_bytes(), 0)));
    return GuardedBuffer::Allocate(*gpu_, bytes, &flush_);
  }

  const std::unique_ptr<GpuContext> gpu_;
  const HarnessBinary binary_;
  const std::unique_ptr<Harness> harness_;
  Cublas cublas_;
  const std::unique_ptr<Nvml> nvml_;
  DeviceConditions conditions_;
  Duration inputs_took_{};
  bool ran_reference_ = false;  // for the inputs; else another worker's outputs were taken
  EventOverhead overhead_;
  DutyCycle duty_cycle_;    // of the prepared problem
  bool contended_ = false;  // at the last look
  MonotonicTime look_again_at_{};
  GuardedBuffer flush_;
  Failure damage_;  // set once a reference or prepare step broke the context: the process is of no more use
  std::unique_ptr<CudaProblem> problem_;
  std::unique_ptr<Yardstick> yardstick_;  // of the last trial
  std::string note_;                      // of its results that are OK
};

}  // namespace
}  // namespace tunefarm::cuda

namespace tunefarm {

absl::StatusOr<std::unique_ptr<RunBackend>> MakeCudaRunBackend(const WorkerOptions& options) {
  ASSIGN_OR_RETURN(auto gpu, cuda::GpuContext::Open(options.device_uuid));
  std::vector<cuda::SearchPlace> places = cuda::ProcessSearchPlaces(options.cuda_path);
  std::optional<cuda::HarnessBinary> binary =
      cuda::HarnessBinary::Unpack(options.warm_start, gpu->compute_capability());
  if (!binary) {
    ASSIGN_OR_RETURN(const auto nvrtc, cuda::Nvrtc::Open(places));
    ASSIGN_OR_RETURN(binary, cuda::HarnessBinary::Compile(gpu->compute_capability(), *nvrtc));
  }
  ASSIGN_OR_RETURN(auto harness, cuda::Harness::Create(*gpu, *binary));
  return std::make_unique<cuda::CudaRunBackend>(std::move(gpu), *std::move(binary), std::move(harness),
                                                std::move(places));
}

}  // namespace tunefarm
