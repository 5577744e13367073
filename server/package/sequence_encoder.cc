#include "server/package/sequence_encoder.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <string>
#include <utility>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/definition/value_proto.h"
#include "server/expression/expression.h"
#include "server/expression/machine.h"

namespace tunefarm {
namespace {

class SequenceEncoder {
 public:
  SequenceEncoder(const v1::LaunchSequence& sequence, PackageTables* tables) : sequence_(sequence), tables_(*tables) {}

  absl::Status Encode(const std::vector<v1::Dim>& dims, package::ChoiceRecord* choice) {
    RETURN_IF_ERROR(AddNames(dims));
    RETURN_IF_ERROR(CheckPackageCount(static_cast<size_t>(sequence_.buffers_size()), package::kBuffersMax, "buffers"));
    RETURN_IF_ERROR(CheckPackageCount(static_cast<size_t>(sequence_.prepare_size() + sequence_.launches_size()),
                                      package::kStepsMax, "steps"));
    std::vector<package::BufferRecord> buffers;
    for (const v1::LaunchBuffer& buffer : sequence_.buffers()) {
      buffers_.emplace(buffer.name(), static_cast<uint32_t>(buffers.size()));
      ASSIGN_OR_RETURN(const package::BufferRecord own, BufferOf(buffer));
      buffers.push_back(own);
    }
    choice->first_buffer = tables_.buffers.Add(buffers);
    choice->buffers = static_cast<uint32_t>(buffers.size());
    ASSIGN_OR_RETURN(choice->first_prepare, Steps(sequence_.prepare()));
    choice->prepares = static_cast<uint32_t>(sequence_.prepare_size());
    ASSIGN_OR_RETURN(choice->first_step, Steps(sequence_.launches()));
    choice->steps = static_cast<uint32_t>(sequence_.launches_size());
    RETURN_IF_ERROR(
        CheckPackageCount(static_cast<size_t>(sequence_.constraints_size()), package::kConstraintsMax, "constraints"));
    std::vector<FormulaCode> constraints;
    for (const std::string& text : sequence_.constraints()) {
      ASSIGN_OR_RETURN(FormulaCode constraint, Compiled(text));
      constraints.push_back(std::move(constraint));
    }
    choice->first_constraint = tables_.AddFormulaList(constraints);
    choice->constraints = static_cast<uint32_t>(constraints.size());
    return absl::OkStatus();
  }

 private:
  // ---- Formulas ----

