// token: makes, lists and revokes the bearer tokens of clients.

#include <fmt/core.h>

#include <memory>

#include "client/cli/commands.h"
#include "client/cli/help_format.h"
#include "client/cli/options/life_option.h"
#include "server/base/clock.h"
#include "server/base/format.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm::cli {
namespace {

using Stub = v1::AccessService::StubInterface;

struct TokenOptions {
  std::string name;
  std::vector<std::string> roles;
  std::string life = "90d";
};

std::string AgeText(int64_t at_ms, int64_t now_ms) {
  if (at_ms == 0) return "-";
  const std::string span = FormatDuration(static_cast<double>(at_ms > now_ms ? at_ms - now_ms : now_ms - at_ms) * 1e6);
  return at_ms > now_ms ? "in " + span : span + " ago";
}

std::string StateText(const v1::Token& token, int64_t now_ms) {
  if (token.revoked_at_ms() != 0) return "revoked";
  return token.expires_at_ms() <= now_ms ? "expired" : "valid";
}

absl::StatusOr<ExitCode> Create(Session* session, const TokenOptions& options) {
  ASSIGN_OR_RETURN(const OutputFormat format, session->format_without_csv());
  v1::CreateTokenRequest request;
  request.set_name(options.name);
  for (const std::string& role : options.roles) request.add_roles(role);
  ASSIGN_OR_RETURN(const int64_t life_ms, ParseLife(options.life));
  request.set_life_ms(life_ms);
  ASSIGN_OR_RETURN(Connection* const connection, session->connection());
  ASSIGN_OR_RETURN(const v1::CreateTokenResponse response,
                   Connection::Call(connection->access(), &Stub::CreateToken, request));
  session->Print(format == OutputFormat::kJson ? ToJson(response) : response.secret() + "\n");
  session->Note(
      fmt::format("This is the only time that it is shown. Write it to a file of mode 0600 and use it with "
                  "--token-file FILE;\ntunefarm token revoke {} ends it.",
                  options.name));
  return kExitOk;
}

absl::StatusOr<ExitCode> List(Session* session) {
  ASSIGN_OR_RETURN(const OutputFormat format, session->format());
  ASSIGN_OR_RETURN(Connection* const connection, session->connection());
  ASSIGN_OR_RETURN(const v1::ListTokensResponse response,
                   Connection::Call(connection->access(), &Stub::ListTokens, v1::ListTokensRequest()));
  if (format == OutputFormat::kJson) {
    session->Print(ToJson(response));
    return kExitOk;
  }
  const bool is_csv = format == OutputFormat::kCsv;
  Table table({{"name"},
               {"roles"},
               {"state"},
               {is_csv ? "expires_at_ms" : "expires"},
               {is_csv ? "last_used_at_ms" : "last used"}});
  const int64_t now_ms = Clock::Real()->WallMs();
  for (const v1::Token& token : response.tokens()) {
    std::string roles;
    for (const std::string& role : token.roles()) roles += (roles.empty() ? "" : ",") + role;
    table.AddRow({token.name(), roles, StateText(token, now_ms),
                  is_csv ? std::to_string(token.expires_at_ms()) : AgeText(token.expires_at_ms(), now_ms),
                  is_csv ? std::to_string(token.last_used_at_ms()) : AgeText(token.last_used_at_ms(), now_ms)});
  }
  session->PrintTable(table, format);
  if (table.rows() == 0) session->Note("No tokens: tunefarm token create makes one.");
  return kExitOk;
}

absl::StatusOr<ExitCode> Revoke(Session* session, const TokenOptions& options) {
  ASSIGN_OR_RETURN(const OutputFormat format, session->format_without_csv());
  ASSIGN_OR_RETURN(Connection* const connection, session->connection());
  v1::RevokeTokenRequest request;
  request.set_name(options.name);
  ASSIGN_OR_RETURN(const v1::RevokeTokenResponse response,
                   Connection::Call(connection->access(), &Stub::RevokeToken, request));
  session->Print(format == OutputFormat::kJson ? ToJson(response)
                                               : fmt::format("the token {} is revoked\n", options.name));
  return kExitOk;
}

}  // namespace

void AddToken(CLI::App* app, Session* session) {
  auto options = std::make_shared<TokenOptions>();
  CLI::App* token = app->add_subcommand("token", "Create, list or revoke access tokens of network clients.");
  SetExample(token, "tunefarm token create ci --role submit,kernels --expires 30d\ntunefarm token list");
  token->require_subcommand(1);
  CLI::App* create = token->add_subcommand("create", "Create a token and print it once.");
  SetExample(create, "tunefarm token create ci --role submit,kernels --expires 30d > ci.token");
  create->add_option("NAME", options->name, "Name of the token's holder.")->required();
  create
      ->add_option("--role", options->roles,
                   "Roles of the holder: lookup, submit, kernels, admin; separated by commas.")
      ->required()
      ->delimiter(',')
      ->type_name("ROLES");
  create->add_option("--expires", options->life, "Validity, at most 366d (default 90d).")->type_name("TIME");
  create->callback([session, options] { session->command = [session, options] { return Create(session, *options); }; });
  CLI::App* list = token->add_subcommand("list", "List all tokens, without their secrets.");
  SetExample(list, "tunefarm token list");
  list->callback([session] { session->command = [session] { return List(session); }; });
  CLI::App* revoke = token->add_subcommand("revoke", "Revoke a token at once.");
  SetExample(revoke, "tunefarm token revoke ci");
  revoke->add_option("NAME", options->name, "Whose.")->required();
  revoke->callback([session, options] { session->command = [session, options] { return Revoke(session, *options); }; });
}

}  // namespace tunefarm::cli
