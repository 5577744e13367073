#include <fmt/core.h>
#include <sys/prctl.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "server/base/clock.h"
#include "server/base/status.h"
#include "server/worker/backend.h"
#include "server/worker/host/host_problem.h"
#include "server/worker/host/host_topology.h"
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
  HostTrial(HostProblem* problem, const RunInput& input, PhaseReporter* reporter, int64_t flush_bytes)
      : TrialPhases(input, reporter), problem_(problem) {
    program_.flush_bytes = static_cast<size_t>(flush_bytes);
  }

 private:
  Failure Load() override {
    TUNEFARM_RETURN_IF_FAILED(problem_->SelectInputs(input().input_seed));
    TUNEFARM_RETURN_IF_FAILED(PlanSteps());
    const PreparedKernel& kernel = problem_->kernel();
    // A baseline's own steps are compiled with the reference's binary unless it came with one.
    const bool use_reference = input().baseline && input().artifact.empty();
    const std::string& artifact = use_reference ? kernel.reference_artifact : input().artifact;
    program_.lowered_names = use_reference ? kernel.reference_lowered_names : input().lowered_names;
    if (!artifact.empty()) {
      absl::StatusOr<UniqueFd> library = OpenLibrary(artifact);
      if (!library.ok()) return {v1::OUTCOME_OUT_OF_MEMORY, std::string(MessageOf(library.status())) + "."};
      library_ = *std::move(library);
      program_.library_fd = library_.get();
      program_.symbols = problem_->SymbolCopies();
      result().mutable_resources()->set_binary_bytes(static_cast<int64_t>(artifact.size()));
    }
    program_.buffers = problem_->Views();
    program_.restores = problem_->RestoreCopies();
    problem_->Reset(PoisonPattern::kFirst);
    absl::StatusOr<std::unique_ptr<TrialProcess>> process = TrialProcess::Start(program_);
    if (!process.ok()) return {v1::OUTCOME_LOST, std::string(MessageOf(process.status())) + "."};
    process_ = *std::move(process);
    return Explain(process_->Await());
  }

  Failure PlanSteps() {
    const PreparedKernel& kernel = problem_->kernel();
    const KernelPlan& plan = *kernel.plan;
    const Config config = input().baseline ? plan.DefaultConfig(kernel.problem) : input().config;
    const absl::StatusOr<std::vector<BufferPlan>> buffers = plan.Buffers(kernel.problem, config, kernel.device_class);
    if (!buffers.ok()) return Refused(buffers.status());
    TUNEFARM_RETURN_IF_FAILED(problem_->ResizeScratch(*buffers));
    const bool own_baseline = input().baseline && plan.HasSequence(Sequence::kBaseline);
    absl::StatusOr<std::vector<StepPlan>> steps = plan.Steps(own_baseline ? Sequence::kBaseline : Sequence::kLaunches,
                                                             kernel.problem, config, kernel.device_class);
    if (!steps.ok()) return Refused(steps.status());
    program_.steps = *std::move(steps);
    for (const StepPlan& step : program_.steps) {
      if (step.kind == StepPlan::Kind::kLibraryOp) {
        return {v1::OUTCOME_LOAD_ERROR, "The host has no library for this operation, so there is no baseline to time."};
      }
    }
    if (own_baseline || !plan.HasSequence(Sequence::kPreparePerConfig)) return {};
    absl::StatusOr<std::vector<StepPlan>> prepare =
        plan.Steps(Sequence::kPreparePerConfig, kernel.problem, config, kernel.device_class);
    if (!prepare.ok()) return Refused(prepare.status());
    program_.prepare = *std::move(prepare);
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
    process_->Send(command);
    last_reply_ = process_->Await();
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
    const bool restore = !program_.restores.empty();
    TrialCommand command;
    command.kind = TrialCommand::kWarm;
    command.restore = restore ? 1 : 0;
    command.flush = policy.warm_cache() ? 0 : 1;
    Failure failure;
    const std::optional<double> warm_up_ns =
        RunWarmUp(policy, *Clock::Real(), [&](int launches) -> std::optional<double> {
          command.count = static_cast<uint32_t>(launches);
          failure = Obey(command);
          if (failure) return std::nullopt;
          return static_cast<double>(last_reply_.nanoseconds) / launches;
        });
    if (!warm_up_ns) return failure;
    const double launch_ns = *warm_up_ns;

    SamplingOptions options;
    options.policy = policy;
    options.keep_samples = input().keep_samples;
    options.launches_per_sample = LaunchesPerSample(launch_ns, kClockResolutionNs, restore || !policy.warm_cache());
    command.kind = TrialCommand::kSample;
    command.rehearse = policy.warm_cache() && launch_ns < kRehearseBelowNs ? 1 : 0;
    const SamplingResult sampled = RunSampling(options, *Clock::Real(), [&](int launches) -> std::optional<double> {
      command.count = static_cast<uint32_t>(launches);
      failure = Obey(command);
      if (failure) return std::nullopt;
      return static_cast<double>(last_reply_.nanoseconds);
    });
    if (failure) return failure;
    if (sampled.implausible) {
      return {v1::OUTCOME_RUN_CRASH, "The kernel's process reported times that cannot be: its memory is damaged."};
    }
    v1::Measurement* const measurement = result().mutable_measurement();
    *measurement = sampled.measurement;
    measurement->set_method(v1::TIMING_METHOD_STEADY_CLOCK);
    measurement->set_cold_cache(!policy.warm_cache());
    if (!sampled.established) {
      result().set_outcome(v1::OUTCOME_NOISY);
      result().set_message(fmt::format("The time could not be established: {} samples between {:.0f} and {:.0f} ns.",
                                       measurement->samples(), measurement->min_ns(), measurement->max_ns()));
    }
    return {};
  }

  HostProblem* const problem_;
  UniqueFd library_;
  TrialProgram program_;
  std::unique_ptr<TrialProcess> process_;  // after what it points to
  TrialReply last_reply_;
};

class HostRunBackend final : public RunBackend {
 public:
  HostRunBackend() : flush_bytes_(FlushBytes()) {}

  std::string toolchain() const override { return "dlopen and libffi"; }

  Prepared Prepare(std::shared_ptr<const PreparedKernel> kernel, PhaseReporter* reporter) override {
    // The old problem's memory first: both may not fit.
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
    return HostTrial(problem_.get(), input, reporter, flush_bytes_).Run();
  }

 private:
  const int64_t flush_bytes_;
  std::unique_ptr<HostProblem> problem_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RunBackend>> MakeHostRunBackend(const WorkerOptions&) {
  // What a trial's processes leave behind comes back to us to be killed, however it detached itself.
  if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) {
    return FailedPrecondition("the host runner cannot become the reaper of its trials' processes");
  }
  return std::make_unique<HostRunBackend>();
}

}  // namespace tunefarm