  // Slots are added in the order that the format says; a dim whose value is known has one that nothing reads.
  absl::Status AddNames(const std::vector<v1::Dim>& dims) {
    const auto& open = sequence_.open_dims();
    for (size_t i = 0; i < dims.size(); ++i) {
      const bool is_open = std::find(open.begin(), open.end(), dims[i].name()) != open.end();
      RETURN_IF_ERROR(
          symbols_.AddVariable(is_open ? dims[i].name() : fmt::format("known.d{}", i), ValueType::kInt).status());
    }
    for (const char* const name : package::kDeviceSlotNames) {
      RETURN_IF_ERROR(symbols_.AddVariable(name, ValueType::kInt).status());
    }
    for (const char* const name : package::kKernelSlotNames) {
      RETURN_IF_ERROR(symbols_.AddVariable(name, ValueType::kInt).status());
    }
    // A protobuf map has no order, and equal sequences give equal files.
    for (const auto& [name, proto] :
         std::map<std::string, v1::Value>(sequence_.values().begin(), sequence_.values().end())) {
      ASSIGN_OR_RETURN(const Value value, definition::FromProto(proto));
      RETURN_IF_ERROR(symbols_.AddConstant(name, value));
    }
    for (const v1::Derived& derived : sequence_.derived()) {
      RETURN_IF_ERROR(symbols_.AddDerived(derived.name(), derived.expression()));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<FormulaCode> Compiled(const std::string& text) {
    ASSIGN_OR_RETURN(const Expression expression, Expression::Compile(text, symbols_));
    const ExportedProgram program = expression.Export();
    if (const absl::Status fits = CheckPackageCount(program.code.size(), package::kInstructionsMax, "instructions");
        !fits.ok()) {
      return Annotate(fits, "{}", text);
    }
    FormulaCode formula;
    for (const ExportedProgram::Instruction& instruction : program.code) {
      package::InstructionRecord own = {instruction.operation, instruction.sub, instruction.argument};
      if (own.operation == static_cast<uint16_t>(expression::Op::kConstant)) {
        ASSIGN_OR_RETURN(const uint32_t value,
                         tables_.AddValues({program.constants[static_cast<size_t>(own.argument)]}));
        own.argument = static_cast<int32_t>(value);
      }
      formula.code.push_back(own);
    }
    ASSIGN_OR_RETURN(formula.text, tables_.AddString(text));
    return formula;
  }

  absl::StatusOr<uint32_t> Formula(const std::string& text) {
    ASSIGN_OR_RETURN(const FormulaCode formula, Compiled(text));
    return tables_.AddFormula(formula);
  }

  // Formulas from `out` on; those that the list is short of `most` are kNone.
  template <typename List>
  absl::Status FormulaList(const List& texts, size_t most, uint32_t* out) {
    std::fill(out, out + most, package::kNone);
    RETURN_IF_ERROR(CheckPackageCount(static_cast<size_t>(texts.size()), static_cast<uint32_t>(most), "expressions"));
    for (int i = 0; i < texts.size(); ++i) {
      ASSIGN_OR_RETURN(out[i], Formula(texts.Get(i)));
    }
    return absl::OkStatus();
  }

  // ---- Buffers and steps ----

  absl::StatusOr<uint32_t> BufferNumber(const std::string& name) const {
    const auto found = buffers_.find(name);
    if (found == buffers_.end()) return InvalidArgument("a step names '{}', which is no buffer", name);
    return found->second;
  }

  absl::StatusOr<package::BufferRecord> BufferOf(const v1::LaunchBuffer& buffer) {
    package::BufferRecord record = {};
    ASSIGN_OR_RETURN(record.name, tables_.AddString(buffer.name()));
    record.data_type = static_cast<uint32_t>(buffer.data_type());
    record.access = static_cast<uint32_t>(buffer.access());
    record.init = buffer.init() == v1::INIT_ZERO   ? package::kZero
                  : buffer.init() == v1::INIT_FILL ? package::kFill
                                                   : package::kUntouched;
    ASSIGN_OR_RETURN(record.length, Formula(buffer.length()));
    record.symbol = package::kNone;
    if (!buffer.symbol().empty()) {
      ASSIGN_OR_RETURN(record.symbol, tables_.AddString(buffer.symbol()));
    }
    std::memcpy(&record.fill, buffer.fill().data(), std::min(buffer.fill().size(), sizeof(record.fill)));
    return record;
  }

  template <typename List>
  absl::StatusOr<uint32_t> Steps(const List& steps) {
    std::vector<package::StepRecord> records;
    for (const v1::LaunchStep& step : steps) {
      package::StepRecord record = {};
      // kNone in all numbers of formulas, texts and buffers.
      std::memset(&record, 0xff, sizeof(record));
      record.flags = record.carveout = record.memset_byte = record.reserved = 0;
      record.first_argument = record.arguments = 0;
      record.kind = step.has_kernel() ? package::kKernelStep : package::kMemsetStep;
      if (!step.when().empty()) {
        ASSIGN_OR_RETURN(record.when, Formula(step.when()));
      }
      if (step.has_kernel()) {
        RETURN_IF_ERROR(FillLaunch(step.kernel(), &record));
      } else {
        ASSIGN_OR_RETURN(record.memset_buffer, BufferNumber(step.memset().buffer()));
        record.memset_byte = step.memset().byte();
      }
      records.push_back(record);
    }
    return tables_.steps.Add(records);
  }

  absl::Status FillLaunch(const v1::SymbolLaunch& launch, package::StepRecord* record) {
    ASSIGN_OR_RETURN(record->entry, tables_.AddString(launch.symbol()));
    RETURN_IF_ERROR(FormulaList(launch.grid(), 3, record->grid));
    RETURN_IF_ERROR(FormulaList(launch.block(), 3, record->block));
    RETURN_IF_ERROR(FormulaList(launch.cluster(), 3, record->cluster));
    if (launch.dynamic_shared_bytes() != "0") {
      ASSIGN_OR_RETURN(record->dynamic_shared_bytes, Formula(launch.dynamic_shared_bytes()));
    }
    const v1::LaunchAttributes& attributes = launch.attributes();
    record->flags = (attributes.cooperative() ? package::kCooperative : 0U) |
                    (attributes.programmatic_stream_serialization() ? package::kProgrammaticStreamSerialization : 0U) |
                    (attributes.non_portable_cluster() ? package::kNonPortableCluster : 0U);
    record->carveout = static_cast<uint32_t>(attributes.shared_memory_carveout_percent());
    std::vector<package::ArgumentRecord> arguments;
    for (const v1::LaunchArgument& argument : launch.arguments()) {
      ASSIGN_OR_RETURN(const package::ArgumentRecord own, ArgumentOf(argument));
      arguments.push_back(own);
    }
    RETURN_IF_ERROR(CheckPackageCount(arguments.size(), package::kArgumentsMax, "arguments"));
    record->first_argument = tables_.arguments.Add(arguments);
    record->arguments = static_cast<uint32_t>(arguments.size());
    return absl::OkStatus();
  }

  absl::StatusOr<package::ArgumentRecord> ArgumentOf(const v1::LaunchArgument& argument) {
    package::ArgumentRecord record = {};
    if (argument.has_scalar()) {
      record.kind = package::kScalarArgument;
      record.data_type = static_cast<uint32_t>(argument.scalar().data_type());
      ASSIGN_OR_RETURN(record.target, Formula(argument.scalar().value()));
    } else if (argument.has_tensor_map()) {
      record.kind = package::kTensorMapArgument;
      ASSIGN_OR_RETURN(record.target, TensorMap(argument.tensor_map()));
    } else {
      record.kind = package::kBufferArgument;
      ASSIGN_OR_RETURN(record.target, BufferNumber(argument.buffer()));
    }
    return record;
  }

  absl::StatusOr<uint32_t> TensorMap(const v1::TensorMap& map) {
    package::TensorMapRecord record = {};
    ASSIGN_OR_RETURN(record.buffer, BufferNumber(map.buffer()));
    record.data_type = static_cast<uint32_t>(map.data_type());
    record.rank = static_cast<uint32_t>(map.dims_size());
    RETURN_IF_ERROR(FormulaList(map.dims(), std::size(record.dims), record.dims));
    RETURN_IF_ERROR(FormulaList(map.byte_strides(), std::size(record.byte_strides), record.byte_strides));
    RETURN_IF_ERROR(FormulaList(map.box(), std::size(record.box), record.box));
    RETURN_IF_ERROR(FormulaList(map.element_strides(), std::size(record.element_strides), record.element_strides));
    ASSIGN_OR_RETURN(record.swizzle, Formula(map.swizzle()));
    ASSIGN_OR_RETURN(record.interleave, Formula(map.interleave()));
    ASSIGN_OR_RETURN(record.l2_promotion, Formula(map.l2_promotion()));
    ASSIGN_OR_RETURN(record.base_offset_bytes, Formula(map.base_offset_bytes()));
    record.oob_fill_nan = map.oob_fill_nan() ? 1 : 0;
    return tables_.tensor_maps.Add({record});
  }

  const v1::LaunchSequence& sequence_;
  PackageTables& tables_;
  SymbolTable symbols_;                      // what its expressions may name
  std::map<std::string, uint32_t> buffers_;  // by name
};

}  // namespace

absl::Status EncodeSequence(const std::vector<v1::Dim>& dims, const v1::LaunchSequence& sequence, PackageTables* tables,
                            package::ChoiceRecord* choice) {
  return SequenceEncoder(sequence, tables).Encode(dims, choice);
}

}  // namespace tunefarm
