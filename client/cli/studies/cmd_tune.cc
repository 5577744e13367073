// tune: submit, watch and show the best, in one. submit: the first part. run: one config, looked at closely.

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>

#include "client/cli/commands.h"
#include "client/cli/data/upload.h"
#include "client/cli/help_format.h"
#include "client/cli/misses/missing_problems.h"
#include "client/cli/misses/tune_misses.h"
#include "client/cli/options/budget_options.h"
#include "client/cli/options/kernel_argument.h"
#include "client/cli/options/measure_options.h"
#include "client/cli/options/problem_options.h"
#include "client/cli/options/seed_option.h"
#include "client/cli/options/starting_configs.h"
#include "client/cli/space_text.h"
#include "client/cli/studies/energy_table.h"
#include "client/cli/studies/job_names.h"
#include "client/cli/studies/recorded_source.h"
#include "client/cli/studies/report.h"
#include "client/cli/studies/single_trials.h"
#include "client/cli/studies/watch.h"
#include "server/base/format.h"
#include "server/base/random.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm::cli {
namespace {

struct SubmitOptions {
  std::string kernel;
  ProblemOptions problem;
  DataOptions data;
  std::string device;
  std::string strategy;
  std::vector<std::string> strategy_options;
  uint64_t seed = 0;
  std::string objective;  // empty: time
  BudgetOptions budget;
  MeasureOptions measure;
  int priority = 0;
  bool retry_poisoned = false;
  int agent_losses_max = 0;
  bool no_memory = false;
  bool no_promotion = false;
  bool promote = false;
  std::string required_isolation;
  std::string label;
  std::string starting_configs;
  std::string recorded_objective;
  bool missing_only = false;
  int rows = 10;
  MissesOptions misses;
};

// Problems that --missing-only looks at; at most kProblemsMax of them become one job.
constexpr size_t kGridMax = 10'000;

CLI::Option* AddKernelOption(CLI::App* command, SubmitOptions* options) {
  return command
      ->add_option("KERNEL", options->kernel,
                   "A kernel.pbtxt, a folder with one, a built-in kernel (matmul) or a stored one.")
      ->required();
}

void AddPythonOption(CLI::App* command, Session* session) {
  command
      ->add_option("--python", session->connect.python,
                   "The interpreter for kernels in Python, of a private daemon that this command starts (default: "
                   "python3 of PATH).")
      ->type_name("FILE");
}

void AddMeasureOptions(CLI::App* command, SubmitOptions* options) {
  command
      ->add_option("--device", options->device,
                   "Device UUID, class, name, 'cuda' or 'host' (default: the first ready one); label:KEY=VALUE or "
                   "agent:NAME: devices of these agents; all-classes: every class in the farm.")
      ->type_name("DEVICE");
  options->measure.AddTo(command);
}

void AddSearchOptions(CLI::App* command, SubmitOptions* options) {
  command
      ->add_option(
          "--strategy", options->strategy,
          "default, bayes, genetic, annealing, local, pack, exhaustive or random (if none is named: "
          "exhaustive up to 10,000 configs that the budget allows, else default); see tunefarm help strategies.")
      ->type_name("STRATEGY");
  AddListOption(command, "--strategy-option", &options->strategy_options,
                "An option of the strategy, as tunefarm help strategies lists them. May be repeated.");
  command->add_option("--seed", options->seed, "Seed of the strategy (default 1).")->check(CheckSeed);
  command
      ->add_option("--objective", options->objective,
                   "What the final decides by (default: time). The search goes by time in any case. Energy is measured "
                   "of finalists on NVIDIA GPUs, which takes about 16 s for each; only winners by time become the best "
                   "config.")
      ->type_name("time|energy|energy_delay")
      ->check(CLI::IsMember({"time", "energy", "energy_delay"}));
  options->budget.AddTo(command);
  command->add_option("--priority", options->priority, "Higher runs first, from -100 to 100.")
      ->check(CLI::Range(-100, 100));
  command->add_flag("--retry-poisoned", options->retry_poisoned, "Run configs again that are known to crash.");
  command
      ->add_option("--agent-losses-max", options->agent_losses_max,
                   "Exclude a config after so many agents were lost while they ran it (default and minimum: 3).")
      ->check(CLI::Range(3, 1'000'000));
  command->add_flag("--no-memory", options->no_memory, "Search without results of earlier jobs.");
  command
      ->add_option("--required-isolation", options->required_isolation,
                   "L1: reject the job where workers cannot be fully isolated (tunefarm status shows the level).")
      ->type_name("LEVEL");
  command->add_option("--label", options->label, "Free text shown in lists.");
  command->add_flag(
      "--missing-only", options->missing_only,
      "Leave out problems that have an exact best, so that repeating the command continues an interrupted batch.");
  command
      ->add_option(
          "--starting-configs", options->starting_configs,
          "Try these configs first: another machine's bests (export bests), a T4 file or a cache file of Kernel "
          "Tuner, also .gz. Without --dim the problems of a file of bests are tuned; --max-trials 1 only measures its "
          "configs.")
      ->type_name("FILE");
  AddRecordedObjectiveOption(command, &options->recorded_objective);
  command->add_flag("--promote", options->promote,
                    "Keep the winner as the best config also where --max-trials leaves no room for a search.");
}

v1::Objective ObjectiveOf(const SubmitOptions& options) {
  if (options.objective == "energy") return v1::OBJECTIVE_ENERGY;
  if (options.objective == "energy_delay") return v1::OBJECTIVE_ENERGY_DELAY;
  return options.objective.empty() ? v1::OBJECTIVE_UNSPECIFIED : v1::OBJECTIVE_TIME;
}

// All but the problems, the kernel and what is tried first.
absl::Status FillRequest(const SubmitOptions& options, v1::CreateJobRequest* request) {
  v1::Job* job = request->mutable_job();
  job->set_device_selector(options.device);
  job->mutable_strategy()->set_strategy_name(options.strategy);
  job->mutable_strategy()->set_seed(options.seed);
  for (const std::string& option : options.strategy_options) {
    const size_t equals = option.find('=');
    if (equals == std::string::npos) return InvalidArgument("--strategy-option {}: write NAME=VALUE", option);
    (*job->mutable_strategy()->mutable_options())[option.substr(0, equals)] = option.substr(equals + 1);
  }
  job->set_objective(ObjectiveOf(options));
  ASSIGN_OR_RETURN(*job->mutable_budget(), MakeBudget(options.budget));
  ASSIGN_OR_RETURN(*job->mutable_policy(), MakePolicy(options.measure));
  job->set_priority(options.priority);
  job->set_retry_poisoned(options.retry_poisoned);
  job->set_agent_losses_max(options.agent_losses_max);
  job->set_no_memory(options.no_memory);
  job->set_no_promotion(options.no_promotion);
  job->set_promote_given(options.promote);
  job->set_label(options.label);
  job->set_required_isolation(options.required_isolation);
  request->set_request_id(NewUuid(EntropySource::Real()));
  return absl::OkStatus();
}

// The problems of the command line; where it names none, those of a file of bests, with the same pins and seeds.
absl::StatusOr<std::vector<v1::Problem>> ProblemsOf(const SubmitOptions& options,
                                                    const std::optional<StartingConfigs>& starts) {
  const size_t most = options.missing_only ? kGridMax : kProblemsMax;
  ASSIGN_OR_RETURN(std::vector<v1::Problem> problems, MakeProblems(options.problem, most));
  if (!starts.has_value() || !starts->is_of_bests || !options.problem.dims.empty()) return problems;
  std::vector<v1::Problem> of_file = starts->Problems();
  if (of_file.size() > most) {
    return InvalidArgument(
        "{} has {} problems of the kernel, a job takes {}; choose some with --dim, or add --missing-only and repeat "
        "the command until all are done",
        starts->file, of_file.size(), kProblemsMax);
  }
  for (v1::Problem& problem : of_file) {
    *problem.mutable_pinned() = problems[0].pinned();
    *problem.mutable_input_seeds() = problems[0].input_seeds();
  }
  return of_file;
}

// Stores a definition that came from a file, and names it: what is known of its problems is asked by that name.
absl::StatusOr<std::string> StoredKernel(Session* session, const KernelArgument& kernel,
                                         const std::vector<DescribedFile>& files) {
  if (!kernel.definition.has_value()) return kernel.name;
  v1::CreateKernelRequest request;
  *request.mutable_kernel() = *kernel.definition;
  ASSIGN_OR_RETURN(Connection* const connection, session->connection());
  ASSIGN_OR_RETURN(const v1::CreateKernelResponse response, CallWithData(session, files, [&] {
                     return Connection::Call(connection->kernels(), &v1::KernelService::StubInterface::CreateKernel,
                                             request);
                   }));
  return response.kernel().name();
}

// Leaves those without an exact best, as many as a job takes, and says how many there were.
absl::Status KeepMissing(const Session& session, Connection* connection, const std::string& kernel,
                         const std::string& device, std::vector<v1::Problem>* problems) {
  const size_t all = problems->size();
  ASSIGN_OR_RETURN(*problems, MissingProblems(connection, kernel, device, *problems));
  const size_t missing = problems->size();
  const auto count = [](size_t number) { return FormatCount(static_cast<int64_t>(number)); };
  if (missing == 0) {
    session.Note(all == 1 ? "The problem has an exact best: nothing to do."
                          : fmt::format("All {} problems have an exact best: nothing to do.", count(all)));
  } else if (missing < all) {
    session.Note(fmt::format("Skipped {} of {} problems: {} an exact best.", count(all - missing), count(all),
                             all - missing == 1 ? "it has" : "they have"));
  }
  if (missing > kProblemsMax) {
    problems->resize(kProblemsMax);
    session.Note(
        fmt::format("{} of the {} others now; repeat the command for the rest.", kProblemsMax, count(missing)));
  }
  return absl::OkStatus();
}

// A stored kernel is asked of the daemon.
absl::StatusOr<std::shared_ptr<const KernelPlan>> PlanOf(Session* session, const KernelArgument& kernel) {
  if (kernel.definition.has_value()) return KernelPlan::Compile(*kernel.definition);
  ASSIGN_OR_RETURN(Connection* const connection, session->connection());
  v1::GetKernelRequest request;
  request.set_name(kernel.name);
  request.set_include_sources(true);
  ASSIGN_OR_RETURN(const v1::GetKernelResponse response,
                   Connection::Call(connection->kernels(), &v1::KernelService::StubInterface::GetKernel, request));
  return KernelPlan::Compile(response.kernel());
}

// Before they are uploaded: whether the data files have the sizes that the problems ask for.
absl::Status CheckFiles(const v1::Kernel& kernel, const std::vector<v1::Problem>& problems) {
  ASSIGN_OR_RETURN(const auto plan, KernelPlan::Compile(kernel));
  for (const v1::Problem& problem : problems) {
    ASSIGN_OR_RETURN(const ResolvedProblem resolved, plan->ResolveProblem(problem));
    RETURN_IF_ERROR(plan->CheckDataFiles(resolved));
  }
  return absl::OkStatus();
}

// A request without problems where nothing is left to do. *files: what its definition names.
absl::StatusOr<v1::CreateJobRequest> MakeRequest(Session* session, const SubmitOptions& options,
                                                 std::vector<DescribedFile>* files) {
  v1::CreateJobRequest request;
  RETURN_IF_ERROR(FillRequest(options, &request));
  v1::Job* const job = request.mutable_job();
  ASSIGN_OR_RETURN(KernelArgument kernel, ResolveKernelWithoutData(options.kernel, session->environment));
  ASSIGN_OR_RETURN(*files, DescribeData(session, options.data, &kernel));
  std::shared_ptr<const KernelPlan> plan;
  std::optional<StartingConfigs> starts;
  if (!options.starting_configs.empty()) {
    ASSIGN_OR_RETURN(plan, PlanOf(session, kernel));
    ASSIGN_OR_RETURN(const interchange::RecordedObjective objective,
                     RecordedObjectiveOption(options.recorded_objective));
    ASSIGN_OR_RETURN(starts, ReadStartingConfigs(*session, options.starting_configs, objective, *plan));
  }
  ASSIGN_OR_RETURN(std::vector<v1::Problem> problems, ProblemsOf(options, starts));
  if (!files->empty()) RETURN_IF_ERROR(CheckFiles(*kernel.definition, problems));
  if (options.missing_only) {
    ASSIGN_OR_RETURN(Connection* const connection, session->connection());
    ASSIGN_OR_RETURN(const std::string stored, StoredKernel(session, kernel, *files));
    job->set_kernel(stored);
    RETURN_IF_ERROR(KeepMissing(*session, connection, stored, options.device, &problems));
  } else if (kernel.definition.has_value()) {
    *request.mutable_kernel_definition() = *kernel.definition;
  } else {
    job->set_kernel(kernel.name);
  }
  for (v1::Problem& problem : problems) *job->add_problems() = std::move(problem);
  if (starts.has_value() && job->problems_size() > 0) AddStartingConfigs(*session, *starts, *plan, job);
  return request;
}

// Absent where nothing is left to do.
absl::StatusOr<std::optional<v1::Job>> Submit(Session* session, const SubmitOptions& options) {
  std::vector<DescribedFile> files;
  ASSIGN_OR_RETURN(const v1::CreateJobRequest request, MakeRequest(session, options, &files));
  if (request.job().problems_size() == 0) return std::optional<v1::Job>();
  ASSIGN_OR_RETURN(v1::Job job, CreateJob(session, files, request));
  return std::optional<v1::Job>(std::move(job));
}

// "Job 17 queued on NVIDIA H200: 1,248 configs (9,216 pruned to them)".
std::string QueuedText(const v1::Job& job) {
  std::string text = fmt::format("Job {} queued: {}", JobNumber(job.name()), Visible(job.kernel_name()));
  for (const v1::Study& study : job.studies()) {
    const v1::SpaceSize& space = study.space();
    text += fmt::format("\n  {} on {}: {} {}", Visible(study.problem().key()), Visible(study.device_class_name()),
                        ValidText(space), space.valid() == 1 ? "config" : "configs");
    const std::string all = CartesianText(space);
    if (all != ValidText(space)) text += fmt::format(" of {}", all);
    if (job.studies_size() > 4 && &study == &job.studies(3)) {
      text += fmt::format("\n  ... and {}", FormatCount(job.studies_size() - 4, "more problem"));
      break;
    }
  }
  return text;
}

// Says which other jobs want the same devices; as far as they are few and the daemon tells.
void NoteSharedDevices(Session* session, const v1::Job& job) {
  constexpr int kLookedAtMax = 20;
  const absl::StatusOr<Connection*> connection = session->connection();
  if (!connection.ok()) return;
  v1::ListJobsRequest request;
  request.set_page_size(kLookedAtMax);
  request.add_states(v1::JOB_STATE_QUEUED);
  request.add_states(v1::JOB_STATE_RUNNING);
  const auto active = Connection::Call((*connection)->tuning(), &v1::TuningService::StubInterface::ListJobs, request);
  if (!active.ok()) return;
  std::set<std::string> classes;
  for (const v1::Study& study : job.studies()) classes.insert(study.device_class_id());
  std::vector<std::string> others;
  for (const v1::Job& listed : active->jobs()) {
    const bool is_active = listed.state() == v1::JOB_STATE_QUEUED || listed.state() == v1::JOB_STATE_RUNNING;
    if (listed.name() == job.name() || !is_active) continue;
    v1::GetJobRequest get;
    get.set_name(listed.name());
    const auto other = Connection::Call((*connection)->tuning(), &v1::TuningService::StubInterface::GetJob, get);
    if (!other.ok()) continue;
    const auto& studies = other->job().studies();
    const bool is_shared = std::any_of(studies.begin(), studies.end(), [&](const v1::Study& study) {
      return study.state() != v1::STUDY_STATE_ENDED && classes.count(study.device_class_id()) > 0;
    });
    if (is_shared) others.push_back(JobNumber(listed.name()));
  }
  if (others.empty()) return;
  std::string numbers;
  for (const std::string& number : others) numbers += (numbers.empty() ? "" : ", ") + number;
  session->Note(fmt::format("{} {}: {}",
                            FormatCount(static_cast<int64_t>(others.size()), "other job shares", "other jobs share"),
                            classes.size() == 1 ? "this device" : "these devices", numbers));
}

absl::StatusOr<ExitCode> FollowToEnd(Session* session, const v1::Job& job, v1::Job* ended) {
  ASSIGN_OR_RETURN(const WatchOutcome outcome, WatchJob(session, job.name()));
  if (outcome.detached) return kExitInterrupted;
  *ended = outcome.job;
  return ExplainEnd(*session, outcome.job);
}

absl::StatusOr<ExitCode> Tune(Session* session, const SubmitOptions& options) {
  RETURN_IF_ERROR(session->format().status());
  if (options.kernel.empty()) return InvalidArgument("KERNEL is required; see tunefarm tune --help");
  ASSIGN_OR_RETURN(const std::optional<v1::Job> submitted, Submit(session, options));
  if (!submitted.has_value()) return kExitOk;
  const v1::Job& job = *submitted;
  session->Note(QueuedText(job));
  NoteSharedDevices(session, job);
  v1::Job ended;
  ASSIGN_OR_RETURN(const ExitCode code, FollowToEnd(session, job, &ended));
  if (code != kExitOk && code != kExitNoValidConfig) return code;
  RETURN_IF_ERROR(PrintResults(session, job.name(), {.rows = options.rows}));
  if (code == kExitOk && !NeedsEnergy(ended.objective())) {
    // With files of the command line it is a definition of its own.
    const std::string kernel = !options.data.empty()                           ? ended.kernel()
                               : options.kernel.find('/') == std::string::npos ? options.kernel
                                                                               : ended.kernel_name();
    const std::string next = "Ask again: tunefarm best " + ShellWord(kernel) + options.problem.ToText();
    // `best` is for one problem, whose dims are known here.
    const auto asked = MakeProblems(options.problem, kGridMax);
    const bool is_of_file = !options.starting_configs.empty() && options.problem.dims.empty();
    const bool is_grid = is_of_file || job.studies_size() > 1 || !asked.ok() || asked->size() > 1;
    session->Note(is_grid ? "All of them: tunefarm export csv --kernel " + ShellWord(kernel) : next);
  }
  return code;
}

absl::StatusOr<ExitCode> TuneWhatIsMissed(Session* session, const SubmitOptions& options) {
  v1::CreateJobRequest settings;
  std::vector<DescribedFile> files;
  RETURN_IF_ERROR(FillRequest(options, &settings));
  if (!options.kernel.empty()) {
    ASSIGN_OR_RETURN(KernelArgument kernel, ResolveKernelWithoutData(options.kernel, session->environment));
    ASSIGN_OR_RETURN(files, DescribeData(session, {}, &kernel));
    if (kernel.definition.has_value()) {
      *settings.mutable_kernel_definition() = *std::move(kernel.definition);
    } else {
      settings.mutable_job()->set_kernel(kernel.name);
    }
  }
  return TuneMisses(session, options.misses, settings, files);
}

absl::StatusOr<ExitCode> SubmitOnly(Session* session, const SubmitOptions& options) {
  ASSIGN_OR_RETURN(const OutputFormat format, session->format_without_csv());
  ASSIGN_OR_RETURN(const std::optional<v1::Job> submitted, Submit(session, options));
  if (!submitted.has_value()) return kExitOk;
  const v1::Job& job = *submitted;
  session->Note(QueuedText(job));
  session->Print(format == OutputFormat::kJson ? ToJson(job) : JobNumber(job.name()) + "\n");
  session->Note("Follow: tunefarm jobs watch " + JobNumber(job.name()));
  return kExitOk;
}

absl::StatusOr<ExitCode> Run(Session* session, SubmitOptions options, const std::vector<std::string>& settings) {
  ASSIGN_OR_RETURN(const OutputFormat format, session->format_without_csv());
  for (const std::string& setting : settings) {
    const size_t equals = setting.find('=');
    if (equals == std::string::npos || equals == 0) {
      return InvalidArgument("'{}' is no setting of a parameter; write NAME=VALUE", setting);
    }
  }
  options.problem.pins = settings;
  options.budget.max_trials = 1;
  options.no_promotion = !options.promote;
  options.retry_poisoned = true;
  options.measure.settings.emplace_back("no_reuse=true");  // what it did before is not what is asked
  ASSIGN_OR_RETURN(const std::optional<v1::Job> submitted, Submit(session, options));
  const v1::Job& job = submitted.value();  // of one problem, which is never left out
  ASSIGN_OR_RETURN(const TriedConfigs tried, FollowTrials(session, job.name()));
  if (tried.detached) return kExitInterrupted;
  const v1::Trial& trial = tried.trials.front();
  session->Print(format == OutputFormat::kJson ? ToJson(trial) : TrialText(trial));
  ProblemOptions problem = options.problem;
  problem.pins.clear();  // the trial's config has them all
  std::string again = "Reproduce: tunefarm run " + ShellWord(options.kernel) + problem.ToText();
  for (const std::string& input : options.data.inputs) again += " --input " + ShellWord(input);
  for (const std::string& expected : options.data.expected) again += " --expected " + ShellWord(expected);
  for (const auto& [name, value] :
       std::map<std::string, v1::Value>(trial.config().values().begin(), trial.config().values().end())) {
    again += " " + ShellWord(name + "=" + ValueText(value));
  }
  session->Note(again);
  return trial.outcome() == v1::OUTCOME_OK ? kExitOk : kExitNoValidConfig;
}

}  // namespace

