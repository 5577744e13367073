// What it is worth to a search that the store knows the same problem on another device: scores cold and warm, on
// recorded results. The other device's results go the way that a job's go: reported into a store, chosen and sampled
// for a study (jobs/prior_choice.h), put into their stored form and read back.
//
// Usage: warm_start [--strategy NAME] [--repeats N] RECORDING OTHER
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/jobs/prior_choice.h"
#include "server/jobs/prior_results.h"
#include "server/search/simulation.h"
#include "server/store/agent_store.h"
#include "server/store/device_store.h"
#include "server/store/job_store.h"
#include "server/store/store.h"
#include "server/store/study_store.h"
#include "server/store/unit_store.h"
#include "tests/bench/search/recording_file.h"
#include "tests/fakes/temporary_directory.h"

namespace tunefarm {
namespace {

void AddValue(const Value& value, tunefarm::v1::ValueList* list) {
  switch (value.type()) {
    case ValueType::kBool:
      list->add_bools(value.bool_value());
      break;
    case ValueType::kInt:
      list->add_ints(value.int_value());
      break;
    case ValueType::kFloat:
      list->add_doubles(value.float_value());
      break;
    case ValueType::kString:
      list->add_strings(value.string_value());
      break;
  }
}

// A definition with the parameters of a recording.
absl::StatusOr<std::shared_ptr<const KernelPlan>> PlanOf(const Recording& recording) {
  tunefarm::v1::Kernel kernel;
  kernel.set_display_name("recorded");
  kernel.set_language(tunefarm::v1::LANGUAGE_CUDA);
  auto* source = kernel.add_sources();
  source->set_path("recorded.cu");
  source->set_content("__global__ void recorded() {}");
  for (const Parameter& parameter : recording.space()->space().parameters()) {
    auto* declared = kernel.add_parameters();
    declared->set_name(parameter.name);
    for (const Value& value : parameter.values) AddValue(value, declared->mutable_values());
  }
  auto* launch = kernel.add_launches()->mutable_kernel();
  launch->set_entry("recorded");
  launch->add_grid("1");
  launch->add_block("32");
  kernel.set_unverified_reason("a recording");
  return KernelPlan::Compile(kernel);
}

// Stores the trials as a job's on the class.
absl::Status StoreTrials(const KernelPlan& plan, const ResolvedProblem& problem, const std::string& class_id,
                         const DeviceClass& device_class, const std::vector<RecordedTrial>& trials, Store* store) {
  RETURN_IF_ERROR(store->devices()->PutDevice({"device", class_id, "", 1},
                                              {class_id, class_id, device_class.ToProto().SerializeAsString()}));
  SubmitRequest submit;
  submit.kernel = KernelRow{plan.kernel_id(), plan.program_digest(), plan.display_name(), "", 1, ""};
  submit.job.uid = "job";
  submit.job.kernel_id = plan.kernel_id();
  StudyRow study;
  study.number = 1;
  study.problem_key = problem.key;
  study.problem = problem.ToProto().SerializeAsString();
  study.class_id = class_id;
  submit.job.studies = {study};
  submit.now_ms = 1;
  ASSIGN_OR_RETURN(const SubmitResult submitted, store->jobs()->SubmitJob(submit));
  ASSIGN_OR_RETURN(const JobRow job, store->jobs()->GetJob(submitted.job_id));
  ASSIGN_OR_RETURN(const int64_t epoch, store->agents()->RegisterAgent({"agent", "here", "", 0, 1}));
  constexpr size_t kUnit = 64;
  for (size_t first = 0; first < trials.size(); first += kUnit) {
    UnitRow unit;
    unit.first_ordinal = static_cast<int64_t>(first);
    unit.trial_count = static_cast<int>(std::min(kUnit, trials.size() - first));
    DriveStep step;
    step.study_id = job.studies[0].study_id;
    step.new_units = {unit};
    RETURN_IF_ERROR(store->studies()->Drive(step).status());
    ASSIGN_OR_RETURN(const auto claimed, store->units()->ClaimUnits({"agent", epoch, "device", class_id, 1, 1}));
    if (claimed.empty()) return Internal("the unit of trial {} cannot be claimed", first);
    ReportRequest report{"agent", epoch, claimed[0].unit.unit_id, claimed[0].unit.token, {}, true, 1, false};
    for (int i = 0; i < unit.trial_count; ++i) {
      const RecordedTrial& trial = trials[first + static_cast<size_t>(i)];
      const bool ok = trial.result.outcome == ToldOutcome::kOk;
      TrialRow row;
      row.ordinal = unit.first_ordinal + i;
      row.outcome = ok ? tunefarm::v1::OUTCOME_OK : tunefarm::v1::OUTCOME_COMPILE_ERROR;
      row.config = trial.config.ToText();
      row.median_ns = ok ? trial.result.objective_ns : 0;
      report.trials.push_back(std::move(row));
    }
    RETURN_IF_ERROR(store->units()->ReportTrials(report).status());
  }
  return absl::OkStatus();
}

absl::StatusOr<Priors> PriorsFrom(const Recording& recording, const std::string& path) {
  ASSIGN_OR_RETURN(const auto plan, PlanOf(recording));
  ASSIGN_OR_RETURN(const ResolvedProblem problem, plan->ResolveProblem({}));
  ASSIGN_OR_RETURN(const DeviceClass own, FindKnownClass("A100"));
  ASSIGN_OR_RETURN(const DeviceClass other, FindKnownClass("L40S"));
  const TemporaryDirectory directory;
  ASSIGN_OR_RETURN(const auto store, OpenSqliteStore({directory.path() + "/tunefarm.db", directory.path()}));
  ASSIGN_OR_RETURN(const auto trials, ReadRecordedTrials(path));
  RETURN_IF_ERROR(StoreTrials(*plan, problem, "other", other, trials, store.get()));
  PriorQuestion question;
  question.plan = plan.get();
  question.problem = &problem;
  question.device_class = &own;
  question.class_id = "own";
  ASSIGN_OR_RETURN(const ChosenPriors chosen, ChoosePriors(question, store.get()));
  Priors priors;
  for (size_t i = 0; i < chosen.rows.size(); ++i) {
    const auto& summary = chosen.summaries[i];
    fmt::print("{}: {} of {} results measured, {} failed, {} bytes\n", std::filesystem::path(path).filename().string(),
               summary.measured(), trials.size(), summary.failed(), chosen.rows[i].payload.size());
    ASSIGN_OR_RETURN(PriorSource source, DecodePrior(chosen.rows[i]));
    priors.push_back(std::move(source));
  }
  return priors;
}

absl::StatusOr<Score> ScoreOf(const std::string& strategy, const Recording& recording, const Priors& priors,
                              int repeats, double* after_first, double* after_ten) {
  const ScoreBasis basis(recording);
  SimulationOptions simulation;
  simulation.evaluations = basis.budget_evaluations();
  std::vector<SimulatedRun> runs;
  *after_first = *after_ten = 0;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    ASSIGN_OR_RETURN(const auto made,
                     MakeStrategy(strategy, {}, recording.space(), static_cast<uint64_t>(repeat) + 1, priors));
    ASSIGN_OR_RETURN(SimulatedRun run, Simulate(recording, simulation, made.get()));
    double best = 0;
    for (size_t i = 0; i < run.size() && i < 10; ++i) {
      const RecordedResult& result = recording.results()[run[i].row];
      if (result.outcome == ToldOutcome::kOk && (best == 0 || result.objective_ns < best)) best = result.objective_ns;
      if (i == 1 && best > 0) *after_first += best / basis.optimum() / repeats;
    }
    *after_ten += best / basis.optimum() / repeats;
    runs.push_back(std::move(run));
  }
  return ScoreOverEvaluations(recording, basis, runs);
}

absl::Status Run(const std::string& strategy, int repeats, const std::string& path, const std::string& other) {
  ASSIGN_OR_RETURN(const Recording recording, ReadRecording(path));
  ASSIGN_OR_RETURN(const Priors priors, PriorsFrom(recording, other));
  double cold_first = 0, cold_ten = 0, warm_first = 0, warm_ten = 0;
  ASSIGN_OR_RETURN(const Score cold, ScoreOf(strategy, recording, {}, repeats, &cold_first, &cold_ten));
  ASSIGN_OR_RETURN(const Score warm, ScoreOf(strategy, recording, priors, repeats, &warm_first, &warm_ten));
  fmt::print(
      "{} {}: cold {:.3f} (of times {:.3f}, target reached {:.0f} %), warm {:.3f} ({:.3f}, {:.0f} %), gain {:+.3f}\n",
      recording.name(), strategy, cold.mean, cold.mean_of_times, 100 * cold.share_at_target, warm.mean,
      warm.mean_of_times, 100 * warm.share_at_target, warm.mean - cold.mean);
  fmt::print("  best over optimum after 2 evaluations: cold {:.3f}, warm {:.3f}; after 10: cold {:.3f}, warm {:.3f}\n",
             cold_first, warm_first, cold_ten, warm_ten);
  return absl::OkStatus();
}

}  // namespace
}  // namespace tunefarm

int main(int argc, char** argv) {
  std::string strategy(tunefarm::kDefaultStrategy), recording, other;
  int repeats = 50;
  CLI::App app("Scores a search on recorded results, without and with those of another device.");
  app.add_option("--strategy", strategy, "The strategy.");
  app.add_option("--repeats", repeats, "Runs of each, with seeds from 1 on.")->check(CLI::Range(1, 10000));
  app.add_option("recording", recording, "What is searched.")->required();
  app.add_option("other", other, "What is known.")->required();
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = tunefarm::Run(strategy, repeats, recording, other);
  if (status.ok()) return 0;
  fmt::print(stderr, "warm_start: {}\n", tunefarm::MessageOf(status));
  return 1;
}
