#include "server/worker/host/host_witness.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "server/base/clock.h"
#include "server/base/format.h"
#include "server/worker/host/cache_flush.h"
#include "server/worker/host/trial_failure.h"

namespace tunefarm {
namespace {

// What only a first launch pays, and for each helper what it takes to wake up.
constexpr double kSlackNs = 50'000, kSlackPerHelperNs = 3'000;
// Where caches are not made cold: what of a byte is not as warm as in samples. The processor that a kernel with one
// thread begins on has read it before; helpers fetch what another core has written.
constexpr double kSlackPerTouchedByteNs = 0.1, kSlackPerByteNs = 1;
constexpr double kCacheSlackMaxNs = 5e6;
// A launch may find page tables in no cache, other than samples, which have just used them: at most some 100 ns for
// each page of 4 KiB, of a guest and of its host together.
constexpr double kPageTablesPerByteMaxNs = 0.03;
// Where caches are cold: what page tables cost that launches of nothing, which only read, do not show. 50 ns for each
// page.
constexpr double kSlackPerColdByteNs = 0.012;

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

}  // namespace

WitnessSlack HostSlack(bool is_cold, size_t buffer_bytes) {
  WitnessSlack slack{.ns = kSlackNs, .per_helper_ns = kSlackPerHelperNs};
  const auto bytes = static_cast<double>(buffer_bytes);
  slack.memory_overhead_max_ns = std::min(kPageTablesPerByteMaxNs * bytes, kCacheSlackMaxNs);
  if (is_cold) {
    slack.ns += std::min(kSlackPerColdByteNs * bytes, kCacheSlackMaxNs);
  } else {
    const double touched_ns = std::min(kSlackPerTouchedByteNs * bytes, kCacheSlackMaxNs);
    slack.ns += touched_ns;
    slack.shared_ns = std::min(kSlackPerByteNs * bytes, kCacheSlackMaxNs) - touched_ns;
  }
  return slack;
}

Failure FailureOf(const WitnessVerdict& verdict, bool is_repeatable) {
  if (verdict.failure) return verdict.failure;
  if (verdict.unsettled) {
    return {v1::OUTCOME_LOST,
            fmt::format("The machine is too busy with something else to check the time: the kernel's samples say {} "
                        "for a launch, {} launches that were timed from outside of its process took {} and more, and "
                        "waits for a processor or other delays may be the reason.",
                        FormatDuration(verdict.claimed_ns), verdict.launches, FormatDuration(verdict.witnessed_ns))};
  }
  if (!verdict.contradicted) return {};
  const std::string why = is_repeatable
                              ? "the samples are false"
                              : "samples run on what the launch before has left, since a buffer that is read and "
                                "written is not restored (RESTORE_PER_SAMPLE), or they are false";
  return {v1::OUTCOME_WRONG_RESULT,
          fmt::format("Its samples say {} for a launch, but the shortest of {} launches that were timed from outside "
                      "of its process took {}: {}.",
                      FormatDuration(verdict.claimed_ns), verdict.launches, FormatDuration(verdict.witnessed_ns), why)};
}

Failure HostWitness::Hear(double claimed_ns) {
  variants_ = trial_.problem->VariantCount();
  TUNEFARM_RETURN_IF_FAILED(Freeze());
  processor_ = process().Processor();
  // Where trials share a process, this one has seen the variants of inputs in a trial before.
  std::unique_ptr<TrialProcess> shared;
  if (trial_.shares_process) {
    shared = std::move(trial_.loaded->process);
    TUNEFARM_RETURN_IF_FAILED(BeginProcess(trial_.input_seed));
  }
  WitnessVerdict verdict = HearLaunches(claimed_ns);
  SpareThreads();
  off_.reset();
  // The buffers are its own too.
  if (!verdict.failure && shared != nullptr && !shared->HasStood()) verdict.failure = RanBeforeItsTime();
  if (is_begun_again_) {
    // What was forked for this trial serves no other.
    trial_.loaded->Drop();
    trial_.loaded->trials = 0;
  } else if (shared != nullptr) {
    trial_.loaded->process = std::move(shared);
    process().Thaw();
  }
  if (verdict.failure) return verdict.failure;
  TUNEFARM_RETURN_IF_FAILED(trial_.problem->SelectInputs(trial_.input_seed));
  return FailureOf(verdict, trial_.problem->IsRepeatable());
}

int HostWitness::TimedStretches() const {
  return static_cast<int>(std::count(trial_.stretches->begin(), trial_.stretches->end(), true));
}

WitnessVerdict HostWitness::HearLaunches(double claimed_ns) {
  WitnessCalls calls;
  // Each stretch is commanded by itself.
  calls.commands_per_launch = TimedStretches();
  calls.prepare = [this] { return Prepare(); };
  calls.launch = [this](WitnessedTime* time) { return Launch(time); };
  calls.overhead = [this](double* ns) { return MeasureOverhead(ns); };
  calls.launch_nothing = [this](double busy_ns, WitnessedTime* time) { return LaunchNothing(busy_ns, time); };
  calls.sample_again = [this](double* median_ns) { return SampleAgain(median_ns); };
  const WitnessSlack slack = HostSlack(is_cold(), BytesOf(trial_.loaded->buffers));
  return HearWitnesses(claimed_ns, slack, *Clock::Real(), calls);
}

Failure HostWitness::MeasureOverhead(double* ns) {
  const absl::StatusOr<double> idle_ns = trial_.overhead->Idle();
  if (!idle_ns.ok()) return TrialNotStarted(idle_ns.status());
  *ns = *idle_ns;
  return {};
}

// Like the trial's process.
Failure HostWitness::StartNothing() {
  NothingOptions options;
  options.threads = process().ThreadCount();
  if (HasProcessor()) {
    options.processor = processor_;
    options.memory = trial_.loaded->program.flush_memory;
    options.flush_bytes = trial_.flush_bytes;
  }
  std::unique_ptr<NothingProcess>& nothing = trial_.loaded->nothing;
  if (nothing != nullptr && nothing->options() == options) return {};
  nothing = nullptr;
  absl::StatusOr<std::unique_ptr<NothingProcess>> started = NothingProcess::Start(options);
  if (!started.ok()) return TrialNotStarted(started.status());
  nothing = *std::move(started);
  MakeColdAgain();
  return {};
}

Failure HostWitness::LaunchNothing(double busy_ns, WitnessedTime* time) {
  TUNEFARM_RETURN_IF_FAILED(StartNothing());
  // The verdict counts its overhead once for each stretch.
  const absl::StatusOr<WitnessedTime> took = trial_.loaded->nothing->Launch(busy_ns, 1.0 / TimedStretches());
  if (!took.ok()) return TrialNotStarted(took.status());
  *time = *took;
  MakeColdAgain();
  return {};
}

// Where a process has read the buffers.
void HostWitness::MakeColdAgain() {
  const bool has_read = !trial_.loaded->nothing->options().memory.empty();
  if (is_cold() && has_read) FlushFor(trial_.loaded->buffers, trial_.flush_bytes);
}

// Into the caches of the trial's processor.
Failure HostWitness::ReadBuffers() {
  TUNEFARM_RETURN_IF_FAILED(StartNothing());
  const absl::Status read = trial_.loaded->nothing->Read();
  return read.ok() ? Failure() : TrialNotStarted(read);
}

// Processors may differ in their speed: where hardware threads share a core with something else, of a virtual machine,
// or by their kind. The runner leaves the processor to the trial, which otherwise would wait for it or go elsewhere.
Failure HostWitness::GoToProcessor() {
  off_.reset();
  if (!HasProcessor()) return {};
  off_.emplace(processor_);
  if (process().Processor() == processor_) return {};
  TrialCommand command;
  command.kind = TrialCommand::kMove;
  command.count = static_cast<uint32_t>(processor_);
  WitnessedTime untimed;
  return Obey(command, &untimed);
}

// For a launch that is the first on its inputs: the process does not run while outputs are poisoned, other inputs take
// the place of those before, and caches are made cold.
Failure HostWitness::Prepare() {
  HostProblem& problem = *trial_.problem;
  if (variants_ > 0 && next_variant_ == (is_sampled_again_ ? 1 : variants_)) {
    is_begun_again_ = true;
    TUNEFARM_RETURN_IF_FAILED(BeginProcess(trial_.input_seed));
  }
  // Before there is anything new to see.
  TUNEFARM_RETURN_IF_FAILED(GoToProcessor());
  if (variants_ > 0) {
    problem.SelectVariant(next_variant_++);
    // The sizes are those that the process has; their data are the variant's.
    TUNEFARM_RETURN_IF_FAILED(problem.ResizeScratch(*trial_.buffers));
  }
  pattern_ = DrawPattern(&random_);
  problem.Reset(pattern_);
  return PrepareCaches();
}

// From outside.
Failure HostWitness::Launch(WitnessedTime* time) {
  HostProblem& problem = *trial_.problem;
  *time = WitnessedTime();
  time->ran_through = true;
  const int threads = process().ThreadCount();
  TrialCommand command;
  command.kind = TrialCommand::kStretch;
  for (size_t stretch = 0; stretch < trial_.stretches->size(); ++stretch) {
    command.count = static_cast<uint32_t>(stretch);
    WitnessedTime untimed;
    TUNEFARM_RETURN_IF_FAILED(Obey(command, (*trial_.stretches)[stretch] ? time : &untimed));
  }
  time->helpers = std::min(threads, process().ThreadCount()) - 1;
  time->elsewhere = HasProcessor() && process().Processor() != processor_;
  TUNEFARM_RETURN_IF_FAILED(problem.FindDamage());
  v1::Verification ignored;
  Failure failure = problem.Verify(pattern_, &ignored);
  if (!failure && !process().HasStood()) return RanBeforeItsTime();
  if (failure) {
    failure.message = variants_ > 0
                          ? "On other inputs than before: " + failure.message
                          : failure.message + " It was right before: the kernel keeps state between launches.";
  }
  return failure;
}

// The prepare steps, then caches as before samples.
Failure HostWitness::PrepareCaches() {
  TrialCommand command;
  WitnessedTime untimed;
  if (trial_.has_prepare) {
    command.kind = TrialCommand::kPrepare;
    TUNEFARM_RETURN_IF_FAILED(Obey(command, &untimed));
  }
  if (is_cold()) {
    FlushFor(trial_.loaded->buffers, trial_.flush_bytes);
    return {};
  }
  // Not by the trial's own process: a handler of a signal would see the inputs as soon as that runs.
  return HasProcessor() ? ReadBuffers() : Failure();
}

// Adds to the time.
Failure HostWitness::Obey(const TrialCommand& command, WitnessedTime* time) {
  WitnessedTime took;
  const TrialReply reply = process().ObeyFrozen(
      command, BriefPhases::kBrief, [this] { trial_.phases->Announce(); }, &took);
  time->wall_ns += took.wall_ns;
  time->waited_ns += took.waited_ns;
  time->busy_ns += took.busy_ns;
  time->others_busy_ns += took.others_busy_ns;
  time->ran_through = time->ran_through && took.ran_through;
  return KernelFailureOf(reply, *trial_.problem);
}

// In another process, and on the first variant: the time may depend on the inputs, and what follows is compared on the
// same ones.
Failure HostWitness::SampleAgain(double* median_ns) {
  is_begun_again_ = is_sampled_again_ = true;
  calls_.begin_phase(v1::PHASE_MEASURE);
  TUNEFARM_RETURN_IF_FAILED(BeginProcess(variants_ > 0 ? trial_.problem->variant_seed(0) : trial_.input_seed));
  process().Thaw();
  TUNEFARM_RETURN_IF_FAILED(calls_.take_samples(median_ns));
  TUNEFARM_RETURN_IF_FAILED(Freeze());
  processor_ = process().Processor();
  // This process has seen it.
  next_variant_ = 1;
  calls_.begin_phase(v1::PHASE_VERIFY);
  return {};
}

// A process that has seen these inputs and nothing else, frozen.
Failure HostWitness::BeginProcess(uint64_t input_seed) {
  SpareThreads();
  // The process is forked off this one.
  off_.reset();
  next_variant_ = 0;
  TUNEFARM_RETURN_IF_FAILED(calls_.restart(input_seed));
  return Freeze();
}

// Of the limit on processes and threads, which counts those of all of the runner's processes.
void HostWitness::SpareThreads() {
  std::unique_ptr<NothingProcess>& nothing = trial_.loaded->nothing;
  if (nothing != nullptr && nothing->options().threads > 1) nothing = nullptr;
}

Failure HostWitness::Freeze() {
  if (process().Freeze()) return {};
  // What it may have said in advance says nothing.
  Failure failure = KernelFailureOf(process().Await(), *trial_.problem);
  if (!failure) failure = {v1::OUTCOME_RUN_CRASH, "The kernel ended its process between two launches."};
  return failure;
}

}  // namespace tunefarm
