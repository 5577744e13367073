#include <fmt/core.h>
#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/base/clock.h"
#include "server/base/format.h"
#include "server/base/random.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/worker/backend.h"
#include "server/worker/host/cache_flush.h"
#include "server/worker/host/host_problem.h"
#include "server/worker/host/host_topology.h"
#include "server/worker/host/runner_state.h"
#include "server/worker/host/scratch_directory.h"
#include "server/worker/host/trial/brief_phases.h"
#include "server/worker/host/trial/launch_overhead.h"
#include "server/worker/host/trial/loaded_trial.h"
#include "server/worker/host/trial/sample_batches.h"
#include "server/worker/host/trial/trial_process.h"
#include "server/worker/verify/sampling.h"
#include "server/worker/verify/trial_phases.h"
#include "server/worker/verify/witness.h"

namespace tunefarm {
namespace {

using tunefarm::worker::v1::Prepared;
using tunefarm::worker::v1::Result;

// What reading the steady clock costs and how finely it ticks, generously.
constexpr double kClockResolutionNs = 100;
// Below this the wait for the next command may have cooled the caches enough to matter.
constexpr double kRehearseBelowNs = 200'000;
// Between two looks at the runner's own state, while trials share a process.
constexpr Duration kCheckPause = std::chrono::milliseconds(10);
// What only a first launch pays, and for each thread beyond the first what it takes to wake up, of at most so many.
constexpr double kSlackNs = 50'000, kSlackPerThreadNs = 3'000;
constexpr int kThreadsMax = 64;
// Where caches are not made cold: what of a byte is not as warm as in samples. Of a process with one thread the caches
// are warmed before; else the bytes that another core has written are fetched.
constexpr double kSlackPerTouchedByteNs = 0.1, kSlackPerByteNs = 1;
constexpr double kCacheSlackMaxNs = 5e6;

// Of the tools that outlive a trial.
struct TrialTools {
  size_t flush_bytes = 0;
  std::string scratch_directory;
  LaunchOverhead overhead;
};

Failure Refused(const absl::Status& status) {
  return {v1::OUTCOME_INFEASIBLE_LAUNCH, std::string(MessageOf(status)) + "."};
}

Failure PlanSequence(const PreparedKernel& kernel, Sequence sequence, const Config& config,
                     const std::map<std::string, std::string>& lowered_names, const BufferViews& views,
                     std::vector<HostCall>* calls) {
  const absl::StatusOr<std::vector<StepPlan>> steps =
      kernel.plan->Steps(sequence, kernel.problem, config, kernel.device_class);
  if (!steps.ok()) return Refused(steps.status());
  for (const StepPlan& step : *steps) {
    if (step.kind == StepPlan::Kind::kLibraryOp) {
      return {v1::OUTCOME_LOAD_ERROR, "The host has no library for this operation, so there is no baseline to time."};
    }
  }
  absl::StatusOr<std::vector<HostCall>> planned = PlanCalls(*steps, views, lowered_names);
  if (!planned.ok()) {
    return {v1::OUTCOME_LOAD_ERROR, fmt::format("The kernel could not be loaded: {}.", MessageOf(planned.status()))};
  }
  *calls = *std::move(planned);
  return {};
}

PoisonPattern DrawPattern(PhiloxStream* random) {
  return random->UniformInt(2) == 0 ? PoisonPattern::kFirst : PoisonPattern::kSecond;
}

Failure RanBeforeItsTime() {
  return {v1::OUTCOME_RUN_CRASH, "The kernel continued its process while that was stopped."};
}

// Of the caches of all cores.
void FlushFor(const BufferViews& buffers, size_t flush_bytes) {
  // Asking the processor may cost tens of microseconds in a virtual machine.
  static const LineEviction eviction = DetectLineEviction();
  std::vector<MemorySpan> memory;
  for (const auto& [name, view] : buffers) memory.push_back(view.bytes);
  CacheFlush(std::move(memory), flush_bytes, eviction).Run();
}

size_t BytesOf(const BufferViews& buffers) {
  size_t bytes = 0;
  for (const auto& [name, view] : buffers) bytes += view.bytes.size();
  return bytes;
}

class HostTrial final : public TrialPhases {
 public:
  // `kept`: what the trial before has left to be used again; may be null.
  HostTrial(HostProblem* problem, const RunInput& input, BriefPhases* phases, TrialTools* tools,
            std::unique_ptr<LoadedTrial> kept)
      : TrialPhases(input, phases),
        phases_(phases),
        problem_(problem),
        tools_(tools),
        loaded_(kept != nullptr ? std::move(kept) : std::make_unique<LoadedTrial>()) {}

