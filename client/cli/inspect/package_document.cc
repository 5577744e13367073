#include "client/cli/inspect/package_document.h"

#include <fmt/core.h>

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

#include "client/cli/output.h"
#include "server/base/format.h"
#include "server/base/status.h"
#include "server/definition/kernel_plan.h"

namespace tunefarm::cli {
namespace {

using Json = nlohmann::ordered_json;
namespace pack = tunefarm::package;

class DocumentMaker {
 public:
  DocumentMaker(const launch::Package& package, size_t bytes_max) : package_(package), bytes_max_(bytes_max) {}

  absl::StatusOr<Json> Make() {
    Json document = {{"kernels", Json::array()}, {"binaries", Json::array()}};
    for (const pack::KernelRecord& kernel : package_.kernels()) {
      if (is_full()) break;
      document["kernels"].push_back(Kernel(kernel));
    }
    for (const pack::BinaryRecord& binary : package_.binaries()) {
      if (is_full()) break;
      document["binaries"].push_back(Binary(binary));
    }
    if (!is_full()) return document;
    return ResourceExhausted("the package cannot be shown: what it describes takes more than {} of memory",
                             FormatBytes(bytes_max_));
  }

 private:
  // What a number takes, and a text beside its characters.
  static constexpr size_t kItemBytes = 64;

  bool is_full() const { return bytes_ > bytes_max_; }

  // "" once there is too much.
  std::string Counted(std::string_view text) {
    bytes_ += kItemBytes + text.size();
    return std::string(is_full() ? std::string_view() : text);
  }
  std::string String(uint32_t number) { return Counted(package_.String(number)); }

  Json ValueOf(uint32_t number) {
    const expression::Cell& cell = package_.ValueOf(number);
    if (cell.type == ValueType::kString) return Counted({cell.string_value, cell.string_bytes});
    bytes_ += kItemBytes;
    switch (cell.type) {
      case ValueType::kBool:
        return cell.int_value != 0;
      case ValueType::kInt:
        return cell.int_value;
      default:
        return cell.float_value;
    }
  }

  Json Values(uint32_t first, uint32_t count) {
    Json values = Json::array();
    for (uint32_t i = 0; i < count && !is_full(); ++i) values.push_back(ValueOf(first + i));
    return values;
  }

  std::string Formula(uint32_t number) {
    return number == pack::kNone ? std::string() : Counted(package_.Formula(number).text);
  }

  // Up to the last that is given. One before it that is left out stands for 1.
  Json Formulas(const uint32_t* numbers, size_t count) {
    while (count > 0 && numbers[count - 1] == pack::kNone) --count;
    Json texts = Json::array();
    for (size_t i = 0; i < count; ++i) texts.push_back(numbers[i] == pack::kNone ? "1" : Formula(numbers[i]));
    return texts;
  }

  static std::string TypeName(uint32_t type) { return std::string(NameOf(static_cast<v1::DataType>(type))); }

  Json Kernel(const pack::KernelRecord& record) {
    Json kernel = {{"name", String(record.name)},
                   {"kernel_id", String(record.kernel_id)},
                   {"program_digest", String(record.program_digest)},
                   {"language", record.language == pack::kCuda ? "CUDA" : "HOST_CXX"},
                   {"lookup_distance_max", record.lookup_distance_max},
                   {"dims", Json::array()},
                   {"choices", Json::array()}};
    const auto dims = package_.dims().subspan(record.first_dim, record.dims);
    for (const pack::DimRecord& dim : dims) kernel["dims"].push_back(Dim(dim));
    for (const pack::ChoiceRecord& choice : package_.choices().subspan(record.first_choice, record.choices)) {
      if (is_full()) break;
      kernel["choices"].push_back(Choice(choice, dims));
    }
    return kernel;
  }

