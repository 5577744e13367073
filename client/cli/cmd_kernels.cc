// kernels {list,show,check,space,new}.

#include <fmt/core.h>

#include <filesystem>
#include <fstream>
#include <memory>

#include "client/cli/commands.h"
#include "client/cli/help_format.h"
#include "client/cli/kernel_template.h"
#include "client/cli/options/kernel_argument.h"
#include "client/cli/options/problem_options.h"
#include "client/cli/space_text.h"
#include "client/cli/studies/report.h"
#include "server/base/file.h"
#include "server/base/format.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/definition/kernel_plan.h"
#include "server/definition/space_size.h"
#include "server/device/device_class.h"

namespace tunefarm::cli {
namespace {

namespace fs = std::filesystem;
using Kernels = v1::KernelService::StubInterface;

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
    const absl::StatusOr<KernelArgument> kernel = ResolveKernelArgument(definition.file, session->environment);
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
  ASSIGN_OR_RETURN(KernelArgument kernel, ResolveKernelArgument(text, session->environment));
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

absl::StatusOr<ExitCode> ShowKernel(Session* session, const std::string& text) {
  ASSIGN_OR_RETURN(const OutputFormat format, session->format_without_csv());
  ASSIGN_OR_RETURN(v1::Kernel kernel, Definition(session, text));
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
  if (dims.rows() > 0) out += "\n" + dims.ToText(false, session->columns());
  Table parameters({{"parameter", false}, {"values", false}, {"default", false}, {"description", false}});
  for (const v1::Parameter& parameter : kernel.parameters()) {
    parameters.AddRow({parameter.name(), DomainText(parameter),
                       parameter.has_default_value() ? ValueText(parameter.default_value()) : "",
                       parameter.description()});
  }
  if (parameters.rows() > 0) out += "\n" + parameters.ToText(false, session->columns());
  if (kernel.constraints_size() > 0) out += "\nconstraints\n";
  for (const v1::Constraint& constraint : kernel.constraints()) {
    out += "  " + constraint.expression() + (constraint.reason().empty() ? "" : "   # " + constraint.reason()) + "\n";
  }
  if (kernel.starting_configs_size() > 0) out += "\nstarting configs\n";
  for (const std::string& config : kernel.starting_configs()) out += "  " + config + "\n";
  session->Print(out);
  return kExitOk;
}

absl::StatusOr<ExitCode> CheckKernel(Session* session, const std::string& text) {
  ASSIGN_OR_RETURN(const KernelArgument kernel, ResolveKernelArgument(text, session->environment));
  if (!kernel.definition) return NotFound("there is no kernel definition at {}", text);
  ASSIGN_OR_RETURN(const auto plan, KernelPlan::Compile(*kernel.definition));
  session->Print(fmt::format("{}: OK\nkernel   kernels/{}\nprogram  {}\n", kernel.file, plan->kernel_id(),
                             plan->program_digest()));
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
  ASSIGN_OR_RETURN(const Space space, plan->BuildSpace(resolved, device));
  v1::CountSpaceResponse response;
  response.set_device_class_name(device.display_name);
  ASSIGN_OR_RETURN(*response.mutable_space(), SizeOfSpace(space));
  return response;
}

absl::StatusOr<ExitCode> CountSpace(Session* session, const std::string& text, const ProblemOptions& options,
                                    const std::string& device) {
  ASSIGN_OR_RETURN(const OutputFormat format, session->format_without_csv());
  ASSIGN_OR_RETURN(KernelArgument kernel, ResolveKernelArgument(text, session->environment));
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
    ASSIGN_OR_RETURN(response, Connection::Call(connection->kernels(), &Kernels::CountSpace, request));
  }
  if (format == OutputFormat::kJson) {
    session->Print(ToJson(response));
  } else {
    session->Print(SpaceText(response.space(), kernel.name + "  on  " + response.device_class_name()));
  }
  return kExitOk;
}

absl::StatusOr<ExitCode> NewKernel(Session* session, const std::string& file) {
  const fs::path source(file);
  const bool is_cuda = source.extension() == ".cu";
  if (!is_cuda && source.extension() != ".cc" && source.extension() != ".cpp") {
    return InvalidArgument("'{}' is neither .cu (CUDA) nor .cc or .cpp (host C++)", file);
  }
  std::error_code error;
  const fs::path definition = source.parent_path() / "kernel.pbtxt";
  if (fs::exists(definition, error)) return AlreadyExists("{} exists; nothing was written", definition.string());
  const std::string stem = KernelNameFrom(source.stem().string());
  RETURN_IF_ERROR(WriteFileAtomically(definition.string(), KernelTemplate(stem, source.filename().string(), is_cuda)));
  session->Note("Wrote " + definition.string());
  if (!fs::exists(source, error)) {
    RETURN_IF_ERROR(WriteFileAtomically(source.string(), SourceTemplate(stem, is_cuda)));
    session->Note("Wrote " + source.string() + ", a small kernel to start from");
  }
  const std::string folder = source.has_parent_path() ? source.parent_path().string() : ".";
  session->Note(fmt::format("Next: tunefarm kernels check {0}   then: tunefarm tune {0}", folder));
  return kExitOk;
}

}  // namespace

void AddKernels(CLI::App* app, Session* session) {
  CLI::App* kernels =
      app->add_subcommand("kernels", "List, show, check or create kernel definitions, or count their configs.");
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
  add("show", "Dims, parameters and constraints.", "tunefarm kernels show matmul", "KERNEL", kKernelHelp, ShowKernel);
  add("check", "Check a definition; errors say file, line and column.", "tunefarm kernels check .", "KERNEL",
      kKernelHelp, CheckKernel);
  add("new", "Write a commented kernel.pbtxt beside FILE (and FILE, if it is missing).", "tunefarm kernels new my.cu",
      "FILE", "The source: FILE.cu, FILE.cc or FILE.cpp.", NewKernel);

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
