#include "server/interchange/t1.h"

#include <fmt/core.h>
#include <google/protobuf/text_format.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "server/base/embedded_file.h"
#include "server/base/format.h"
#include "server/base/random.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/base/work_limit.h"
#include "server/definition/compile_options.h"
#include "server/definition/kernel_plan.h"
#include "server/definition/value_proto.h"
#include "server/interchange/json_document.h"
#include "server/space/space_limit.h"

namespace tunefarm {
extern const EmbeddedFile kT1Modules[];
extern const size_t kT1ModulesCount;
}  // namespace tunefarm

namespace tunefarm::interchange {
namespace {

constexpr uint64_t kDefaultSearchMax = 2'000'000;
constexpr uint64_t kNodesMax = 50'000'000;
// The processor time of each way to look at the space.
constexpr Duration kSpaceTime = std::chrono::seconds(5);
constexpr uint64_t kSampleSeed = 1;

std::string MemberText(const JsonRef& object, std::string_view key) {
  const std::optional<JsonRef> member = object.Find(key);
  return member.has_value() && member->is_string() ? member->text() : "";
}

std::vector<JsonRef> Members(const JsonRef& object, std::string_view key) {
  const std::optional<JsonRef> member = object.Find(key);
  return member.has_value() ? member->Children() : std::vector<JsonRef>();
}

std::vector<Value> ValuesOf(const v1::ValueList& list) {
  std::vector<Value> values;
  for (const int64_t value : list.ints()) values.emplace_back(value);
  for (const double value : list.doubles()) values.emplace_back(value);
  for (const bool value : list.bools()) values.emplace_back(value);
  for (const std::string& value : list.strings()) values.emplace_back(value);
  return values;
}

class Finisher {
 public:
  Finisher(const JsonRef& answer, const std::string& file, const T1Options& options)
      : answer_(answer), file_(file), options_(options) {}

  absl::StatusOr<ImportedKernel> Run() {
    if (!google::protobuf::util::JsonStringToMessage(MemberText(answer_, "kernel"), &kernel()).ok())
      return Internal("{}: the definition that python3 made of this cannot be read", file_);
    for (const JsonRef& note : Members(answer_, "notes")) made_.notes.push_back(note.text());
    made_.budget_options = MemberText(answer_, "budget");
    RETURN_IF_ERROR(ChooseConditions());
    RETURN_IF_ERROR(CheckSpace());
    AddCompileOptions();
    if (kernel().has_tolerance()) {
      if (options_.atol.has_value()) kernel().mutable_tolerance()->set_atol(*options_.atol);
      if (options_.rtol.has_value()) kernel().mutable_tolerance()->set_rtol(*options_.rtol);
    }
    if (const auto plan = KernelPlan::Compile(kernel()); !plan.ok()) {
      const std::string field = FieldPathOf(plan.status());
      return ErrorAt(field.substr(0, field.find('.')),
                     fmt::format("the definition made of this is refused: {}", MessageOf(plan.status())));
    }
    PrintText();
    return std::move(made_);
  }

 private:
  v1::Kernel& kernel() { return made_.kernel; }

  // An error about what a field of the definition was made of.
  absl::Status ErrorAt(std::string_view field, std::string_view message) const {
    const std::optional<JsonRef> places = answer_.Find("places");
    const std::string place = places.has_value() ? MemberText(*places, field) : "";
    return WithReason(InvalidArgument("{}:{}: {}", file_, place.empty() ? "1:1" : place, message), kBadField);
  }

  // Each condition as it stands in the file, where the expression language reads it, else as it was translated.
  absl::Status ChooseConditions() {
    SymbolTable symbols;
    for (int i = 0; i < kernel().parameters_size(); ++i) {
      const v1::Parameter& parameter = kernel().parameters(i);
      const std::vector<Value> values = ValuesOf(parameter.values());
      if (values.empty()) return Internal("{}: python3 gave a parameter without values", file_);
      const auto slot = symbols.AddVariable(parameter.name(), values[0].type());
      if (!slot.ok()) return ErrorAt(fmt::format("parameters[{}]", i), MessageOf(slot.status()));
    }
    const std::vector<JsonRef> translated = Members(answer_, "translated");
    for (int i = 0; i < kernel().constraints_size() && i < static_cast<int>(translated.size()); ++i) {
      v1::Constraint* constraint = kernel().mutable_constraints(i);
      if (Expression::Compile(constraint->expression(), symbols).ok()) continue;
      if (const std::string error = MemberText(translated[i], "error"); !error.empty())
        return WithReason(InvalidArgument("{}:{}", file_, error), kBadField);
      constraint->set_expression(MemberText(translated[i], "text"));
      if (const auto compiled = Expression::Compile(constraint->expression(), symbols); !compiled.ok())
        return ErrorAt(fmt::format("constraints[{}]", i), MessageOf(compiled.status()));
    }
    return absl::OkStatus();
  }

