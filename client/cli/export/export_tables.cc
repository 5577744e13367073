// export {csv,json,markdown}: bests as tables, and all configs of a job in the columns of benchmark scripts.

#include <fmt/core.h>

#include <memory>

#include "client/cli/export/export_formats.h"
#include "client/cli/export/export_target.h"
#include "client/cli/help_format.h"
#include "client/cli/options/best_filter.h"
#include "client/cli/studies/job_names.h"
#include "client/cli/studies/study_trials.h"
#include "client/cli/studies/trial_pages.h"
#include "server/base/format.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/interchange/benchmark_csv.h"
#include "server/interchange/best_tables.h"

namespace tunefarm::cli {
namespace {

using interchange::BenchmarkRow;
using interchange::ExportedBest;
using Tuning = v1::TuningService::StubInterface;

struct TableOptions {
  BestFilter filter;
  ExportTarget target;
  std::string job;
  bool benchmark = false;
  bool all_columns = false;
};

using Writer = std::string (*)(const std::vector<ExportedBest>&);

absl::StatusOr<ExitCode> ExportTable(Session* session, const TableOptions& options, Writer write) {
  RETURN_IF_ERROR(session->CheckOneForm());
  ASSIGN_OR_RETURN(const std::vector<ExportedBest> bests, FetchBests(session, options.filter));
  RETURN_IF_ERROR(options.target.Write(*session, {{"", write(bests), ""}}));
  return kExitOk;
}

struct BenchmarkRows {
  std::string kernel;
  std::vector<BenchmarkRow> rows;
};

// Every config that a job has measured in its search, beside the baseline of its problem.
absl::StatusOr<BenchmarkRows> RowsOfJob(Session* session, const TableOptions& options) {
  ASSIGN_OR_RETURN(const std::string name, JobName(options.job));
  ASSIGN_OR_RETURN(const interchange::DimFilter dims, MakeDimFilter(options.filter.dims));
  ASSIGN_OR_RETURN(Connection* const connection, session->connection());
  v1::GetJobRequest get;
  get.set_name(name);
  ASSIGN_OR_RETURN(const v1::GetJobResponse job, Connection::Call(connection->tuning(), &Tuning::GetJob, get));
  BenchmarkRows made;
  made.kernel = job.job().kernel_name();
  for (const v1::Study& study : job.job().studies()) {
    BenchmarkRow row;
    v1::Config as_config;
    *as_config.mutable_values() = study.problem().dims();
    ASSIGN_OR_RETURN(row.dims, ConfigOf(as_config));
    if (!dims.Takes(row.dims)) continue;
    row.baseline_ns = study.baseline().measurement().median_ns();
    v1::ListTrialsRequest list;
    list.set_parent(study.name());
    list.set_purpose(v1::TRIAL_PURPOSE_SEARCH);
    list.add_outcomes(v1::OUTCOME_OK);
    RETURN_IF_ERROR(ForEachTrial(session, list, [&](v1::Trial* trial) -> absl::StatusOr<bool> {
      if (trial->outcome() != v1::OUTCOME_OK) return true;
      row.median_ns = trial->measurement().median_ns();
      ASSIGN_OR_RETURN(row.config, ConfigOf(trial->config()));
      made.rows.push_back(row);
      return made.rows.size() < kStudyTrialsMax;
    }));
  }
  if (made.rows.empty()) return NotFound("job {} has measured no such config", JobNumber(name));
  return made;
}

absl::StatusOr<BenchmarkRows> RowsOfBests(Session* session, const TableOptions& options) {
  ASSIGN_OR_RETURN(const std::vector<ExportedBest> bests, FetchBests(session, options.filter));
  BenchmarkRows made;
  made.kernel = bests.front().best.kernel_name();
  if (bests.back().best.kernel_name() != made.kernel) {
    return InvalidArgument("the columns are those of one kernel; choose with --kernel {} or --kernel {}", made.kernel,
                           bests.back().best.kernel_name());
  }
  for (const ExportedBest& exported : bests) {
    made.rows.push_back(
        {exported.dims, exported.config, exported.best.measurement().median_ns(), exported.best.baseline_ns()});
  }
  return made;
}

absl::StatusOr<ExitCode> ExportBenchmark(Session* session, const TableOptions& options) {
  RETURN_IF_ERROR(session->CheckOneForm());
  const bool of_job = !options.job.empty();
  ASSIGN_OR_RETURN(const BenchmarkRows made, of_job ? RowsOfJob(session, options) : RowsOfBests(session, options));
  ASSIGN_OR_RETURN(const std::string text, interchange::WriteBenchmarkCsv(made.kernel, made.rows, options.all_columns));
  RETURN_IF_ERROR(options.target.Write(*session, {{"", text, ""}}));
  std::string left_out;
  for (const std::string& name : interchange::LeftOutOfBenchmarkCsv(made.kernel, made.rows)) {
    left_out += (left_out.empty() ? "" : ", ") + name;
  }
  if (!options.all_columns && !left_out.empty()) {
    session->Note(
        fmt::format("No column for: {}. Rows may differ in these alone; --all-columns appends them.", left_out));
  }
  session->Note("Times are milliseconds of the product alone, torch_time those of the baseline.");
  return kExitOk;
}

std::shared_ptr<TableOptions> AddTable(CLI::App* command, Session* session, const std::string& verb,
                                       const std::string& help, Writer write) {
  auto options = std::make_shared<TableOptions>();
  CLI::App* table = command->add_subcommand(verb, help);
  options->filter.AddTo(table);
  options->target.AddFile(table);
  table->callback([=] {
    session->command = [=]() -> absl::StatusOr<ExitCode> {
      const bool is_plain = !options->benchmark && options->job.empty() && !options->all_columns;
      return is_plain ? ExportTable(session, *options, write) : ExportBenchmark(session, *options);
    };
  });
  return options;
}

}  // namespace

void AddExportTables(CLI::App* command, Session* session) {
  const auto options =
      AddTable(command, session, "csv", "Bests as CSV, or a job's configs as benchmark scripts have them.",
               interchange::WriteBestsCsv);
  CLI::App* csv = command->get_subcommand("csv");
  SetExample(csv,
             "tunefarm export csv --kernel matmul --file bests.csv\n"
             "tunefarm export csv --job 17 > forward.csv");
  csv->add_flag("--benchmark", options->benchmark,
                "The columns of benchmark scripts (mode, seqlen, ..., torch_time, triton_time, speedup), for "
                "grouped_gemm_forward, grouped_gemm_dx or grouped_gemm_dw.");
  csv->add_option("--job", options->job, "As --benchmark, of every config that this job has measured.")
      ->type_name("JOB");
  csv->add_flag("--all-columns", options->all_columns,
                "As --benchmark, with the other dims and parameters behind those columns.");
  AddTable(command, session, "json", "Bests as a JSON array.", interchange::WriteBestsJson);
  SetExample(command->get_subcommand("json"), "tunefarm export json --device H200 > bests.json");
  AddTable(command, session, "markdown", "Bests as Markdown tables, one for each kernel and device.",
           interchange::WriteBestsMarkdown);
  SetExample(command->get_subcommand("markdown"),
             "tunefarm export markdown --kernel matmul --dim dtype=bf16 > RESULTS.md");
}

}  // namespace tunefarm::cli