void AddTune(CLI::App* app, Session* session) {
  auto options = std::make_shared<SubmitOptions>();
  CLI::App* tune = app->add_subcommand("tune", "Tune a kernel: submit, follow, show the ranked configs.");
  SetExample(tune,
             "tunefarm tune matmul_host\n"
             "tunefarm tune matmul --dim M=1024,2048 --dim N=4096 --dim K=4096 --dim dtype=bf16\n"
             "tunefarm tune grouped_gemm_forward --dim tokens=1..8192*2 --dim E=128 --missing-only\n"
             "tunefarm tune --misses --limit 20");
  AddKernelOption(tune, options.get())->required(false);
  options->problem.AddTo(tune, /*many=*/true);
  options->data.AddTo(tune);
  AddSearchOptions(tune, options.get());
  AddMeasureOptions(tune, options.get());
  tune->add_option("--rows", options->rows, "Configs shown at the end (default 10; 0: all).")
      ->check(CLI::Range(0, 1'000'000));
  options->misses.AddTo(tune);
  AddPythonOption(tune, session);
  tune->callback([session, options] {
    session->command = [session, options] {
      return options->misses.is_chosen ? TuneWhatIsMissed(session, *options) : Tune(session, *options);
    };
  });

  auto submit_options = std::make_shared<SubmitOptions>();
  CLI::App* submit = app->add_subcommand("submit", "Queue a tuning job and print its number.");
  SetExample(submit, "tunefarm submit matmul --dim dtype=bf16 --max-trials 500");
  AddKernelOption(submit, submit_options.get());
  submit_options->problem.AddTo(submit, /*many=*/true);
  submit_options->data.AddTo(submit);
  AddSearchOptions(submit, submit_options.get());
  AddMeasureOptions(submit, submit_options.get());
  AddPythonOption(submit, session);
  submit->callback([session, submit_options] {
    session->command = [session, submit_options] { return SubmitOnly(session, *submit_options); };
  });

  auto run_options = std::make_shared<SubmitOptions>();
  auto settings = std::make_shared<std::vector<std::string>>();
  CLI::App* run = app->add_subcommand("run", "Run one config: compile log, resources, check, time.");
  SetExample(run, "tunefarm run matmul_host --dim M=256 TILE_M=64 MR=4");
  AddKernelOption(run, run_options.get());
  run->add_option("SETTING", *settings,
                  "Parameters of the config, NAME=VALUE each. Those left out take any value that makes a valid config, "
                  "the default first.");
  AddListOption(run, "-d,--dim", &run_options->problem.dims, "A dim of the problem. May be repeated.");
  run_options->data.AddTo(run);
  AddMeasureOptions(run, run_options.get());
  run->add_flag("--promote", run_options->promote,
                "Keep the config as the best one if it wins against the present one; without it nothing is kept.");
  AddPythonOption(run, session);
  run->callback([session, run_options, settings] {
    session->command = [session, run_options, settings] { return Run(session, *run_options, *settings); };
  });
}

}  // namespace tunefarm::cli