  // After Run: its process, if it may serve another trial (else it is about to end), and its library.
  std::unique_ptr<LoadedTrial> Keep(bool ended_well) {
    loaded_->keeps_process = ended_well && shares_process() && loaded_->trials % kTrialsPerProcessMax != 0;
    if (!loaded_->keeps_process && loaded_->process != nullptr) loaded_->process->Kill();
    return std::move(loaded_);
  }

 private:
  bool shares_process() const {
    return input().policy.host_isolation() == v1::HOST_ISOLATION_SHARED_PROCESS && !input().baseline;
  }

  Failure SelectInputs(uint64_t input_seed) override { return problem_->SelectInputs(input_seed); }

  Failure Load(uint64_t input_seed) override {
    // A child of before has the data of before; only one that serves several trials may have the right one.
    if (!shares_process()) loaded_->process = nullptr;
    const PreparedKernel& kernel = problem_->kernel();
    // A baseline's own steps are compiled with the reference's binary unless it came with one.
    const bool use_reference = input().baseline && input().artifact.empty();
    const std::string& artifact = use_reference ? kernel.reference_artifact : input().artifact;
    const auto& lowered_names = use_reference ? kernel.reference_lowered_names : input().lowered_names;
    // Before the inputs: what they may have to be built with wants no other process beside it.
    if (!loaded_->Serves(artifact, lowered_names, input_seed, problem_->Views())) {
      loaded_->Drop();
      loaded_->trials = 0;
    }
    TUNEFARM_RETURN_IF_FAILED(problem_->SelectInputs(input_seed));
    BufferViews buffers;
    HostSequences sequences;
    TUNEFARM_RETURN_IF_FAILED(PlanSequences(lowered_names, &buffers, &sequences));
    stretches_ = StretchesOf(sequences.launches);
    has_prepare_ = !sequences.prepare.empty();
    result().mutable_resources()->set_binary_bytes(static_cast<int64_t>(artifact.size()));
    if (!input().baseline && loaded_->Serves(artifact, lowered_names, input_seed, buffers)) {
      const std::string config = EncodeSequences(sequences);
      if (config.size() <= kTrialConfigBytesMax && GetProcess()) {
        problem_->Reset(PoisonPattern::kFirst);
        return LoadConfig(config);
      }
    }
    loaded_->Drop();
    loaded_->lowered_names = lowered_names;
    loaded_->input_seed = input_seed;
    loaded_->buffers = std::move(buffers);
    return StartProcess(artifact, std::move(sequences));
  }

  // The one that is kept, the one that was forked ahead, or another one from the template. False without.
  bool GetProcess() {
    ++loaded_->trials;
    if (loaded_->process == nullptr) loaded_->process = std::move(loaded_->next);
    if (loaded_->process != nullptr) return true;
    if (loaded_->source == nullptr) {
      loaded_->program.load_at_start = false;
      absl::StatusOr<std::unique_ptr<TrialTemplate>> source = TrialTemplate::Start(loaded_->program);
      if (!source.ok()) return false;
      loaded_->source = *std::move(source);
    }
    absl::StatusOr<std::unique_ptr<TrialProcess>> process = loaded_->source->Take();
    if (!process.ok()) return false;
    loaded_->process = *std::move(process);
    return true;
  }

  Failure LoadConfig(const std::string& config) {
    loaded_->process->SendConfig(config);
    is_launching_ = true;
    // The next one is forked while this one loads, which is not measured, and is there before anything is.
    const bool ahead = !shares_process() && loaded_->next == nullptr && loaded_->source->Ask().ok();
    const TrialReply reply = Await();
    if (ahead) {
      absl::StatusOr<std::unique_ptr<TrialProcess>> next = loaded_->source->Take();
      if (next.ok()) loaded_->next = *std::move(next);
    }
    return Explain(reply);
  }

