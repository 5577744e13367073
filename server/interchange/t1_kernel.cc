// T1 to a kernel definition: its names, space and launch. What concerns arguments is in t1_arguments.cc.
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <limits>
#include <utility>

#include "server/base/random.h"
#include "server/base/status_macros.h"
#include "server/definition/compile_options.h"
#include "server/definition/kernel_plan.h"
#include "server/definition/value_proto.h"
#include "server/interchange/t1_kernel_maker.h"

namespace tunefarm::interchange {
namespace {

constexpr const char* kAxes[] = {"x", "y", "z"};
constexpr uint64_t kDefaultSearchMax = 2'000'000;
constexpr uint64_t kDefaultSearchNodesMax = 20'000'000;
constexpr uint64_t kSampleSeed = 1;

std::string DisplayName(std::string_view text) {
  std::string name;
  for (const char c : text)
    name += std::isalnum(static_cast<unsigned char>(c)) != 0
                ? static_cast<char>(std::tolower(static_cast<unsigned char>(c)))
                : '_';
  if (name.empty() || std::isalpha(static_cast<unsigned char>(name[0])) == 0) name = "kernel_" + name;
  return name.substr(0, 50);
}

}  // namespace

absl::Status InText(const T1Text& text, const absl::Status& status) {
  const std::string reason = ReasonOf(status);
  return text.ref.ErrorInText(reason.empty() ? kBadExpression : std::string_view(reason), PythonColumn(status),
                              PythonMessage(status));
}

absl::StatusOr<ImportedKernel> KernelMaker::Run() {
  made_.notes = t1_.notes;
  made_.budget_options = t1_.budget_options;
  RETURN_IF_ERROR(SetLanguage());
  SetNames();
  RETURN_IF_ERROR(AddProblem());
  RETURN_IF_ERROR(AddSpace());
  RETURN_IF_ERROR(AddCompileOptions());
  RETURN_IF_ERROR(AddLaunchFormulas());
  PlanReference();
  RETURN_IF_ERROR(AddArguments());
  AddLaunch(kernel().add_launches());
  RETURN_IF_ERROR(AddReference());
  RETURN_IF_ERROR(AddSources());
  return Finish();
}

absl::Status KernelMaker::SetLanguage() {
  if (options_.language.has_value()) {
    kernel().set_language(*options_.language);
    return absl::OkStatus();
  }
  if (t1_.language != T1::Language::kCuda) {
    return t1_.language_ref->Error(
        kNotMappable, "kernels in {} cannot be imported, only CUDA kernels (or host C++, with --language host)",
        t1_.language_ref->text());
  }
  kernel().set_language(v1::LANGUAGE_CUDA);
  return absl::OkStatus();
}

void KernelMaker::SetNames() {
  const std::string from_file = t1_.benchmark_name.empty() ? t1_.kernel_name : t1_.benchmark_name;
  kernel().set_display_name(DisplayName(options_.display_name.empty() ? from_file : options_.display_name));
  kernel().set_description(fmt::format("{}, imported from a T1 file.", from_file.substr(0, 200)));
}

absl::Status KernelMaker::AddProblem() {
  for (size_t i = 0; i < t1_.problem_size.size(); ++i) {
    const T1Text& size = t1_.problem_size[i];
    int64_t value = 0;
    const char* const end = size.text.data() + size.text.size();
    const auto [stop, error] = std::from_chars(size.text.data(), end, value);
    if (error != std::errc() || stop != end) {
      ASSIGN_OR_RETURN(const std::string written, Translated(size));
      problem_.push_back("(" + written + ")");
      continue;
    }
    if (value < 1) return size.ref.Error(kBadField, "{} is not at least 1", value);
    std::string name = std::string("problem_size_") + kAxes[i];
    while (HasParameter(name)) name = "t1_" + name;
    v1::Dim* dim = kernel().add_dims();
    dim->set_name(name);
    dim->mutable_default_value()->set_int_value(value);
    dim->set_min(value);
    dim->set_max(value);
    dim->set_description(fmt::format("ProblemSize[{}].", i));
    problem_.push_back(name);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> KernelMaker::Translated(const T1Text& text) const {
  PythonTranslation translation;
  for (const T1Parameter& parameter : t1_.parameters) translation.variables[parameter.name] = parameter.name;
  translation.elements["ProblemSize"] = problem_;
  const absl::StatusOr<PythonText> python = PythonText::Parse(text.text);
  if (!python.ok()) return InText(text, python.status());
  const absl::StatusOr<std::string> written = python->ToExpression(translation);
  if (!written.ok()) return InText(text, written.status());
  return *written;
}

absl::StatusOr<std::string> KernelMaker::TranslatedInt(const T1Text& text) const {
  ASSIGN_OR_RETURN(std::string written, Translated(text));
  SymbolTable symbols;
  for (const T1Parameter& parameter : t1_.parameters)
    RETURN_IF_ERROR(symbols.AddVariable(parameter.name, parameter.values[0].type()).status());
  for (const v1::Dim& dim : made_.kernel.dims())
    RETURN_IF_ERROR(symbols.AddVariable(dim.name(), ValueType::kInt).status());
  const absl::StatusOr<Expression> expression = Expression::Compile(written, symbols);
  if (!expression.ok()) return text.ref.Error(kBadExpression, "{}", MessageOf(expression.status()));
  if (expression->result_type() == ValueType::kInt) return written;
  return fmt::format("int({})", written);
}

absl::Status KernelMaker::AddSpace() {
  const SpaceDefinition definition = SpaceOfT1(t1_, options_.space);
  absl::StatusOr<Space> space = Space::Build(definition, {.nodes_max = kDefaultSearchNodesMax});
  if (!space.ok()) return t1_.document->root().Error(kBadField, "{}", MessageOf(space.status()));
  ASSIGN_OR_RETURN(const Config defaults, ChooseDefaults(*space));
  for (const T1Parameter& parameter : t1_.parameters) {
    v1::Parameter* added = kernel().add_parameters();
    added->set_name(parameter.name);
    for (const Value& value : parameter.values) {
      switch (value.type()) {
        case ValueType::kBool:
          added->mutable_values()->add_bools(value.bool_value());
          break;
        case ValueType::kInt:
          added->mutable_values()->add_ints(value.int_value());
          break;
        case ValueType::kFloat:
          added->mutable_values()->add_doubles(value.float_value());
          break;
        case ValueType::kString:
          added->mutable_values()->add_strings(value.string_value());
          break;
      }
    }
    *added->mutable_default_value() = definition::ToProto(*defaults.Find(parameter.name));
  }
  // Kernel Tuner writes its macros into the source, behind the compiler's own headers; here they come before those.
  static constexpr std::string_view kOfHeaders[] = {"x",      "y",     "z",    "w",   "width",
                                                    "height", "depth", "size", "ptr", "pitch"};
  for (const T1Parameter& parameter : t1_.parameters) {
    if (!is_cuda() || std::find(std::begin(kOfHeaders), std::end(kOfHeaders), parameter.name) == std::end(kOfHeaders))
      continue;
    Note(
        fmt::format("Parameter {0}: a macro of this name breaks the compiler's own headers; rename it in the file and "
                    "in the source.",
                    parameter.name));
  }
  for (const Rule& rule : definition.constraints) {
    v1::Constraint* added = kernel().add_constraints();
    added->set_expression(rule.text);
    added->set_reason(rule.reason);
  }
  return absl::OkStatus();
}

absl::StatusOr<Config> KernelMaker::ChooseDefaults(const Space& space) {
  Config wanted;
  std::vector<uint16_t> wanted_indices;
  for (const Parameter& parameter : space.parameters()) {
    const Value& value = parameter.default_value.value_or(parameter.values[0]);
    wanted.Set(parameter.name, value);
    wanted_indices.push_back(static_cast<uint16_t>(std::find(parameter.values.begin(), parameter.values.end(), value) -
                                                   parameter.values.begin()));
  }
  if (space.Contains(wanted)) return wanted;
  Config chosen;
  const absl::StatusOr<ConfigTable> table = space.Enumerate(kDefaultSearchMax);
  if (table.ok()) {
    if (table->empty())
      return t1_.document->root().Error(kBadField, "no config satisfies the conditions. {}", space.ExplainEmpty());
    uint64_t best_row = 0;
    size_t best_distance = std::numeric_limits<size_t>::max();
    for (uint64_t row = 0; row < table->size() && best_distance > 1; ++row) {
      const auto indices = table->Row(row);
      size_t distance = 0;
      for (size_t i = 0; i < indices.size(); ++i) distance += indices[i] != wanted_indices[i] ? 1 : 0;
      if (distance >= best_distance) continue;
      best_distance = distance;
      best_row = row;
    }
    chosen = space.ConfigAt(*table, best_row);
  } else if (absl::IsResourceExhausted(table.status())) {
    PhiloxStream random(kSampleSeed);
    const absl::StatusOr<std::vector<uint16_t>> sample = space.SampleUniform(random);
    if (!sample.ok())
      return t1_.document->root().Error(kBadField, "no valid config was found: {}", MessageOf(sample.status()));
    chosen = space.MakeConfig(*sample);
  } else {
    return t1_.document->root().Error(kBadExpression, "{}", MessageOf(table.status()));
  }
  Note(
      fmt::format("The defaults ({}) break a condition; {} is the default instead.", wanted.ToText(), chosen.ToText()));
  return chosen;
}

absl::Status KernelMaker::AddCompileOptions() {
  for (const auto& [ref, option] : t1_.compile_options) {
    if (const absl::Status status = definition::CheckCompileOption(kernel().language(), option); status.ok()) {
      kernel().add_compile_options(option);
    } else {
      Note(fmt::format("{}: compiler option '{}' is not taken over; it is not on the list of allowed ones.",
                       ref.Pointer(), option.substr(0, 100)));
    }
  }
  if (!is_cuda() && kernel().compile_options_size() == 0) kernel().add_compile_options("-O2");
  return absl::OkStatus();
}

void KernelMaker::AddMacro(const std::string& name, const std::string& expression) {
  if (HasParameter(name)) return;
  v1::Derived* derived = kernel().add_derived();
  derived->set_name(name);
  derived->set_expression(expression);
  derived->set_bind(v1::BIND_COMPILE);
}

absl::Status KernelMaker::AddLaunchFormulas() {
  if (!t1_.is_kernel_tuner) {
    for (int axis = 0; axis < 3; ++axis) {
      std::string block = "1";
      if (t1_.local_size[axis].has_value()) {
        ASSIGN_OR_RETURN(block, TranslatedInt(*t1_.local_size[axis]));
      }
      block_.push_back(block);
      std::string grid = "1";
      if (t1_.global_size[axis].has_value()) {
        ASSIGN_OR_RETURN(grid, TranslatedInt(*t1_.global_size[axis]));
        if (t1_.global_size_type == T1::GlobalSizeType::kThreads) grid = fmt::format("({}) // ({})", grid, block);
      }
      grid_.push_back(grid);
    }
    return absl::OkStatus();
  }
  if (t1_.global_size[0].has_value())
    Note("ProblemSize and GridDiv decide the launch; GlobalSize and LocalSize are not read.");
  for (int axis = 0; axis < 3; ++axis) {
    const std::string block = std::string("block_size_") + kAxes[axis];
    AddMacro(block, axis == 0 ? "256" : "1");
    block_.push_back(block);
  }
  for (size_t axis = 0; axis < 3; ++axis) {
    std::string grid = "1";
    if (axis < problem_.size()) {
      std::string divisor;
      for (const T1Text& factor : t1_.grid_div[axis]) {
        ASSIGN_OR_RETURN(const std::string written, TranslatedInt(factor));
        const bool is_name = std::all_of(written.begin(), written.end(), [](char c) {
          return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
        });
        divisor += (divisor.empty() ? "" : " * ") + (is_name ? written : "(" + written + ")");
      }
      // Without GridDiv an axis is divided by its block size, where that is a parameter.
      if (divisor.empty() && HasParameter(block_[axis])) divisor = block_[axis];
      grid = divisor.empty() ? problem_[axis] : fmt::format("ceil_div({}, {})", problem_[axis], divisor);
    }
    const std::string name = std::string("grid_size_") + kAxes[axis];
    if (HasParameter(name)) {
      grid_.push_back(grid);
      continue;
    }
    AddMacro(name, grid);
    grid_.push_back(name);
  }
  AddMacro("kernel_tuner", "1");
  return absl::OkStatus();
}

void KernelMaker::AddLaunch(v1::Step* step) {
  v1::KernelLaunch* launch = step->mutable_kernel();
  launch->set_entry(t1_.kernel_name);
  if (is_cuda()) {
    for (const std::string& grid : grid_) launch->add_grid(grid);
    for (const std::string& block : block_) launch->add_block(block);
    if (t1_.shared_memory > 0) launch->set_dynamic_shared_bytes(std::to_string(t1_.shared_memory));
  }
  for (const std::string& name : passed_) launch->add_arguments(name);
}

absl::Status KernelMaker::AddSources() {
  const std::string main = options_.source.empty() ? t1_.kernel_file : options_.source;
  const std::string reference = options_.reference_kernel.has_value() ? options_.reference_kernel->path : "";
  const auto sources = CollectSources(main, reference, functions_, is_cuda(), read_source_);
  if (!sources.ok()) {
    if (options_.source.empty() && t1_.kernel_file_ref.has_value()) {
      return t1_.kernel_file_ref->Error(kBadField, "{}; --source names the kernel's source",
                                        MessageOf(sources.status()));
    }
    return sources.status();
  }
  for (const v1::SourceFile& source : *sources) *kernel().add_sources() = source;
  return absl::OkStatus();
}

absl::Status KernelMaker::Blame(const absl::Status& status) const {
  const std::string path = FieldPathOf(status);
  const size_t bracket = path.find('[');
  size_t index = 0;
  if (bracket != std::string::npos) std::from_chars(path.data() + bracket + 1, path.data() + path.size(), index);
  const std::string field = path.substr(0, bracket);
  std::optional<JsonRef> ref;
  if (field == "parameters" && index < t1_.parameters.size()) ref = t1_.parameters[index].ref;
  if (field == "constraints" && index < t1_.conditions.size()) ref = t1_.conditions[index].ref;
  if (field == "arguments" && index < static_cast<size_t>(made_.kernel.arguments_size())) {
    for (const T1Argument& argument : t1_.arguments) {
      if (argument.name == made_.kernel.arguments(static_cast<int>(index)).name()) ref = argument.ref;
    }
  }
  return ref.value_or(t1_.document->root())
      .Error(kNotMappable, "the definition made of this is refused: {}", MessageOf(status));
}

absl::StatusOr<ImportedKernel> KernelMaker::Finish() {
  // A generated file with macros of the user's names in it is the user's to read.
  const auto plan = KernelPlan::Compile(kernel());
  if (!plan.ok()) return Blame(plan.status());
  v1::Kernel without_content = kernel();
  for (v1::SourceFile& source : *without_content.mutable_sources()) source.clear_content();
  google::protobuf::TextFormat::Printer printer;
  printer.SetUseShortRepeatedPrimitives(true);
  printer.SetUseUtf8StringEscaping(true);
  std::string body;
  printer.PrintToString(without_content, &body);
  made_.text = "# Made by tunefarm import from a T1 file; yours to edit. Check it with: tunefarm kernels check .\n";
  for (const std::string& note : made_.notes) {
    std::string line = note;
    std::replace_if(
        line.begin(), line.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, ' ');
    made_.text += "# - " + line + "\n";
  }
  made_.text += "# proto-file: tunefarm/v1/kernel.proto\n# proto-message: tunefarm.v1.Kernel\n\n" + body;
  return std::move(made_);
}

absl::StatusOr<ImportedKernel> KernelOfT1(const T1& t1, const T1KernelOptions& options, const ReadSource& read_source) {
  return KernelMaker(t1, options, read_source).Run();
}

}  // namespace tunefarm::interchange
