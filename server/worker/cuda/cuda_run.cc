#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "server/base/format.h"
#include "server/base/random.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/worker/backend.h"
#include "server/worker/cuda/cuda_problem.h"
#include "server/worker/cuda/device_conditions.h"
#include "server/worker/cuda/device_stopwatch.h"
#include "server/worker/cuda/input_copies.h"
#include "server/worker/cuda/nvml.h"
#include "server/worker/cuda/sampler.h"
#include "server/worker/verify/poison.h"
#include "server/worker/verify/sampling.h"
#include "server/worker/verify/thread_times.h"
#include "server/worker/verify/trial_phases.h"
#include "server/worker/verify/witness.h"

namespace tunefarm::cuda {
namespace {

using tunefarm::worker::v1::Prepared;
using tunefarm::worker::v1::Result;

// Asking the driver for a device's processes takes a millisecond or more.
constexpr std::chrono::milliseconds kLookForOthersEvery{250};
constexpr double kEventResolutionNs = 500;  // CUDA documents about half a microsecond
// Launches below this are timed in graphs unless the policy says otherwise.
constexpr double kGraphBelowNs = 50e3;
// Inputs and reference outputs that take longer than this are not made a second time within a trial: a slow reference
// would look like a config that hangs.
constexpr Duration kSecondInputsMax = std::chrono::seconds(5);
constexpr uint64_t kFlushBytesMin = uint64_t{64} << 20;
// A launch that the host times alone: its way to the device and back, and what only a first launch pays.
// Each step of a sequence costs the host as much as a short kernel, which a graph hides.
constexpr double kSlackNs = 40e3, kSlackPerStepNs = 10e3;
// Other inputs are built for a witnessed launch where that takes at most this long.
constexpr Duration kOtherInputsMax = std::chrono::milliseconds(20);
// Input sets that are built where a time is in doubt: at most so many, and so few once kOtherInputsPatience has passed.
constexpr int kOtherInputsMost = 6, kOtherInputsLeast = 3;
// Random inputs of one distribution do not halve the time of a launch, but a result that was kept for them does.
constexpr double kOtherInputsShare = 0.5;
constexpr Duration kOtherInputsPatience = std::chrono::seconds(3);

// What lives as long as the runner and every trial measures with.
struct MeasuringTools {
  const Nvml* nvml = nullptr;  // null: unknown conditions
  ByteRange flush;
  EventOverhead* overhead = nullptr;
  std::optional<Duration> inputs_took;  // to build, if the reference ran for them
};

double SlackNs(const LaunchSequence& launches) {
  return kSlackNs + kSlackPerStepNs * static_cast<double>(launches.step_count());
}

Failure Contradicted(double claimed_ns, double witnessed_ns, int launches) {
  return {
      v1::OUTCOME_WRONG_RESULT,
      fmt::format("Its samples say {} for a launch, but the shortest of {} launches that the host timed took {}: the "
                  "samples are false.",
                  FormatDuration(claimed_ns), launches, FormatDuration(witnessed_ns))};
}

// This says nothing about the config: the thread that launches and waits for the device had no processor.
Failure Unsettled(double claimed_ns, double witnessed_ns, int launches) {
  return {v1::OUTCOME_LOST,
          fmt::format("The machine has too few free processors to check the time of a kernel: its samples say {} for a "
                      "launch, the shortest of {} launches that the host timed took {}, and the host waited for a "
                      "processor in most of them.",
                      FormatDuration(claimed_ns), launches, FormatDuration(witnessed_ns))};
}

class CudaTrial final : public TrialPhases {
 public:
  CudaTrial(const RunTools& tools, CudaProblem* problem, const MeasuringTools& measuring, const RunInput& input,
            PhaseReporter* reporter)
      : TrialPhases(input, reporter),
        tools_(tools),
        problem_(problem),
        measuring_(measuring),
        stopwatch_(tools.gpu),
        copies_(std::make_unique<InputCopies>(tools)) {}

  Result RunAndAccount() {
    Result result = Run();
    result.set_device_busy_ms(stopwatch_.milliseconds());
    if (result.has_measurement()) result.mutable_measurement()->set_device_busy_ms(measured_ms_);
    return result;
  }