  Failure StartProcess(const std::string& artifact, HostSequences sequences) {
    TrialProgram& program = loaded_->program;
    if (artifact.empty()) {
      loaded_->library.Reset();
    } else if (!loaded_->library || loaded_->artifact != artifact) {
      absl::StatusOr<UniqueFd> library = OpenLibrary(artifact);
      if (!library.ok()) return {v1::OUTCOME_OUT_OF_MEMORY, std::string(MessageOf(library.status())) + "."};
      loaded_->library = *std::move(library);
    }
    loaded_->artifact = artifact;
    loaded_->trials = input().baseline ? 0 : 1;
    program.library_fd = loaded_->library ? loaded_->library.get() : -1;
    program.symbols = artifact.empty() ? std::vector<TrialCopy>() : problem_->SymbolCopies();
    program.restores = problem_->RestoreCopies();
    program.poisons = problem_->PoisonedOutputs();
    program.flush_memory.clear();
    for (const auto& [name, view] : loaded_->buffers) program.flush_memory.push_back(view.bytes);
    program.flush_bytes = tools_->flush_bytes;
    program.load_at_start = true;
    program.sequences = std::move(sequences);
    problem_->Reset(PoisonPattern::kFirst);
    absl::StatusOr<std::unique_ptr<TrialProcess>> process = TrialProcess::Start(program);
    if (!process.ok()) return TrialNotStarted(process.status());
    loaded_->process = *std::move(process);
    return Explain(Await());
  }

  Failure PlanSequences(const std::map<std::string, std::string>& lowered_names, BufferViews* views,
                        HostSequences* sequences) {
    const PreparedKernel& kernel = problem_->kernel();
    const KernelPlan& plan = *kernel.plan;
    const Config config = input().baseline ? plan.DefaultConfig(kernel.problem) : input().config;
    const absl::StatusOr<std::vector<BufferPlan>> buffers = plan.Buffers(kernel.problem, config, kernel.device_class);
    if (!buffers.ok()) return Refused(buffers.status());
    buffer_plans_ = *buffers;
    TUNEFARM_RETURN_IF_FAILED(problem_->ResizeScratch(buffer_plans_));
    *views = problem_->Views();
    const bool own_baseline = input().baseline && plan.HasSequence(Sequence::kBaseline);
    TUNEFARM_RETURN_IF_FAILED(PlanSequence(kernel, own_baseline ? Sequence::kBaseline : Sequence::kLaunches, config,
                                           lowered_names, *views, &sequences->launches));
    if (own_baseline || !plan.HasSequence(Sequence::kPreparePerConfig)) return {};
    return PlanSequence(kernel, Sequence::kPreparePerConfig, config, lowered_names, *views, &sequences->prepare);
  }

  // Load has made the buffers ready for the first: what the binary does to them while it loads is a finding too.
  Failure Launch(PoisonPattern pattern) override {
    if (pattern != PoisonPattern::kFirst) problem_->Reset(pattern);
    if (std::exchange(is_launching_, false)) return Explain(Await());
    TrialCommand command;
    command.kind = TrialCommand::kLaunch;
    return Obey(command);
  }

  Failure Obey(const TrialCommand& command) {
    loaded_->process->Send(command);
    last_reply_ = Await();
    return Explain(last_reply_);
  }

  TrialReply Await() {
    return loaded_->process->Await(BriefPhases::kBrief, [this] { phases_->Announce(); });
  }

  Failure Explain(const TrialReply& reply) const {
    Failure failure = FailureOf(reply, "The kernel", *problem_);
    // A stray write is often the cause, and the crash only its consequence.
    if (failure.outcome == v1::OUTCOME_RUN_CRASH) {
      if (const Failure damage = problem_->FindDamage()) failure.message += " " + damage.message;
    }
    return failure;
  }

  Failure FindDamage() override { return problem_->FindDamage(); }

  Failure Verify(PoisonPattern pattern, v1::Verification* verification) override {
    return problem_->Verify(pattern, verification);
  }

  Failure AfterTiming(Failure failure) override {
    failure.message += " It was right before the timing: the kernel keeps state between launches.";
    return failure;
  }

  Failure Measure() override {
    TUNEFARM_RETURN_IF_FAILED(TakeSamples());
    if (!last_poison_ || !problem_->IsRepeatable()) return {};
    return CheckLastSample(*last_poison_);
  }

