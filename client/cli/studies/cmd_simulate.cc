// simulate: strategies on results that were recorded before, in simulated time.

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "client/cli/commands.h"
#include "client/cli/help_format.h"
#include "client/cli/options/kernel_argument.h"
#include "client/cli/options/problem_options.h"
#include "client/cli/options/seed_option.h"
#include "client/cli/studies/chart_svg.h"
#include "client/cli/studies/recorded_source.h"
#include "server/base/format.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/search/simulation.h"

namespace tunefarm::cli {
namespace {

struct SimulateOptions {
  std::vector<std::string> files;  // or numbers of jobs, or kernels, each for itself
  std::vector<std::string> jobs;   // joined
  std::vector<std::string> strategies = {std::string(kDefaultStrategy), "random"};
  std::vector<std::string> options;  // NAME=VALUE
  std::string warm;
  std::string objective;  // of files
  std::string csv, plot;
  int study = 0;
  int repeats = 20;
  int in_flight = 1;
  uint64_t seed = 1;
};

// The newest job of a kernel that has ended.
absl::StatusOr<std::string> NewestJobOf(Session* session, const std::string& text) {
  ASSIGN_OR_RETURN(const KernelArgument kernel, ResolveKernelWithoutData(text, session->environment));
  ASSIGN_OR_RETURN(Connection* const connection, session->connection());
  v1::ListJobsRequest request;
  request.add_states(v1::JOB_STATE_SUCCEEDED);
  request.add_states(v1::JOB_STATE_CANCELLED);
  request.set_page_size(1000);
  do {
    ASSIGN_OR_RETURN(const v1::ListJobsResponse page,
                     Connection::Call(connection->tuning(), &v1::TuningService::StubInterface::ListJobs, request));
    for (const v1::Job& job : page.jobs()) {
      if (job.kernel_name() == kernel.name || job.kernel() == kernel.name) return job.name();
    }
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return NotFound("there is neither a file nor an ended job of a kernel '{0}'; run: tunefarm tune {1}", text,
                  ShellWord(text));
}

// A kernel's folder, or a word that is no file and has no ending, such as "matmul_host".
bool IsKernel(const std::string& text) {
  std::error_code error;
  if (std::filesystem::is_directory(text, error)) return true;
  return !std::filesystem::exists(text, error) && text.find_first_of("./") == std::string::npos;
}

absl::StatusOr<RecordedSource> FromText(Session* session, const std::string& text, const SimulateOptions& options) {
  std::error_code error;
  const bool is_job = text.find_first_not_of("0123456789") == std::string::npos || text.rfind("jobs/", 0) == 0;
  if (is_job && !std::filesystem::exists(text, error)) return FromJobs(session, {text}, options.study);
  if (!IsKernel(text)) {
    ASSIGN_OR_RETURN(const interchange::RecordedObjective objective, RecordedObjectiveOption(options.objective));
    return FromFile(session, text, objective);
  }
  ASSIGN_OR_RETURN(const std::string job, NewestJobOf(session, text));
  return FromJobs(session, {job}, options.study);
}

// All that the command line names, files first, then jobs.
absl::StatusOr<std::vector<RecordedSource>> ReadSources(Session* session, const SimulateOptions& options) {
  std::vector<RecordedSource> sources;
  for (const std::string& text : options.files) {
    ASSIGN_OR_RETURN(RecordedSource source, FromText(session, text, options));
    sources.push_back(std::move(source));
  }
  if (!options.jobs.empty()) {
    ASSIGN_OR_RETURN(RecordedSource source, FromJobs(session, options.jobs, options.study));
    sources.push_back(std::move(source));
  }
  if (sources.empty())
    return InvalidArgument("nothing to simulate on: give files or --job; see tunefarm simulate --help");
  for (const RecordedSource& source : sources) {
    if (!source.note.empty()) session->Note(source.note);
  }
  return sources;
}

absl::StatusOr<Priors> ReadPriors(Session* session, const SimulateOptions& options) {
  Priors priors;
  if (options.warm.empty()) return priors;
  ASSIGN_OR_RETURN(const RecordedSource warm, FromText(session, options.warm, options));
  PriorSource source;
  source.label = warm.name;
  for (const RecordedTrial& trial : warm.trials)
    source.results.push_back({trial.config, trial.result.outcome, trial.result.objective_ns});
  priors.push_back(std::move(source));
  return priors;
}

struct Scored {
  Score evaluations, time;
};

absl::StatusOr<Scored> ScoreStrategy(const std::string& strategy, const StrategyOptions& strategy_options,
                                     const SimulateOptions& options, const Recording& recording,
                                     const ScoreBasis& basis, const Priors& priors) {
  SimulationOptions simulation;
  simulation.in_flight = options.in_flight;
  simulation.evaluations = basis.budget_evaluations();
  simulation.seconds = basis.budget_seconds();
  std::vector<SimulatedRun> runs;
  for (int repeat = 0; repeat < options.repeats; ++repeat) {
    ASSIGN_OR_RETURN(const auto made, MakeStrategy(strategy, strategy_options, recording.space(),
                                                   options.seed + static_cast<uint64_t>(repeat), priors));
    ASSIGN_OR_RETURN(SimulatedRun run, Simulate(recording, simulation, made.get()));
    runs.push_back(std::move(run));
  }
  return Scored{ScoreOverEvaluations(recording, basis, runs), ScoreOverTime(recording, basis, runs)};
}

std::string CurvesToCsv(const std::string& strategy, const std::string& recording, std::string_view over,
                        const Score& score) {
  std::string text;
  for (const ScoreCurvePoint& point : score.curve) {
    text += fmt::format("{},\"{}\",{},{},{},{},{},{},{}\n", strategy, recording, over, point.at, point.baseline,
                        point.best_mean, point.performance, point.performance_low, point.performance_high);
  }
  return text;
}

ChartSeries CurveOf(const std::string& name, const Score& score) {
  ChartSeries curve;
  curve.name = name;
  for (const ScoreCurvePoint& point : score.curve) {
    curve.x.push_back(point.at);
    curve.y.push_back(point.performance);
    curve.y_low.push_back(point.performance_low);
    curve.y_high.push_back(point.performance_high);
  }
  return curve;
}

absl::StatusOr<StrategyOptions> ReadStrategyOptions(const std::vector<std::string>& texts) {
  StrategyOptions options;
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0)
      return InvalidArgument("--strategy-option {}: write NAME=VALUE", text);
    options[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return options;
}

absl::StatusOr<ExitCode> SimulateAll(Session* session, const SimulateOptions& options) {
  ASSIGN_OR_RETURN(const OutputFormat format, session->format());
  if (format == OutputFormat::kJson)
    return InvalidArgument("simulate has no json output; use --output csv, or --csv FILE for the curves");
  ASSIGN_OR_RETURN(const StrategyOptions strategy_options, ReadStrategyOptions(options.options));
  ASSIGN_OR_RETURN(const Priors priors, ReadPriors(session, options));
  ASSIGN_OR_RETURN(const std::vector<RecordedSource> sources, ReadSources(session, options));
  Table table({{"recording", false},
               {"configs", true},
               {"budget", true},
               {"strategy", false},
               {"score", true},
               {"±", true},
               {"score in time", true},
               {"±", true},
               {"at target", true}});
  std::string csv = "strategy,recording,over,at,baseline_ns,best_ns,performance,performance_low,performance_high\n";
  std::vector<Chart> charts;
  for (const RecordedSource& recorded : sources) {
    ASSIGN_OR_RETURN(const Recording recording, Recording::Make(recorded.name, recorded.trials));
    const ScoreBasis basis(recording);
    Chart chart{
        recorded.name, "", {"0: as random search, 1: the optimum"}, {{{"evaluations"}, {}}, {{"time (s)"}, {}}}};
    for (const std::string& strategy : options.strategies) {
      ASSIGN_OR_RETURN(const Scored scored,
                       ScoreStrategy(strategy, strategy_options, options, recording, basis, priors));
      table.AddRow({recorded.name, FormatCount(static_cast<int64_t>(recorded.trials.size())),
                    FormatCount(static_cast<int64_t>(basis.budget_evaluations())), strategy,
                    fmt::format("{:.3f}", scored.evaluations.mean), fmt::format("{:.3f}", scored.evaluations.deviation),
                    fmt::format("{:.3f}", scored.time.mean), fmt::format("{:.3f}", scored.time.deviation),
                    fmt::format("{:.0f} %", 100 * scored.evaluations.share_at_target)});
      csv += CurvesToCsv(strategy, recorded.name, "evaluations", scored.evaluations) +
             CurvesToCsv(strategy, recorded.name, "seconds", scored.time);
      chart.panels[0].series.push_back(CurveOf(strategy, scored.evaluations));
      chart.panels[1].series.push_back(CurveOf(strategy, scored.time));
    }
    charts.push_back(std::move(chart));
  }
  session->PrintTable(table, format);
  if (!options.csv.empty()) RETURN_IF_ERROR(session->WriteFile(options.csv, csv));
  if (!options.plot.empty()) RETURN_IF_ERROR(session->WriteFile(options.plot, ChartsToSvg(charts)));
  session->NoteWrapped(
      "The score is the mean over the budget (what random search needs to come within 5 % of the optimum, on the way "
      "from the median): 0 is as good as random search, 1 is the optimum at once.");
  return kExitOk;
}

}  // namespace

void AddSimulate(CLI::App* app, Session* session) {
  auto options = std::make_shared<SimulateOptions>();
  CLI::App* simulate =
      app->add_subcommand("simulate", "Compare search strategies on recorded results, in simulated time.");
  SetExample(simulate,
             "tunefarm simulate convolution_A100_T4.json.gz --repeats 50 --plot scores.svg --csv curves.csv\n"
             "tunefarm simulate matmul_host\n"
             "tunefarm simulate --job 17,18");
  simulate->add_option(
      "FILE", options->files,
      "T4 or Kernel Tuner cache files (also .gz), job numbers, or kernels (the newest job of each); each is "
      "simulated by itself.");
  simulate
      ->add_option("--job", options->jobs,
                   "Simulate on the results of a job, or on the joined results of several jobs of one kernel, problem "
                   "and device class. Strategies choose among the measured configs.")
      ->type_name("NUMBERS")
      ->delimiter(',')
      ->allow_extra_args(false);
  simulate->add_option("--strategy", options->strategies, "The strategies (default: default,random).")
      ->type_name("NAMES")
      ->delimiter(',')
      ->allow_extra_args(false);
  AddListOption(simulate, "--strategy-option", &options->options,
                "An option of the strategies, as tunefarm help strategies lists them. May be repeated.");
  simulate->add_option("--repeats", options->repeats, "Runs of each, with seeds from --seed on (default 20).")
      ->type_name("NUMBER")
      ->check(CLI::Range(1, 10'000));
  simulate->add_option("--seed", options->seed, "Seed of the first run (default 1).")
      ->type_name("NUMBER")
      ->check(CheckSeed);
  simulate->add_option("--in-flight", options->in_flight, "Concurrent evaluations, as on so many devices (default 1).")
      ->type_name("NUMBER")
      ->check(CLI::Range(1, 10'000));
  simulate->add_option("--study", options->study, "Which problem and device of a job, where it has several.")
      ->type_name("NUMBER")
      ->check(CLI::Range(1, 100'000));
  simulate
      ->add_option("--warm", options->warm,
                   "A file or job of another device or problem whose results the strategies start from.")
      ->type_name("SOURCE");
  AddRecordedObjectiveOption(simulate, &options->objective);
  simulate->add_option("--csv", options->csv, "Write the curves to this file.")->type_name("FILE");
  simulate->add_option("--plot", options->plot, "Draw the curves into this file, as SVG.")->type_name("FILE");
  simulate->callback([=] { session->command = [=] { return SimulateAll(session, *options); }; });
}

}  // namespace tunefarm::cli
