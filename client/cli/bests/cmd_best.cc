// best: the answer to "which config for this kernel, problem, device?".

#include <fmt/chrono.h>
#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "client/cli/bests/best_binary.h"
#include "client/cli/bests/best_verbs.h"
#include "client/cli/commands.h"
#include "client/cli/help_format.h"
#include "client/cli/options/kernel_argument.h"
#include "client/cli/options/problem_options.h"
#include "client/cli/studies/report.h"
#include "server/base/format.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/definition/kernel_plan.h"

namespace tunefarm::cli {
namespace {

struct BestOptions {
  std::string kernel;
  ProblemOptions problem;
  std::string device;
  std::string format = "text";
  bool exact = false;
  std::string run;  // a distributed run's id; empty: none
  // Where the binary goes; empty: nowhere, "-": stdout.
  std::string cubin, ptx, so;

  bool wants_binary() const { return !cubin.empty() || !ptx.empty() || !so.empty(); }
};

struct BinaryOption {
  const char* name;
  std::string BestOptions::*file;
  v1::BinaryFormat format;
  v1::Language language;
  const char* help;
};
constexpr BinaryOption kBinaryOptions[] = {
    {"--cubin", &BestOptions::cubin, v1::BINARY_FORMAT_CUBIN, v1::LANGUAGE_CUDA,
     "Write the binary of a CUDA kernel there ('-' is stdout)."},
    {"--ptx", &BestOptions::ptx, v1::BINARY_FORMAT_PTX, v1::LANGUAGE_CUDA,
     "Write it as PTX, which later GPUs take too, unless it is for one architecture."},
    {"--so", &BestOptions::so, v1::BINARY_FORMAT_SHARED_OBJECT, v1::LANGUAGE_HOST_CXX,
     "Write the shared object of a C++ kernel there."},
};

// Says which definition of the name has answered, where that is not the one that was asked for or the name has others.
// `program`: of the definition that was asked for; empty: a name was.
void NoteDefinition(const Session& session, const std::string& name, const std::string& program,
                    const v1::LookupConfigResponse& response) {
  const v1::BestConfig& best = response.best();
  const std::string& asked = program.empty() ? response.program_digest() : program;
  const bool is_of_another = response.match() > v1::MATCH_STALE && !best.program_digest().empty() && !asked.empty() &&
                             best.program_digest() != asked;
  if (is_of_another) {
    session.Note(fmt::format("{} was not tuned for this problem; the newest tuned version of {} is {}, which answers.",
                             program.empty() ? "The newest definition of " + name : "This version", name,
                             VersionText(best.kernel_name(), best.kernel_id())));
  }
  if (response.other_programs() > 0) {
    session.Note(fmt::format(
        "{} stands for several definitions: {} tuned for this problem too. This is asked of {}, "
        "the one that was "
        "submitted last; a folder or kernels/ID names another.",
        name, FormatCount(response.other_programs(), "other is", "others are"), VersionText(name, response.kernel())));
  }
}

// What stands for a definition that the daemon does not have is the newest of its name, whose default config is not
// this one's.
absl::Status TakeOwnDefault(const v1::Kernel& definition, const v1::Problem& problem,
                            v1::LookupConfigResponse* response) {
  ASSIGN_OR_RETURN(const auto plan, KernelPlan::Compile(definition));
  ASSIGN_OR_RETURN(const ResolvedProblem resolved, plan->ResolveProblem(problem));
  *response->mutable_best()->mutable_config() = plan->ToProto(plan->DefaultConfig(resolved));
  return absl::OkStatus();
}

// What the daemon says, and for a run since when it says so.
absl::StatusOr<v1::AgreeConfigResponse> Ask(Connection* connection, const BestOptions& options,
                                            const v1::LookupConfigRequest& request) {
  if (!options.run.empty()) {
    v1::AgreeConfigRequest of_run;
    of_run.set_run_id(options.run);
    *of_run.mutable_question() = request;
    return Connection::Call(connection->lookup(), &v1::LookupService::StubInterface::AgreeConfig, of_run);
  }
  v1::AgreeConfigResponse response;
  ASSIGN_OR_RETURN(*response.mutable_answer(),
                   Connection::Call(connection->lookup(), &v1::LookupService::StubInterface::LookupConfig, request));
  return response;
}

std::string UtcText(int64_t ms) {
  return fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(static_cast<std::time_t>(ms / 1000)));
}

absl::StatusOr<ExitCode> ListAllBests(Session* session, const BestOptions& options) {
  const bool says_more =
      !options.problem.dims.empty() || !options.problem.pins.empty() || !options.device.empty() || !options.run.empty();
  if (says_more || options.exact || options.format != "text" || options.wants_binary()) {
    return InvalidArgument(
        "--dim, --pin, --device, --format, --exact, --run, --cubin, --ptx and --so say more about a KERNEL; name it "
        "too");
  }
  return ListBests(session, "");
}

// One form on stdout, and no other beside a binary.
absl::Status CheckForms(const Session& session, const BestOptions& options) {
  if (options.format != "text") RETURN_IF_ERROR(session.CheckOneForm());
  const auto to_stdout = std::count_if(std::begin(kBinaryOptions), std::end(kBinaryOptions),
                                       [&](const auto& one) { return options.*one.file == "-"; });
  if (to_stdout == 0) return absl::OkStatus();
  if (to_stdout > 1 || options.format != "text" || session.output != "table") {
    return InvalidArgument("stdout takes one thing: write the others into files");
  }
  return absl::OkStatus();
}

// What is said where an option is for another language.
absl::Status WrongLanguage(const KernelPlan& plan) {
  switch (plan.language()) {
    case v1::LANGUAGE_CUDA:
      return InvalidArgument("{} is in CUDA; its binary is written by --cubin or --ptx", plan.display_name());
    case v1::LANGUAGE_PYTHON:
      return InvalidArgument("{} is in Python, which has no binary", plan.display_name());
    case v1::LANGUAGE_TRITON:
      return InvalidArgument("{} is in Triton, whose binaries are not handed out yet", plan.display_name());
    default:
      return InvalidArgument("{} is in C++ for the CPU; its binary is written by --so", plan.display_name());
  }
}

// All of them or, where one is for another language, none.
absl::Status WriteBinaries(Session* session, const BestOptions& options, const AnsweredConfig& answered) {
  for (const BinaryOption& one : kBinaryOptions) {
    const bool is_wanted = !(options.*one.file).empty();
    if (is_wanted && one.language != answered.plan->language()) return WrongLanguage(*answered.plan);
  }
  for (const BinaryOption& one : kBinaryOptions) {
    const std::string& file = options.*one.file;
    if (file.empty()) continue;
    ASSIGN_OR_RETURN(const v1::CompileKernelResponse compiled, CompileAnswered(session, answered, one.format));
    const v1::ConfigCompile& config = compiled.configs(0);
    RETURN_IF_ERROR(session->WriteFile(file, config.binary()));
    session->Note(fmt::format("Wrote {}: {} bytes of {}", file == "-" ? "stdout" : file, config.binary().size(),
                              compiled.toolchain()));
    for (const auto& [entry, symbol] :
         std::map<std::string, std::string>(config.lowered_names().begin(), config.lowered_names().end())) {
      if (entry != symbol) session->Note(fmt::format("  {} is {}", entry, symbol));
    }
  }
  return absl::OkStatus();
}

// With macros and launches; `compile`: and with what the compiler says.
absl::StatusOr<std::string> WholeJson(Session* session, const v1::LookupConfigResponse& response,
                                      const absl::StatusOr<AnsweredConfig>& answered, bool compile) {
  RETURN_IF_ERROR(answered.status());
  if (!compile || !HasMacros(answered->plan->language())) return AnswerJson(response, *answered, nullptr);
  const auto compiled = CompileAnswered(session, *answered, v1::BINARY_FORMAT_UNSPECIFIED);
  if (!compiled.ok()) session->Note(fmt::format("There is no binary: {}", MessageOf(compiled.status())));
  return AnswerJson(response, *answered, compiled.ok() ? &*compiled : nullptr);
}

// Without `compile` only the answer where its definition is gone.
absl::Status PrintJson(Session* session, const v1::AgreeConfigResponse& agreed,
                       const absl::StatusOr<AnsweredConfig>& answered, bool compile) {
  const absl::StatusOr<std::string> json = WholeJson(session, agreed.answer(), answered, compile);
  if (compile) RETURN_IF_ERROR(json.status());
  std::string text = json.ok() ? *json : ToJson(agreed.answer());
  if (agreed.agreed_at_ms() != 0) {
    text = WithFields(text, {{"run", JsonObject({{"agreed_at_ms", std::to_string(agreed.agreed_at_ms())},
                                                 {"begun_at_ms", std::to_string(agreed.run_begun_at_ms())},
                                                 {"revision", std::to_string(agreed.run_revision())}})}});
  }
  session->Print(text);
  if (!json.ok()) session->Note(fmt::format("Without macros and launches: {}", MessageOf(json.status())));
  return absl::OkStatus();
}

absl::StatusOr<ExitCode> Best(Session* session, const BestOptions& options) {
  ASSIGN_OR_RETURN(const OutputFormat format, session->format());
  RETURN_IF_ERROR(CheckForms(*session, options));
  ASSIGN_OR_RETURN(const KernelArgument kernel, ResolveKernelArgument(options.kernel, session->environment));
  ASSIGN_OR_RETURN(const v1::Problem problem, MakeProblem(options.problem));
  ASSIGN_OR_RETURN(Connection* const connection, session->connection());
  v1::LookupConfigRequest request;
  request.set_kernel(kernel.name);
  // In a run, the question is that of a client that names the kernel.
  ASSIGN_OR_RETURN(*request.mutable_program_digest(),
                   options.run.empty() ? ProgramDigestOf(kernel) : ProgramDigestOfPath(kernel));
  *request.mutable_problem() = problem;
  request.set_device_selector(options.device);
  request.set_with_device_class(true);
  request.set_worst_match(options.exact ? v1::MATCH_EXACT : v1::MATCH_DEFAULT);
  const std::string tune = TuneCommand(options.kernel, options.problem, options.device);
  absl::StatusOr<v1::AgreeConfigResponse> answer = Ask(connection, options, request);
  RETURN_IF_ERROR(SayNeverTuned(answer.status(), kernel, tune));
  v1::AgreeConfigResponse& agreed = *answer;
  v1::LookupConfigResponse& response = *agreed.mutable_answer();
  const bool is_stored = response.program_digest().empty() || response.program_digest() == request.program_digest();
  if (!request.program_digest().empty() && !is_stored && response.match() == v1::MATCH_DEFAULT) {
    RETURN_IF_ERROR(TakeOwnDefault(*kernel.definition, problem, &response));
  }
  if (response.match() == v1::MATCH_NOT_FOUND || response.match() == v1::MATCH_UNSPECIFIED) {
    if (!options.run.empty()) {
      return NotFound("{} is known of {} for this problem and device, as run {} agreed on at {}",
                      options.exact ? "nothing exact" : "nothing", kernel.name, options.run,
                      UtcText(agreed.agreed_at_ms()));
    }
    return NotFound("{} is known of {} for this problem and device; run: {}",
                    options.exact ? "nothing exact" : "nothing", kernel.name, tune);
  }
  const bool is_json = options.format == "json" || format == OutputFormat::kJson;
  absl::StatusOr<AnsweredConfig> answered = FailedPrecondition("");
  if (is_json || options.format == "defines" || options.wants_binary()) {
    answered = FindAnsweredConfig(session, kernel, problem, options.device, response);
    if (options.wants_binary()) {
      RETURN_IF_ERROR(answered.status());
      RETURN_IF_ERROR(WriteBinaries(session, options, *answered));
    }
  }
  if (options.format == "defines") {
    RETURN_IF_ERROR(answered.status());
    ASSIGN_OR_RETURN(const std::string text, DefinesText(*answered));
    session->Print(text);
  } else if (is_json) {
    RETURN_IF_ERROR(PrintJson(session, agreed, answered, options.format == "json"));
  } else if (options.cubin == "-" || options.ptx == "-" || options.so == "-") {
    // The binary is what is printed.
  } else if (format == OutputFormat::kCsv) {
    Table table({{"name", false}, {"value", false}});
    for (const auto& [name, value] : std::map<std::string, v1::Value>(response.best().config().values().begin(),
                                                                      response.best().config().values().end())) {
      table.AddRow({name, ValueText(value)});
    }
    session->Print(table.ToCsv());
  } else {
    std::string question = kernel.name;
    const std::string key = response.best().problem().key();
    if (!key.empty() && response.match() != v1::MATCH_NEAREST_SHAPE) question += "  " + key;
    if (!response.best().device_class_name().empty() && response.match() != v1::MATCH_SAME_ARCH)
      question += "  on  " + response.best().device_class_name();
    std::string text = BestText(response, question);
    if (!options.run.empty()) {
      text += fmt::format("run      {}, fixed since {}\n", options.run, UtcText(agreed.agreed_at_ms()));
    }
    session->Print(text);
  }
  NoteDefinition(*session, kernel.name, request.program_digest(), response);
  if (response.match() == v1::MATCH_DEFAULT && options.run.empty()) {
    session->Note("Not tuned yet: this is the default config. Run: " + tune);
  }
  return kExitOk;
}

}  // namespace