 private:
  Failure Load(uint64_t input_seed) override {
    // In this order: sequences point into the module.
    launches_ = nullptr;
    prepare_ = nullptr;
    TUNEFARM_RETURN_IF_FAILED(problem_->SelectInputs(input_seed));
    const PreparedKernel& kernel = problem_->kernel();
    const KernelPlan& plan = *kernel.plan;
    const Config config = input().baseline ? plan.DefaultConfig(kernel.problem) : input().config;
    absl::StatusOr<std::vector<BufferPlan>> buffers = plan.Buffers(kernel.problem, config, kernel.device_class);
    if (!buffers.ok()) return {v1::OUTCOME_INFEASIBLE_LAUNCH, std::string(MessageOf(buffers.status())) + "."};
    buffers_ = *std::move(buffers);
    TUNEFARM_RETURN_IF_FAILED(problem_->ResizeScratch(buffers_));
    TUNEFARM_RETURN_IF_FAILED(LoadModule());
    return BuildSequences(config);
  }

  Failure SelectInputs(uint64_t input_seed) override { return problem_->SelectInputs(input_seed); }

  Failure LoadModule() {
    const PreparedKernel& kernel = problem_->kernel();
    // A baseline's own steps are compiled with the reference's binary unless it came with one.
    const bool use_reference = input().baseline && input().artifact.empty();
    const std::string& artifact = use_reference ? kernel.reference_artifact : input().artifact;
    if (artifact.empty()) return {};
    if (module_ == nullptr) {
      TUNEFARM_RETURN_IF_FAILED(
          LoadedModule::Load(tools_.gpu, *kernel.plan, artifact,
                             use_reference ? kernel.reference_lowered_names : input().lowered_names, &module_));
      result().mutable_resources()->set_binary_bytes(static_cast<int64_t>(module_->binary_bytes()));
    }
    return problem_->WriteSymbols(module_.get());
  }

  Failure BuildSequences(const Config& config) {
    const PreparedKernel& kernel = problem_->kernel();
    const bool own_baseline = input().baseline && kernel.plan->HasSequence(Sequence::kBaseline);
    TUNEFARM_RETURN_IF_FAILED(EvaluateSteps(tools_.gpu, kernel,
                                            own_baseline ? Sequence::kBaseline : Sequence::kLaunches, config,
                                            module_.get(), &steps_, result().mutable_resources()));
    TUNEFARM_RETURN_IF_FAILED(BuildLaunches(problem_->Views(), &launches_));
    prepare_ = std::make_unique<LaunchSequence>(tools_.gpu);
    if (own_baseline || !kernel.plan->HasSequence(Sequence::kPreparePerConfig)) return {};
    std::vector<StepPlan> steps;
    TUNEFARM_RETURN_IF_FAILED(
        EvaluateSteps(tools_.gpu, kernel, Sequence::kPreparePerConfig, config, module_.get(), &steps));
    return prepare_->Build(steps, problem_->Views(), module_.get(), &tools_.cublas);
  }

  Failure BuildLaunches(const DeviceViews& views, std::unique_ptr<LaunchSequence>* launches) {
    *launches = std::make_unique<LaunchSequence>(tools_.gpu);
    return (*launches)->Build(steps_, views, module_.get(), &tools_.cublas);
  }

  Failure Launch(PoisonPattern pattern) override {
    return stopwatch_.Time([&]() -> Failure {
      TUNEFARM_RETURN_IF_FAILED(problem_->Reset(pattern));
      TUNEFARM_RETURN_IF_FAILED(prepare_->Enqueue());
      return LaunchTimedByHost(&first_launch_);
    });
  }

  // One launch sequence with nothing else at work on the device, by the host's clock: what of it runs in other streams
  // counts, and so does what it would leave for later. How long this thread waited for a processor is read while the
  // device has nothing to do and the clock is not looked at.
  Failure LaunchTimedByHost(WitnessedTime* time) {
    *time = WitnessedTime();
    time->on_device = true;
    bool timing = false;
    MonotonicTime start;
    int64_t waited_ns = 0;
    const auto next_stretch = [&](bool is_timed) -> Failure {
      TUNEFARM_RETURN_IF_FAILED(tools_.gpu.SynchronizeAll("The kernel crashed"));
      const MonotonicTime now = Clock::Real()->Now();
      const int64_t waited_now_ns = OwnThreadTimes().waited_ns;
      if (timing) {
        time->wall_ns += static_cast<double>((now - start).count());
        time->waited_ns += static_cast<double>(waited_now_ns - waited_ns);
      }
      timing = is_timed;
      waited_ns = waited_now_ns;
      start = Clock::Real()->Now();
      return {};
    };
    TUNEFARM_RETURN_IF_FAILED(launches_->EnqueueStretches(next_stretch));
    return next_stretch(false);
  }