  Json Dim(const pack::DimRecord& record) {
    Json dim = {{"name", String(record.name)}, {"bind", record.bind == pack::kRun ? "RUN" : "COMPILE"}};
    const std::string rule = v1::LookupRule_Name(static_cast<v1::LookupRule>(record.rule));
    dim["lookup"] = rule.substr(std::min(rule.size(), std::string_view("LOOKUP_RULE_").size()));
    if (record.values > 0) {
      dim["values"] = Values(record.first_value, record.values);
    } else if (record.kind == pack::kInt) {
      dim["min"] = record.min;
      dim["max"] = record.max;
    }
    if (record.bounds > 0) dim["bucket_bounds"] = Values(record.first_bound, record.bounds);
    if (record.default_value != pack::kNone) dim["default_value"] = ValueOf(record.default_value);
    return dim;
  }

  Json Choice(const pack::ChoiceRecord& record, std::span<const pack::DimRecord> dims) {
    const pack::ClassRecord& device_class = package_.classes()[record.device_class];
    Json choice = {{"kind", record.kind == pack::kTuned ? "TUNED" : "DEFAULT"},
                   {"device_class_id", String(device_class.id)},
                   {"device_class_name", String(device_class.name)},
                   {"problem", Json::object()},
                   {"config", Json::object()},
                   {"median_ns", record.median_ns},
                   {"binary", nullptr},
                   {"buffers", Json::array()},
                   {"prepare", Json::array()},
                   {"launches", Json::array()},
                   {"constraints", Json::array()}};
    for (size_t i = 0; i < dims.size(); ++i) {
      choice["problem"][String(dims[i].name)] = ValueOf(record.first_dim_value + static_cast<uint32_t>(i));
    }
    for (const pack::PairRecord& pair : package_.pairs().subspan(record.first_parameter, record.parameters)) {
      choice["config"][String(pair.name)] = ValueOf(pair.value);
    }
    if (record.binary != pack::kNone) choice["binary"] = record.binary;
    const auto buffers = package_.buffers().subspan(record.first_buffer, record.buffers);
    for (const pack::BufferRecord& buffer : buffers) choice["buffers"].push_back(Buffer(buffer));
    for (const pack::StepRecord& step : package_.steps().subspan(record.first_prepare, record.prepares)) {
      choice["prepare"].push_back(Step(step, buffers));
    }
    for (const pack::StepRecord& step : package_.steps().subspan(record.first_step, record.steps)) {
      choice["launches"].push_back(Step(step, buffers));
    }
    for (uint32_t i = 0; i < record.constraints; ++i) {
      choice["constraints"].push_back(Formula(record.first_constraint + i));
    }
    return choice;
  }

  Json Buffer(const pack::BufferRecord& record) {
    const std::string access = v1::Access_Name(static_cast<v1::Access>(record.access));
    Json buffer = {{"name", String(record.name)},
                   {"data_type", TypeName(record.data_type)},
                   {"access", access.substr(std::min(access.size(), std::string_view("ACCESS_").size()))},
                   {"length", Formula(record.length)}};
    if (record.init != pack::kUntouched) buffer["init"] = record.init == pack::kZero ? "ZERO" : "FILL";
    if (record.init == pack::kFill) buffer["fill_bits"] = record.fill;
    if (record.symbol != pack::kNone) buffer["symbol"] = String(record.symbol);
    return buffer;
  }

