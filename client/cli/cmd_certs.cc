// certs: a private CA for a farm, and the certificates of its daemons, agents and clients.

#include <fmt/core.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "client/cli/certificate_files.h"
#include "client/cli/commands.h"
#include "client/cli/help_format.h"
#include "client/cli/options/life_option.h"
#include "client/cli/options/problem_options.h"
#include "server/base/clock.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm::cli {
namespace {

struct CertsOptions {
  std::string folder, file;
  std::string name, roles;
  std::vector<std::string> hosts;
  std::string authority_life = "3650d";
  std::string life = "90d";
};

absl::StatusOr<ExitCode> PrintFiles(Session* session, const CertificateFiles& files) {
  ASSIGN_OR_RETURN(const OutputFormat format, session->format_without_csv());
  if (format == OutputFormat::kJson) {
    session->Print(nlohmann::ordered_json{{"certificate", files.certificate}, {"key", files.key}}.dump(2, ' ', true) +
                   "\n");
  } else {
    session->Print(fmt::format("{}\n{}\n", files.certificate, files.key));
  }
  return kExitOk;
}

absl::StatusOr<ExitCode> Init(Session* session, const CertsOptions& options) {
  ASSIGN_OR_RETURN(const int64_t life_ms, ParseLife(options.authority_life));
  ASSIGN_OR_RETURN(const CertificateFiles files, MakeAuthority(options.folder, life_ms, Clock::Real()->WallMs()));
  session->Note(
      fmt::format("{} can sign any identity: keep it on a machine without a daemon. Next, for the daemon's machine:\n"
                  "  tunefarm certs issue {} --name control --host NAME,ADDRESS",
                  files.key, ShellWord(options.folder)));
  return PrintFiles(session, files);
}

absl::StatusOr<ExitCode> Issue(Session* session, const CertsOptions& options) {
  IssueRequest request;
  request.folder = options.folder;
  request.name = options.name;
  request.roles = options.roles;
  request.hosts = options.hosts;
  request.now_ms = Clock::Real()->WallMs();
  ASSIGN_OR_RETURN(request.life_ms, ParseLife(options.life));
  ASSIGN_OR_RETURN(const CertificateFiles files, IssueCertificate(request));
  if (!options.hosts.empty()) {
    session->Note(
        fmt::format("Copy both and {0}/ca.pem to the daemon's machine, and start it with\n"
                    "  tunefarmd --listen 0.0.0.0:7070 --tls-certificate {1} --tls-key {2} --tls-client-ca {0}/ca.pem",
                    options.folder, files.certificate, files.key));
  }
  if (!options.roles.empty()) {
    session->Note(
        fmt::format("Copy both and {0}/ca.pem to where they are used, and connect to the daemon with\n"
                    "  tunefarm --server HOST:7070 --tls-ca {0}/ca.pem --tls-certificate {1} --tls-key {2} status",
                    options.folder, files.certificate, files.key));
  }
  return PrintFiles(session, files);
}

std::string Joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text.empty() ? "-" : text;
}

absl::StatusOr<ExitCode> Show(Session* session, const CertsOptions& options) {
  ASSIGN_OR_RETURN(const OutputFormat format, session->format_without_csv());
  ASSIGN_OR_RETURN(const std::vector<CertificateView> views, ViewCertificates(options.file, Clock::Real()->WallMs()));
  if (format == OutputFormat::kJson) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const CertificateView& view : views) {
      list.push_back({{"subject", view.subject},
                      {"issuer", view.issuer},
                      {"identities", view.identities},
                      {"hosts", view.hosts},
                      {"valid_from", view.valid_from},
                      {"valid_until", view.valid_until},
                      {"is_ca", view.is_ca},
                      {"has_expired", view.is_over}});
    }
    session->Print(list.dump(2, ' ', true, nlohmann::json::error_handler_t::replace) + "\n");
    return kExitOk;
  }
  for (const CertificateView& view : views) {
    session->Print(
        fmt::format("subject      {}{}\nissuer       {}\nidentity     {}\nhosts        {}\nvalid from   {}\n"
                    "valid until  {}{}\n",
                    view.subject, view.is_ca ? " (a CA)" : "", view.issuer, Joined(view.identities), Joined(view.hosts),
                    view.valid_from, view.valid_until, view.is_over ? " (it has expired)" : ""));
  }
  return kExitOk;
}

}  // namespace

void AddCerts(CLI::App* app, Session* session) {
  auto options = std::make_shared<CertsOptions>();
  CLI::App* certs = app->add_subcommand("certs", "Create a private CA for a farm; issue and show certificates.");
  SetExample(certs, "tunefarm certs init farm-ca\ntunefarm certs issue farm-ca --name gpu7 --role agent");
  certs->require_subcommand(1);
  CLI::App* init = certs->add_subcommand("init", "Create a CA in a folder.");
  SetExample(init, "tunefarm certs init farm-ca");
  init->add_option("DIR", options->folder, "The folder, created if missing.")->required();
  init->add_option("--expires", options->authority_life, "Validity (default 3650d).")->type_name("TIME");
  init->callback([session, options] { session->command = [session, options] { return Init(session, *options); }; });
  CLI::App* issue = certs->add_subcommand("issue", "Issue a certificate with its key.");
  SetExample(issue,
             "tunefarm certs issue farm-ca --name control --host farm1,10.0.0.1\n"
             "tunefarm certs issue farm-ca --name gpu7 --role agent\n"
             "tunefarm certs issue farm-ca --name alice --role submit,kernels --expires 30d");
  issue->add_option("DIR", options->folder, "The folder of the CA.")->required();
  issue->add_option("--name", options->name, "Name of the holder, and of the files.")->required()->type_name("NAME");
  issue
      ->add_option("--role", options->roles,
                   "Roles of the holder: lookup, submit, kernels, agent, admin; separated by commas.")
      ->type_name("ROLES");
  issue->add_option("--host", options->hosts, "For a daemon: the host names and addresses that clients connect to.")
      ->delimiter(',')
      ->type_name("HOSTS");
  issue->add_option("--expires", options->life, "Validity (default 90d).")->type_name("TIME");
  issue->callback([session, options] { session->command = [session, options] { return Issue(session, *options); }; });
  CLI::App* show = certs->add_subcommand("show", "Show the content of a certificate.");
  SetExample(show, "tunefarm certs show farm-ca/gpu7.pem");
  show->add_option("FILE", options->file, "The certificate (PEM).")->required();
  show->callback([session, options] { session->command = [session, options] { return Show(session, *options); }; });
}

}  // namespace tunefarm::cli
