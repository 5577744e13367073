#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/worker/backend.h"
#include "server/worker/cuda/cuda_problem.h"
#include "server/worker/cuda/nvml.h"
#include "server/worker/cuda/sampler.h"
#include "server/worker/verify/sampling.h"
#include "server/worker/verify/trial_phases.h"

namespace tunefarm::cuda {
namespace {

using tunefarm::worker::v1::Prepared;
using tunefarm::worker::v1::Result;

constexpr double kEventResolutionNs = 500;  // CUDA documents about half a microsecond
constexpr uint64_t kFlushBytesMin = uint64_t{64} << 20;

class CudaTrial final : public TrialPhases {
 public:
  CudaTrial(const RunTools& tools, CudaProblem* problem, const Nvml* nvml, ByteRange flush, const RunInput& input,
            PhaseReporter* reporter)
      : TrialPhases(input, reporter),
        tools_(tools),
        problem_(problem),
        nvml_(nvml),
        flush_(flush),
        launches_(tools.gpu),
        prepare_(tools.gpu) {}

 private:
  Failure Load() override {
    TUNEFARM_RETURN_IF_FAILED(problem_->SelectInputs(input().input_seed));
    const PreparedKernel& kernel = problem_->kernel();
    const KernelPlan& plan = *kernel.plan;
    const Config config = input().baseline ? plan.DefaultConfig(kernel.problem) : input().config;
    const absl::StatusOr<std::vector<BufferPlan>> buffers = plan.Buffers(kernel.problem, config, kernel.device_class);
    if (!buffers.ok()) return {v1::OUTCOME_INFEASIBLE_LAUNCH, std::string(MessageOf(buffers.status())) + "."};
    TUNEFARM_RETURN_IF_FAILED(problem_->ResizeScratch(*buffers));
    // A baseline's own steps are compiled with the reference's binary unless it came with one.
    const bool use_reference = input().baseline && input().artifact.empty();
    const std::string& artifact = use_reference ? kernel.reference_artifact : input().artifact;
    if (!artifact.empty()) {
      TUNEFARM_RETURN_IF_FAILED(LoadedModule::Load(
          tools_.gpu, artifact, use_reference ? kernel.reference_lowered_names : input().lowered_names, &module_));
      TUNEFARM_RETURN_IF_FAILED(problem_->WriteSymbols(module_.get()));
      result().mutable_resources()->set_binary_bytes(static_cast<int64_t>(artifact.size()));
    }
    const bool own_baseline = input().baseline && plan.HasSequence(Sequence::kBaseline);
    std::vector<StepPlan> steps;
    TUNEFARM_RETURN_IF_FAILED(EvaluateSteps(tools_.gpu, kernel,
                                            own_baseline ? Sequence::kBaseline : Sequence::kLaunches, config,
                                            module_.get(), &steps, result().mutable_resources()));
    TUNEFARM_RETURN_IF_FAILED(launches_.Build(steps, problem_->Views(), module_.get(), &tools_.cublas));
    if (own_baseline || !plan.HasSequence(Sequence::kPreparePerConfig)) return {};
    TUNEFARM_RETURN_IF_FAILED(
        EvaluateSteps(tools_.gpu, kernel, Sequence::kPreparePerConfig, config, module_.get(), &steps));
    return prepare_.Build(steps, problem_->Views(), module_.get(), &tools_.cublas);
  }

  Failure Launch(PoisonPattern pattern) override {
    TUNEFARM_RETURN_IF_FAILED(problem_->Reset(pattern));
    TUNEFARM_RETURN_IF_FAILED(prepare_.Enqueue());
    TUNEFARM_RETURN_IF_FAILED(launches_.Enqueue());
    return tools_.gpu.Synchronize("The kernel crashed");
  }

  Failure FindDamage() override { return problem_->FindDamage(); }

  Failure Verify(PoisonPattern pattern, v1::Verification* verification) override {
    return problem_->Verify(pattern, verification);
  }

  Failure AfterTiming(Failure failure) override {
    if (failure.outcome == v1::OUTCOME_WRONG_RESULT) {
      failure.message = fmt::format("After timing, {} It was right before: the kernel keeps state between launches.",
                                    failure.message);
    }
    return failure;
  }

  // What a refused launch left half done must not run into the next trial. Nor may the next trial have to build inputs
  // and reference anew: a fresh worker's Prepare has the time for that, a trial's load phase has not.
  Failure Settle(Failure failure) override {
    if (failure.sticky) return failure;
    Failure late = tools_.gpu.Synchronize("The kernel crashed");
    if (late.sticky) return late;
    failure.sticky = !problem_->is_whole();
    return failure;
  }

