// dashboard: opens the daemon's dashboard and prints the address that logs one browser in.

#include <fmt/core.h>
#include <unistd.h>

#include <memory>

#include "client/cli/commands.h"
#include "client/cli/help_format.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm::cli {
namespace {

// The machine of the daemon, as this one calls it.
std::string DaemonHost(const std::string& address) {
  if (address.rfind("unix:", 0) != 0) return address.substr(0, address.rfind(':'));
  char name[256] = "";
  gethostname(name, sizeof(name) - 1);
  return name;
}

absl::StatusOr<ExitCode> OpenDashboard(Session* session, const std::vector<std::string>& roles) {
  RETURN_IF_ERROR(session->CheckOneForm());
  ASSIGN_OR_RETURN(Connection* const connection, session->connection());
  ASSIGN_OR_RETURN(const v1::OpenDashboardResponse opened,
                   Connection::Call(connection->server(), &v1::ServerService::StubInterface::OpenDashboard,
                                    v1::OpenDashboardRequest()));
  v1::CreateLoginCodeRequest request;
  for (const std::string& role : roles) request.add_roles(role);
  ASSIGN_OR_RETURN(const v1::CreateLoginCodeResponse made,
                   Connection::Call(connection->access(), &v1::AccessService::StubInterface::CreateLoginCode, request));
  // "http://127.0.0.1:41379"
  const std::string& address = opened.address();
  const size_t host_at = address.find("://") + 3;
  const size_t port_at = address.rfind(':');
  const std::string host = address.substr(host_at, port_at - host_at);
  const std::string port = address.substr(port_at + 1);
  const bool is_anywhere = host == "0.0.0.0" || host == "[::]";
  const std::string shown = is_anywhere ? DaemonHost(connection->address()) : host;
  session->Print(fmt::format("{}{}:{}/#login={}\n", address.substr(0, host_at), shown, port, made.code()));
  session->Note("Open it within two minutes: it logs one browser in, once.");
  if (host == "127.0.0.1" || host == "localhost" || host == "[::1]") {
    session->Note(fmt::format("From another machine, first: ssh -L {}:{}:{} {}", port, host, port,
                              DaemonHost(connection->address())));
  }
  return kExitOk;
}

}  // namespace

void AddDashboard(CLI::App* app, Session* session) {
  auto roles = std::make_shared<std::vector<std::string>>();
  CLI::App* dashboard =
      app->add_subcommand("dashboard", "Open the daemon's dashboard: prints an address for a browser.");
  SetExample(dashboard, "tunefarm dashboard\ntunefarm dashboard --role admin");
  dashboard
      ->add_option("--role", *roles,
                   "What the browser may do: lookup, submit, admin; separated by commas (default lookup,submit).")
      ->delimiter(',')
      ->type_name("ROLES");
  dashboard->callback(
      [session, roles] { session->command = [session, roles] { return OpenDashboard(session, *roles); }; });
}

}  // namespace tunefarm::cli
