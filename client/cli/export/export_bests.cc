// export bests: results on their way from one machine's tunefarm to another's.

#include <fmt/core.h>
#include <unistd.h>

#include <memory>

#include "client/cli/export/export_formats.h"
#include "client/cli/export/export_target.h"
#include "client/cli/help_format.h"
#include "client/cli/options/best_filter.h"
#include "client/cli/options/problem_options.h"
#include "server/base/clock.h"
#include "server/base/file.h"
#include "server/base/format.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/interchange/bests_file.h"

namespace tunefarm::cli {
namespace {

constexpr size_t kHostNameMax = 256;

struct ExportBestsOptions {
  BestFilter filter;
  ExportTarget target;
  std::string source;
};

std::string HostName() {
  char name[kHostNameMax] = {};
  return gethostname(name, sizeof(name) - 1) == 0 && name[0] != '\0' ? name : "unknown";
}

absl::StatusOr<ExitCode> ExportBests(Session* session, const ExportBestsOptions& options) {
  RETURN_IF_ERROR(session->CheckOneForm());
  interchange::BestsFile file;
  ASSIGN_OR_RETURN(file.bests, FetchBests(session, options.filter));
  ASSIGN_OR_RETURN(Connection* const connection, session->connection());
  ASSIGN_OR_RETURN(const v1::GetServerInfoResponse info,
                   Connection::Call(connection->server(), &v1::ServerService::StubInterface::GetServerInfo,
                                    v1::GetServerInfoRequest()));
  // The daemon is on this machine unless an address of another one was given.
  const bool is_here = connection->address().rfind("unix:", 0) == 0;
  file.source.host = !options.source.empty() ? options.source : is_here ? HostName() : connection->address();
  file.source.data_directory = info.data_directory();
  file.source.tunefarm_version = info.version();
  file.source.exported_at_ms = Clock::Real()->WallMs();
  RETURN_IF_ERROR(options.target.Write(*session, {{"", interchange::WriteBestsFile(file), ""}}));
  session->Note(
      fmt::format("{} of {}. On the other machine: tunefarm tune KERNEL --starting-configs {}",
                  FormatCount(static_cast<int64_t>(file.bests.size()), "best"), file.source.host,
                  options.target.file.empty() || options.target.file == "-" ? "FILE" : ShellWord(options.target.file)));
  return kExitOk;
}

}  // namespace

void AddExportBests(CLI::App* command, Session* session) {
  auto options = std::make_shared<ExportBestsOptions>();
  CLI::App* bests =
      command->add_subcommand("bests", "Bests for tunefarm on another machine (tune --starting-configs).");
  SetExample(bests,
             "tunefarm export bests bests.json\n"
             "tunefarm export bests --kernel matmul --device H200 > matmul_h200.json");
  bests->add_option("FILE,-f,--file", options->target.file,
                    "The file to write, replaced as a whole; '-', the default, is stdout.");
  options->filter.AddTo(bests);
  bests->add_option("--source", options->source, "Name of this machine in the file (default: its host name).")
      ->type_name("TEXT");
  bests->callback([=] { session->command = [=] { return ExportBests(session, *options); }; });
}

}  // namespace tunefarm::cli