  Failure Measure() override {
    const v1::MeasurementPolicy& policy = input().policy;
    if (launches_.timed_stretches() == 0)
      return {v1::OUTCOME_INFEASIBLE_LAUNCH, "No step of the launch sequence is timed."};
    Sampler sampler(tools_.gpu, problem_, &launches_, policy.warm_cache() ? ByteRange{} : flush_);
    Failure failure;
    const std::optional<double> launch_ns =
        RunWarmUp(policy, *Clock::Real(), [&](int launches) -> std::optional<double> {
          double nanoseconds = 0;
          failure = sampler.WarmUp(launches, &nanoseconds);
          if (failure) return std::nullopt;
          return nanoseconds;
        });
    if (!launch_ns) return failure;
    const bool one_only = problem_->has_restores() || !policy.warm_cache() || launches_.has_untimed_steps();
    SamplingOptions options;
    options.policy = policy;
    options.keep_samples = input().keep_samples;
    options.launches_per_sample = LaunchesPerSample(*launch_ns, kEventResolutionNs, one_only);
    const SamplingResult sampled = RunSampling(options, sampler.clock(), [&](int launches) -> std::optional<double> {
      double nanoseconds = 0;
      failure = sampler.Next(launches, &nanoseconds);
      if (failure) return std::nullopt;
      return nanoseconds;
    });
    if (failure) return failure;
    v1::Measurement* const measurement = result().mutable_measurement();
    *measurement = sampled.measurement;
    measurement->set_method(v1::TIMING_METHOD_CUDA_EVENTS);
    measurement->set_cold_cache(!policy.warm_cache());
    if (nvml_ != nullptr) {
      measurement->set_clock_mhz(nvml_->ClockMhz(tools_.gpu.uuid()));
      measurement->set_throttled(nvml_->IsThrottled(tools_.gpu.uuid()));
    }
    if (sampled.implausible) {
      result().set_outcome(v1::OUTCOME_NOISY);
      result().set_message("The device's clock reported a time of zero: the launch sequence is too short to be timed.");
    } else if (!sampled.established) {
      result().set_outcome(v1::OUTCOME_NOISY);
      result().set_message(
          fmt::format("{} samples within the time budget of {} ms do not establish a time: it may be off by half.",
                      measurement->samples(), policy.time_budget_ms()));
    }
    return {};
  }

  const RunTools tools_;
  CudaProblem* const problem_;
  const Nvml* const nvml_;
  const ByteRange flush_;
  std::unique_ptr<LoadedModule> module_;
  LaunchSequence launches_, prepare_;
};

class CudaRunBackend final : public RunBackend {
 public:
  CudaRunBackend(std::unique_ptr<GpuContext> gpu, std::unique_ptr<Nvrtc> nvrtc, std::unique_ptr<Harness> harness,
                 std::vector<SearchPlace> places)
      : gpu_(std::move(gpu)),
        nvrtc_(std::move(nvrtc)),
        harness_(std::move(harness)),
        cublas_(*gpu_, std::move(places)),
        nvml_(Nvml::Open()) {}

  std::string toolchain() const override {
    int version = 0;
    (void)gpu_->driver().cuDriverGetVersion(&version);
    return fmt::format("CUDA driver API {}.{}, NVRTC {} ({})", version / 1000, version % 1000 / 10, nvrtc_->version(),
                       nvrtc_->path());
  }

  Prepared Prepare(std::shared_ptr<const PreparedKernel> kernel, PhaseReporter* reporter) override {
    // The old problem's memory first: both may not fit.
    problem_.reset();
    Prepared prepared;
    const uint64_t seed = kernel->input_seed;
    std::unique_ptr<CudaProblem> problem;
    reporter->Begin(v1::PHASE_LOAD);
    Failure failure = damage_;
    if (!failure) failure = ReserveFlush();
    if (!failure) failure = CudaProblem::Create(Tools(), std::move(kernel), &problem);
    if (!failure) failure = problem->SelectInputs(seed);
    if (problem != nullptr) prepared.set_footprint_bytes(problem->footprint_bytes());
    prepared.set_ok(!failure);
    if (failure) {
      if (failure.sticky) damage_ = {v1::OUTCOME_LOST, "The runner's GPU context was lost: " + failure.message, false};
      prepared.set_outcome(failure.outcome);
      prepared.set_message(failure.message);
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
    return CudaTrial(Tools(), problem_.get(), nvml_.get(), flush, input, reporter).Run();
  }

 private:
  RunTools Tools() { return {*gpu_, *harness_, cublas_}; }

  // Twice the cache, so that nothing of the last sample stays.
  Failure ReserveFlush() {
    if (!flush_.empty()) return {};
    const uint64_t bytes = std::max(kFlushBytesMin, 2 * static_cast<uint64_t>(std::max<int64_t>(gpu_->l2_bytes(), 0)));
    return GuardedBuffer::Allocate(*gpu_, bytes, &flush_);
  }

  const std::unique_ptr<GpuContext> gpu_;
  const std::unique_ptr<Nvrtc> nvrtc_;
  const std::unique_ptr<Harness> harness_;
  Cublas cublas_;
  const std::unique_ptr<Nvml> nvml_;
  GuardedBuffer flush_;
  Failure damage_;  // set once a reference or prepare step broke the context: the process is of no more use
  std::unique_ptr<CudaProblem> problem_;
};

}  // namespace
}  // namespace tunefarm::cuda

namespace tunefarm {

absl::StatusOr<std::unique_ptr<RunBackend>> MakeCudaRunBackend(const WorkerOptions& options) {
  ASSIGN_OR_RETURN(auto gpu, cuda::GpuContext::Open(options.device_uuid));
  std::vector<cuda::SearchPlace> places = cuda::SearchPlaces(cuda::SearchEnvironment::FromProcess(options.cuda_path));
  ASSIGN_OR_RETURN(auto nvrtc, cuda::Nvrtc::Open(places));
  ASSIGN_OR_RETURN(auto harness, cuda::Harness::Create(*gpu, *nvrtc));
  return std::make_unique<cuda::CudaRunBackend>(std::move(gpu), std::move(nvrtc), std::move(harness),
                                                std::move(places));
}

}  // namespace tunefarm