  Failure FindDamage() override {
    return stopwatch_.Time([&]() -> Failure {
      TUNEFARM_RETURN_IF_FAILED(problem_->FindDamage());
      return copies_->FindDamage();
    });
  }

  Failure Verify(PoisonPattern pattern, v1::Verification* verification) override {
    return stopwatch_.Time([&] { return problem_->Verify(pattern, verification); });
  }

  Failure AfterTiming(Failure failure) override {
    if (failure.outcome == v1::OUTCOME_WRONG_RESULT) {
      failure.message = fmt::format("After timing, {} It was right before: the kernel keeps state between launches.",
                                    failure.message);
    }
    return failure;
  }

  // What a refused launch left half done must not run into the next trial. Nor may the next trial have to build inputs
  // and reference again: a fresh worker's Prepare has the time for that, a trial's load phase has not.
  Failure Settle(Failure failure) override {
    if (failure.sticky) return failure;
    Failure late = tools_.gpu.Synchronize("The kernel crashed");
    if (late.sticky) return late;
    failure.sticky = !problem_->is_whole();
    return failure;
  }

  // The sequences that samples take in turn: the one, or with copies of the inputs one on each.
  Failure Rotation(std::vector<LaunchSequence*>* rotation) {
    rotation->assign(1, launches_.get());
    if (input().policy.warm_cache() || input().policy.input_copies() <= 1) return {};
    TUNEFARM_RETURN_IF_FAILED(copies_->Make(buffers_, problem_->Views(), input().policy.input_copies()));
    for (int set = 1; set < copies_->count(); ++set) {
      std::unique_ptr<LaunchSequence> launches;
      TUNEFARM_RETURN_IF_FAILED(BuildLaunches(copies_->Views(set), &launches));
      rotation->push_back(launches.get());
      on_copies_.push_back(std::move(launches));
    }
    return {};
  }

  bool WantsGraph(double launch_ns) const {
    switch (input().policy.method()) {
      case v1::TIMING_METHOD_CUDA_GRAPH:
        return true;
      case v1::TIMING_METHOD_CUDA_EVENTS:
        return false;
      default:
        return launch_ns < kGraphBelowNs;
    }
  }

  Failure Measure() override {
    TUNEFARM_RETURN_IF_FAILED(TakeSamples());
    if (!poisons_ || !problem_->is_repeatable()) return {};
    return CheckLastSample(PoisonPattern::kSecond);
  }

  Failure Witness() override {
    // Alone on the device.
    BeginPhase(v1::PHASE_MEASURE);
    WitnessCalls calls;
    calls.launch = [&](WitnessedTime* time) { return WitnessedLaunch(time); };
    calls.sample_again = [&](double* median_ns) {
      Failure failed = SampleAgain();
      *median_ns = result().measurement().median_ns();
      return failed;
    };
    const double claimed_ns = result().measurement().median_ns();
    const WitnessVerdict verdict = HearWitnesses(claimed_ns, {.ns = SlackNs(*launches_)}, *Clock::Real(), calls);
    Failure failure = verdict.failure;
    if (!failure && verdict.unsettled) {
      failure = Unsettled(verdict.claimed_ns, verdict.witnessed_ns, verdict.launches);
    }
    if (!failure && verdict.contradicted) {
      failure = Contradicted(verdict.claimed_ns, verdict.witnessed_ns, verdict.launches);
    }
    if (!failure && measuring_.inputs_took && *measuring_.inputs_took <= kOtherInputsMax)
      failure = WitnessOtherInputs(0);
    BeginPhase(v1::PHASE_VERIFY);
    return failure;
  }

  // One launch as the first one: fresh poison, caches as before samples.
  Failure WitnessedLaunch(WitnessedTime* time) {
    const PoisonPattern pattern = DrawPattern(&random_);
    TUNEFARM_RETURN_IF_FAILED(problem_->Reset(pattern));
    TUNEFARM_RETURN_IF_FAILED(prepare_->Enqueue());
    if (!input().policy.warm_cache()) {
      const Driver& driver = tools_.gpu.driver();
      TUNEFARM_RETURN_IF_FAILED(
          driver.Check(driver.cuMemsetD8Async(measuring_.flush.data, 0, measuring_.flush.bytes, tools_.gpu.stream()),
                       "The cache could not be flushed"));
    }
    TUNEFARM_RETURN_IF_FAILED(LaunchTimedByHost(time));
    TUNEFARM_RETURN_IF_FAILED(problem_->FindDamage());
    v1::Verification ignored;
    Failure failure = problem_->Verify(pattern, &ignored);
    if (failure) failure.message += " It was right before: the kernel keeps state between launches.";
    return failure;
  }

