// inspect: what a package file holds.

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "client/cli/commands.h"
#include "client/cli/help_format.h"
#include "client/cli/inspect/package_document.h"
#include "client/launch/package.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm::cli {
namespace {

using Json = nlohmann::ordered_json;
using launch::Package;

absl::StatusOr<ExitCode> Inspect(Session* session, const std::string& file) {
  ASSIGN_OR_RETURN(const OutputFormat output, session->format_without_csv());
  std::shared_ptr<const Package> package;
  tunefarm_error error = TUNEFARM_ERROR_INIT;
  const tunefarm_status status = Package::Open(file.c_str(), &package, &error);
  if (status == TUNEFARM_NOT_FOUND) return NotFound("{}", error.message);
  if (status != TUNEFARM_OK) return InvalidArgument("{}", error.message);
  ASSIGN_OR_RETURN(const Json document, PackageDocument(*package));
  // In ASCII, since Print would change other characters in the middle of the JSON.
  session->Print(output == OutputFormat::kJson ? document.dump(2, ' ', true, Json::error_handler_t::replace) + "\n"
                                               : PackageText(document));
  return kExitOk;
}

}  // namespace

void AddInspect(CLI::App* app, Session* session) {
  auto file = std::make_shared<std::string>();
  CLI::App* inspect = app->add_subcommand("inspect", "What a package holds: kernels, configs, launches, binaries.");
  SetExample(inspect, "tunefarm inspect matmul.tfpack\ntunefarm inspect matmul.tfpack --output json");
  inspect->add_option("FILE", *file, "A file that export package has written.")->required();
  inspect->callback([=] { session->command = [=] { return Inspect(session, *file); }; });
}

}  // namespace tunefarm::cli