  Failure TakeSamples() {
    const v1::MeasurementPolicy& policy = input().policy;
    const bool restore = !loaded_->program.restores.empty();
    TrialCommand command;
    command.kind = TrialCommand::kWarm;
    command.restore = restore ? 1 : 0;
    command.flush = policy.warm_cache() ? 0 : 1;
    Failure failure;
    const MonotonicTime warm_up_start = Clock::Real()->Now();
    const std::optional<double> warm_up_ns =
        RunWarmUp(policy, *Clock::Real(), [&](int launches) -> std::optional<double> {
          command.count = static_cast<uint32_t>(launches);
          failure = Obey(command);
          if (failure) return std::nullopt;
          return static_cast<double>(last_reply_.nanoseconds) / launches;
        });
    if (!warm_up_ns) return failure;
    const double launch_ns = *warm_up_ns;
    const double warm_up_ms = std::chrono::duration<double, std::milli>(Clock::Real()->Now() - warm_up_start).count();

    SamplingOptions options;
    options.policy = policy;
    options.keep_samples = input().keep_samples;
    options.launches_per_sample = LaunchesPerSample(launch_ns, kClockResolutionNs, restore || !policy.warm_cache());
    options.race_limit_ns = input().race_limit_ns;
    command.kind = TrialCommand::kSample;
    command.rehearse = policy.warm_cache() && launch_ns < kRehearseBelowNs ? 1 : 0;
    command.count = static_cast<uint32_t>(options.launches_per_sample);
    // With warm caches poison would displace what is to stay in them.
    const bool poison = command.flush != 0 && !loaded_->program.poisons.empty();
    SampleBatches batches(launch_ns * options.launches_per_sample, command.flush != 0 || restore,
                          [&](int samples) -> std::optional<std::vector<int64_t>> {
                            if (poison) {
                              last_poison_ = DrawPattern(&random_);
                              command.poison = *last_poison_ == PoisonPattern::kFirst ? 1 : 2;
                            }
                            command.samples = static_cast<uint32_t>(samples);
                            failure = Obey(command);
                            if (failure) return std::nullopt;
                            return loaded_->process->SampleNanoseconds(samples);
                          });
    const MonotonicTime start = Clock::Real()->Now();
    const SamplingResult sampled =
        RunSampling(options, batches.clock(), [&batches](int, int until_look) { return batches.Next(until_look); });
    if (failure) return failure;
    if (sampled.implausible) {
      return {v1::OUTCOME_RUN_CRASH, "The kernel's process reported times that cannot be: its memory is damaged."};
    }
    v1::Measurement* const measurement = result().mutable_measurement();
    *measurement = sampled.measurement;
    measurement->set_method(v1::TIMING_METHOD_STEADY_CLOCK);
    measurement->set_cold_cache(!policy.warm_cache());
    measurement->set_input_copies(1);
    measurement->set_device_busy_ms(std::chrono::duration<double, std::milli>(Clock::Real()->Now() - start).count() +
                                    warm_up_ms);
    if (!sampled.established) {
      result().set_outcome(v1::OUTCOME_NOISY);
      result().set_message(fmt::format("The time could not be established: {} samples between {:.0f} and {:.0f} ns.",
                                       measurement->samples(), measurement->min_ns(), measurement->max_ns()));
    }
    return {};
  }