  Failure WitnessSecondInputs() override {
    const double claimed_ns = result().measurement().median_ns();
    if (!IsContradicted(claimed_ns, first_launch_.wall_ns, SlackNs(*launches_))) return {};
    BeginPhase(v1::PHASE_MEASURE);
    return WitnessOtherInputs(first_launch_.wall_ns);
  }

  // First launches on inputs that the module has not seen and cannot expect, until one is as short as it should be.
  // `seen_ns`: of one that was made; 0: none.
  Failure WitnessOtherInputs(double seen_ns) {
    const MonotonicTime start = Clock::Real()->Now();
    const double claimed_ns = result().measurement().median_ns();
    double least_ns = seen_ns > 0 ? seen_ns : std::numeric_limits<double>::infinity();
    int launches = seen_ns > 0 ? 1 : 0;
    while (IsContradicted(claimed_ns, least_ns, SlackNs(*launches_))) {
      const bool is_late = Clock::Real()->Now() - start > kOtherInputsPatience;
      if (launches >= (is_late ? kOtherInputsLeast : kOtherInputsMost)) {
        // The time may depend on the inputs: samples on the last ones against the first launch on them.
        TUNEFARM_RETURN_IF_FAILED(TakeSamples());
        const double others_ns = result().measurement().median_ns();
        if (IsContradicted(others_ns, first_launch_.wall_ns, SlackNs(*launches_))) {
          return IsDisturbed(first_launch_.waited_ns, first_launch_.wall_ns, SlackNs(*launches_))
                     ? Unsettled(others_ns, first_launch_.wall_ns, 1)
                     : Contradicted(others_ns, first_launch_.wall_ns, 1);
        }
        if (claimed_ns < kOtherInputsShare * others_ns) return Contradicted(claimed_ns, least_ns, launches);
        break;
      }
      Failure failure = Load(random_.NextU64());
      if (!failure) failure = Launch(PoisonPattern::kFirst);
      if (!failure) failure = problem_->FindDamage();
      v1::Verification ignored;
      if (!failure) failure = problem_->Verify(PoisonPattern::kFirst, &ignored);
      if (failure) {
        failure.message = "On other inputs than before: " + failure.message;
        return failure;
      }
      least_ns = std::min(least_ns, first_launch_.wall_ns);
      ++launches;
    }
    return Load(input().input_seed);
  }

  // Its measurement takes the place of the one before.
  Failure SampleAgain() {
    TUNEFARM_RETURN_IF_FAILED(Load(input().input_seed));
    TUNEFARM_RETURN_IF_FAILED(Launch(PoisonPattern::kFirst));
    return TakeSamples();
  }

  Failure TakeSamples() {
    if (launches_->timed_stretches() == 0)
      return {v1::OUTCOME_INFEASIBLE_LAUNCH, "No step of the launch sequence is timed."};
    const v1::MeasurementPolicy& policy = input().policy;
    const double before_ms = stopwatch_.milliseconds();
    DeviceConditions conditions(measuring_.nvml, tools_.gpu.uuid(), policy.min_clock_share(),
                                policy.locked_clock_mhz());
    Sampler::Setup setup;
    setup.problem = problem_;
    on_copies_.clear();
    copies_ = std::make_unique<InputCopies>(tools_);
    TUNEFARM_RETURN_IF_FAILED(Rotation(&setup.launches));
    setup.flush = !policy.warm_cache() && !(copies_->count() > 1 && copies_->Outgrow(tools_.gpu.l2_bytes()));
    poisons_ = setup.flush && copies_->count() == 1 && problem_->has_poisonable_outputs();
    setup.poison = poisons_;
    setup.scratch = measuring_.flush;
    setup.overhead = measuring_.overhead;
    setup.conditions = &conditions;
    setup.stopwatch = &stopwatch_;
    Sampler sampler(tools_.gpu, std::move(setup));
    SamplingResult sampled;
    TUNEFARM_RETURN_IF_FAILED(Sample(&sampler, &sampled));
    measured_ms_ = stopwatch_.milliseconds() - before_ms;
    v1::Measurement* const measurement = result().mutable_measurement();
    *measurement = sampled.measurement;
    measurement->set_method(sampler.in_graph() ? v1::TIMING_METHOD_CUDA_GRAPH : v1::TIMING_METHOD_CUDA_EVENTS);
    measurement->set_cold_cache(!policy.warm_cache());
    measurement->set_input_copies(copies_->count());
    conditions.Describe(measurement);
    LogSampling(sampler, conditions);
    JudgeTimes(sampled);
    return {};
  }