void AddBest(CLI::App* app, Session* session) {
  auto options = std::make_shared<BestOptions>();
  CLI::App* best = app->add_subcommand("best", "The best config for a kernel, problem and device; alone: all of them.");
  SetExample(best,
             "tunefarm best matmul --dim M=4096 --dim N=4096 --dim K=4096 --dim dtype=bf16\n"
             "tunefarm best matmul --dim dtype=bf16 --format defines > best_config.h\n"
             "tunefarm best matmul --dim dtype=bf16 --cubin matmul.cubin\n"
             "tunefarm best list matmul");
  best->add_option("KERNEL", options->kernel, "A kernel's name or definition (default: list the bests of all).");
  options->problem.AddTo(best, /*many=*/false);
  best->add_option("--device", options->device, "Device UUID, class, name, or a known class such as A100.")
      ->type_name("DEVICE");
  best->add_option("--format", options->format,
                   "text, defines for a header that the tuned source compiles with, or json for all about its binary.")
      ->type_name("FORMAT")
      ->check(CLI::IsMember({"text", "defines", "json"}));
  for (const BinaryOption& one : kBinaryOptions) {
    best->add_option(one.name, options.get()->*one.file, one.help)->type_name("FILE");
  }
  best->add_flag("--exact", options->exact, "Exit with 3 unless the match is exact.");
  best->add_option("--run", options->run,
                   "The answer that all processes of this distributed run get: the first one stays.")
      ->type_name("ID")
      // Such as that of a variable that is not set: each process would get an answer of its own.
      ->check([](const std::string& id) { return id.empty() ? "an empty ID names no run" : std::string(); });
  best->callback([session, options] {
    // A subcommand has set its own before.
    if (session->command) return;
    session->command = [session, options] {
      return options->kernel.empty() ? ListAllBests(session, *options) : Best(session, *options);
    };
  });
  AddBestVerbs(best, session);
}

}  // namespace tunefarm::cli