  Failure Witness() override {
    // Where trials share a process, this one has seen the variants of inputs in a trial before.
    std::unique_ptr<TrialProcess> shared;
    variants_ = problem_->VariantCount();
    next_variant_ = 0;
    if (shares_process()) {
      TUNEFARM_RETURN_IF_FAILED(Freeze());
      shared = std::move(loaded_->process);
      TUNEFARM_RETURN_IF_FAILED(BeginProcess(input().input_seed));
    } else {
      TUNEFARM_RETURN_IF_FAILED(Freeze());
    }
    const int threads = std::min(loaded_->process->ThreadCount(), kThreadsMax);
    double slack_ns = kSlackNs + kSlackPerThreadNs * (threads - 1);
    if (!IsCold()) {
      const double per_byte_ns = threads == 1 ? kSlackPerTouchedByteNs : kSlackPerByteNs;
      slack_ns += std::min(per_byte_ns * static_cast<double>(BytesOf(loaded_->buffers)), kCacheSlackMaxNs);
    }
    WitnessCalls calls;
    calls.launch = [&](WitnessedTime* time) { return WitnessedLaunch(time); };
    calls.overhead = [&](double busy_ns, double* ns) -> Failure {
      const absl::StatusOr<double> one =
          busy_ns > 0 ? tools_->overhead.Around(busy_ns, [this] { problem_->Reset(PoisonPattern::kFirst); })
                      : tools_->overhead.Idle();
      if (!one.ok()) return TrialNotStarted(one.status());
      *ns = *one * static_cast<double>(std::count(stretches_.begin(), stretches_.end(), true));
      return {};
    };
    calls.sample_again = [&](double* median_ns) {
      Failure failed = SampleAgain();
      *median_ns = result().measurement().median_ns();
      return failed;
    };
    const double claimed_ns = result().measurement().median_ns();
    const WitnessVerdict verdict = HearWitnesses(claimed_ns, slack_ns, *Clock::Real(), calls);
    Failure failure = verdict.failure;
    // The buffers are its own too.
    if (!failure && shared != nullptr && !shared->HasStood()) failure = RanBeforeItsTime();
    if (is_begun_again_) {
      // What was forked for this trial serves no other.
      loaded_->Drop();
      loaded_->trials = 0;
    }
    if (shared != nullptr && !is_begun_again_) {
      loaded_->process = std::move(shared);
      loaded_->process->Thaw();
    }
    if (failure) return failure;
    TUNEFARM_RETURN_IF_FAILED(problem_->SelectInputs(input().input_seed));
    if (verdict.unsettled) {
      return {v1::OUTCOME_LOST,
              fmt::format("The machine has too few free processors to check the time of a kernel with threads: its "
                          "samples say {} for a launch, {} launches that were timed from outside of its process took "
                          "{} and more, and some of them waited for a processor.",
                          FormatDuration(verdict.claimed_ns), verdict.launches, FormatDuration(verdict.witnessed_ns))};
    }
    if (!verdict.contradicted) return {};
    return {v1::OUTCOME_WRONG_RESULT,
            fmt::format("Its samples say {} for a launch, but the shortest of {} launches that were timed from outside "
                        "of its process took {}: the samples are false.",
                        FormatDuration(verdict.claimed_ns), verdict.launches, FormatDuration(verdict.witnessed_ns))};
  }

  // A process that has seen these inputs and nothing else, frozen.
  Failure BeginProcess(uint64_t input_seed) {
    loaded_->process = nullptr;
    // What the process before may have left for this one.
    if (const absl::Status emptied = EmptyScratchDirectory(tools_->scratch_directory); !emptied.ok()) {
      return {v1::OUTCOME_LOST, fmt::format("The scratch directory cannot be emptied: {}.", MessageOf(emptied))};
    }
    next_variant_ = 0;
    TUNEFARM_RETURN_IF_FAILED(Load(input_seed));
    TUNEFARM_RETURN_IF_FAILED(Launch(PoisonPattern::kFirst));
    return Freeze();
  }

  Failure Freeze() {
    if (loaded_->process->Freeze()) return {};
    // What it may have said in advance says nothing.
    Failure failure = Explain(loaded_->process->Await());
    if (!failure) failure = {v1::OUTCOME_RUN_CRASH, "The kernel ended its process between two launches."};
    return failure;
  }

  bool IsCold() const { return !input().policy.warm_cache() && tools_->flush_bytes > 0; }