  absl::Status CheckSpace() {
    SpaceDefinition definition;
    Config wanted;
    for (const v1::Parameter& parameter : kernel().parameters()) {
      ASSIGN_OR_RETURN(Value value, definition::FromProto(parameter.default_value()));
      wanted.Set(parameter.name(), value);
      definition.parameters.push_back({parameter.name(), ValuesOf(parameter.values()), std::move(value)});
    }
    for (const v1::Constraint& constraint : kernel().constraints())
      definition.constraints.push_back({constraint.expression(), constraint.reason()});
    const std::shared_ptr<WorkLimit> limit = MakeSpaceLimit(kernel().display_name(), {.processor_time = kSpaceTime});
    const absl::StatusOr<Space> space = Space::Build(std::move(definition), {.nodes_max = kNodesMax, .limit = limit});
    if (!space.ok()) return ErrorAt("", MessageOf(space.status()));
    const absl::StatusOr<uint64_t> valid = space->CountValid();
    if (!valid.ok() && !absl::IsResourceExhausted(valid.status())) return Fault(valid.status());
    if (valid.ok() && *valid == 0)
      return ErrorAt("", fmt::format("no config satisfies the conditions. {}", space->ExplainEmpty()));
    made_.space_text =
        valid.ok()
            ? fmt::format("{} of {}", FormatCount(static_cast<int64_t>(*valid), "valid config"), space->CartesianText())
            : fmt::format("{} combinations, too many to count the valid ones here", space->CartesianText());
    return space->Contains(wanted) ? absl::OkStatus() : ReplaceDefaults(*space, wanted, limit.get());
  }

  // "constraint 2 cannot be evaluated at split=0: ... division by zero": at the condition.
  absl::Status Fault(const absl::Status& status) const {
    constexpr std::string_view kPrefix = "constraint ";
    const std::string_view message = MessageOf(status);
    int number = 0;
    if (message.substr(0, kPrefix.size()) == kPrefix)
      std::from_chars(message.data() + kPrefix.size(), message.data() + message.size(), number);
    return ErrorAt(fmt::format("constraints[{}]", number - 1),
                   fmt::format("this fails for some values (guard it: NAME != 0 and ...): {}", message));
  }

  // The valid config that differs from the wanted one in the fewest values; in large spaces any.
  absl::Status ReplaceDefaults(const Space& space, const Config& wanted, WorkLimit* limit) {
    ASSIGN_OR_RETURN(const std::vector<uint16_t> wanted_indices, space.IndicesOf(wanted));
    Config chosen;
    limit->Begin(kSpaceTime);
    if (const absl::StatusOr<ConfigTable> table = space.Enumerate(kDefaultSearchMax); table.ok()) {
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
      limit->Begin(2 * kSpaceTime);  // with counting, so that the draw has its own
      const absl::StatusOr<std::vector<uint16_t>> sample = space.SampleUniform(random);
      if (!sample.ok()) return ErrorAt("", fmt::format("no valid config was found: {}", MessageOf(sample.status())));
      chosen = space.MakeConfig(*sample);
    } else {
      return Fault(table.status());
    }
    for (v1::Parameter& parameter : *kernel().mutable_parameters())
      *parameter.mutable_default_value() = definition::ToProto(*chosen.Find(parameter.name()));
    made_.notes.push_back(fmt::format("The defaults ({}) break a condition; {} is the default instead.",
                                      wanted.ToText(), chosen.ToText()));
    return absl::OkStatus();
  }

