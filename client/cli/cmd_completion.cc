// completion: a script for the shell that asks `tunefarm __complete` for candidates, so that kernels, jobs and devices
// complete live.

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <set>

#include "client/cli/commands.h"
#include "client/cli/help_format.h"
#include "client/cli/options/kernel_argument.h"
#include "client/cli/studies/job_names.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/search/strategy.h"

namespace tunefarm::cli {
namespace {

namespace fs = std::filesystem;

constexpr char kBash[] = R"sh(# bash completion for tunefarm:  source <(tunefarm completion bash)
_tunefarm() {
  local IFS=$'\n' candidates
  candidates=$(tunefarm __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
  COMPREPLY=($(compgen -W "$candidates" -- "${COMP_WORDS[COMP_CWORD]}"))
  [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace
}
complete -o default -F _tunefarm tunefarm
)sh";

constexpr char kZsh[] = R"sh(#compdef tunefarm
# zsh completion for tunefarm:  source <(tunefarm completion zsh)
_tunefarm() {
  local -a candidates
  candidates=(${(f)"$(tunefarm __complete "${words[@]:1:$((CURRENT-1))}" 2>/dev/null)"})
  if [[ ${candidates[1]} == *= ]]; then compadd -S '' -a candidates; else compadd -a candidates || _files; fi
}
compdef _tunefarm tunefarm
)sh";

constexpr char kFish[] = R"sh(# fish completion for tunefarm:  tunefarm completion fish | source
complete -c tunefarm -a '(tunefarm __complete (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)'
)sh";

void AddKernelNames(const Session& session, std::vector<std::string>* candidates) {
  for (const BoxDefinition& definition : DefinitionsInTheBox(session.environment)) {
    candidates->push_back(definition.name);
  }
}

// Names of what a running daemon has stored, and versions (NAME@VERSION) where a command takes them.
void AddStoredKernels(bool with_versions, Session* session, std::vector<std::string>* candidates) {
  session->connect.start_if_absent = false;
  const absl::StatusOr<Connection*> connection = session->connection();
  if (!connection.ok()) return;
  v1::ListKernelsRequest request;
  request.set_page_size(1000);
  const auto response = Connection::Call((*connection)->kernels(), &v1::KernelService::StubInterface::ListKernels,
                                         request, std::chrono::seconds(1));
  if (!response.ok()) return;
  for (const v1::Kernel& kernel : response->kernels()) {
    candidates->push_back(kernel.display_name());
    if (with_versions) candidates->push_back(VersionText(kernel.display_name(), kernel.name()));
  }
}

// Asks a running daemon, and only a running one: pressing the tab key must not start one.
void AddJobNumbers(Session* session, std::vector<std::string>* candidates) {
  session->connect.start_if_absent = false;
  const absl::StatusOr<Connection*> connection = session->connection();
  if (!connection.ok()) return;
  const auto response = Connection::Call((*connection)->tuning(), &v1::TuningService::StubInterface::ListJobs,
                                         v1::ListJobsRequest(), std::chrono::seconds(1));
  if (!response.ok()) return;
  for (const v1::Job& job : response->jobs()) candidates->push_back(JobNumber(job.name()));
}

// What stands for devices: always there, and of those that a running daemon knows.
void AddDeviceSelectors(Session* session, std::vector<std::string>* candidates) {
  candidates->insert(candidates->end(), {"cuda", "host", "all-classes"});
  session->connect.start_if_absent = false;
  const absl::StatusOr<Connection*> connection = session->connection();
  if (!connection.ok()) return;
  const auto response = Connection::Call((*connection)->devices(), &v1::DeviceService::StubInterface::ListDevices,
                                         v1::ListDevicesRequest(), std::chrono::seconds(1));
  if (!response.ok()) return;
  for (const v1::Device& device : response->devices()) {
    candidates->push_back(device.uuid());
    for (const auto& [key, value] : device.labels()) candidates->push_back(fmt::format("label:{}={}", key, value));
    if (!device.agent().empty()) candidates->push_back("agent:" + device.agent());
  }
}

// Whether a word of the command line is an option that the next word belongs to.
bool TakesValue(std::initializer_list<const CLI::App*> apps, const std::string& word) {
  if (word.size() < 2 || word[0] != '-' || word.find('=') != std::string::npos) return false;
  for (const CLI::App* app : apps) {
    const CLI::Option* option = app->get_option_no_throw(word);
    if (option != nullptr) return option->get_expected_max() != 0;
  }
  return false;
}

// "M=" for each dim or parameter of the first kernel among the words whose definition is at hand; no daemon is asked.
void AddNamesOfKernel(bool are_dims, const Session& session, const std::vector<std::string>& words,
                      std::vector<std::string>* candidates) {
  for (const std::string& word : words) {
    if (word.empty() || word[0] == '-') continue;
    const absl::StatusOr<KernelArgument> kernel = ResolveKernelWithoutData(word, session.environment);
    if (!kernel.ok() || !kernel->definition.has_value()) continue;
    if (are_dims) {
      for (const v1::Dim& dim : kernel->definition->dims()) candidates->push_back(dim.name() + "=");
    } else {
      for (const v1::Parameter& parameter : kernel->definition->parameters()) {
        candidates->push_back(parameter.name() + "=");
      }
    }
    return;
  }
}

// The roles that a command accepts: a session of the dashboard has neither kernels nor agent, a token is no agent's.
std::vector<std::string> RolesOf(const std::string& command) {
  if (command == "dashboard") return {"lookup", "submit", "admin"};
  if (command == "create") return {"lookup", "submit", "kernels", "admin"};
  return {"lookup", "submit", "kernels", "agent", "admin"};
}

// The words that an option of a command takes; none where any text may follow, so that the shell offers files.
std::vector<std::string> ValuesOf(const std::string& command, const std::string& option, Session* session,
                                  const std::vector<std::string>& words) {
  if (option == "--strategy") return StrategyNames();
  if (option == "--output" || option == "-o") return {"table", "json", "csv"};
  if (option == "--policy") return {"fast", "default", "rigorous"};
  if (option == "--role") return RolesOf(command);
  if (option == "--keys") return {"moe", "gemm", "guide"};
  std::vector<std::string> names;
  if (option == "--dim" || option == "-d") AddNamesOfKernel(true, *session, words, &names);
  if (option == "--pin") AddNamesOfKernel(false, *session, words, &names);
  if (option == "--device") AddDeviceSelectors(session, &names);
  if (option == "--kernel") AddKernelNames(*session, &names);
  if (option == "--job") AddJobNumbers(session, &names);
  return names;
}

}  // namespace

