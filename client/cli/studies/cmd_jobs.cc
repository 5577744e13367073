// jobs {list,show,watch,cancel,pause,resume,delete}.

#include <fmt/core.h>

#include <memory>

#include "client/cli/commands.h"
#include "client/cli/help_format.h"
#include "client/cli/options/problem_options.h"
#include "client/cli/space_text.h"
#include "client/cli/studies/energy_table.h"
#include "client/cli/studies/job_names.h"
#include "client/cli/studies/memory_text.h"
#include "client/cli/studies/progress.h"
#include "client/cli/studies/report.h"
#include "client/cli/studies/watch.h"
#include "server/base/clock.h"
#include "server/base/format.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm::cli {
namespace {

using Tuning = v1::TuningService::StubInterface;

std::string StateText(v1::JobState state) {
  return v1::JobState_Name(state).substr(std::string_view("JOB_STATE_").size());
}

std::string AgeText(int64_t at_ms) {
  if (at_ms <= 0) return "";
  return FormatDuration(static_cast<double>(Clock::Real()->WallMs() - at_ms) * 1e6) + " ago";
}

struct ListOptions {
  int limit = 50;
  std::string kernel, label;  // empty: all
};

// Empty where it is not known.
std::string GainText(const v1::Job& job, bool is_csv) {
  const double gain = job.summary().gain();
  if (gain <= 0) return "";
  return is_csv ? fmt::format("{:.3f}", gain) : fmt::format("{:.2f}x", gain);
}

std::string FailedText(const v1::Job& job, bool is_csv) {
  if (!job.has_summary() || job.progress().done() == 0) return "";
  const double share = job.summary().failed_share();
  return is_csv ? fmt::format("{:.3f}", share) : fmt::format("{:.0f} %", 100 * share);
}

absl::StatusOr<ExitCode> ListJobs(Session* session, const ListOptions& options) {
  ASSIGN_OR_RETURN(const OutputFormat format, session->format());
  ASSIGN_OR_RETURN(Connection* const connection, session->connection());
  v1::ListJobsRequest request;
  request.set_page_size(options.limit);
  request.set_kernel_name(options.kernel);
  request.set_label(options.label);
  ASSIGN_OR_RETURN(const v1::ListJobsResponse response,
                   Connection::Call(connection->tuning(), &Tuning::ListJobs, request));
  if (format == OutputFormat::kJson) {
    session->Print(ToJson(response));
    return kExitOk;
  }
  Table table({{"job", true},
               {"kernel", false},
               {"state", false},
               {"problems", true},
               {"done", true},
               {"total", true},
               {"gain", true},
               {"failed", true},
               {"created", false},
               {"label", false}});
  const bool is_csv = format == OutputFormat::kCsv;
  for (const v1::Job& job : response.jobs()) {
    table.AddRow({JobNumber(job.name()), job.kernel_name(), StateText(job.state()), std::to_string(job.problems_size()),
                  std::to_string(job.progress().done()), std::to_string(job.progress().total()), GainText(job, is_csv),
                  FailedText(job, is_csv), is_csv ? std::to_string(job.created_at_ms()) : AgeText(job.created_at_ms()),
                  job.label()},
                 job.state() == v1::JOB_STATE_FAILED    ? Style::kRed
                 : job.state() == v1::JOB_STATE_RUNNING ? Style::kBold
                                                        : Style::kPlain);
  }
  if (format == OutputFormat::kTable && table.rows() == 0) {
    const bool is_filtered = !options.kernel.empty() || !options.label.empty();
    session->Note(is_filtered ? "There are no such jobs." : "No jobs yet. Try: tunefarm tune matmul_host");
    return kExitOk;
  }
  session->PrintTable(table, format);
  if (!response.next_page_token().empty()) session->Note("There are more; --limit shows more of them.");
  return kExitOk;
}

absl::StatusOr<v1::Job> Get(Session* session, const std::string& text) {
  ASSIGN_OR_RETURN(const std::string name, JobName(text));
  ASSIGN_OR_RETURN(Connection* const connection, session->connection());
  v1::GetJobRequest request;
  request.set_name(name);
  ASSIGN_OR_RETURN(v1::GetJobResponse response, Connection::Call(connection->tuning(), &Tuning::GetJob, request));
  return response.job();
}

// What the final chose, which need not have its least time; before that the fastest so far.
std::string BestSoFarText(const v1::Study& study) {
  const v1::Trial& fastest = study.incumbent();
  const v1::Measurement& measurement = study.has_best() ? study.best().measurement() : fastest.measurement();
  const v1::Config& config = study.has_best() ? study.best().config() : fastest.config();
  const double best_ns = measurement.median_ns();
  if (best_ns <= 0) return "";
  const double baseline_ns = study.has_best() ? study.best().baseline_ns() : study.baseline().measurement().median_ns();
  std::string text = "  best     " + FormatDuration(best_ns);
  if (baseline_ns > 0) text += fmt::format(" ({:.2f}x baseline)", baseline_ns / best_ns);
  const bool is_of_final = study.has_best() || fastest.purpose() == v1::TRIAL_PURPOSE_FINALIST;
  return text + (is_of_final ? " in the final" : " in the search") + "\n" +
         (config.values().empty() ? "" : "           " + ConfigText(config) + "\n");
}

absl::StatusOr<ExitCode> ShowJob(Session* session, const std::string& text) {
  ASSIGN_OR_RETURN(const OutputFormat format, session->format_without_csv());
  ASSIGN_OR_RETURN(const v1::Job job, Get(session, text));
  if (format == OutputFormat::kJson) {
    session->Print(ToJson(job));
    return kExitOk;
  }
  std::string out = fmt::format("job        {}\nkernel     {}\nstate      {}\n", JobNumber(job.name()),
                                Visible(job.kernel_name()), StateText(job.state()));
  if (!job.label().empty()) out += "label      " + Visible(job.label()) + "\n";
  if (!job.error().empty()) out += "error      " + Visible(job.error()) + "\n";
  if (!job.state_reason().empty()) out += "because    " + Visible(job.state_reason()) + "\n";
  if (job.device_busy_ms() > 0)
    out += fmt::format("devices    {} of work\n", FormatDuration(job.device_busy_ms() * 1e6));
  out += fmt::format("strategy   {} seed {}\ncreated    {}\n", job.strategy().strategy_name(), job.strategy().seed(),
                     AgeText(job.created_at_ms()));
  if (NeedsEnergy(job.objective())) out += fmt::format("objective  {}\n", ObjectiveText(job.objective()));
  for (const v1::Study& study : job.studies()) {
    const v1::Progress& progress = study.progress();
    out += fmt::format("\n{}  on  {}\n  space    {} valid {} of {}\n", Visible(study.problem().key()),
                       Visible(study.device_class_name()), ValidText(study.space()),
                       study.space().valid() == 1 ? "config" : "configs", CartesianText(study.space()));
    if (!study.device_selector().empty()) out += fmt::format("  only     on {}\n", study.device_selector());
    if (!study.finals_device_uuid().empty()) out += fmt::format("  final    on {}\n", study.finals_device_uuid());
    out += RulesText(study.space(), "  ");
    out += fmt::format("  trials   {} of {}", FormatCount(progress.done()), FormatCount(progress.total()));
    if (progress.done() > 0) out += ": " + OutcomesText(progress);
    out += "\n";
    if (const std::string priors = PriorsText(study); !priors.empty()) {
      out += "  starts   from earlier results: " + priors + "\n";
    }
    if (const std::string taken = TakenOverText(study); !taken.empty()) out += "  known    " + taken + "\n";
    if (const std::string idle = WithoutEffectText(study); !idle.empty()) out += "  note     " + idle + "\n";
    if (!study.search_ended_because().empty()) out += "  ended    " + study.search_ended_because() + "\n";
    out += BestSoFarText(study);
    if (!study.not_promoted_because().empty()) out += "  not promoted: " + study.not_promoted_because() + "\n";
  }
  session->Print(out);
  return kExitOk;
}

absl::StatusOr<ExitCode> FollowJob(Session* session, const std::string& text) {
  ASSIGN_OR_RETURN(const OutputFormat format, session->format_without_csv());
  ASSIGN_OR_RETURN(const std::string name, JobName(text));
  ASSIGN_OR_RETURN(const WatchOutcome outcome, WatchJob(session, name));
  if (outcome.detached) return kExitInterrupted;
  if (format == OutputFormat::kJson) session->Print(ToJson(outcome.job));
  const ExitCode code = ExplainEnd(*session, outcome.job);
  if (code == kExitOk) session->Note("Done. See: tunefarm results " + JobNumber(name));
  return code;
}

// Cancel, pause and resume differ in the call alone.
template <typename Request, typename Response>
absl::StatusOr<ExitCode> Transition(Session* session, const std::string& text,
                                    grpc::Status (Tuning::*method)(grpc::ClientContext*, const Request&, Response*)) {
  ASSIGN_OR_RETURN(const OutputFormat format, session->format_without_csv());
  ASSIGN_OR_RETURN(const std::string name, JobName(text));
  ASSIGN_OR_RETURN(Connection* const connection, session->connection());
  Request request;
  request.set_name(name);
  ASSIGN_OR_RETURN(const Response response, Connection::Call(connection->tuning(), method, request));
  if (format == OutputFormat::kJson) session->Print(ToJson(response.job()));
  session->Note(fmt::format("Job {} is now {}.", JobNumber(name), StateText(response.job().state())));
  return kExitOk;
}

absl::StatusOr<ExitCode> CancelJob(Session* session, const std::string& text, bool yes) {
  ASSIGN_OR_RETURN(const std::string name, JobName(text));
  if (!yes && !session->Confirm(fmt::format("Cancel job {}? Its results stay.", JobNumber(name)))) {
    session->Note("Nothing was cancelled.");
    return kExitFailed;
  }
  ASSIGN_OR_RETURN(const ExitCode code, Transition(session, text, &Tuning::CancelJob));
  session->Note("What it found stays: tunefarm results " + JobNumber(name));
  return code;
}

absl::StatusOr<ExitCode> DeleteJob(Session* session, const std::string& text) {
  ASSIGN_OR_RETURN(const OutputFormat format, session->format_without_csv());
  ASSIGN_OR_RETURN(const std::string name, JobName(text));
  ASSIGN_OR_RETURN(Connection* const connection, session->connection());
  v1::DeleteJobRequest request;
  request.set_name(name);
  ASSIGN_OR_RETURN(const v1::DeleteJobResponse response,
                   Connection::Call(connection->tuning(), &Tuning::DeleteJob, request));
  if (format == OutputFormat::kJson) session->Print(ToJson(response));
  session->Note(fmt::format("Job {} and its trials are deleted; best configs stay.", JobNumber(name)));
  return kExitOk;
}

using JobAction = std::function<absl::StatusOr<ExitCode>(Session*, const std::string&)>;

void AddJobVerb(CLI::App* jobs, Session* session, const std::string& verb, const std::string& help, JobAction action) {
  auto job = std::make_shared<std::string>();
  CLI::App* command = jobs->add_subcommand(verb, help);
  command->add_option("JOB", *job, "The job's number.")->required();
  SetExample(command, "tunefarm jobs " + verb + " 17");
  command->callback([=] { session->command = [=] { return action(session, *job); }; });
}

}  // namespace