  void AddCompileOptions() {
    for (const JsonRef& option : Members(answer_, "compile_options")) {
      const std::string text = MemberText(option, "text");
      if (definition::CheckCompileOption(kernel().language(), text).ok()) {
        kernel().add_compile_options(text);
        continue;
      }
      made_.notes.push_back(
          fmt::format("{}: compiler option '{}' is not taken over; it is not on the list of allowed ones.",
                      MemberText(option, "pointer"), text.substr(0, 100)));
    }
    if (kernel().language() == v1::LANGUAGE_HOST_CXX && kernel().compile_options_size() == 0)
      kernel().add_compile_options("-O2");
  }

  // A generated file with macros of the user's names in it is the user's to read.
  void PrintText() {
    v1::Kernel without_content = kernel();
    for (v1::SourceFile& source : *without_content.mutable_sources()) source.clear_content();
    google::protobuf::TextFormat::Printer printer;
    printer.SetUseShortRepeatedPrimitives(true);
    printer.SetUseUtf8StringEscaping(true);
    std::string body;
    printer.PrintToString(without_content, &body);
    made_.text = "# Made by tunefarm import from a T1 file; yours to edit. Check it with: tunefarm kernels check .\n";
    for (std::string note : made_.notes) {
      std::replace_if(
          note.begin(), note.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, ' ');
      made_.text += "# - " + note + "\n";
    }
    made_.text += "# proto-file: tunefarm/v1/kernel.proto\n# proto-message: tunefarm.v1.Kernel\n\n" + body;
  }

  const JsonRef answer_;
  const std::string& file_;
  const T1Options& options_;
  ImportedKernel made_;
};

}  // namespace

// Old interpreters read this too; the modules need 3.9.
const std::string_view kT1Program = R"(
import json, sys, types
if sys.version_info < (3, 9):
    error = "T1 files are read by python3 from version 3.9 on; the one on PATH is %d.%d" % sys.version_info[:2]
    print(json.dumps({"error": error}))
    sys.exit()
request = json.loads(sys.stdin.buffer.readline().decode())
for name, text in request["modules"]:
    module = types.ModuleType(name)
    sys.modules[name] = module
    exec(compile(text, name + ".py", "exec"), module.__dict__)
sys.modules["t1_main"].main(request["options"])
)";

std::string T1Request(std::string_view t1, const T1Options& options) {
  nlohmann::json request = {{"modules", nlohmann::json::array()}, {"options", {{"folder", options.folder}}}};
  for (size_t i = 0; i < kT1ModulesCount; ++i) {
    const std::string_view file = kT1Modules[i].name;
    request["modules"].push_back({file.substr(0, file.rfind('.')), kT1Modules[i].bytes});
  }
  nlohmann::json& wanted = request["options"];
  if (!options.display_name.empty()) wanted["name"] = options.display_name;
  if (options.language.has_value()) wanted["language"] = *options.language == v1::LANGUAGE_CUDA ? "cuda" : "host";
  if (!options.source.empty()) wanted["source"] = options.source;
  if (options.thread_limit > 0) wanted["thread_limit"] = options.thread_limit;
  if (options.is_unverified) wanted["is_unverified"] = true;
  if (!options.reference_file.empty()) {
    wanted["reference"] = {{"file", options.reference_file},
                           {"entry", options.reference_entry},
                           {"grid", options.reference_grid},
                           {"block", options.reference_block},
                           {"arguments", options.reference_arguments}};
  }
  // Names of files may be any bytes.
  std::string text = request.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace) + "\n";
  text += t1;
  return text;
}

absl::StatusOr<ImportedKernel> KernelOfT1(std::string answer, const std::string& file, const T1Options& options) {
  const auto document = JsonDocument::Parse(std::move(answer), "python3's answer", {.bytes_max = kT1AnswerBytesMax});
  if (!document.ok()) return Internal("{}: {}", file, MessageOf(document.status()));
  const JsonRef root = (*document)->root();
  const std::string error = MemberText(root, "error");
  if (error.empty()) return Finisher(root, file, options).Run();
  const std::optional<JsonRef> is_missing = root.Find("is_missing");
  if (is_missing.has_value() && is_missing->kind() == JsonKind::kBool && is_missing->bool_value())
    return NotFound("{}", error);
  const std::string place = MemberText(root, "place");
  if (place.empty()) return InvalidArgument("{}", error);
  return WithReason(InvalidArgument("{}:{}: {}", file, place, error), kBadField);
}

}  // namespace tunefarm::interchange