  // One launch as the first on its inputs, from outside: the process does not run while outputs are poisoned, other
  // inputs take the place of those before, and caches are made cold.
  Failure WitnessedLaunch(WitnessedTime* time) {
    if (variants_ > 0 && next_variant_ == (is_sampled_again_ ? 1 : variants_)) {
      is_begun_again_ = true;
      TUNEFARM_RETURN_IF_FAILED(BeginProcess(input().input_seed));
    }
    if (variants_ > 0) {
      problem_->SelectVariant(next_variant_++);
      // The sizes are those that the process has; their data are the variant's.
      TUNEFARM_RETURN_IF_FAILED(problem_->ResizeScratch(buffer_plans_));
    }
    const PoisonPattern pattern = DrawPattern(&random_);
    problem_->Reset(pattern);
    WitnessedTime ignored_time;
    TrialCommand command;
    if (has_prepare_) {
      command.kind = TrialCommand::kPrepare;
      TUNEFARM_RETURN_IF_FAILED(ObeyFrozen(command, &ignored_time));
    }
    if (IsCold()) {
      FlushFor(loaded_->buffers, tools_->flush_bytes);
    } else if (loaded_->process->ThreadCount() == 1) {
      // Nothing foreign runs meanwhile.
      command.kind = TrialCommand::kTouch;
      TUNEFARM_RETURN_IF_FAILED(ObeyFrozen(command, &ignored_time));
    }
    command.kind = TrialCommand::kStretch;
    for (size_t stretch = 0; stretch < stretches_.size(); ++stretch) {
      command.count = static_cast<uint32_t>(stretch);
      TUNEFARM_RETURN_IF_FAILED(ObeyFrozen(command, stretches_[stretch] ? time : &ignored_time));
    }
    TUNEFARM_RETURN_IF_FAILED(problem_->FindDamage());
    v1::Verification ignored;
    Failure failure = problem_->Verify(pattern, &ignored);
    if (!failure && !loaded_->process->HasStood()) return RanBeforeItsTime();
    if (failure) {
      failure.message = variants_ > 0
                            ? "On other inputs than before: " + failure.message
                            : failure.message + " It was right before: the kernel keeps state between launches.";
    }
    return failure;
  }

  // Adds to the time.
  Failure ObeyFrozen(const TrialCommand& command, WitnessedTime* time) {
    WitnessedTime took;
    const TrialReply reply = loaded_->process->ObeyFrozen(
        command, BriefPhases::kBrief, [this] { phases_->Announce(); }, &took);
    time->wall_ns += took.wall_ns;
    time->waited_ns += took.waited_ns;
    time->busy_ns += took.busy_ns;
    time->others_busy_ns += took.others_busy_ns;
    return Explain(reply);
  }

  // In another process, and on the first variant: the time may depend on the inputs, and what follows is compared on
  // the same ones. This measurement takes the place of the one before.
  Failure SampleAgain() {
    is_begun_again_ = is_sampled_again_ = true;
    BeginPhase(v1::PHASE_MEASURE);
    TUNEFARM_RETURN_IF_FAILED(BeginProcess(variants_ > 0 ? problem_->variant_seed(0) : input().input_seed));
    loaded_->process->Thaw();
    TUNEFARM_RETURN_IF_FAILED(TakeSamples());
    TUNEFARM_RETURN_IF_FAILED(Freeze());
    // This process has seen it.
    next_variant_ = 1;
    BeginPhase(v1::PHASE_VERIFY);
    return {};
  }

  BriefPhases* const phases_;
  HostProblem* const problem_;
  TrialTools* const tools_;
  std::unique_ptr<LoadedTrial> loaded_;  // never null before Keep
  bool is_launching_ = false;            // the first launch was sent with the config
  TrialReply last_reply_;
  std::optional<PoisonPattern> last_poison_;  // of the outputs before the last sample
  // Of witnessed launches.
  std::vector<BufferPlan> buffer_plans_;
  std::vector<bool> stretches_;  // of the launch sequence
  bool has_prepare_ = false;
  int variants_ = 0, next_variant_ = 0;
  bool is_begun_again_ = false;    // in another process than the trial's
  bool is_sampled_again_ = false;  // the variants are reduced to the first
  PhiloxStream random_{NewSeed(EntropySource::Real())};
};

class HostRunBackend final : public RunBackend {
 public:
  explicit HostRunBackend(std::string scratch_directory)
      : tools_{static_cast<size_t>(FlushBytes()), std::move(scratch_directory), {}} {}

  std::string toolchain() const override { return "dlopen and libffi"; }

