#include "client/cli/app.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iterator>
#include <optional>

#include "client/cli/commands.h"
#include "client/cli/help_format.h"
#include "client/cli/options/expressions_help.h"
#include "client/cli/options/strategies_help.h"
#include "server/base/edit_distance.h"
#include "server/base/format.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/version.h"

namespace tunefarm::cli {
namespace {

constexpr char kExitCodes[] =
    "Exit codes:\n"
    "    0  success\n"
    "    1  failed\n"
    "    2  wrong usage or input\n"
    "    3  not found\n"
    "    4  the daemon cannot be reached\n"
    "    5  no valid config\n"
    "  130  interrupted\n";

constexpr char kIntroduction[] =
    "tunefarm tunes GPU kernels: it compiles, runs, checks and times every config in processes that may\n"
    "crash, and stores the best one for each kernel, problem and device.";

constexpr char kExamples[] =
    "Examples:\n"
    "  tunefarm tune matmul_host              tune a built-in kernel on this CPU\n"
    "  tunefarm tune matmul --dim dtype=bf16  tune one on the GPU\n"
    "  tunefarm best matmul --dim dtype=bf16  print the best config\n"
    "  tunefarm kernels new my.cu             write a template for a kernel of your own\n"
    "\n"
    "Without --server and TUNEFARM_SERVER a private daemon is started on demand; it exits when idle.\n"
    "Options may stand before or after the command. Help on one command: tunefarm COMMAND --help\n"
    "More: tunefarm help exit-codes, tunefarm help expressions, tunefarm help strategies";

std::vector<std::string> VerbsOf(const CLI::App& app) {
  std::vector<std::string> verbs;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    verbs.push_back(command->get_name());
  }
  return verbs;
}

bool TakesArguments(const CLI::App& app) {
  const std::vector<const CLI::Option*> options = app.get_options();
  return std::any_of(options.begin(), options.end(), [](const CLI::Option* o) { return o->get_positional(); });
}

// CLI11 only says that a subcommand is required; people want to know which word was wrong. Follows the command line
// into nested verbs; options that take a value before the verb are the global ones.
std::optional<std::string> UnknownVerb(const CLI::App& root, const std::vector<std::string>& arguments) {
  const CLI::App* app = &root;
  std::string path = "tunefarm";
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    static constexpr std::string_view kWithValue[] = {"--server",          "--data-dir", "--output", "-o",
                                                      "--tls-certificate", "--tls-key",  "--tls-ca", "--token-file"};
    if (std::find(std::begin(kWithValue), std::end(kWithValue), word) != std::end(kWithValue)) {
      ++i;
      continue;
    }
    if (!word.empty() && word[0] == '-') continue;
    const std::vector<std::string> verbs = VerbsOf(*app);
    if (verbs.empty()) return std::nullopt;
    if (std::find(verbs.begin(), verbs.end(), word) == verbs.end()) {
      if (TakesArguments(*app)) return std::nullopt;  // then the word is one of them
      const std::optional<std::string> close = ClosestMatch(word, verbs);
      return fmt::format("'{}' is not a command of {}{}; see {} --help", word, path,
                         close ? fmt::format(" (did you mean '{}'?)", *close) : "", path);
    }
    app = app->get_subcommand(word);
    path += " " + word;
  }
  return std::nullopt;
}

// CLI11 says that something was not expected; people want to know which option they may have meant.
std::optional<std::string> UnknownOption(const CLI::App& app, const CLI::App& chosen, const std::string& path) {
  for (const std::string& word : app.remaining(true)) {
    if (word.size() < 3 || word.rfind("--", 0) != 0) continue;
    const std::string name = word.substr(2, word.find('=') - 2);
    std::vector<std::string> names;
    for (const CLI::App* one : {&chosen, &app}) {
      for (const CLI::Option* option : one->get_options()) {
        names.insert(names.end(), option->get_lnames().begin(), option->get_lnames().end());
      }
    }
    const std::optional<std::string> close = ClosestMatch(name, names);
    return fmt::format("'--{}' is not an option of {}{}; see {} --help", name, path,
                       close ? fmt::format(" (did you mean '--{}'?)", *close) : "", path);
  }
  return std::nullopt;
}