  Json Step(const pack::StepRecord& record, std::span<const pack::BufferRecord> buffers) {
    const auto buffer_name = [&](uint32_t number) { return String(buffers[number].name); };
    Json step = Json::object();
    if (record.when != pack::kNone) step["when"] = Formula(record.when);
    if (record.kind == pack::kMemsetStep) {
      step["memset"] = buffer_name(record.memset_buffer);
      step["byte"] = record.memset_byte;
      return step;
    }
    step["symbol"] = String(record.entry);
    for (const auto& [name, numbers] :
         {std::pair{"grid", record.grid}, std::pair{"block", record.block}, std::pair{"cluster", record.cluster}}) {
      if (numbers[0] != pack::kNone) step[name] = Formulas(numbers, 3);
    }
    if (record.dynamic_shared_bytes != pack::kNone) {
      step["dynamic_shared_bytes"] = Formula(record.dynamic_shared_bytes);
    }
    for (const auto& [name, flag] :
         {std::pair{"cooperative", pack::kCooperative},
          std::pair{"programmatic_stream_serialization", pack::kProgrammaticStreamSerialization},
          std::pair{"non_portable_cluster", pack::kNonPortableCluster}}) {
      if ((record.flags & flag) != 0) step[name] = true;
    }
    if (record.carveout != 0) step["shared_memory_carveout_percent"] = record.carveout;
    step["arguments"] = Json::array();
    for (const pack::ArgumentRecord& argument : package_.arguments().subspan(record.first_argument, record.arguments)) {
      if (argument.kind == pack::kBufferArgument) {
        step["arguments"].push_back({{"buffer", buffer_name(argument.target)}});
      } else if (argument.kind == pack::kScalarArgument) {
        step["arguments"].push_back({{"scalar", TypeName(argument.data_type)}, {"value", Formula(argument.target)}});
      } else {
        const pack::TensorMapRecord& map = package_.tensor_maps()[argument.target];
        step["arguments"].push_back({{"tensor_map", buffer_name(map.buffer)},
                                     {"data_type", TypeName(map.data_type)},
                                     {"dims", Formulas(map.dims, map.rank)},
                                     {"byte_strides", Formulas(map.byte_strides, map.rank - 1)},
                                     {"box", Formulas(map.box, map.rank)},
                                     {"element_strides", Formulas(map.element_strides, map.rank)},
                                     {"swizzle", Formula(map.swizzle)},
                                     {"interleave", Formula(map.interleave)},
                                     {"l2_promotion", Formula(map.l2_promotion)},
                                     {"base_offset_bytes", Formula(map.base_offset_bytes)},
                                     {"oob_fill_nan", map.oob_fill_nan != 0}});
      }
    }
    return step;
  }

  Json Binary(const pack::BinaryRecord& record) {
    Json binary = {{"kind", record.kind == pack::kCubin ? "CUBIN" : "SHARED_OBJECT"},
                   {"sha256", String(record.digest)},
                   {"bytes", record.bytes},
                   {"toolchain", String(record.toolchain)}};
    if (record.kind == pack::kCubin) {
      binary["target"] = fmt::format("sm_{}{}", record.compute_capability, record.is_specific != 0 ? "a" : "");
      binary["driver_version_min"] = record.driver_version_min;
    }
    return binary;
  }

