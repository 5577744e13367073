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
#include "server/worker/host/host_problem.h"
#include "server/worker/host/host_topology.h"
#include "server/worker/host/host_witness.h"
#include "server/worker/host/runner_state.h"
#include "server/worker/host/scratch_directory.h"
#include "server/worker/host/trial/brief_phases.h"
#include "server/worker/host/trial/launch_overhead.h"
#include "server/worker/host/trial/loaded_trial.h"
#include "server/worker/host/trial/sample_batches.h"
#include "server/worker/host/trial/trial_process.h"
#include "server/worker/host/trial_failure.h"
#include "server/worker/verify/sampling.h"
#include "server/worker/verify/trial_phases.h"

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
      const bool is_kept = loaded_->process != nullptr;
      if (config.size() <= kTrialConfigBytesMax && GetProcess()) {
        problem_->Reset(PoisonPattern::kFirst);
        return LoadConfig(config, /*ahead=*/!is_kept);
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

  // `ahead`: the next process is forked while this one loads, which is not measured, and is there before anything is.
  Failure LoadConfig(const std::string& config, bool ahead) {
    loaded_->process->SendConfig(config);
    is_launching_ = true;
    ahead = ahead && loaded_->next == nullptr && loaded_->source->Ask().ok();
    const TrialReply reply = Await();
    if (ahead) {
      absl::StatusOr<std::unique_ptr<TrialProcess>> next = loaded_->source->Take();
      if (next.ok()) loaded_->next = *std::move(next);
    }
    return KernelFailureOf(reply, *problem_);
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
    program.processes_max = loaded_->library ? problem_->trial_processes_max() : 0;
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
    return KernelFailureOf(Await(), *problem_);
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
    if (std::exchange(is_launching_, false)) return KernelFailureOf(Await(), *problem_);
    TrialCommand command;
    command.kind = TrialCommand::kLaunch;
    return Obey(command);
  }

  Failure Obey(const TrialCommand& command) {
    loaded_->process->Send(command);
    last_reply_ = Await();
    return KernelFailureOf(last_reply_, *problem_);
  }

  TrialReply Await() {
    return loaded_->process->Await(BriefPhases::kBrief, [this] { phases_->Announce(); });
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
      result().set_message(fmt::format("The time could not be established: {} between {:.0f} and {:.0f} ns.",
                                       FormatCount(measurement->samples(), "sample"), measurement->min_ns(),
                                       measurement->max_ns()));
    }
    return {};
  }

  Failure Witness() override {
    WitnessedTrial trial;
    trial.problem = problem_;
    trial.loaded = loaded_.get();
    trial.overhead = &tools_->overhead;
    trial.phases = phases_;
    trial.buffers = &buffer_plans_;
    trial.stretches = &stretches_;
    trial.has_prepare = has_prepare_;
    trial.shares_process = shares_process();
    trial.input_seed = input().input_seed;
    trial.flush_bytes = input().policy.warm_cache() ? 0 : tools_->flush_bytes;
    WitnessedTrialCalls calls;
    calls.restart = [this](uint64_t input_seed) { return Restart(input_seed); };
    calls.begin_phase = [this](v1::Phase phase) { BeginPhase(phase); };
    calls.take_samples = [this](double* median_ns) {
      Failure failure = TakeSamples();
      *median_ns = result().measurement().median_ns();
      return failure;
    };
    return HostWitness(trial, calls).Hear(result().measurement().median_ns());
  }

  // Another process, which has seen these inputs and nothing else.
  Failure Restart(uint64_t input_seed) {
    loaded_->process = nullptr;
    // What the process before may have left for this one.
    if (const absl::Status emptied = EmptyScratchDirectory(tools_->scratch_directory); !emptied.ok()) {
      return {v1::OUTCOME_LOST, fmt::format("The scratch directory cannot be emptied: {}.", MessageOf(emptied))};
    }
    TUNEFARM_RETURN_IF_FAILED(Load(input_seed));
    return Launch(PoisonPattern::kFirst);
  }

  BriefPhases* const phases_;
  HostProblem* const problem_;
  TrialTools* const tools_;
  std::unique_ptr<LoadedTrial> loaded_;  // never null before Keep
  bool is_launching_ = false;            // the first launch was sent with the config
  TrialReply last_reply_;
  std::optional<PoisonPattern> last_poison_;  // of the outputs before the last sample
  std::vector<BufferPlan> buffer_plans_;
  std::vector<bool> stretches_;  // of the launch sequence: whether each is timed
  bool has_prepare_ = false;
  PhiloxStream random_{NewSeed(EntropySource::Real())};
};

class HostRunBackend final : public RunBackend {
 public:
  explicit HostRunBackend(const WorkerOptions& options)
      : tools_{static_cast<size_t>(FlushBytes()), options.scratch_directory, {}},
        trial_processes_max_(options.trial_processes_max) {}

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
    Failure failure = HostProblem::Create(std::move(kernel), trial_processes_max_, &problem);
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
  const int64_t trial_processes_max_;
  const RunnerState state_ = RunnerState::Now();  // as the sandbox set it; what of ours changes it restores it
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
  return std::make_unique<HostRunBackend>(options);
}

}  // namespace tunefarm