  Prepared Prepare(std::shared_ptr<const PreparedKernel> kernel, PhaseReporter* reporter) override {
    CleanUp();
    // The old problem's memory first: both may not fit.
    kept_.reset();
    problem_.reset();
    Prepared prepared;
    if (!unemptied_.empty() || (!is_checked_ && HasChanged())) {
      prepared.set_outcome(v1::OUTCOME_LOST);
      prepared.set_message(unemptied_.empty() ? "An earlier trial changed the runner." : unemptied_);
      prepared.set_worker_is_damaged(true);
      return prepared;
    }
    const uint64_t seed = kernel->input_seed;
    std::unique_ptr<HostProblem> problem;
    reporter->Begin(v1::PHASE_LOAD);
    Failure failure = HostProblem::Create(std::move(kernel), &problem);
    if (!failure) failure = problem->SelectInputs(seed);
    if (!failure) failure = problem->BuildVariants();
    if (problem != nullptr) prepared.set_footprint_bytes(problem->footprint_bytes());
    prepared.set_ok(!failure);
    if (failure) {
      prepared.set_outcome(failure.outcome);
      prepared.set_message(failure.message);
      prepared.set_worker_is_damaged(failure.sticky);
      prepared.set_is_killed(failure.is_killed);
      return prepared;
    }
    problem_ = std::move(problem);
    note_ = problem_->Note();
    return prepared;
  }

  Result Run(const RunInput& input, PhaseReporter* reporter) override {
    if (problem_ == nullptr) {
      Result result;
      result.set_outcome(v1::OUTCOME_LOST);
      result.set_message("The runner has no prepared problem.");
      return result;
    }
    CleanUp();
    if (!unemptied_.empty()) {
      Result result;
      result.set_outcome(v1::OUTCOME_LOST);
      result.set_message(unemptied_);
      result.set_worker_is_damaged(true);
      return result;
    }
    BriefPhases phases(reporter);
    HostTrial trial(problem_.get(), input, &phases, &tools_, std::move(kept_));
    Result result = trial.Run();
    if (result.outcome() == v1::OUTCOME_OK) result.set_message(note_);
    kept_ = trial.Keep(result.outcome() == v1::OUTCOME_OK || result.outcome() == v1::OUTCOME_NOISY);
    is_clean_ = false;
    is_checked_ = false;
    // Trials that share a process share a check too: it costs a tenth of the shortest ones. They are of one study.
    const bool shares_process = kept_ != nullptr && kept_->keeps_process;
    if (shares_process && Clock::Real()->Now() - checked_ < kCheckPause) return result;
    if (HasChanged()) result.set_worker_is_damaged(true);
    return result;
  }

  void CleanUp() override {
    if (is_clean_) return;
    is_clean_ = true;
    if (kept_ != nullptr && !kept_->keeps_process) kept_->process = nullptr;
    if (const absl::Status emptied = EmptyScratchDirectory(tools_.scratch_directory); !emptied.ok()) {
      unemptied_ = fmt::format("The scratch directory of an earlier trial cannot be emptied: {}.", MessageOf(emptied));
      fmt::print(stderr, "{} Another runner takes this one's place.\n", unemptied_);
    }
  }

 private:
  // Whether trials have changed the runner; then another one has to take its place.
  bool HasChanged() {
    is_checked_ = true;
    checked_ = Clock::Real()->Now();
    const std::string_view changed = state_.FirstDifference(RunnerState::Now());
    if (!changed.empty()) {
      fmt::print(stderr, "the runner's {} was changed by a trial; another runner takes its place\n", changed);
    }
    return !changed.empty();
  }

  TrialTools tools_;
  const RunnerState state_ = RunnerState::Now();  // as the sandbox set it; nothing of ours changes it
  std::unique_ptr<HostProblem> problem_;
  std::string note_;                   // of its results that are OK
  std::unique_ptr<LoadedTrial> kept_;  // after the problem, whose memory it points into
  bool is_clean_ = true;
  bool is_checked_ = true;  // since the last trial
  std::string unemptied_;   // why the scratch directory holds files of an earlier trial; empty: it does not
  MonotonicTime checked_{};
};

}  // namespace

absl::StatusOr<std::unique_ptr<RunBackend>> MakeHostRunBackend(const WorkerOptions& options) {
  // What a trial's processes leave behind comes back to us to be killed, however it detached itself.
  if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) {
    return FailedPrecondition("the host runner cannot become the reaper of its trials' processes");
  }
  return std::make_unique<HostRunBackend>(options.scratch_directory);
}

}  // namespace tunefarm
