#include "server/worker/cuda/cuda_trial.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/base/format.h"
#include "server/base/random.h"
#include "server/base/status.h"
#include "server/measure/kept_samples.h"
#include "server/worker/cuda/device_stopwatch.h"
#include "server/worker/cuda/energy_meter.h"
#include "server/worker/cuda/input_copies.h"
#include "server/worker/verify/poison.h"
#include "server/worker/verify/sampling.h"
#include "server/worker/verify/thread_times.h"
#include "server/worker/verify/trial_phases.h"
#include "server/worker/verify/witness.h"

namespace tunefarm::cuda {

using tunefarm::worker::v1::Result;

namespace {

constexpr double kEventResolutionNs = 500;  // CUDA documents about half a microsecond
// Launches below this are timed in graphs unless the policy says otherwise.
constexpr double kGraphBelowNs = 50e3;
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

void DescribeBlocks(const SamplingResult& sampled, const Sampler& sampler, v1::Measurement* measurement) {
  for (size_t i = 0; i < sampled.blocks.size(); ++i) {
    const bool has_room = measurement->blocks_size() < kBlocksMax;
    v1::MeasurementBlock& block =
        has_room ? *measurement->add_blocks() : *measurement->mutable_blocks(measurement->blocks_size() - 1);
    const Nvml::Conditions& conditions = sampler.batch_conditions()[i];
    block.set_samples(block.samples() + sampled.blocks[i].samples);
    block.set_discarded(block.discarded() + sampled.blocks[i].discarded);
    block.set_clock_mhz(conditions.clock_mhz);
    block.set_power_watts(conditions.power_watts);
    block.set_temperature_c(conditions.temperature_c);
    block.set_throttle_reason(Nvml::ReasonText(conditions.throttle_reasons));
  }
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
    TUNEFARM_RETURN_IF_FAILED(MakeYardstick(input_seed));
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

  // Before the work spaces take the size that the config needs.
  Failure MakeYardstick(uint64_t input_seed) {
    std::unique_ptr<Yardstick>& yardstick = *measuring_.yardstick;
    // Checks on other inputs are measured alone, and inputs keep their places: it is good again afterwards.
    uses_yardstick_ = input().yardstick.has_value() && input_seed == input().input_seed;
    if (!uses_yardstick_) {
      if (!input().yardstick.has_value()) yardstick = nullptr;
      return {};
    }
    if (yardstick != nullptr && yardstick->Is(*input().yardstick, input_seed)) return {};
    yardstick = nullptr;
    std::string why_not;
    if (input().policy.warm_cache()) {
      why_not = "with warm caches a neighbour would displace what a launch finds";
    } else if (input().policy.input_copies() > 1) {
      why_not = "samples go through copies of the inputs, of which it has none";
    } else {
      TUNEFARM_RETURN_IF_FAILED(
          Yardstick::Make(tools_, problem_, *input().yardstick, input_seed, &yardstick, &why_not));
    }
    if (yardstick == nullptr) reporter()->Log("measured without a yardstick: " + why_not);
    return {};
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
      if (*measuring_.yardstick != nullptr) TUNEFARM_RETURN_IF_FAILED((*measuring_.yardstick)->FindDamage(tools_));
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
    calls.launch = [&](WitnessedTime* time) { return stopwatch_.Time([&] { return WitnessedLaunch(time); }); };
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

  // Launches are repeated as samples are taken: on as many copies of the inputs, after the same work.
  Failure MeasureEnergy() override {
    // Witnessed launches may have reloaded inputs and module: this resets and prepares the buffers as before samples.
    TUNEFARM_RETURN_IF_FAILED(Launch(PoisonPattern::kSecond));
    std::vector<LaunchSequence*> rotation;
    on_copies_.clear();
    copies_ = std::make_unique<InputCopies>(tools_);
    TUNEFARM_RETURN_IF_FAILED(Rotation(&rotation));
    const bool flushes =
        !input().policy.warm_cache() && !(copies_->count() > 1 && copies_->Outgrow(tools_.gpu.l2_bytes()));
    const bool poisons = flushes && copies_->count() == 1 && problem_->has_poisonable_outputs();
    EnergyMeter::Work work;
    work.copies = static_cast<int>(rotation.size());
    if (flushes || problem_->has_restores()) {
      work.before = [&]() -> Failure {
        if (problem_->has_restores()) TUNEFARM_RETURN_IF_FAILED(problem_->Restore());
        if (poisons) TUNEFARM_RETURN_IF_FAILED(problem_->PoisonOutputs());
        if (!flushes) return {};
        const Driver& driver = tools_.gpu.driver();
        return driver.Check(
            driver.cuMemsetD8Async(measuring_.flush.data, 0, measuring_.flush.bytes, tools_.gpu.stream()),
            "The cache could not be flushed");
      };
    }
    work.launch = [&, next = size_t{0}]() mutable { return rotation[next++ % rotation.size()]->Enqueue(); };
    EnergyMeter meter(tools_.gpu, measuring_.nvml, std::move(work));
    TUNEFARM_RETURN_IF_FAILED(
        stopwatch_.Time([&] { return meter.Measure(result().mutable_measurement()->mutable_energy()); }));
    TUNEFARM_RETURN_IF_FAILED(FindDamage());
    if (!meter.has_launched() || !poisons || !problem_->is_repeatable()) return {};
    return CheckLastSample(PoisonPattern::kSecond);
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
    DeviceConditions& conditions = *measuring_.conditions;
    conditions.Begin(policy.min_clock_share(), policy.locked_clock_mhz(), input().keep_samples);
    Sampler::Setup setup;
    setup.problem = problem_;
    on_copies_.clear();
    copies_ = std::make_unique<InputCopies>(tools_);
    TUNEFARM_RETURN_IF_FAILED(Rotation(&setup.launches));
    setup.flush = !policy.warm_cache() && !(copies_->count() > 1 && copies_->Outgrow(tools_.gpu.l2_bytes()));
    poisons_ = setup.flush && copies_->count() == 1 && problem_->has_poisonable_outputs();
    setup.poison = poisons_;
    setup.scratch = measuring_.flush;
    if (uses_yardstick_ && *measuring_.yardstick != nullptr) setup.yardstick = (*measuring_.yardstick)->launches();
    // The search compares what differs by more, and a device that rests would find less.
    if (input().keep_samples) setup.duty_cycle = measuring_.duty_cycle;
    setup.overhead = measuring_.overhead;
    setup.conditions = &conditions;
    setup.stopwatch = &stopwatch_;
    Sampler sampler(tools_.gpu, std::move(setup));
    SamplingResult sampled;
    TUNEFARM_RETURN_IF_FAILED(Sample(&sampler, &sampled));
    measured_ms_ = stopwatch_.milliseconds() - before_ms;
    v1::Measurement* const measurement = result().mutable_measurement();
    const v1::Energy energy = measurement->energy();
    const bool has_energy = measurement->has_energy();
    *measurement = sampled.measurement;
    // Samples that are taken again say nothing of it.
    if (has_energy) *measurement->mutable_energy() = energy;
    measurement->set_method(sampler.in_graph() ? v1::TIMING_METHOD_CUDA_GRAPH : v1::TIMING_METHOD_CUDA_EVENTS);
    measurement->set_cold_cache(!policy.warm_cache());
    measurement->set_input_copies(copies_->count());
    measurement->set_duty_cycle(sampler.duty_share());
    if (input().keep_samples) DescribeBlocks(sampled, sampler, measurement);
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
        fmt::format("measured in {} batches{}{}, duty cycle {:.2f}; {} readings of the conditions took {:.2f} ms",
                    sampler.batches(), sampler.in_graph() ? " of a graph" : "",
                    sampler.why_no_graph().empty() ? std::string() : " without a graph: " + sampler.why_no_graph(),
                    sampler.duty_share(), conditions.reads(), conditions.read_ms()));
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
  WitnessedTime first_launch_;   // the last Launch
  bool uses_yardstick_ = false;  // on the current inputs
  bool poisons_ = false;         // outputs are poisoned before samples
  PhiloxStream random_{NewSeed(EntropySource::Real())};
};

}  // namespace

Result RunCudaTrial(const RunTools& tools, CudaProblem* problem, const MeasuringTools& measuring, const RunInput& input,
                    PhaseReporter* reporter) {
  return CudaTrial(tools, problem, measuring, input, reporter).RunAndAccount();
}

}  // namespace tunefarm::cuda
