#include "server/jobs/submission.h"

#include <fmt/core.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "server/base/format.h"
#include "server/base/hash.h"
#include "server/base/random.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/jobs/finals.h"
#include "server/jobs/stopping_rule.h"
#include "server/jobs/study.h"
#include "server/measure/policy.h"
#include "server/measure/roofline.h"
#include "server/records/resource_names.h"
#include "server/search/strategy.h"
#include "server/space/space_limit.h"

namespace tunefarm {
namespace {

// Of the one draw that shows whether a space can be sampled.
constexpr uint64_t kSampleSeed = 1;

absl::Status OutOfBounds(std::string_view field, int64_t value, int64_t low, int64_t high, std::string_view reason) {
  return WithReason(InvalidArgument("{} is {}, it must be between {} and {}", field, value, low, high), reason);
}

struct Bound {
  std::string_view field;
  int64_t value, low, high;
  std::string_view reason;
};

absl::Status CheckStartingConfigs(const tunefarm::v1::Job& job) {
  if (job.starting_configs_size() > kStartingConfigsMax) {
    return WithReason(InvalidArgument("{} starting configs are given, at most {} are taken",
                                      job.starting_configs_size(), kStartingConfigsMax),
                      "JOB_INVALID");
  }
  for (int i = 0; i < job.starting_configs_size(); ++i) {
    const int problem = job.starting_configs(i).problem_index();
    if (problem >= 0 && problem < job.problems_size()) continue;
    return WithReason(InvalidArgument("starting_configs[{}].problem_index is {}, the job has {}", i, problem,
                                      FormatCount(job.problems_size(), "problem")),
                      "JOB_INVALID");
  }
  return absl::OkStatus();
}

absl::Status CheckLimits(const tunefarm::v1::Job& job) {
  const tunefarm::v1::MeasurementPolicy& policy = job.policy();
  const Bound bounds[] = {
      {"priority", job.priority(), -100, 100, "JOB_INVALID"},
      {"agent_losses_max", job.agent_losses_max() == 0 ? kAgentLossesMax : job.agent_losses_max(), kAgentLossesMax,
       1'000'000, "JOB_INVALID"},
      {"budget.max_trials", job.budget().max_trials(), 0, 1'000'000'000, "BUDGET_INVALID"},
      {"budget.max_seconds", job.budget().max_seconds(), 0, kBudgetSecondsMax, "BUDGET_INVALID"},
      {"budget.max_trials_without_gain", job.budget().max_trials_without_gain(), 0, 1'000'000'000, "BUDGET_INVALID"},
      {"policy.warmup_launches", policy.warmup_launches(), 0, 1000, "POLICY_INVALID"},
      {"policy.min_samples", policy.min_samples(), 0, 4096, "POLICY_INVALID"},
      {"policy.max_samples", policy.max_samples(), 0, 4096, "POLICY_INVALID"},
      {"policy.time_budget_ms", policy.time_budget_ms(), 0, 60'000, "POLICY_INVALID"},
      {"objective", job.objective(), 0, tunefarm::v1::OBJECTIVE_ENERGY_DELAY, "JOB_INVALID"},
      {"policy.finalists", policy.finalists(), 0, 32, "POLICY_INVALID"},
      {"policy.final_rounds", policy.final_rounds(), 0, kFinalRoundsMax, "POLICY_INVALID"},
      {"policy.first_look_samples", policy.first_look_samples(), 0, 4096, "POLICY_INVALID"},
      {"policy.input_copies", policy.input_copies(), 0, 16, "POLICY_INVALID"},
      {"policy.method", policy.method(), 0, tunefarm::v1::TIMING_METHOD_CUDA_GRAPH, "POLICY_INVALID"},
      {"policy.host_isolation", policy.host_isolation(), 0, tunefarm::v1::HOST_ISOLATION_SHARED_PROCESS,
       "POLICY_INVALID"},
      {"policy.preset", policy.preset(), 0, tunefarm::v1::MEASUREMENT_PRESET_RIGOROUS, "POLICY_INVALID"},
  };
  for (const Bound& bound : bounds) {
    if (bound.value < bound.low || bound.value > bound.high) {
      return OutOfBounds(bound.field, bound.value, bound.low, bound.high, bound.reason);
    }
  }
  RETURN_IF_ERROR(CheckBudget(job.budget()));
  if (policy.locked_clock_mhz() != 0) {
    if (policy.locked_clock_mhz() < kLockedClockMhzMin || policy.locked_clock_mhz() > kLockedClockMhzMax) {
      return WithReason(
          InvalidArgument("policy.locked_clock_mhz is {}, it must be 0 (the clock is not held) or between {} and {}",
                          policy.locked_clock_mhz(), kLockedClockMhzMin, kLockedClockMhzMax),
          "POLICY_INVALID");
    }
  }
  if (policy.max_samples() > 0 && policy.min_samples() > policy.max_samples()) {
    return WithReason(InvalidArgument("policy.min_samples is {}, above policy.max_samples, which is {}",
                                      policy.min_samples(), policy.max_samples()),
                      "POLICY_INVALID");
  }
  const double half_width = policy.target_relative_half_width();
  if (!(half_width >= 0 && half_width < 1)) {
    return WithReason(
        InvalidArgument("policy.target_relative_half_width is {}, it must be at least 0 and below 1", half_width),
        "POLICY_INVALID");
  }
  if (!(policy.min_clock_share() <= 1)) {
    return WithReason(
        InvalidArgument("policy.min_clock_share is {}, it must be at most 1; below 0 no sample is thrown away",
                        policy.min_clock_share()),
        "POLICY_INVALID");
  }
  if (std::isnan(policy.noisy_relative_half_width())) {
    return WithReason(InvalidArgument("policy.noisy_relative_half_width is not a number"), "POLICY_INVALID");
  }
  if (job.device_selector().size() > 256) {
    return WithReason(
        InvalidArgument("the device selector has {} bytes, at most 256 are taken", job.device_selector().size()),
        "JOB_INVALID");
  }
  if (job.label().size() > 256) {
    return WithReason(InvalidArgument("the label has {} bytes, at most 256 are kept", job.label().size()),
                      "JOB_INVALID");
  }
  // A label is stored as text, which has none in PostgreSQL.
  if (const size_t at = job.label().find('\0'); at != std::string::npos) {
    return WithReason(InvalidArgument("the label has a NUL character at byte {}", at), "JOB_INVALID");
  }
  if (job.strategy().options_size() > 32) {
    return WithReason(
        InvalidArgument("{} strategy options are given, at most 32 are taken", job.strategy().options_size()),
        "STRATEGY_INVALID");
  }
  if (job.problems_size() < 1 || job.problems_size() > kProblemsMax) {
    return WithReason(
        InvalidArgument("the job names {} problems, it must name 1 to {}", job.problems_size(), kProblemsMax),
        "PROBLEM_COUNT");
  }
  return CheckStartingConfigs(job);
}

// What the client set, without what is output only.
tunefarm::v1::Job ClientFields(const tunefarm::v1::Job& job) {
  tunefarm::v1::Job own;
  own.set_kernel(job.kernel());
  *own.mutable_problems() = job.problems();
  own.set_device_selector(job.device_selector());
  own.set_agent_losses_max(job.agent_losses_max());
  if (job.has_strategy()) *own.mutable_strategy() = job.strategy();
  if (job.has_budget()) *own.mutable_budget() = job.budget();
  if (job.has_policy()) *own.mutable_policy() = job.policy();
  own.set_priority(job.priority());
  own.set_retry_poisoned(job.retry_poisoned());
  own.set_label(job.label());
  own.set_required_isolation(job.required_isolation());
  own.set_no_promotion(job.no_promotion());
  own.set_promote_given(job.promote_given());
  own.set_no_memory(job.no_memory());
  own.set_objective(job.objective());
  *own.mutable_starting_configs() = job.starting_configs();
  return own;
}

std::string Deterministic(const google::protobuf::Message& message) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  message.SerializeToCodedStream(&coded);
  coded.Trim();
  return bytes;
}

// Whether a search may end before the whole space is tried, other than by a number of trials.
bool MayEndEarly(const tunefarm::v1::Budget& budget) {
  return budget.max_seconds() > 0 || budget.max_device_seconds() > 0 || budget.max_trials_without_gain() > 0 ||
         budget.stop_within_floor() > 0;
}

// Work of one launch sequence with the default config, and the least time that it can take on the device.
void AddWork(const KernelPlan& plan, const ResolvedProblem& problem, const SelectedDevice& device,
             tunefarm::v1::Study* study) {
  const Config config = plan.DefaultConfig(problem);
  RooflineInput input;
  input.flops = plan.Flops(problem, config, device.device_class);
  input.bytes = plan.Bytes(problem, config, device.device_class);
  const auto peak = device.peak_flops_by_unit.find(plan.FlopsUnit(problem));
  if (peak != device.peak_flops_by_unit.end()) input.flops_per_second = peak->second;
  input.bytes_per_second = device.peak_bytes_per_second;
  study->set_flops(input.flops);
  study->set_bytes(input.bytes);
  study->set_floor_ns(RooflineFloorNs(input));
}

absl::Status CheckClock(const tunefarm::v1::MeasurementPolicy& policy, const std::vector<SelectedDevice>& devices) {
  if (policy.locked_clock_mhz() == 0) return absl::OkStatus();
  for (const SelectedDevice& device : devices) {
    if (device.device_class.kind == DeviceKind::kCuda) continue;
    return WithReason(
        InvalidArgument("policy.locked_clock_mhz is {}, but {} is no CUDA GPU, whose clock could be held: leave it out",
                        policy.locked_clock_mhz(), device.device_class.display_name),
        "POLICY_INVALID");
  }
  return absl::OkStatus();
}

// One problem's study, and the size of its space.
struct CheckedProblem {
  StudyRow row;
  tunefarm::v1::SpaceSize size;
};

// Where not one of the points that were drawn was valid, a strategy may find none either.
absl::Status CheckSampling(const Space& space, const tunefarm::v1::SpaceSize& size, const std::string& problem_key) {
  if (!size.approximate() || size.valid() > 1) return absl::OkStatus();
  PhiloxStream random(kSampleSeed);
  const absl::Status sampled = space.SampleUniform(random).status();
  if (!absl::IsNotFound(sampled)) return sampled;
  return WithReason(InvalidArgument("{} has no valid config: {}", problem_key, space.ExplainEmpty()), "SPACE_EMPTY");
}

absl::Status CheckEnergy(const KernelPlan& plan, const tunefarm::v1::Job& job, const SelectedDevice& device) {
  if (!NeedsEnergy(job.objective()) && !job.policy().measure_energy()) return absl::OkStatus();
  const bool is_python = plan.kernel().language() == tunefarm::v1::LANGUAGE_PYTHON;
  if (device.device_class.kind == DeviceKind::kCuda && !is_python) return absl::OkStatus();
  return WithReason(
      InvalidArgument("the job needs the energy of {}, which is measured only of kernels in CUDA C++ and Triton on "
                      "NVIDIA GPUs; {}",
                      plan.display_name(),
                      is_python ? std::string("this one is in Python")
                                : fmt::format("{} is no such device", device.device_class.display_name)),
      "OBJECTIVE_UNSUPPORTED");
}

absl::StatusOr<CheckedProblem> CheckProblem(const KernelPlan& plan, const tunefarm::v1::Problem& problem,
                                            const tunefarm::v1::Job& job, const SelectedDevice& device, int number,
                                            const WorkLimit* limit, int problems_left) {
  ASSIGN_OR_RETURN(const ResolvedProblem resolved, plan.ResolveProblem(problem));
  RETURN_IF_ERROR(plan.CheckProblem(resolved, device.device_class));
  RETURN_IF_ERROR(CheckEnergy(plan, job, device));
  ASSIGN_OR_RETURN(const int64_t footprint,
                   plan.FootprintBytes(resolved, plan.DefaultConfig(resolved), device.device_class));
  if (device.memory_bytes > 0 && footprint > device.memory_bytes) {
    return WithReason(
        InvalidArgument("{} needs {} of memory with its reference and guard zones, {} has {}", resolved.key,
                        FormatBytes(static_cast<uint64_t>(footprint)), device.device_class.display_name,
                        FormatBytes(static_cast<uint64_t>(device.memory_bytes))),
        "PROBLEM_TOO_LARGE");
  }
  const auto share = std::make_shared<const WorkLimit>(limit, limit->Left() / problems_left);
  ASSIGN_OR_RETURN(const Space space, plan.BuildSpace(resolved, device.device_class, {.limit = share}));
  tunefarm::v1::Study summary;
  ASSIGN_OR_RETURN(*summary.mutable_space(), SizeOfSpace(space));
  if (summary.space().valid() == 0 && !summary.space().approximate()) {
    return WithReason(InvalidArgument("{} has no valid config: {}", resolved.key, space.ExplainEmpty()), "SPACE_EMPTY");
  }
  RETURN_IF_ERROR(CheckSampling(space, summary.space(), resolved.key));
  *summary.mutable_problem() = resolved.ToProto();
  summary.set_device_class_id(device.class_id);
  summary.set_device_class_name(device.device_class.display_name);
  AddWork(plan, resolved, device, &summary);
  RETURN_IF_ERROR(CheckBudgetApplies(job.budget(), summary.floor_ns(), resolved.key, device.device_class.display_name));
  StudyRow row;
  row.number = number;
  row.problem_key = resolved.key;
  row.problem = summary.problem().SerializeAsString();
  row.class_id = device.class_id;
  summary.set_device_selector(device.only);
  row.device_selector = device.only;
  row.toolkit = device.toolkit_version;
  row.detail = summary.SerializeAsString();
  return CheckedProblem{std::move(row), summary.space()};
}

}  // namespace

std::string SubmissionDigest(const tunefarm::v1::Job& job, const std::optional<tunefarm::v1::Kernel>& definition) {
  std::string bytes = Deterministic(ClientFields(job));
  if (definition.has_value()) bytes += Sha256(Deterministic(*definition)).Hex();
  return Sha256(bytes).Hex();
}

absl::StatusOr<Submission> CheckSubmission(const tunefarm::v1::Job& job,
                                           const std::optional<tunefarm::v1::Kernel>& definition,
                                           KernelRegistry* kernels, const DeviceDirectory& devices,
                                           const WorkGrant& grant) {
  RETURN_IF_ERROR(CheckLimits(job));
  Submission submission;
  if (definition.has_value() == !job.kernel().empty()) {
    return WithReason(InvalidArgument("{}", definition.has_value()
                                                ? "both job.kernel and a definition are given: give one of them"
                                                : "neither job.kernel nor a definition is given: give one of them"),
                      "JOB_INVALID");
  }
  if (definition.has_value()) {
    ASSIGN_OR_RETURN(submission.plan, KernelPlan::Compile(*definition));
    submission.stores_kernel = true;
  } else {
    ASSIGN_OR_RETURN(submission.plan, kernels->Get(job.kernel()));
  }
  const KernelPlan& plan = *submission.plan;
  submission.spec = ClientFields(job);
  if (NeedsEnergy(job.objective())) submission.spec.mutable_policy()->set_measure_energy(true);
  submission.spec.set_kernel(KernelName(plan.kernel_id()));
  submission.spec.set_kernel_name(plan.display_name());
  ASSIGN_OR_RETURN(const std::vector<SelectedDevice> selected, devices.Select(job.device_selector(), plan));
  RETURN_IF_ERROR(CheckClock(job.policy(), selected));
  if (selected.size() * static_cast<size_t>(job.problems_size()) > kStudiesMax) {
    return WithReason(InvalidArgument("{} problems for each of {} device classes are {} studies, at most {} are taken",
                                      job.problems_size(), selected.size(),
                                      selected.size() * static_cast<size_t>(job.problems_size()), kStudiesMax),
                      "PROBLEM_COUNT");
  }

  const std::shared_ptr<const WorkLimit> limit = MakeSpaceLimit(plan.display_name(), grant);
  std::map<std::string, int> numbers;
  std::vector<tunefarm::v1::SpaceSize> sizes;
  bool large = false;
  bool cut = MayEndEarly(job.budget());
  const int studies = static_cast<int>(selected.size()) * job.problems_size();
  for (int number = 1; number <= studies; ++number) {
    const int i = (number - 1) % job.problems_size();
    const SelectedDevice& device = selected[static_cast<size_t>((number - 1) / job.problems_size())];
    auto checked = CheckProblem(plan, job.problems(i), job, device, number, limit.get(), studies - number + 1);
    if (!checked.ok() && selected.size() > 1) {
      return Annotate(checked.status(), "problems[{}] on {}", i, device.device_class.display_name);
    }
    if (!checked.ok()) {
      return job.problems_size() == 1 ? checked.status() : Annotate(checked.status(), "problems[{}]", i);
    }
    const auto [same, inserted] = numbers.emplace(checked->row.class_id + " " + checked->row.problem_key, i);
    if (!inserted) {
      return WithReason(
          InvalidArgument("problems[{}] and problems[{}] are the same ({})", same->second, i, checked->row.problem_key),
          "JOB_INVALID");
    }
    if (job.strategy().strategy_name().empty()) {
      // Few enough that all of them are tried if nobody asks for anything else.
      const bool is_few =
          !checked->size.approximate() && checked->size.valid() <= static_cast<int64_t>(kExhaustiveByDefaultMax);
      large = large || !is_few;
      const int64_t trials = job.budget().max_trials();
      cut = cut || (is_few && trials > 0 && trials < checked->size.valid());
    }
    submission.studies.push_back(checked->row);
    sizes.push_back(std::move(checked->size));
  }
  auto* strategy = submission.spec.mutable_strategy();
  if (strategy->strategy_name().empty()) {
    // Where every config will be tried anyway their order says nothing; elsewhere the best should come early.
    strategy->set_strategy_name(large || cut ? std::string(kDefaultStrategy) : "exhaustive");
    const tunefarm::v1::Budget& budget = job.budget();
    const bool bounded = budget.max_trials() > 0 || budget.max_seconds() > 0 || budget.max_device_seconds() > 0 ||
                         budget.max_trials_without_gain() > 0;
    if (large && !bounded) submission.spec.mutable_budget()->set_max_trials(kDefaultTrials);
  }
  if (strategy->seed() == 0) strategy->set_seed(1);
  // What cannot work is refused now, as far as that is known without a list.
  const StrategyOptions strategy_options(strategy->options().begin(), strategy->options().end());
  for (const tunefarm::v1::SpaceSize& size : sizes) {
    const absl::Status works = CheckStrategy(strategy->strategy_name(), strategy_options,
                                             static_cast<uint64_t>(size.valid()), size.cartesian());
    if (!works.ok()) return WithReason(works, "STRATEGY_INVALID");
  }
  return submission;
}

}  // namespace tunefarm
