// export: our results as other tools read them. t4 here, the other formats in export_*.cc.

#include <fmt/core.h>

#include <memory>

#include "client/cli/commands.h"
#include "client/cli/export/export_formats.h"
#include "client/cli/export/export_package.h"
#include "client/cli/export/export_snapshot.h"
#include "client/cli/help_format.h"
#include "client/cli/studies/job_rows.h"
#include "server/base/format.h"
#include "server/base/status_macros.h"
#include "server/interchange/recorded_file.h"

namespace tunefarm::cli {
namespace {

struct ExportT4Options {
  std::string job;
  std::string file;
  int study = 0;
  bool finals = false;
};

absl::StatusOr<ExitCode> ExportT4(Session* session, const ExportT4Options& options) {
  RETURN_IF_ERROR(session->CheckOneForm());
  ASSIGN_OR_RETURN(const JobRows results, FetchJobRows(session, options.job, options.study, options.finals));
  const std::string text = interchange::WriteT4(results.parameters, results.rows);
  if (options.file.empty()) {
    session->PrintFile(text);
    return kExitOk;
  }
  RETURN_IF_ERROR(session->WriteFile(options.file, text));
  session->Note(
      fmt::format("Wrote {} to {}", FormatCount(static_cast<int64_t>(results.rows.size()), "result"), options.file));
  return kExitOk;
}

}  // namespace

void AddExport(CLI::App* app, Session* session) {
  CLI::App* command = app->add_subcommand("export", "Write results for other tools, programs and machines.");
  command->require_subcommand(1);
  SetExample(command,
             "tunefarm export csv --kernel matmul --file bests.csv\n"
             "tunefarm export t4 17 --file results.json");
  AddExportSnapshot(command, session);
  AddExportPackage(command, session);
  auto options = std::make_shared<ExportT4Options>();
  CLI::App* t4 = command->add_subcommand("t4", "The results of a job as a T4 file, to stdout or a file.");
  SetExample(t4, "tunefarm export t4 17 > results.json\ntunefarm export t4 17 --study 2 --file results.json");
  t4->add_option("JOB", options->job, "The job's number.")->required();
  t4->add_option("-f,--file", options->file, "The file to write; '-', the default, is stdout.")->type_name("FILE");
  t4->add_option("--study", options->study, "Which problem and device, where the job has several: 1, 2, ...")
      ->type_name("NUMBER")
      ->check(CLI::Range(1, 100'000));
  t4->add_flag("--finals", options->finals, "For finalists the times of the final instead of the search's.");
  t4->callback([=] { session->command = [=] { return ExportT4(session, *options); }; });
  AddExportTables(command, session);
  AddExportHeader(command, session);
  AddExportBests(command, session);
  AddExportAiter(command, session);
}

}  // namespace tunefarm::cli