// CLI11 says "At Most 1 required but received 2". Empty if no option is given too often.
std::string RepeatedOption(const CLI::App& app, const CLI::App& chosen) {
  for (const CLI::App* one : {&chosen, &app}) {
    for (const CLI::Option* option : one->get_options()) {
      const auto values_max = static_cast<size_t>(std::max(option->get_items_expected_max(), 1));
      if (option->get_positional() || option->count() <= values_max) continue;
      return fmt::format("{} takes {}, {} are given", option->get_name(),
                         FormatCount(static_cast<int64_t>(values_max), "value"), option->count());
    }
  }
  return "";
}

std::string UsageError(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* chosen = &app;
  std::string path = "tunefarm";
  while (!chosen->get_subcommands().empty()) {
    chosen = chosen->get_subcommands().front();
    path += " " + chosen->get_name();
  }
  if (const std::optional<std::string> problem = UnknownOption(app, *chosen, path)) return *problem;
  const std::vector<std::string> verbs = VerbsOf(*chosen);
  if (!verbs.empty() && !TakesArguments(*chosen)) {
    std::string list;
    for (const std::string& verb : verbs) list += (list.empty() ? "" : ", ") + verb;
    return fmt::format("choose a command: {}; see {} --help", list, path);
  }
  std::string problem =
      dynamic_cast<const CLI::ArgumentMismatch*>(&error) == nullptr ? "" : RepeatedOption(app, *chosen);
  if (problem.empty()) problem = error.what();
  return fmt::format("{}; see {} --help", problem, path);
}

void AddGlobalOptions(CLI::App* app, Session* session) {
  app->set_help_flag("-h,--help", "Print help and exit.");
  app->set_version_flag("--version", fmt::format("tunefarm {} ({})", TUNEFARM_VERSION, TUNEFARM_REVISION),
                        "Print the version and exit.");
  app->add_option("--server", session->connect.server,
                  "Address of the daemon, such as unix:/path or 127.0.0.1:7070 (TUNEFARM_SERVER).")
      ->type_name("ADDRESS");
  app->add_option("--data-dir", session->connect.data_directory,
                  "Data directory of the private daemon (TUNEFARM_DATA_DIR).")
      ->type_name("DIRECTORY");
  app->add_option("--tls-ca", session->connect.dial.ca,
                  "CA that signed the daemon's certificate; enables TLS (TUNEFARM_TLS_CA).")
      ->type_name("FILE");
  app->add_option("--tls-certificate", session->connect.dial.certificate,
                  "Client certificate, if the daemon asks for one (TUNEFARM_CLIENT_CERTIFICATE).")
      ->type_name("FILE");
  app->add_option("--tls-key", session->connect.dial.key,
                  "Private key of the client certificate (TUNEFARM_CLIENT_KEY).")
      ->type_name("FILE");
  app->add_option("--token-file", session->connect.dial.token_file,
                  "File with an access token (TUNEFARM_TOKEN_FILE, TUNEFARM_TOKEN).")
      ->type_name("FILE");
  app->add_option("-o,--output", session->output, "Output format: table (default), json or csv.")
      ->type_name("FORMAT")
      ->check(CLI::IsMember({"table", "json", "csv"}));
  app->add_flag("-q,--quiet", session->quiet, "Print neither progress nor notes.");
  app->add_flag("--no-color", session->no_color, "Print without colours (NO_COLOR).");
}

// What `tunefarm help` explains beside the commands.
struct HelpTopic {
  std::string_view name;
  std::string (*text)(size_t columns);
};
constexpr HelpTopic kHelpTopics[] = {{"exit-codes", [](size_t columns) { return WrapLines(kExitCodes, columns); }},
                                     {"expressions", ExpressionsHelp},
                                     {"strategies", StrategiesHelp}};