void AddJobs(CLI::App* app, Session* session) {
  CLI::App* jobs = app->add_subcommand("jobs", "List, show, watch, cancel, pause, resume or delete jobs.");
  jobs->require_subcommand(0, 1);
  SetExample(jobs, "tunefarm jobs\ntunefarm jobs watch 17");
  auto options = std::make_shared<ListOptions>();
  jobs->callback([session, options] {
    // A subcommand has set its own before.
    if (!session->command) session->command = [session, options] { return ListJobs(session, *options); };
  });
  CLI::App* list = jobs->add_subcommand("list", "The newest jobs; so does jobs alone.");
  SetExample(list, "tunefarm jobs list --limit 5");
  list->add_option("--limit", options->limit, "Maximum number of rows (default 50).")->check(CLI::Range(1, 1000));
  list->add_option("--kernel", options->kernel, "Jobs of the kernel of this name.")->type_name("KERNEL");
  list->add_option("--label", options->label, "Jobs with this label.");
  list->callback([session, options] { session->command = [session, options] { return ListJobs(session, *options); }; });
  AddJobVerb(jobs, session, "show", "One job: space, progress, best so far.", ShowJob);
  AddJobVerb(jobs, session, "watch", "Follow a job to its end; Ctrl-C detaches.", FollowJob);
  auto cancelled = std::make_shared<std::string>();
  auto yes = std::make_shared<bool>(false);
  CLI::App* cancel = jobs->add_subcommand("cancel", "Stop a job; its results stay.");
  SetExample(cancel, "tunefarm jobs cancel 17 --yes");
  cancel->add_option("JOB", *cancelled, "The job's number.")->required();
  cancel->add_flag("-y,--yes", *yes, "Do not ask for confirmation. Without a terminal it never asks.");
  cancel->callback([=] { session->command = [=] { return CancelJob(session, *cancelled, *yes); }; });
  AddJobVerb(jobs, session, "pause", "Pause a job: no trial starts until it is resumed.",
             [](Session* s, const std::string& job) { return Transition(s, job, &Tuning::PauseJob); });
  AddJobVerb(jobs, session, "resume", "Resume a paused job.",
             [](Session* s, const std::string& job) { return Transition(s, job, &Tuning::ResumeJob); });
  AddJobVerb(jobs, session, "delete", "Remove an ended job and its trials; best configs stay.", DeleteJob);
}

}  // namespace tunefarm::cli
