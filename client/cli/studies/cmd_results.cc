// results: the ranked configs of a job, all its trials, what they say (--analyze) and their picture (--plot).

#include <fmt/core.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "client/cli/commands.h"
#include "client/cli/help_format.h"
#include "client/cli/options/seed_option.h"
#include "client/cli/studies/energy_table.h"
#include "client/cli/studies/job_names.h"
#include "client/cli/studies/report.h"
#include "client/cli/studies/study_plot.h"
#include "client/cli/studies/study_report.h"
#include "client/cli/studies/study_trials.h"
#include "client/cli/studies/trial_pages.h"
#include "server/base/format.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm::cli {
namespace {

using Studies = v1::StudyService::StubInterface;
using Tuning = v1::TuningService::StubInterface;

// Pictures of more studies than a person looks at.
constexpr int kPlottedMax = 64;

struct ResultsOptions {
  std::string job;
  ReportOptions report;
  std::string plot;
  bool analyze = false;
  int study = 0;
  uint64_t seed = 1;
};

absl::StatusOr<std::string> NewestJob(Session* session) {
  ASSIGN_OR_RETURN(Connection* const connection, session->connection());
  v1::ListJobsRequest request;
  request.set_page_size(1);
  ASSIGN_OR_RETURN(const v1::ListJobsResponse response,
                   Connection::Call(connection->tuning(), &Tuning::ListJobs, request));
  if (response.jobs().empty()) return NotFound("there are no jobs yet; run: tunefarm tune matmul_host");
  return response.jobs(0).name();
}

void NoteLeftOut(const v1::Study& study, const v1::StudyCoverage& coverage, const Session& session) {
  NoteUnreadable(session, study.problem().key(), coverage.unreadable());
  if (!coverage.is_cut()) return;
  session.Note(
      fmt::format("{}: only the first {} trials are looked at", study.problem().key(), FormatCount(coverage.read())));
}

absl::Status PrintAnalysis(const v1::JobAnalysis& analysis, OutputFormat format, const Session& session) {
  if (format == OutputFormat::kJson) {
    session.Print(ToJson(analysis));
  } else if (format == OutputFormat::kCsv) {
    session.Print(AnalysisRows(analysis).ToCsv());
  } else {
    std::string text = fmt::format("job {}  {}\n", JobNumber(analysis.job()), analysis.kernel_name());
    for (const v1::StudyAnalysis& study : analysis.studies()) text += AnalysisText(study);
    session.Print(text);
  }
  return absl::OkStatus();
}

// The plot, the analysis or both.
absl::Status LookClosely(Session* session, const ResultsOptions& options) {
  ASSIGN_OR_RETURN(const OutputFormat format, session->format());
  if (!options.analyze && format != OutputFormat::kTable)
    return InvalidArgument("--plot alone prints nothing; --output is for the table and for --analyze");
  ASSIGN_OR_RETURN(const std::string name, JobName(options.job));
  ASSIGN_OR_RETURN(Connection* const connection, session->connection());
  v1::GetJobRequest get;
  get.set_name(name);
  ASSIGN_OR_RETURN(const v1::GetJobResponse response, Connection::Call(connection->tuning(), &Tuning::GetJob, get));
  const v1::Job& job = response.job();
  ASSIGN_OR_RETURN(const std::vector<v1::Study> studies, ChooseStudies(job, options.study));
  if (!options.plot.empty() && studies.size() > kPlottedMax) {
    return InvalidArgument("job {} has {} studies, a picture holds {}; choose one with --study", JobNumber(job.name()),
                           studies.size(), kPlottedMax);
  }
  v1::JobAnalysis analysis;
  analysis.set_job(job.name());
  analysis.set_kernel_name(job.kernel_name());
  std::vector<Chart> charts;
  for (const v1::Study& study : studies) {
    ASSIGN_OR_RETURN(const v1::StudyCoverage coverage, AwaitTrials(connection, study));
    NoteLeftOut(study, coverage, *session);
    if (!options.plot.empty()) {
      ASSIGN_OR_RETURN(charts.emplace_back(), FetchStudyChart(connection, job, study));
      v1::ListTrialsRequest list;
      list.set_parent(study.name());
      list.set_purpose(v1::TRIAL_PURPOSE_FINALIST);
      ASSIGN_OR_RETURN(const std::vector<v1::Trial> finalists, FetchTrials(session, list, kStudyTrialsMax));
      if (std::optional<Chart> energies = EnergyChart(charts.back().title, finalists)) {
        charts.push_back(*std::move(energies));
      }
    }
    if (options.analyze) {
      v1::AnalyzeStudyRequest request;
      request.set_study(study.name());
      request.set_seed(options.seed);
      ASSIGN_OR_RETURN(v1::AnalyzeStudyResponse answer,
                       Connection::Call(connection->studies(), &Studies::AnalyzeStudy, request));
      *analysis.add_studies() = std::move(*answer.mutable_analysis());
    }
  }
  if (options.analyze) RETURN_IF_ERROR(PrintAnalysis(analysis, format, *session));
  if (!options.plot.empty()) {
    RETURN_IF_ERROR(session->WriteFile(options.plot, ChartsToSvg(charts)));
    session->Note("Wrote " + options.plot);
  }
  return absl::OkStatus();
}

}  // namespace