  Failure Sample(Sampler* sampler, SamplingResult* sampled) {
    const v1::MeasurementPolicy& policy = input().policy;
    Failure failure;
    const std::optional<double> cost_ns = RunWarmUp(policy, *Clock::Real(), [&](int launches) -> std::optional<double> {
      double nanoseconds = 0;
      failure = sampler->WarmUp(launches, &nanoseconds);
      if (failure) return std::nullopt;
      return nanoseconds;
    });
    if (!cost_ns) return failure;
    const bool one_only = problem_->has_restores() || !policy.warm_cache() || launches_->has_untimed_steps();
    SamplingOptions options;
    options.policy = policy;
    options.keep_samples = input().keep_samples;
    options.race_limit_ns = input().race_limit_ns;
    options.launches_per_sample = LaunchesPerSample(sampler->launch_ns(), kEventResolutionNs, one_only);
    TUNEFARM_RETURN_IF_FAILED(sampler->Begin(options.launches_per_sample, WantsGraph(sampler->launch_ns())));
    *sampled = RunSampling(options, sampler->clock(), [&](int, int until_look) -> std::optional<TakenSample> {
      TakenSample sample;
      failure = sampler->Next(until_look, &sample);
      if (failure) return std::nullopt;
      return sample;
    });
    return failure;
  }

  void LogSampling(const Sampler& sampler, const DeviceConditions& conditions) {
    reporter()->Log(
        fmt::format("measured in {} batches{}{}; {} readings of the conditions took {:.2f} ms", sampler.batches(),
                    sampler.in_graph() ? " of a graph" : "",
                    sampler.why_no_graph().empty() ? std::string() : " without a graph: " + sampler.why_no_graph(),
                    conditions.reads(), conditions.read_ms()));
  }

  void JudgeTimes(const SamplingResult& sampled) {
    if (sampled.implausible) {
      result().set_outcome(v1::OUTCOME_NOISY);
      result().set_message("The device's clock reported a time of zero: the launch sequence is too short to be timed.");
    } else if (!sampled.established) {
      result().set_outcome(v1::OUTCOME_NOISY);
      result().set_message(
          fmt::format("The time could not be established and may be off by half: {} within the time budget of {} ms.",
                      FormatCount(sampled.measurement.samples(), "sample"), input().policy.time_budget_ms()));
    }
  }

  const RunTools tools_;
  CudaProblem* const problem_;
  const MeasuringTools measuring_;
  DeviceStopwatch stopwatch_;
  double measured_ms_ = 0;
  std::unique_ptr<InputCopies> copies_;  // never null
  std::unique_ptr<LoadedModule> module_;
  std::vector<BufferPlan> buffers_;
  std::vector<StepPlan> steps_;
  std::unique_ptr<LaunchSequence> launches_, prepare_;
  std::vector<std::unique_ptr<LaunchSequence>> on_copies_;
  WitnessedTime first_launch_;  // the last Launch
  bool poisons_ = false;        // outputs are poisoned before samples
  PhiloxStream random_{NewSeed(EntropySource::Real())};
};

class CudaRunBackend final : public RunBackend {
 public:
  CudaRunBackend(std::unique_ptr<GpuContext> gpu, HarnessBinary binary, std::unique_ptr<Harness> harness,
                 std::vector<SearchPlace> places)
      : gpu_(std::move(gpu)),
        binary_(std::move(binary)),
        harness_(std::move(harness)),
        cublas_(*gpu_, std::move(places)),
        nvml_(Nvml::Open()) {}

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
    problem_.reset();
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
    Result result =
        CudaTrial(Tools(), problem_.get(),
                  {nvml_.get(), flush, &overhead_, ran_reference_ ? std::optional(inputs_took_) : std::nullopt}, wanted,
                  reporter)
            .RunAndAccount();
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
  Duration inputs_took_{};
  bool ran_reference_ = false;  // for the inputs; else another worker's outputs were taken
  EventOverhead overhead_;
  bool contended_ = false;  // at the last look
  MonotonicTime look_again_at_{};
  GuardedBuffer flush_;
  Failure damage_;  // set once a reference or prepare step broke the context: the process is of no more use
  std::unique_ptr<CudaProblem> problem_;
  std::string note_;  // of its results that are OK
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