absl::StatusOr<ExitCode> Complete(const CLI::App& app, Session* session, const std::vector<std::string>& words) {
  const CLI::App* command = &app;
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    for (const CLI::App* sub : command->get_subcommands([](const CLI::App*) { return true; })) {
      if (sub->get_name() == words[i]) {
        command = sub;
        break;
      }
    }
  }
  const std::string last = words.empty() ? "" : words.back();
  std::vector<std::string> candidates;
  if (words.size() > 1 && TakesValue({command, &app}, words[words.size() - 2])) {
    candidates = ValuesOf(command->get_name(), words[words.size() - 2], session, {words.begin(), words.end() - 1});
  } else if (!last.empty() && last[0] == '-') {
    for (const CLI::App* one : {command, &app}) {
      for (const CLI::Option* option : one->get_options()) {
        for (const std::string& name : option->get_lnames()) candidates.push_back("--" + name);
      }
      if (one == &app) break;
    }
  } else {
    for (const CLI::App* sub : command->get_subcommands([](const CLI::App*) { return true; })) {
      candidates.push_back(sub->get_name());
    }
    if (command->get_option_no_throw("KERNEL") != nullptr) {
      AddKernelNames(*session, &candidates);
      AddStoredKernels(/*with_versions=*/false, session, &candidates);
    }
    if (command->get_option_no_throw("STORED") != nullptr) {
      AddStoredKernels(/*with_versions=*/true, session, &candidates);
    }
    if (command->get_option_no_throw("JOB") != nullptr) AddJobNumbers(session, &candidates);
    if (command->get_option_no_throw("TOPIC") != nullptr) {
      for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; }))
        candidates.push_back(sub->get_name());
      candidates.insert(candidates.end(), {"exit-codes", "expressions", "strategies"});
    }
    if (command->get_option_no_throw("SHELL") != nullptr) candidates.insert(candidates.end(), {"bash", "zsh", "fish"});
  }
  std::set<std::string> told;
  std::string text;
  for (const std::string& candidate : candidates) {
    // The shells expand what they are given: a label such as $(reboot) would be run.
    const bool is_safe = std::all_of(candidate.begin(), candidate.end(), [](unsigned char c) {
      return std::isalnum(c) != 0 ||
             std::string_view("_-.:=/,@%+").find(static_cast<char>(c)) != std::string_view::npos;
    });
    if (is_safe && candidate.rfind(last, 0) == 0 && told.insert(candidate).second) text += candidate + "\n";
  }
  session->Print(text);
  return kExitOk;
}

void AddCompletion(CLI::App* app, Session* session) {
  auto shell = std::make_shared<std::string>();
  CLI::App* completion = app->add_subcommand("completion", "Print the completion script of a shell.");
  SetExample(completion, "source <(tunefarm completion bash)");
  completion->add_option("SHELL", *shell, "bash, zsh or fish.")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  completion->callback([session, shell] {
    session->command = [session, shell]() -> absl::StatusOr<ExitCode> {
      RETURN_IF_ERROR(session->CheckOneForm());
      session->Print(*shell == "bash" ? kBash : *shell == "zsh" ? kZsh : kFish);
      return kExitOk;
    };
  });
}

}  // namespace tunefarm::cli
