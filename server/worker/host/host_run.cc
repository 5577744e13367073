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
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/worker/backend.h"
#include "server/worker/host/host_problem.h"
#include "server/worker/host/host_topology.h"
#include "server/worker/host/loaded_trial.h"
#include "server/worker/host/scratch_directory.h"
#include "server/worker/host/trial_process.h"
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

class HostTrial final : public TrialPhases {
 public:
  // `kept`: what the trial before has left to be used again; may be null.
  HostTrial(HostProblem* problem, const RunInput& input, PhaseReporter* reporter, int64_t flush_bytes,
            std::unique_ptr<LoadedTrial> kept)
      : TrialPhases(input, reporter),
        problem_(problem),
        flush_bytes_(static_cast<size_t>(flush_bytes)),
        loaded_(kept != nullptr ? std::move(kept) : std::make_unique<LoadedTrial>()) {}

  // After Run: its process, if it may serve another trial, and its library.
  std::unique_ptr<LoadedTrial> Keep(bool ended_well) {
    if (!ended_well || !shares_process() || loaded_->trials % kTrialsPerProcessMax == 0) loaded_->process = nullptr;
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
    TrialSteps steps;
    TUNEFARM_RETURN_IF_FAILED(PlanSteps(&steps));
    result().mutable_resources()->set_binary_bytes(static_cast<int64_t>(artifact.size()));
    const std::string config = kernel.plan->ToProto(input().config).SerializeAsString();
    const bool serves = !input().baseline && config.size() <= kTrialConfigBytesMax &&
                        loaded_->Serves(artifact, lowered_names, input_seed, problem_->Views());
    if (!serves) return StartProcess(artifact, lowered_names, input_seed, std::move(steps));
    ++loaded_->trials;
    problem_->Reset(PoisonPattern::kFirst);
    if (loaded_->process == nullptr) loaded_->process = std::move(loaded_->next);
    if (loaded_->process == nullptr) TUNEFARM_RETURN_IF_FAILED(Fork(&loaded_->process));
    loaded_->process->SendConfig(config);
    // While this one loads, which is not measured; nothing is gained where trials differ in their binaries.
    if (!shares_process() && loaded_->next == nullptr) TUNEFARM_RETURN_IF_FAILED(Fork(&loaded_->next));
    return Explain(loaded_->process->Await());
  }

  // A process that waits for a config.
  Failure Fork(std::unique_ptr<TrialProcess>* process) {
    loaded_->program.load_at_start = false;
    absl::StatusOr<std::unique_ptr<TrialProcess>> forked = TrialProcess::Start(loaded_->program);
    if (!forked.ok()) return {v1::OUTCOME_LOST, std::string(MessageOf(forked.status())) + "."};
    *process = *std::move(forked);
    return {};
  }

  Failure StartProcess(const std::string& artifact, const std::map<std::string, std::string>& lowered_names,
                       uint64_t input_seed, TrialSteps steps) {
    loaded_->Drop();
    TrialProgram& program = loaded_->program;
    if (artifact.empty()) {
      loaded_->library.Reset();
    } else if (!loaded_->library || loaded_->artifact != artifact) {
      absl::StatusOr<UniqueFd> library = OpenLibrary(artifact);
      if (!library.ok()) return {v1::OUTCOME_OUT_OF_MEMORY, std::string(MessageOf(library.status())) + "."};
      loaded_->library = *std::move(library);
    }
    loaded_->artifact = artifact;
    loaded_->input_seed = input_seed;
    loaded_->trials = input().baseline ? 0 : 1;
    program.library_fd = loaded_->library ? loaded_->library.get() : -1;
    program.lowered_names = lowered_names;
    program.symbols = artifact.empty() ? std::vector<TrialCopy>() : problem_->SymbolCopies();
    program.buffers = problem_->Views();
    program.restores = problem_->RestoreCopies();
    program.flush_bytes = flush_bytes_;
    program.load_at_start = true;
    program.prepare = std::move(steps.prepare);
    program.steps = std::move(steps.steps);
    // Runs in the child, which has the kernel since its fork.
    program.plan = [kernel = &problem_->kernel()](std::string_view config) { return StepsOf(*kernel, config); };
    problem_->Reset(PoisonPattern::kFirst);
    absl::StatusOr<std::unique_ptr<TrialProcess>> process = TrialProcess::Start(program);
    if (!process.ok()) return {v1::OUTCOME_LOST, std::string(MessageOf(process.status())) + "."};
    loaded_->process = *std::move(process);
    return Explain(loaded_->process->Await());
  }

  static absl::StatusOr<TrialSteps> StepsOf(const PreparedKernel& kernel, std::string_view serialized) {
    v1::Config proto;
    if (!proto.ParseFromArray(serialized.data(), static_cast<int>(serialized.size()))) {
      return InvalidArgument("a config of {} bytes cannot be parsed", serialized.size());
    }
    ASSIGN_OR_RETURN(const Config config, kernel.plan->ParseConfig(proto));
    return StepsOf(kernel, config, Sequence::kLaunches);
  }