void AddResults(CLI::App* app, Session* session) {
  auto options = std::make_shared<ResultsOptions>();
  CLI::App* results =
      app->add_subcommand("results", "The ranked configs of a job, all its trials, a plot, or an analysis.");
  SetExample(results,
             "tunefarm results\n"
             "tunefarm results 17 --rows 20\n"
             "tunefarm results 17 --plot search.svg --analyze\n"
             "tunefarm results 17 --all --output csv > trials.csv");
  results->add_option("JOB", options->job, "The job's number (default: the newest job).");
  auto* const rows = results->add_option("--rows", options->report.rows, "Configs shown (default 10; 0: all).");
  rows->check(CLI::Range(0, 1'000'000));
  auto* const all =
      results->add_flag("--all", options->report.all, "Every trial with its outcome, in the order of the search.");
  results
      ->add_option(
          "--plot", options->plot,
          "Draw every trial and the best so far into this file, as SVG: against evaluations and against time, "
          "with the default config, the baseline and the roofline floor, and finalists' time against their energy "
          "where that was measured. Each study has its own panels.")
      ->type_name("FILE")
      ->excludes(all)
      ->excludes(rows);
  auto* const analyze = results->add_flag(
      "--analyze", options->analyze,
      "How fast the search converged, why configs failed, what the time depends on, and which values are "
      "good.");
  analyze->excludes(all)->excludes(rows);
  results
      ->add_option("--study", options->study,
                   "Plot or analyze one problem and device only, where the job has several: 1, 2, ...")
      ->type_name("NUMBER")
      ->check(CLI::Range(1, 100'000));
  results->add_option("--seed", options->seed, "Seed of the analysis (default 1).")
      ->type_name("NUMBER")
      ->check(CheckSeed)
      ->needs(analyze);
  results->callback([=] {
    session->command = [=]() -> absl::StatusOr<ExitCode> {
      RETURN_IF_ERROR(session->format().status());
      if (options->job.empty()) {
        ASSIGN_OR_RETURN(options->job, NewestJob(session));
      }
      if (options->analyze || !options->plot.empty()) {
        RETURN_IF_ERROR(LookClosely(session, *options));
        return kExitOk;
      }
      if (options->study > 0) return InvalidArgument("--study is for --plot and --analyze");
      ASSIGN_OR_RETURN(const std::string name, JobName(options->job));
      RETURN_IF_ERROR(PrintResults(session, name, options->report));
      return kExitOk;
    };
  });
}

}  // namespace tunefarm::cli
