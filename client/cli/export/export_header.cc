// export header: bests as a C++ header.

#include <fmt/core.h>

#include <memory>

#include "client/cli/export/export_formats.h"
#include "client/cli/export/export_target.h"
#include "client/cli/help_format.h"
#include "client/cli/options/best_filter.h"
#include "server/base/format.h"
#include "server/base/status_macros.h"
#include "server/interchange/cpp_header.h"

namespace tunefarm::cli {
namespace {

struct HeaderOptions {
  BestFilter filter;
  ExportTarget target;
  interchange::CppHeaderOptions header;
};

absl::StatusOr<ExitCode> ExportHeader(Session* session, const HeaderOptions& options) {
  RETURN_IF_ERROR(session->CheckOneForm());
  ASSIGN_OR_RETURN(std::vector<interchange::ExportedBest> bests, FetchBests(session, options.filter));
  ASSIGN_OR_RETURN(const interchange::CppHeader header, interchange::WriteCppHeader(std::move(bests), options.header));
  RETURN_IF_ERROR(options.target.Write(*session, {{"", header.text, ""}}));
  session->Note(fmt::format("{}{}", FormatCount(header.entries, "best"),
                            header.left_out > 0
                                ? fmt::format("; {} left out: pinned, with input seeds of their own, of other inputs "
                                              "of the same problem, or of another version of the definition",
                                              FormatCount(header.left_out))
                                : ""));
  return kExitOk;
}

}  // namespace

void AddExportHeader(CLI::App* command, Session* session) {
  auto options = std::make_shared<HeaderOptions>();
  CLI::App* header =
      command->add_subcommand("header", "Bests as a C++17 header: a constexpr table for each kernel, and a look-up.");
  SetExample(header, "tunefarm export header --kernel matmul --namespace my_project::tuned --file tuned.h");
  options->filter.AddTo(header);
  options->target.AddFile(header);
  header->add_option("--namespace", options->header.name_space, "Namespace of the tables (default tunefarm_bests).")
      ->type_name("NAME");
  header->callback([=] { session->command = [=] { return ExportHeader(session, *options); }; });
}

}  // namespace tunefarm::cli
