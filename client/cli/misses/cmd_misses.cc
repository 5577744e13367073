// misses: what was looked up and had no exact best.

#include <fmt/core.h>

#include <memory>

#include "client/cli/commands.h"
#include "client/cli/help_format.h"
#include "client/cli/misses/miss_list.h"
#include "client/cli/options/kernel_argument.h"
#include "client/cli/options/problem_options.h"
#include "server/base/clock.h"
#include "server/base/format.h"
#include "server/base/status_macros.h"

namespace tunefarm::cli {
namespace {

struct MissOptions {
  std::string kernel;
  std::string device;
  int limit = 50;
  bool clear = false;
};

std::string MatchText(v1::Match match) { return v1::Match_Name(match).substr(std::string_view("MATCH_").size()); }

Table TableOf(const v1::ListMissesResponse& response, bool is_csv) {
  std::vector<Table::Column> columns = {{"kernel", false}, {"problem", false},
                                        {"device", false}, {"asked", true},
                                        {"match", false},  {is_csv ? "last_asked_ms" : "last asked"}};
  if (is_csv) columns.insert(columns.begin() + 5, {{"distance", true}, {"first_asked_ms", true}});
  Table table(std::move(columns));
  for (const v1::Miss& miss : response.misses()) {
    const std::string& device = miss.device_class_name().empty() ? miss.device_class_id() : miss.device_class_name();
    if (is_csv) {
      table.AddRow({miss.kernel_name(), miss.problem().key(), device, std::to_string(miss.count()),
                    MatchText(miss.match()), fmt::format("{}", miss.distance()),
                    std::to_string(miss.first_asked_at_ms()), std::to_string(miss.last_asked_at_ms())});
      continue;
    }
    const std::string distance = miss.match() == v1::MATCH_NEAREST_SHAPE ? fmt::format(" {:.3g}", miss.distance()) : "";
    const auto age_ns = static_cast<double>(Clock::Real()->WallMs() - miss.last_asked_at_ms()) * 1e6;
    table.AddRow({miss.kernel_name(), miss.problem().key(), device, FormatCount(miss.count()),
                  MatchText(miss.match()) + distance, FormatDuration(age_ns) + " ago"});
  }
  return table;
}

absl::StatusOr<ExitCode> Clear(Session* session, const MissFilter& filter) {
  ASSIGN_OR_RETURN(const OutputFormat format, session->format_without_csv());
  ASSIGN_OR_RETURN(Connection* const connection, session->connection());
  v1::DeleteMissesRequest request;
  request.set_kernel(filter.kernel);
  request.set_device_class_id(filter.device_class_id);
  ASSIGN_OR_RETURN(const v1::DeleteMissesResponse response,
                   Connection::Call(connection->catalog(), &v1::CatalogService::StubInterface::DeleteMisses, request));
  if (format == OutputFormat::kJson) {
    session->Print(ToJson(response));
  } else {
    session->Print(FormatCount(response.deleted(), "problem is", "problems are") + " forgotten\n");
  }
  return kExitOk;
}

absl::StatusOr<ExitCode> Misses(Session* session, const MissOptions& options) {
  ASSIGN_OR_RETURN(const OutputFormat format, session->format());
  MissFilter filter;
  if (!options.kernel.empty()) {
    ASSIGN_OR_RETURN(const KernelArgument kernel, ResolveKernelArgument(options.kernel, session->environment));
    filter.kernel = kernel.name;
  }
  ASSIGN_OR_RETURN(Connection* const connection, session->connection());
  ASSIGN_OR_RETURN(filter.device_class_id, ClassIdOf(connection, options.device));
  if (options.clear) return Clear(session, filter);
  ASSIGN_OR_RETURN(const v1::ListMissesResponse response, FetchMisses(connection, filter, options.limit));
  if (format == OutputFormat::kJson) {
    session->Print(ToJson(response));
    return kExitOk;
  }
  const Table table = TableOf(response, format == OutputFormat::kCsv);
  session->PrintTable(table, format);
  if (!response.next_page_token().empty()) session->Note("There are more; --limit shows more of them.");
  if (response.not_counted() > 0) {
    session->Note(FormatCount(response.not_counted(), "more look-up is", "more look-ups are") +
                  " not counted: too many different problems were looked up.");
  }
  if (table.rows() == 0) {
    session->Note("No misses: what was looked up was answered exactly.");
  } else {
    session->Note("Tune them: tunefarm tune --misses" +
                  (options.kernel.empty() ? "" : " " + ShellWord(options.kernel)));
  }
  return kExitOk;
}

}  // namespace

void AddMisses(CLI::App* app, Session* session) {
  auto options = std::make_shared<MissOptions>();
  CLI::App* misses =
      app->add_subcommand("misses", "List problems that were looked up and never tuned, most look-ups first.");
  SetExample(misses, "tunefarm misses matmul\ntunefarm misses --output json\ntunefarm tune --misses");
  misses->add_option("KERNEL", options->kernel, "A kernel's name or definition (default: all).");
  misses->add_option("--device", options->device, "Only those of a device: UUID, class, name, 'cuda', 'host' or A100.")
      ->type_name("DEVICE");
  misses->add_option("--limit", options->limit, "Maximum number of rows (default 50).")->check(CLI::Range(1, 10'000));
  misses->add_flag("--clear", options->clear, "Delete the counts instead.");
  misses->callback([session, options] { session->command = [session, options] { return Misses(session, *options); }; });
}

}  // namespace tunefarm::cli