void AddHelpTopics(CLI::App* app, Session* session) {
  auto words = std::make_shared<std::vector<std::string>>();
  CLI::App* help = app->add_subcommand("help", "Help on a command, on exit-codes, expressions or strategies.");
  SetExample(help, "tunefarm help jobs cancel\ntunefarm help expressions");
  help->add_option("TOPIC", *words, "A command, exit-codes, expressions or strategies.");
  help->callback([app, session, words] {
    session->command = [app, session, words]() -> absl::StatusOr<ExitCode> {
      RETURN_IF_ERROR(session->CheckOneForm());
      const CLI::App* target = app;
      for (const std::string& word : *words) {
        std::vector<std::string> known = VerbsOf(*target);
        if (std::find(known.begin(), known.end(), word) != known.end()) {
          target = target->get_subcommand(word);
          continue;
        }
        for (const HelpTopic& topic : kHelpTopics) {
          if (words->size() == 1 && topic.name == word) {
            session->Print(topic.text(HelpColumns(session->columns)));
            return kExitOk;
          }
          known.emplace_back(topic.name);
        }
        const std::optional<std::string> close = ClosestMatch(word, known);
        return InvalidArgument("there is no help on '{}'{}; see tunefarm help", word,
                               close ? fmt::format(" (did you mean '{}'?)", *close) : "");
      }
      // Not target->help(), which CLI11 passes on to the command that was parsed: for the root, to `help` itself.
      session->Print(target->get_formatter()->make_help(target, target->get_name(), CLI::AppFormatMode::Normal));
      return kExitOk;
    };
  });
}

int ReportError(const absl::Status& status, const Session& session) {
  session.Complain(MessageOf(status));
  return ExitCodeOf(status);
}

int RunWords(const std::vector<std::string>& arguments, Session* session) {
  CLI::App app(kIntroduction, "tunefarm");
  app.footer(kExamples);
  // What subcommands inherit comes before them.
  app.formatter(std::make_shared<HelpFormatter>(HelpColumns(session->columns)));
  app.fallthrough();  // global options are also understood after the verb
  app.require_subcommand(0, 1);
  AddGlobalOptions(&app, session);
  AddTune(&app, session);
  AddTuneMoe(&app, session);
  AddJobs(&app, session);
  AddResults(&app, session);
  AddBest(&app, session);
  AddMisses(&app, session);
  AddKernels(&app, session);
  AddDevices(&app, session);
  AddAgents(&app, session);
  AddDb(&app, session);
  AddToken(&app, session);
  AddCerts(&app, session);
  AddImport(&app, session);
  AddExport(&app, session);
  AddInspect(&app, session);
  AddSimulate(&app, session);
  AddDashboard(&app, session);
  AddStatus(&app, session);
  AddDoctor(&app, session);
  AddCompletion(&app, session);
  AddVersion(&app, session);
  AddHelpTopics(&app, session);
  if (arguments.empty()) {
    session->Print(app.help());
    return kExitOk;
  }
  if (arguments[0] == "__complete") {
    // Not parsed: the words are of a command line that is being written.
    return Complete(app, session, {arguments.begin() + 1, arguments.end()}).value_or(kExitFailed);
  }
  if (const std::optional<std::string> problem = UnknownVerb(app, arguments)) {
    return ReportError(InvalidArgument("{}", *problem), *session);
  }
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::CallForHelp&) {
    const CLI::App* chosen = &app;
    while (!chosen->get_subcommands().empty()) chosen = chosen->get_subcommands().front();
    session->Print(chosen->help());
    return kExitOk;
  } catch (const CLI::CallForVersion&) {
    session->Print(app.version() + "\n");
    return kExitOk;
  } catch (const CLI::ParseError& error) {
    return ReportError(InvalidArgument("{}", UsageError(app, error)), *session);
  }
  if (!session->command) return ReportError(InvalidArgument("no command is given; see tunefarm --help"), *session);
  const absl::StatusOr<ExitCode> code = session->command();
  return code.ok() ? *code : ReportError(code.status(), *session);
}

}  // namespace

int RunCommandLine(const std::vector<std::string>& arguments, Session* session) {
  const int code = RunWords(arguments, session);
  const absl::Status written = session->FlushOutput();
  if (written.ok()) return code;
  ReportError(written, *session);
  return code == kExitOk ? kExitFailed : code;
}

}  // namespace tunefarm::cli
