// kernels {list,show,check,space,new,delete}.

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/cli/commands.h"
#include "client/cli/help_format.h"
#include "client/cli/kernel_check.h"
#include "client/cli/kernel_template.h"
#include "client/cli/options/kernel_argument.h"
#include "client/cli/options/problem_options.h"
#include "client/cli/sketch/definition_sketch.h"
#include "client/cli/space_text.h"
#include "server/base/file.h"
#include "server/base/format.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/definition/kernel_plan.h"
#include "server/definition/source_includes.h"
#include "server/definition/space_size.h"
#include "server/device/device_class.h"
#include "server/expression/expression.h"
#include "server/space/space_limit.h"

namespace tunefarm::cli {
namespace {

namespace fs = std::filesystem;
using Kernels = v1::KernelService::StubInterface;

// The processor time of counting a space here.
constexpr Duration kCountTimeMax = std::chrono::seconds(60);
constexpr uint64_t kNewSourceBytesMax = 4 << 20;
constexpr size_t kNamedHeadersMax = 8;

std::string LanguageText(v1::Language language) {
  return v1::Language_Name(language).substr(std::string_view("LANGUAGE_").size());
}

absl::StatusOr<ExitCode> ListKernels(Session* session) {
  ASSIGN_OR_RETURN(const OutputFormat format, session->format());
  ASSIGN_OR_RETURN(Connection* const connection, session->connection());
  v1::ListKernelsRequest request;
  request.set_page_size(1000);
  ASSIGN_OR_RETURN(const v1::ListKernelsResponse response,
                   Connection::Call(connection->kernels(), &Kernels::ListKernels, request));
  if (format == OutputFormat::kJson) {
    session->Print(ToJson(response));
    return kExitOk;
  }
  Table table({{"kernel", false}, {"language", false}, {"parameters", true}, {"where", false}});
  for (const v1::Kernel& kernel : response.kernels()) {
    table.AddRow({kernel.display_name(), LanguageText(kernel.language()), std::to_string(kernel.parameters_size()),
                  kernel.name().substr(0, 20)});
  }
  for (const BoxDefinition& definition : DefinitionsInTheBox(session->environment)) {
    const absl::StatusOr<KernelArgument> kernel = ResolveKernelWithoutData(definition.file, session->environment);
    if (!kernel.ok()) {
      table.AddRow({definition.name, "", "", "built-in, broken: " + std::string(MessageOf(kernel.status()))});
      continue;
    }
    table.AddRow({kernel->name, LanguageText(kernel->definition->language()),
                  std::to_string(kernel->definition->parameters_size()), "built-in"});
  }
  session->PrintTable(table, format);
  return kExitOk;
}

// A definition from a file or the box, or else the stored one with its sources.
absl::StatusOr<v1::Kernel> Definition(Session* session, const std::string& text) {
  ASSIGN_OR_RETURN(KernelArgument kernel, ResolveKernelWithoutData(text, session->environment));
  if (kernel.definition) return *std::move(kernel.definition);
  ASSIGN_OR_RETURN(Connection* const connection, session->connection());
  v1::GetKernelRequest request;
  request.set_name(kernel.name);
  request.set_include_sources(true);
  ASSIGN_OR_RETURN(v1::GetKernelResponse response,
                   Connection::Call(connection->kernels(), &Kernels::GetKernel, request));
  return response.kernel();
}

std::string DomainText(const v1::Parameter& parameter) {
  if (parameter.has_range()) {
    return fmt::format("{}..{} step {}", parameter.range().first(), parameter.range().last(),
                       std::max<int64_t>(1, parameter.range().step()));
  }
  if (parameter.has_powers_of_two()) {
    return fmt::format("powers of two {}..{}", parameter.powers_of_two().first(), parameter.powers_of_two().last());
  }
  std::string text;
  const auto add = [&text](const std::string& value) { text += (text.empty() ? "" : " ") + value; };
  for (const int64_t v : parameter.values().ints()) add(std::to_string(v));
  for (const double v : parameter.values().doubles()) add(fmt::format("{}", v));
  for (const bool v : parameter.values().bools()) add(v ? "true" : "false");
  for (const std::string& v : parameter.values().strings()) add(v);
  return text;
}

absl::StatusOr<ExitCode> ShowKernel(Session* session, const std::string& text, bool as_text) {
  ASSIGN_OR_RETURN(const OutputFormat format, session->format_without_csv());
  ASSIGN_OR_RETURN(v1::Kernel kernel, Definition(session, text));
  if (as_text) {
    session->Print(KernelText(kernel));
    return kExitOk;
  }
  for (v1::SourceFile& source : *kernel.mutable_sources()) source.clear_content();
  if (format == OutputFormat::kJson) {
    session->Print(ToJson(kernel));
    return kExitOk;
  }
  std::string out = fmt::format("{}  {}\n", Visible(kernel.display_name()), LanguageText(kernel.language()));
  if (!kernel.description().empty()) out += kernel.description() + "\n";
  Table dims({{"dim", false}, {"default", false}, {"description", false}});
  for (const v1::Dim& dim : kernel.dims()) {
    dims.AddRow(
        {dim.name(), dim.has_default_value() ? ValueText(dim.default_value()) : "(required)", dim.description()});
  }
  if (dims.rows() > 0) out += "\n" + dims.ToText(false, session->columns);
  Table parameters({{"parameter", false}, {"values", false}, {"default", false}, {"description", false}});
  for (const v1::Parameter& parameter : kernel.parameters()) {
    parameters.AddRow({parameter.name(), DomainText(parameter),
                       parameter.has_default_value() ? ValueText(parameter.default_value()) : "",
                       parameter.description()});
  }
  if (parameters.rows() > 0) out += "\n" + parameters.ToText(false, session->columns);
  if (kernel.constraints_size() > 0) out += "\nconstraints\n";
  for (const v1::Constraint& constraint : kernel.constraints()) {
    out += "  " + constraint.expression() + (constraint.reason().empty() ? "" : "   # " + constraint.reason()) + "\n";
  }
  if (kernel.starting_configs_size() > 0) out += "\nstarting configs\n";
  for (const std::string& config : kernel.starting_configs()) out += "  " + config + "\n";
  session->Print(out);
  return kExitOk;
}

std::string SpaceText(const v1::SpaceSize& space, const std::string& title) {
  std::string text =
      fmt::format("{}\n{:>12}  configs: every combination of the parameters' values\n", title, CartesianText(space));
  text += RulesText(space, "");
  return text + fmt::format("{:>12}  valid\n", ValidText(space));
}

// Known device classes need no daemon, and neither does a definition on them: everything is computed here.
absl::StatusOr<v1::CountSpaceResponse> CountHere(const v1::Kernel& kernel, const v1::Problem& problem,
                                                 const DeviceClass& device) {
  ASSIGN_OR_RETURN(const auto plan, KernelPlan::Compile(kernel));
  ASSIGN_OR_RETURN(const ResolvedProblem resolved, plan->ResolveProblem(problem));
  ASSIGN_OR_RETURN(
      const Space space,
      plan->BuildSpace(resolved, device,
                       {.limit = MakeSpaceLimit(plan->display_name(), {.processor_time = kCountTimeMax})}));
  v1::CountSpaceResponse response;
  response.set_device_class_name(device.display_name);
  ASSIGN_OR_RETURN(*response.mutable_space(), SizeOfSpace(space));
  return response;
}

absl::StatusOr<ExitCode> CountSpace(Session* session, const std::string& text, const ProblemOptions& options,
                                    const std::string& device) {
  ASSIGN_OR_RETURN(const OutputFormat format, session->format_without_csv());
  ASSIGN_OR_RETURN(KernelArgument kernel, ResolveKernelWithoutData(text, session->environment));
  ASSIGN_OR_RETURN(const v1::Problem problem, MakeProblem(options));
  v1::CountSpaceResponse response;
  const absl::StatusOr<DeviceClass> known = FindKnownClass(device);
  if (kernel.definition && !device.empty() && known.ok()) {
    ASSIGN_OR_RETURN(response, CountHere(*kernel.definition, problem, *known));
  } else {
    ASSIGN_OR_RETURN(Connection* const connection, session->connection());
    v1::CountSpaceRequest request;
    if (kernel.definition) {
      *request.mutable_kernel() = *std::move(kernel.definition);
    } else {
      request.set_name(kernel.name);
    }
    *request.mutable_problem() = problem;
    request.set_device_selector(device);
    ASSIGN_OR_RETURN(response,
                     Connection::Call(connection->kernels(), &Kernels::CountSpace, request, Connection::kSpaceTimeout));
  }
  if (format == OutputFormat::kJson) {
    session->Print(ToJson(response));
  } else {
    session->Print(SpaceText(response.space(), kernel.name + "  on  " + response.device_class_name()));
  }
  return kExitOk;
}

enum class SourceKind { kCuda, kHost, kPython };

absl::StatusOr<SourceKind> SourceKindOf(const fs::path& source) {
  const std::string ending = source.extension().string();
  if (ending == ".cu") return SourceKind::kCuda;
  if (ending == ".cc" || ending == ".cpp" || ending == ".cxx") return SourceKind::kHost;
  if (ending != ".py")
    return InvalidArgument("'{}' is neither .cu (CUDA) nor .cc or .cpp (host C++) nor .py (Python)", source.string());
  if (!IsValidName(source.stem().string()) || source.stem().string().find('.') != std::string::npos) {
    return InvalidArgument("'{}' is no name of a Python module; name the file like my_kernel.py",
                           source.filename().string());
  }
  return SourceKind::kPython;
}

std::string FolderOf(const fs::path& source) { return source.has_parent_path() ? source.parent_path().string() : "."; }

IncludedHeaders HeadersOf(const fs::path& source, const std::string& text) {
  const std::string folder = FolderOf(source);
  return FindIncludedHeaders(source.filename().string(), text, [&folder](const std::string& path) {
    absl::StatusOr<std::string> content = ReadFileBelow(folder, path, kNewSourceBytesMax);
    return content.ok() ? std::make_optional(*std::move(content)) : std::nullopt;
  });
}

// What the user has to know of the headers that are not listed.
std::vector<std::string> NotesOn(const IncludedHeaders& headers, const std::string& file) {
  std::vector<std::string> notes;
  std::string names;
  for (size_t i = 0; i < headers.elsewhere.size() && i < kNamedHeadersMax; ++i)
    names += (i == 0 ? "" : ", ") + Visible(headers.elsewhere[i]);
  if (headers.elsewhere.size() > kNamedHeadersMax) names += ", ...";
  if (!names.empty())
    notes.push_back(
        fmt::format("Not listed, since the folder of {} does not hold them, or they are empty or too large; "
                    "the compiler must have them: {}.",
                    file, names));
  if (headers.is_cut)
    notes.push_back(fmt::format("{} includes more headers than a definition may list: some are left out.", file));
  return notes;
}

// Of a source that exists: from its signature, where a kernel is recognized in it. A module with make_run_and_gt is a
// kernel in Python, whatever it launches.
absl::StatusOr<std::optional<DefinitionSketch>> SketchOf(const fs::path& source, const std::string& text,
                                                         const IncludedHeaders& headers, const std::string& name,
                                                         SourceKind kind) {
  const std::string file = source.filename().string();
  if (kind != SourceKind::kPython) return SketchDefinition(name, file, text, kind == SourceKind::kCuda, headers.paths);
  std::optional<DefinitionSketch> sketch;
  if (text.find("def make_run_and_gt") == std::string::npos) sketch = SketchTritonDefinition(name, file, text);
  if (!sketch.has_value()) sketch = SketchPythonDefinition(name, file, text);
  if (!sketch.has_value()) {
    return InvalidArgument(
        "{} has neither a function with @triton.jit nor a make_run_and_gt that reads its config; nothing was written",
        source.string());
  }
  return sketch;
}

absl::StatusOr<ExitCode> NewKernel(Session* session, const std::string& file) {
  ASSIGN_OR_RETURN(const OutputFormat format, session->format_without_csv());
  const fs::path source(file);
  ASSIGN_OR_RETURN(const SourceKind kind, SourceKindOf(source));
  std::error_code error;
  const fs::path definition = source.parent_path() / "kernel.pbtxt";
  if (fs::exists(definition, error)) return AlreadyExists("{} exists; nothing was written", definition.string());
  const std::string name = KernelNameFrom(source.stem().string());
  const bool is_there = fs::exists(source, error);
  std::optional<DefinitionSketch> sketch;
  IncludedHeaders headers;
  std::vector<std::string> files = {JsonString(definition.string())}, notes;
  const auto note = [&](const std::string& indent, const std::string& line) {
    session->Note(indent + line);
    notes.push_back(JsonString(line));
  };
  if (is_there) {
    ASSIGN_OR_RETURN(const std::string content, ReadFile(source.string(), kNewSourceBytesMax));
    if (kind != SourceKind::kPython) headers = HeadersOf(source, content);
    ASSIGN_OR_RETURN(sketch, SketchOf(source, content, headers, name, kind));
    if (!sketch.has_value()) note("", "No kernel is recognized in " + file + ": the definition is a template.");
  }
  const std::string source_name = source.filename().string();
  const bool is_cuda = kind == SourceKind::kCuda;
  const std::string text = sketch.has_value()            ? sketch->text
                           : kind == SourceKind::kPython ? PythonTemplate(name, source_name)
                                                         : KernelTemplate(name, source_name, is_cuda, headers.paths);
  RETURN_IF_ERROR(WriteOutputFile(definition.string(), text));
  session->Note("Wrote " + definition.string() + (sketch.has_value() ? ", guessed from the source:" : ""));
  if (sketch.has_value()) {
    for (const std::string& line : sketch->notes) note("  ", line);
  }
  for (const std::string& line : NotesOn(headers, source_name)) note("  ", line);
  if (!is_there) {
    RETURN_IF_ERROR(WriteOutputFile(
        source.string(), kind == SourceKind::kPython ? PythonSourceTemplate() : SourceTemplate(name, is_cuda)));
    session->Note("Wrote " + source.string() + ", a small kernel to start from");
    files.push_back(JsonString(source.string()));
  }
  if (format == OutputFormat::kJson) {
    session->Print(JsonObject({{"files", JsonList(files)}, {"notes", JsonList(notes)}}));
  }
  session->Note(fmt::format("Next: tunefarm kernels check {0}   then: tunefarm tune {0}", ShellWord(FolderOf(source))));
  return kExitOk;
}

constexpr std::string_view kIdPrefix = "kernels/";

// What is stored under the name, or under one that `text` is the id of, newest first.
absl::StatusOr<std::vector<v1::Kernel>> StoredVersions(Connection* connection, const std::string& text) {
  const bool is_id = text.rfind(kIdPrefix, 0) == 0;
  const size_t at = is_id ? std::string::npos : text.find('@');
  const std::string name = text.substr(0, at);
  const std::string version = at == std::string::npos ? "" : text.substr(at + 1);
  if (at != std::string::npos && version.empty()) return InvalidArgument("'{}': write NAME or NAME@VERSION", text);
  std::vector<v1::Kernel> versions;
  v1::ListKernelsRequest request;
  request.set_page_size(1000);
  do {
    ASSIGN_OR_RETURN(const v1::ListKernelsResponse page,
                     Connection::Call(connection->kernels(), &Kernels::ListKernels, request));
    for (const v1::Kernel& kernel : page.kernels()) {
      const bool is_meant = is_id ? kernel.name() == text
                                  : kernel.display_name() == name &&
                                        kernel.name().compare(kIdPrefix.size(), version.size(), version) == 0;
      if (is_meant) versions.push_back(kernel);
    }
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  if (versions.empty()) return NotFound("no kernel '{}' is stored; tunefarm kernels list shows all", text);
  if (!version.empty() && versions.size() > 1) {
    return InvalidArgument("'{}' stands for {} stored definitions; write more digits of the version", text,
                           versions.size());
  }
  return versions;
}

// NAME: all stored definitions of a name; NAME@VERSION: the one whose id begins so; kernels/ID. What was deleted before
// an error stays deleted.
absl::StatusOr<ExitCode> DeleteKernels(Session* session, const std::string& text) {
  ASSIGN_OR_RETURN(const OutputFormat format, session->format_without_csv());
  ASSIGN_OR_RETURN(Connection* const connection, session->connection());
  ASSIGN_OR_RETURN(const std::vector<v1::Kernel> versions, StoredVersions(connection, text));
  if (versions.size() > 1 &&
      !session->Confirm(fmt::format("Delete all {} stored definitions of {}?", versions.size(), text))) {
    session->Note("Nothing was deleted.");
    if (format == OutputFormat::kJson) session->Print(JsonObject({{"deleted", JsonList({})}}));
    return kExitOk;
  }
  std::vector<std::string> deleted;
  for (const v1::Kernel& kernel : versions) {
    v1::DeleteKernelRequest request;
    request.set_name(kernel.name());
    RETURN_IF_ERROR(Connection::Call(connection->kernels(), &Kernels::DeleteKernel, request).status());
    session->Note(fmt::format("{} is deleted; best configs and ended jobs stay.",
                              VersionText(kernel.display_name(), kernel.name())));
    deleted.push_back(JsonString(kernel.name()));
  }
  if (format == OutputFormat::kJson) session->Print(JsonObject({{"deleted", JsonList(deleted)}}));
  return kExitOk;
}

}  // namespace

void AddKernels(CLI::App* app, Session* session) {
  CLI::App* kernels =
      app->add_subcommand("kernels", "List, show, check, create or delete kernel definitions; count configs.");
  kernels->require_subcommand(1);
  SetExample(kernels, "tunefarm kernels list\ntunefarm kernels new my.cu");
  CLI::App* list = kernels->add_subcommand("list", "Stored and built-in kernels.");
  SetExample(list, "tunefarm kernels list");
  list->callback([session] { session->command = [session] { return ListKernels(session); }; });
  constexpr char kKernelHelp[] = "A kernel.pbtxt, a folder with one, or a name.";
  const auto add = [&](const std::string& verb, const std::string& help, const std::string& example,
                       const std::string& argument, const std::string& argument_help, auto action) {
    auto kernel = std::make_shared<std::string>();
    CLI::App* command = kernels->add_subcommand(verb, help);
    SetExample(command, example);
    command->add_option(argument, *kernel, argument_help)->required();
    command->callback([=] { session->command = [=] { return action(session, *kernel); }; });
  };
  auto shown = std::make_shared<std::string>();
  auto as_text = std::make_shared<bool>(false);
  CLI::App* show = kernels->add_subcommand("show", "Dims, parameters and constraints, or the whole definition.");
  SetExample(show, "tunefarm kernels show matmul\ntunefarm kernels show matmul --definition > kernel.pbtxt");
  show->add_option("KERNEL", *shown, kKernelHelp)->required();
  show->add_flag("--definition", *as_text, "Print it as a kernel.pbtxt with all defaults, without the sources.");
  show->callback([=] { session->command = [=] { return ShowKernel(session, *shown, *as_text); }; });
  auto checked = std::make_shared<CheckOptions>();
  CLI::App* check = kernels->add_subcommand("check", "Check a definition; errors say file, line and column.");
  SetExample(check,
             "tunefarm kernels check .\ntunefarm kernels check . --compile --device H100\n"
             "tunefarm kernels check . --run");
  check->add_option("KERNEL", checked->kernel, kKernelHelp)->required();
  check->add_flag("--compile", checked->compile,
                  "Also compile some configs and look for their entries; needs no device.");
  check->add_flag("--run", checked->run,
                  "Also try the default config (or that of --pin) on a device, as a job that keeps no best config: "
                  "outcome, comparison, time and warnings.");
  checked->problem.AddTo(check, /*many=*/false);
  checked->data.AddTo(check);
  check->add_option("--device", checked->device, "A device, or a known class such as A100 (needs no hardware).")
      ->type_name("DEVICE");
  check->callback([=] { session->command = [=] { return CheckKernel(session, *checked); }; });
  add("new", "Write a kernel.pbtxt beside FILE: from its signature, or with a small kernel if it is missing.",
      "tunefarm kernels new my.cu\ntunefarm kernels new my.py", "FILE",
      "The source: FILE.cu, FILE.cc, FILE.cpp or FILE.py. What is there is read, not changed.", NewKernel);

  add("delete", "Delete stored definitions; best configs and ended jobs stay.",
      "tunefarm kernels delete scale\ntunefarm kernels delete scale@0123456789ab", "STORED",
      "NAME (every definition of the name), NAME@VERSION (the first digits of its id, as kernels list shows them) or "
      "kernels/ID.",
      DeleteKernels);

  auto kernel = std::make_shared<std::string>();
  auto problem = std::make_shared<ProblemOptions>();
  auto device = std::make_shared<std::string>();
  CLI::App* space = kernels->add_subcommand("space", "Count the search space, and what each rule removes.");
  SetExample(space, "tunefarm kernels space matmul --device A100");
  space->add_option("KERNEL", *kernel, kKernelHelp)->required();
  problem->AddTo(space, /*many=*/false);
  space->add_option("--device", *device, "A device, or a known class such as A100 (needs no hardware).")
      ->type_name("DEVICE");
  space->callback([=] { session->command = [=] { return CountSpace(session, *kernel, *problem, *device); }; });
}

}  // namespace tunefarm::cli