  static absl::StatusOr<TrialSteps> StepsOf(const PreparedKernel& kernel, const Config& config, Sequence sequence) {
    const KernelPlan& plan = *kernel.plan;
    TrialSteps steps;
    ASSIGN_OR_RETURN(steps.steps, plan.Steps(sequence, kernel.problem, config, kernel.device_class));
    if (sequence == Sequence::kLaunches && plan.HasSequence(Sequence::kPreparePerConfig)) {
      ASSIGN_OR_RETURN(steps.prepare,
                       plan.Steps(Sequence::kPreparePerConfig, kernel.problem, config, kernel.device_class));
    }
    return steps;
  }

  Failure PlanSteps(TrialSteps* steps) {
    const PreparedKernel& kernel = problem_->kernel();
    const KernelPlan& plan = *kernel.plan;
    const Config config = input().baseline ? plan.DefaultConfig(kernel.problem) : input().config;
    const absl::StatusOr<std::vector<BufferPlan>> buffers = plan.Buffers(kernel.problem, config, kernel.device_class);
    if (!buffers.ok()) return Refused(buffers.status());
    TUNEFARM_RETURN_IF_FAILED(problem_->ResizeScratch(*buffers));
    const bool own_baseline = input().baseline && plan.HasSequence(Sequence::kBaseline);
    absl::StatusOr<TrialSteps> planned =
        StepsOf(kernel, config, own_baseline ? Sequence::kBaseline : Sequence::kLaunches);
    if (!planned.ok()) return Refused(planned.status());
    *steps = *std::move(planned);
    for (const StepPlan& step : steps->steps) {
      if (step.kind == StepPlan::Kind::kLibraryOp) {
        return {v1::OUTCOME_LOAD_ERROR, "The host has no library for this operation, so there is no baseline to time."};
      }
    }
    return {};
  }

  static Failure Refused(const absl::Status& status) {
    return {v1::OUTCOME_INFEASIBLE_LAUNCH, std::string(MessageOf(status)) + "."};
  }

  // Load has made the buffers ready for the first: what the binary does to them while it loads is a finding too.
  Failure Launch(PoisonPattern pattern) override {
    if (pattern != PoisonPattern::kFirst) problem_->Reset(pattern);
    TrialCommand command;
    command.kind = TrialCommand::kLaunch;
    return Obey(command);
  }

  Failure Obey(const TrialCommand& command) {
    loaded_->process->Send(command);
    last_reply_ = loaded_->process->Await();
    return Explain(last_reply_);
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
    const MonotonicTime start = Clock::Real()->Now();
    const SamplingResult sampled =
        RunSampling(options, *Clock::Real(), [&](int launches, int) -> std::optional<TakenSample> {
          command.count = static_cast<uint32_t>(launches);
          failure = Obey(command);
          if (failure) return std::nullopt;
          return TakenSample{static_cast<double>(last_reply_.nanoseconds)};
        });
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

  HostProblem* const problem_;
  const size_t flush_bytes_;
  std::unique_ptr<LoadedTrial> loaded_;  // never null before Keep
  TrialReply last_reply_;
};

class HostRunBackend final : public RunBackend {
 public:
  explicit HostRunBackend(std::string scratch_directory)
      : flush_bytes_(FlushBytes()), scratch_directory_(std::move(scratch_directory)) {}

  std::string toolchain() const override { return "dlopen and libffi"; }

  Prepared Prepare(std::shared_ptr<const PreparedKernel> kernel, PhaseReporter* reporter) override {
    // The old problem's memory first: both may not fit.
    kept_.reset();
    problem_.reset();
    Prepared prepared;
    const uint64_t seed = kernel->input_seed;
    std::unique_ptr<HostProblem> problem;
    reporter->Begin(v1::PHASE_LOAD);
    Failure failure = HostProblem::Create(std::move(kernel), &problem);
    if (!failure) failure = problem->SelectInputs(seed);
    if (problem != nullptr) prepared.set_footprint_bytes(problem->footprint_bytes());
    prepared.set_ok(!failure);
    if (failure) {
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
      result.set_message("The runner has no prepared problem.");
      return result;
    }
    HostTrial trial(problem_.get(), input, reporter, flush_bytes_, std::move(kept_));
    Result result = trial.Run();
    kept_ = trial.Keep(result.outcome() == v1::OUTCOME_OK || result.outcome() == v1::OUTCOME_NOISY);
    EmptyScratchDirectory(scratch_directory_);
    return result;
  }

 private:
  const int64_t flush_bytes_;
  const std::string scratch_directory_;
  std::unique_ptr<HostProblem> problem_;
  std::unique_ptr<LoadedTrial> kept_;  // after the problem, whose memory it points into
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
