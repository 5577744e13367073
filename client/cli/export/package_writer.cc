#include "client/cli/export/package_writer.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <string_view>
#include <type_traits>

#include "client/launch/package_format.h"
#include "server/base/hash.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/definition/launch_sequence.h"
#include "server/definition/lookup_rules.h"
#include "server/definition/value_proto.h"
#include "server/expression/expression.h"
#include "server/expression/machine.h"

namespace tunefarm::cli {
namespace {

namespace pack = tunefarm::package;

// Records of one section. A run that was added before is not stored again.
template <typename Record>
class Runs {
 public:
  static_assert(std::has_unique_object_representations_v<Record>);

  // The number of the first record.
  uint32_t Add(const std::vector<Record>& run) {
    const std::string bytes(reinterpret_cast<const char*>(run.data()), run.size() * sizeof(Record));
    const auto [known, is_new] = first_.try_emplace(bytes, static_cast<uint32_t>(records_.size()));
    if (is_new) Append(run);
    return known->second;
  }
  // The same for a run that is stored again.
  uint32_t Append(const std::vector<Record>& run) {
    records_.insert(records_.end(), run.begin(), run.end());
    return static_cast<uint32_t>(records_.size() - run.size());
  }
  const std::vector<Record>& records() const { return records_; }

 private:
  std::vector<Record> records_;
  std::map<std::string, uint32_t> first_;
};

template <typename Record>
pack::Section AppendSection(const std::vector<Record>& records, std::string* file) {
  file->resize((file->size() + 7) / 8 * 8, '\0');
  const pack::Section section{file->size(), records.size()};
  file->append(reinterpret_cast<const char*>(records.data()), records.size() * sizeof(Record));
  return section;
}

absl::Status CheckCount(size_t count, uint32_t most, std::string_view what) {
  if (count <= most) return absl::OkStatus();
  return InvalidArgument("{} {} are too many for a package, which holds at most {}", count, what, most);
}

// The oldest driver that loads what the toolchain made: the first of its major version, since later toolkits of it make
// binaries for all drivers of it. 0 where the name has no number.
uint32_t DriverVersionMin(std::string_view toolchain) {
  const size_t digit = toolchain.find_first_of("0123456789");
  if (digit == std::string_view::npos) return 0;
  return static_cast<uint32_t>(std::min(std::atoi(std::string(toolchain.substr(digit, 4)).c_str()), 1000)) * 1000;
}

// -march=native and its like.
bool IsForOneCpu(const v1::Kernel& definition) {
  const auto& options = definition.compile_options();
  return std::any_of(options.begin(), options.end(),
                     [](const std::string& option) { return option.find("=native") != std::string::npos; });
}

class PackageWriter {
 public:
  absl::Status Add(const PackagedKernel& kernel) {
    const v1::Kernel& definition = kernel.plan->kernel();
    pack::KernelRecord record = {};
    ASSIGN_OR_RETURN(record.name, String(definition.display_name()));
    ASSIGN_OR_RETURN(record.kernel_id, String(kernel.plan->kernel_id()));
    ASSIGN_OR_RETURN(record.program_digest, String(kernel.plan->program_digest()));
    record.language = definition.language() == v1::LANGUAGE_CUDA ? pack::kCuda : pack::kHost;
    record.lookup_distance_max = LookupDistanceMax(definition);
    const std::vector<v1::Dim> dims = PackagedDims(definition);
    RETURN_IF_ERROR(CheckCount(dims.size(), pack::kDimsMax, "dims"));
    record.first_dim = static_cast<uint32_t>(dims_.size());
    record.dims = static_cast<uint32_t>(dims.size());
    for (const v1::Dim& dim : dims) RETURN_IF_ERROR(AddDim(dim));
    record.first_choice = static_cast<uint32_t>(choices_.size());
    record.choices = static_cast<uint32_t>(kernel.choices.size());
    for (const PackagedChoice& choice : kernel.choices) {
      if (const absl::Status added = AddChoice(*kernel.plan, dims, choice); !added.ok()) {
        return Annotate(added, "{} for {}", definition.display_name(), choice.dims.ToText());
      }
    }
    kernels_.push_back(record);
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> Finish(int64_t made_at_ms) const {
    pack::Header header = {};
    std::memcpy(header.magic, pack::kMagic, sizeof(pack::kMagic));
    header.version = pack::kVersion;
    header.header_bytes = sizeof(header);
    header.made_at_ms = made_at_ms;
    std::string file(sizeof(header), '\0');
    header.strings = AppendSection(strings_, &file);
    header.text = AppendSection(std::vector<char>(text_.begin(), text_.end()), &file);
    header.kernels = AppendSection(kernels_, &file);
    header.dims = AppendSection(dims_, &file);
    header.values = AppendSection(values_.records(), &file);
    header.choices = AppendSection(choices_, &file);
    header.pairs = AppendSection(pairs_.records(), &file);
    header.buffers = AppendSection(buffers_.records(), &file);
    header.steps = AppendSection(steps_.records(), &file);
    header.arguments = AppendSection(arguments_.records(), &file);
    header.tensor_maps = AppendSection(tensor_maps_.records(), &file);
    header.formulas = AppendSection(formulas_.records(), &file);
    header.instructions = AppendSection(instructions_.records(), &file);
    header.classes = AppendSection(classes_.records(), &file);
    header.binaries = AppendSection(binaries_, &file);
    file.resize((file.size() + 63) / 64 * 64, '\0');
    header.data = {file.size(), data_.size()};
    file += data_;
    header.file_bytes = file.size();
    if (file.size() > pack::kFileBytesMax) {
      return InvalidArgument("a package of {} bytes is too large, at most {} are written; name fewer devices or dims",
                             file.size(), pack::kFileBytesMax);
    }
    std::memcpy(file.data(), &header, sizeof(header));
    header.checksum = Xxh3(std::string_view(file).substr(pack::kChecksumFrom));
    std::memcpy(file.data(), &header, sizeof(header));
    return file;
  }

 private:
  // What the formulas of one choice are compiled with.
  struct Names {
    SymbolTable symbols;
    std::map<std::string, uint32_t, std::less<>> buffers;
  };

  // The kernel's dims that a launch or a look-up may name.
  static std::vector<v1::Dim> PackagedDims(const v1::Kernel& definition) {
    std::vector<v1::Dim> dims;
    for (const v1::Dim& dim : definition.dims()) {
      if (!dim.inputs_only()) dims.push_back(dim);
    }
    return dims;
  }

  // ---- Texts and values ----

  absl::StatusOr<uint32_t> String(std::string_view text) {
    if (text.size() > pack::kStringBytesMax) {
      return InvalidArgument("a text of {} bytes is too long for a package, which holds at most {}", text.size(),
                             pack::kStringBytesMax);
    }
    const auto [known, is_new] = string_numbers_.try_emplace(std::string(text), static_cast<uint32_t>(strings_.size()));
    if (is_new) {
      if (text_.size() > std::numeric_limits<uint32_t>::max() - text.size() - 1) {
        return InvalidArgument("the texts take more than 4 GiB; name fewer devices or dims");
      }
      strings_.push_back({static_cast<uint32_t>(text_.size()), static_cast<uint32_t>(text.size())});
      text_.append(text);
      text_.push_back('\0');
    }
    return known->second;
  }

  absl::StatusOr<pack::ValueRecord> RecordOf(const Value& value) {
    switch (value.type()) {
      case ValueType::kBool:
        return pack::ValueRecord{pack::kBool, 0, value.bool_value() ? uint64_t{1} : 0};
      case ValueType::kInt:
        return pack::ValueRecord{pack::kInt, 0, static_cast<uint64_t>(value.int_value())};
      case ValueType::kFloat:
        return pack::ValueRecord{pack::kFloat, 0, std::bit_cast<uint64_t>(value.float_value())};
      case ValueType::kString:
        break;
    }
    ASSIGN_OR_RETURN(const uint32_t text, String(value.string_value()));
    return pack::ValueRecord{pack::kString, 0, text};
  }

  absl::StatusOr<uint32_t> Values(const std::vector<Value>& values) {
    std::vector<pack::ValueRecord> records;
    for (const Value& value : values) {
      ASSIGN_OR_RETURN(const pack::ValueRecord record, RecordOf(value));
      records.push_back(record);
    }
    return values_.Add(records);
  }

  absl::Status AddDim(const v1::Dim& dim) {
    pack::DimRecord record = {};
    ASSIGN_OR_RETURN(record.name, String(dim.name()));
    record.kind = static_cast<uint32_t>(definition::FromProto(dim.type()));
    record.bind = IsOpenDim(dim) ? pack::kRun : pack::kBaked;
    record.rule = static_cast<uint32_t>(dim.lookup());
    record.min = dim.min();
    record.max = dim.max();
    std::vector<Value> values;
    for (const v1::Value& proto : dim.values()) {
      ASSIGN_OR_RETURN(Value value, definition::FromProto(proto));
      values.push_back(std::move(value));
    }
    record.values = static_cast<uint32_t>(values.size());
    ASSIGN_OR_RETURN(record.first_value, Values(values));
    record.default_value = pack::kNone;
    if (dim.has_default_value()) {
      ASSIGN_OR_RETURN(const Value value, definition::FromProto(dim.default_value()));
      ASSIGN_OR_RETURN(record.default_value, Values({value}));
    }
    const std::vector<Value> bounds(dim.bucket_bounds().begin(), dim.bucket_bounds().end());
    record.bounds = static_cast<uint32_t>(bounds.size());
    ASSIGN_OR_RETURN(record.first_bound, Values(bounds));
    dims_.push_back(record);
    return absl::OkStatus();
  }

  // ---- Choices ----

  absl::Status AddChoice(const KernelPlan& plan, const std::vector<v1::Dim>& dims, const PackagedChoice& choice) {
    const v1::LaunchSequence& sequence = choice.sequence;
    pack::ChoiceRecord record = {};
    record.kind = choice.is_default ? pack::kDefault : pack::kTuned;
    ASSIGN_OR_RETURN(record.device_class, Class(choice.device_class));
    std::vector<Value> dim_values;
    for (const v1::Dim& dim : dims) {
      const Value* const value = choice.dims.Find(dim.name());
      if (value == nullptr) return InvalidArgument("dim '{}' has no value", dim.name());
      dim_values.push_back(*value);
    }
    ASSIGN_OR_RETURN(record.first_dim_value, Values(dim_values));
    std::vector<pack::PairRecord> pairs;
    for (const auto& [name, value] : choice.config) {
      pack::PairRecord pair = {};
      ASSIGN_OR_RETURN(pair.name, String(name));
      ASSIGN_OR_RETURN(pair.value, Values({value}));
      pairs.push_back(pair);
    }
    record.first_parameter = pairs_.Add(pairs);
    record.parameters = static_cast<uint32_t>(pairs.size());
    ASSIGN_OR_RETURN(record.binary, Binary(plan, choice));
    RETURN_IF_ERROR(AddSequence(dims, sequence, &record));
    if (sequence.prepare_size() > 0) {
      // What a step leaves is known to be alike only where binary and steps are.
      std::string layout = choice.binary;
      for (const v1::LaunchStep& step : sequence.prepare()) layout += step.SerializeAsString();
      for (const v1::LaunchBuffer& buffer : sequence.buffers()) layout += buffer.SerializeAsString();
      record.layout = std::max<uint64_t>(Xxh3(layout), 1);
    }
    if (!std::isfinite(choice.median_ns) || choice.median_ns < 0) {
      return InvalidArgument("a time of {} ns is none", choice.median_ns);
    }
    record.median_ns = choice.median_ns;
    choices_.push_back(record);
    return absl::OkStatus();
  }

  absl::StatusOr<uint32_t> Class(const DeviceClass& device_class) {
    pack::ClassRecord record = {};
    ASSIGN_OR_RETURN(record.id, String(device_class.Id()));
    ASSIGN_OR_RETURN(record.name, String(device_class.display_name));
    const ValueMap constants = device_class.Constants();
    for (size_t i = 0; i < pack::kDeviceSlots; ++i) {
      const auto found = constants.find(pack::kDeviceSlotNames[i]);
      if (found == constants.end() || !found->second.is_int()) {
        return Internal("a device class has no {}", pack::kDeviceSlotNames[i]);
      }
      record.properties[i] = found->second.int_value();
    }
    return classes_.Add({record});
  }

  absl::StatusOr<uint32_t> Binary(const KernelPlan& plan, const PackagedChoice& choice) {
    if (choice.binary.empty()) return pack::kNone;
    pack::BinaryRecord record = {};
    const bool is_cuda = plan.language() == v1::LANGUAGE_CUDA;
    record.kind = is_cuda ? pack::kCubin : pack::kSharedObject;
    ASSIGN_OR_RETURN(record.digest, String(Sha256(choice.binary).Hex()));
    ASSIGN_OR_RETURN(record.toolchain, String(choice.toolchain));
    record.bytes = choice.binary.size();
    const v1::Kernel& definition = plan.kernel();
    if (is_cuda) {
      record.compute_capability = static_cast<uint32_t>(choice.device_class.compute_capability);
      const v1::ResourceEstimate& resources = definition.resources();
      const bool is_specific = resources.architecture_specific() || resources.exact_compute_capability() != 0;
      record.is_specific = is_specific && record.compute_capability >= 90 ? 1 : 0;
      record.driver_version_min = DriverVersionMin(choice.toolchain);
    } else {
      record.is_specific = IsForOneCpu(definition) ? 1 : 0;
    }
    const auto known = std::find_if(binaries_.begin(), binaries_.end(), [&](const pack::BinaryRecord& other) {
      return other.digest == record.digest && other.toolchain == record.toolchain &&
             other.compute_capability == record.compute_capability && other.is_specific == record.is_specific;
    });
    if (known != binaries_.end()) return static_cast<uint32_t>(known - binaries_.begin());
    const auto [at, is_new] = data_offsets_.try_emplace(record.digest, (data_.size() + 63) / 64 * 64);
    if (is_new) {
      if (at->second + record.bytes > pack::kFileBytesMax) {
        return InvalidArgument("the binaries take more than {} bytes; name fewer devices or dims", pack::kFileBytesMax);
      }
      data_.resize(at->second, '\0');
      data_ += choice.binary;
    }
    record.offset = at->second;
    binaries_.push_back(record);
    return static_cast<uint32_t>(binaries_.size()) - 1;
  }

  absl::Status AddSequence(const std::vector<v1::Dim>& dims, const v1::LaunchSequence& sequence,
                           pack::ChoiceRecord* record) {
    ASSIGN_OR_RETURN(Names names, NamesOf(dims, sequence));
    RETURN_IF_ERROR(CheckCount(static_cast<size_t>(sequence.buffers_size()), pack::kBuffersMax, "buffers"));
    RETURN_IF_ERROR(
        CheckCount(static_cast<size_t>(sequence.prepare_size() + sequence.launches_size()), pack::kStepsMax, "steps"));
    std::vector<pack::BufferRecord> buffers;
    for (const v1::LaunchBuffer& buffer : sequence.buffers()) {
      names.buffers.emplace(buffer.name(), static_cast<uint32_t>(buffers.size()));
      ASSIGN_OR_RETURN(const pack::BufferRecord own, BufferOf(buffer, names));
      buffers.push_back(own);
    }
    record->first_buffer = buffers_.Add(buffers);
    record->buffers = static_cast<uint32_t>(buffers.size());
    ASSIGN_OR_RETURN(record->first_prepare, Steps(sequence.prepare(), names));
    record->prepares = static_cast<uint32_t>(sequence.prepare_size());
    ASSIGN_OR_RETURN(record->first_step, Steps(sequence.launches(), names));
    record->steps = static_cast<uint32_t>(sequence.launches_size());
    ASSIGN_OR_RETURN(record->first_constraint, Constraints(sequence.constraints(), names));
    record->constraints = static_cast<uint32_t>(sequence.constraints_size());
    return absl::OkStatus();
  }

  // Slots are added in the order that the format says; a dim whose value is known has one that nothing reads.
  static absl::StatusOr<Names> NamesOf(const std::vector<v1::Dim>& dims, const v1::LaunchSequence& sequence) {
    Names names;
    for (size_t i = 0; i < dims.size(); ++i) {
      const bool is_open = std::find(sequence.open_dims().begin(), sequence.open_dims().end(), dims[i].name()) !=
                           sequence.open_dims().end();
      RETURN_IF_ERROR(
          names.symbols.AddVariable(is_open ? dims[i].name() : fmt::format("known.d{}", i), ValueType::kInt).status());
    }
    for (const char* const name : pack::kDeviceSlotNames) {
      RETURN_IF_ERROR(names.symbols.AddVariable(name, ValueType::kInt).status());
    }
    for (const char* const name : pack::kKernelSlotNames) {
      RETURN_IF_ERROR(names.symbols.AddVariable(name, ValueType::kInt).status());
    }
    for (const auto& [name, proto] :
         std::map<std::string, v1::Value>(sequence.values().begin(), sequence.values().end())) {
      ASSIGN_OR_RETURN(const Value value, definition::FromProto(proto));
      RETURN_IF_ERROR(names.symbols.AddConstant(name, value));
    }
    for (const v1::Derived& derived : sequence.derived()) {
      RETURN_IF_ERROR(names.symbols.AddDerived(derived.name(), derived.expression()));
    }
    return names;
  }

  // ---- Formulas ----

  absl::StatusOr<std::vector<pack::InstructionRecord>> CodeOf(const std::string& text, const Names& names) {
    ASSIGN_OR_RETURN(const Expression expression, Expression::Compile(text, names.symbols));
    const ExportedProgram program = expression.Export();
    if (const absl::Status fits = CheckCount(program.code.size(), pack::kInstructionsMax, "instructions"); !fits.ok()) {
      return Annotate(fits, "{}", text);
    }
    std::vector<pack::InstructionRecord> code;
    for (const ExportedProgram::Instruction& instruction : program.code) {
      pack::InstructionRecord own = {instruction.operation, instruction.sub, instruction.argument};
      if (own.operation == static_cast<uint16_t>(expression::Op::kConstant)) {
        ASSIGN_OR_RETURN(const uint32_t value, Values({program.constants[static_cast<size_t>(own.argument)]}));
        own.argument = static_cast<int32_t>(value);
      }
      code.push_back(own);
    }
    return code;
  }

  absl::StatusOr<uint32_t> Formula(const std::string& text, const Names& names) {
    ASSIGN_OR_RETURN(const std::vector<pack::InstructionRecord> code, CodeOf(text, names));
    ASSIGN_OR_RETURN(const uint32_t text_number, String(text));
    const pack::FormulaRecord record = {instructions_.Add(code), static_cast<uint32_t>(code.size()), text_number};
    return formulas_.Add({record});
  }

  // A list that is new has instructions of its own: where many lists shared those of some formulas, readers would walk
  // them for each, and they refuse what takes long to check.
  template <typename List>
  absl::StatusOr<uint32_t> Constraints(const List& texts, const Names& names) {
    std::vector<std::vector<pack::InstructionRecord>> codes;
    std::vector<uint32_t> text_numbers;
    std::string key;
    for (const std::string& text : texts) {
      ASSIGN_OR_RETURN(std::vector<pack::InstructionRecord> code, CodeOf(text, names));
      ASSIGN_OR_RETURN(const uint32_t text_number, String(text));
      key += fmt::format("{}:{}:", text_number, code.size());
      key.append(reinterpret_cast<const char*>(code.data()), code.size() * sizeof(code[0]));
      codes.push_back(std::move(code));
      text_numbers.push_back(text_number);
    }
    const auto [known, is_new] = constraint_lists_.try_emplace(key, 0);
    if (!is_new) return known->second;
    std::vector<pack::FormulaRecord> records;
    for (size_t i = 0; i < codes.size(); ++i) {
      records.push_back({instructions_.Append(codes[i]), static_cast<uint32_t>(codes[i].size()), text_numbers[i]});
    }
    known->second = formulas_.Append(records);
    return known->second;
  }

  // Formulas from `out` on; what the list lacks of `most` is none.
  template <typename List>
  absl::Status FormulaList(const List& texts, const Names& names, size_t most, uint32_t* out) {
    std::fill(out, out + most, pack::kNone);
    RETURN_IF_ERROR(CheckCount(static_cast<size_t>(texts.size()), static_cast<uint32_t>(most), "expressions"));
    for (int i = 0; i < texts.size(); ++i) {
      ASSIGN_OR_RETURN(out[i], Formula(texts.Get(i), names));
    }
    return absl::OkStatus();
  }

  // ---- Buffers and steps ----

  static absl::StatusOr<uint32_t> BufferNumber(const std::string& name, const Names& names) {
    const auto found = names.buffers.find(name);
    if (found == names.buffers.end()) return InvalidArgument("a step names '{}', which is no buffer", name);
    return found->second;
  }

  absl::StatusOr<pack::BufferRecord> BufferOf(const v1::LaunchBuffer& buffer, const Names& names) {
    pack::BufferRecord record = {};
    ASSIGN_OR_RETURN(record.name, String(buffer.name()));
    record.data_type = static_cast<uint32_t>(buffer.data_type());
    record.access = static_cast<uint32_t>(buffer.access());
    record.init = buffer.init() == v1::INIT_ZERO   ? pack::kZero
                  : buffer.init() == v1::INIT_FILL ? pack::kFill
                                                   : pack::kUntouched;
    ASSIGN_OR_RETURN(record.length, Formula(buffer.length(), names));
    record.symbol = pack::kNone;
    if (!buffer.symbol().empty()) {
      ASSIGN_OR_RETURN(record.symbol, String(buffer.symbol()));
    }
    std::memcpy(&record.fill, buffer.fill().data(), std::min(buffer.fill().size(), sizeof(record.fill)));
    return record;
  }

  template <typename List>
  absl::StatusOr<uint32_t> Steps(const List& steps, const Names& names) {
    std::vector<pack::StepRecord> records;
    for (const v1::LaunchStep& step : steps) {
      pack::StepRecord record = {};
      // All numbers of formulas, texts and buffers.
      std::memset(&record, 0xff, sizeof(record));
      record.flags = record.carveout = record.memset_byte = record.reserved = 0;
      record.first_argument = record.arguments = 0;
      record.kind = step.has_kernel() ? pack::kKernelStep : pack::kMemsetStep;
      if (!step.when().empty()) {
        ASSIGN_OR_RETURN(record.when, Formula(step.when(), names));
      }
      if (step.has_kernel()) {
        RETURN_IF_ERROR(FillLaunch(step.kernel(), names, &record));
      } else {
        ASSIGN_OR_RETURN(record.memset_buffer, BufferNumber(step.memset().buffer(), names));
        record.memset_byte = step.memset().byte();
      }
      records.push_back(record);
    }
    return steps_.Add(records);
  }

  absl::Status FillLaunch(const v1::SymbolLaunch& launch, const Names& names, pack::StepRecord* record) {
    ASSIGN_OR_RETURN(record->entry, String(launch.symbol()));
    RETURN_IF_ERROR(FormulaList(launch.grid(), names, 3, record->grid));
    RETURN_IF_ERROR(FormulaList(launch.block(), names, 3, record->block));
    RETURN_IF_ERROR(FormulaList(launch.cluster(), names, 3, record->cluster));
    if (launch.dynamic_shared_bytes() != "0") {
      ASSIGN_OR_RETURN(record->dynamic_shared_bytes, Formula(launch.dynamic_shared_bytes(), names));
    }
    const v1::LaunchAttributes& attributes = launch.attributes();
    record->flags = (attributes.cooperative() ? pack::kCooperative : 0U) |
                    (attributes.programmatic_stream_serialization() ? pack::kProgrammaticStreamSerialization : 0U) |
                    (attributes.non_portable_cluster() ? pack::kNonPortableCluster : 0U);
    record->carveout = static_cast<uint32_t>(attributes.shared_memory_carveout_percent());
    std::vector<pack::ArgumentRecord> arguments;
    for (const v1::LaunchArgument& argument : launch.arguments()) {
      ASSIGN_OR_RETURN(const pack::ArgumentRecord own, ArgumentOf(argument, names));
      arguments.push_back(own);
    }
    RETURN_IF_ERROR(CheckCount(arguments.size(), pack::kArgumentsMax, "arguments"));
    record->first_argument = arguments_.Add(arguments);
    record->arguments = static_cast<uint32_t>(arguments.size());
    return absl::OkStatus();
  }

  absl::StatusOr<pack::ArgumentRecord> ArgumentOf(const v1::LaunchArgument& argument, const Names& names) {
    pack::ArgumentRecord record = {};
    if (argument.has_scalar()) {
      record.kind = pack::kScalarArgument;
      record.data_type = static_cast<uint32_t>(argument.scalar().data_type());
      ASSIGN_OR_RETURN(record.target, Formula(argument.scalar().value(), names));
    } else if (argument.has_tensor_map()) {
      record.kind = pack::kTensorMapArgument;
      ASSIGN_OR_RETURN(record.target, TensorMap(argument.tensor_map(), names));
    } else {
      record.kind = pack::kBufferArgument;
      ASSIGN_OR_RETURN(record.target, BufferNumber(argument.buffer(), names));
    }
    return record;
  }

  absl::StatusOr<uint32_t> TensorMap(const v1::TensorMap& map, const Names& names) {
    pack::TensorMapRecord record = {};
    ASSIGN_OR_RETURN(record.buffer, BufferNumber(map.buffer(), names));
    record.data_type = static_cast<uint32_t>(map.data_type());
    record.rank = static_cast<uint32_t>(map.dims_size());
    RETURN_IF_ERROR(FormulaList(map.dims(), names, std::size(record.dims), record.dims));
    RETURN_IF_ERROR(FormulaList(map.byte_strides(), names, std::size(record.byte_strides), record.byte_strides));
    RETURN_IF_ERROR(FormulaList(map.box(), names, std::size(record.box), record.box));
    RETURN_IF_ERROR(
        FormulaList(map.element_strides(), names, std::size(record.element_strides), record.element_strides));
    ASSIGN_OR_RETURN(record.swizzle, Formula(map.swizzle(), names));
    ASSIGN_OR_RETURN(record.interleave, Formula(map.interleave(), names));
    ASSIGN_OR_RETURN(record.l2_promotion, Formula(map.l2_promotion(), names));
    ASSIGN_OR_RETURN(record.base_offset_bytes, Formula(map.base_offset_bytes(), names));
    record.oob_fill_nan = map.oob_fill_nan() ? 1 : 0;
    return tensor_maps_.Add({record});
  }

  std::vector<pack::StringRecord> strings_;
  std::string text_;
  std::map<std::string, uint32_t> string_numbers_;
  std::vector<pack::KernelRecord> kernels_;
  std::vector<pack::DimRecord> dims_;
  Runs<pack::ValueRecord> values_;
  std::vector<pack::ChoiceRecord> choices_;
  Runs<pack::PairRecord> pairs_;
  Runs<pack::BufferRecord> buffers_;
  Runs<pack::StepRecord> steps_;
  Runs<pack::ArgumentRecord> arguments_;
  Runs<pack::TensorMapRecord> tensor_maps_;
  Runs<pack::FormulaRecord> formulas_;
  Runs<pack::InstructionRecord> instructions_;
  std::map<std::string, uint32_t> constraint_lists_;  // to the first formula
  Runs<pack::ClassRecord> classes_;
  std::vector<pack::BinaryRecord> binaries_;
  std::string data_;
  std::map<uint32_t, uint64_t> data_offsets_;  // by the digest's text
};

}  // namespace

absl::StatusOr<std::string> WritePackage(const std::vector<PackagedKernel>& kernels, int64_t made_at_ms) {
  PackageWriter writer;
  for (const PackagedKernel& kernel : kernels) RETURN_IF_ERROR(writer.Add(kernel));
  return writer.Finish(made_at_ms);
}

}  // namespace tunefarm::cli