  const launch::Package& package_;
  const size_t bytes_max_;
  size_t bytes_ = 0;
};

// ---- The document for people ----

// For one line: texts of a file from anywhere must not pass for more lines.
std::string TextOf(const Json& value) {
  return value.is_string() ? Visible(value.get_ref<const std::string&>()) : value.dump();
}

// "a=1,b=x"
std::string PairsText(const Json& pairs) {
  std::string text;
  for (const auto& [name, value] : pairs.items()) {
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", Visible(name), TextOf(value));
  }
  return text;
}

std::string ListText(const Json& list) {
  std::string text;
  for (const Json& value : list) text += fmt::format("{}{}", text.empty() ? "" : ", ", TextOf(value));
  return text;
}

std::string StepText(const Json& step) {
  std::string text;
  if (step.contains("memset")) {
    text = fmt::format("set {} to bytes of {}", TextOf(step["memset"]), TextOf(step["byte"]));
  } else {
    std::string arguments;
    for (const Json& argument : step["arguments"]) {
      arguments += arguments.empty() ? "" : ", ";
      if (argument.contains("buffer")) arguments += TextOf(argument["buffer"]);
      if (argument.contains("scalar")) {
        arguments += fmt::format("{} {}", TextOf(argument["scalar"]), TextOf(argument["value"]));
      }
      if (argument.contains("tensor_map")) {
        arguments += fmt::format("map of {} [{}] in boxes of [{}]", TextOf(argument["tensor_map"]),
                                 ListText(argument["dims"]), ListText(argument["box"]));
      }
    }
    text = fmt::format("{}({})", TextOf(step["symbol"]), arguments);
    for (const char* const name : {"grid", "block", "cluster"}) {
      if (step.contains(name)) text += fmt::format("\n               {:<8}{}", name, ListText(step[name]));
    }
    if (step.contains("dynamic_shared_bytes")) {
      text += fmt::format("\n               shared  {} bytes", TextOf(step["dynamic_shared_bytes"]));
    }
  }
  if (step.contains("when")) text += fmt::format("\n               when    {}", TextOf(step["when"]));
  return text;
}

std::string ChoiceText(const Json& choice) {
  const bool is_tuned = choice["kind"] == "TUNED";
  std::string text = fmt::format("\n  {} {} on {}\n", is_tuned ? "tuned for" : "default of",
                                 PairsText(choice["problem"]), TextOf(choice["device_class_name"]));
  const auto add = [&text](std::string_view what, const std::string& line) {
    text += fmt::format("    {:<11}{}\n", what, line);
  };
  add("config", PairsText(choice["config"]));
  if (choice["median_ns"].get<double>() > 0) add("time", FormatDuration(choice["median_ns"].get<double>()));
  if (!choice["binary"].is_null()) add("binary", TextOf(choice["binary"]));
  for (const Json& buffer : choice["buffers"]) {
    add("buffer",
        fmt::format("{} {} {} [{}]{}", TextOf(buffer["access"]), TextOf(buffer["data_type"]), TextOf(buffer["name"]),
                    TextOf(buffer["length"]), buffer.contains("init") ? "  " + TextOf(buffer["init"]) : ""));
  }
  for (const Json& step : choice["prepare"]) add("prepare", StepText(step));
  for (const Json& step : choice["launches"]) add("launch", StepText(step));
  for (const Json& constraint : choice["constraints"]) add("needs", TextOf(constraint));
  return text;
}

}  // namespace

absl::StatusOr<Json> PackageDocument(const launch::Package& package, size_t bytes_max) {
  return DocumentMaker(package, bytes_max).Make();
}

std::string PackageText(const Json& document) {
  std::string text;
  for (const Json& kernel : document["kernels"]) {
    text += fmt::format("{}kernel {}  {}  kernels/{}\n", text.empty() ? "" : "\n", TextOf(kernel["name"]),
                        TextOf(kernel["language"]), TextOf(kernel["kernel_id"]));
    for (const Json& dim : kernel["dims"]) {
      text += fmt::format("  dim {}: {}, {}", TextOf(dim["name"]), TextOf(dim["bind"]), TextOf(dim["lookup"]));
      if (dim.contains("values")) text += fmt::format(", one of {}", ListText(dim["values"]));
      if (dim.contains("min")) text += fmt::format(", {} to {}", TextOf(dim["min"]), TextOf(dim["max"]));
      if (dim.contains("default_value")) text += fmt::format(", default {}", TextOf(dim["default_value"]));
      text += "\n";
    }
    for (const Json& choice : kernel["choices"]) text += ChoiceText(choice);
  }
  text += "\nbinaries\n";
  size_t number = 0;
  for (const Json& binary : document["binaries"]) {
    text +=
        fmt::format("  {}  {}{}  {} bytes  sha256 {}  {}\n", number++, TextOf(binary["kind"]),
                    binary.contains("target") ? " " + TextOf(binary["target"]) : "",
                    FormatCount(binary["bytes"].get<int64_t>()), TextOf(binary["sha256"]), TextOf(binary["toolchain"]));
  }
  return text;
}

}  // namespace tunefarm::cli
