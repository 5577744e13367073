// Writes package files for tests: records are put in as they are, right or wrong.
#pragma once

#include <bit>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "client/launch/package_format.h"
#include "server/base/check.h"
#include "server/base/hash.h"
#include "server/expression/expression.h"

namespace tunefarm::package {

inline void SetChecksum(std::string* file) {
  const uint64_t checksum = Xxh3(std::string_view(*file).substr(kChecksumFrom));
  std::memcpy(file->data() + offsetof(Header, checksum), &checksum, sizeof(checksum));
}

class PackageBuilder {
 public:
  // Formulas may use these dims, device.* and kernel.*.
  explicit PackageBuilder(const std::vector<std::string>& dim_names) {
    for (const std::string& name : dim_names) TUNEFARM_CHECK(symbols_.AddVariable(name).ok());
    for (const char* name : kDeviceSlotNames) TUNEFARM_CHECK(symbols_.AddVariable(name).ok());
    for (const char* name : kKernelSlotNames) TUNEFARM_CHECK(symbols_.AddVariable(name).ok());
  }

  uint32_t String(std::string_view bytes) {
    const auto [found, is_new] = string_numbers_.try_emplace(std::string(bytes), static_cast<uint32_t>(strings.size()));
    if (is_new) {
      strings.push_back({static_cast<uint32_t>(text.size()), static_cast<uint32_t>(bytes.size())});
      text += bytes;
      text += '\0';
    }
    return found->second;
  }

  uint32_t AddValue(const Value& value) {
    ValueRecord record = {static_cast<uint32_t>(value.type()), 0, 0};
    switch (value.type()) {
      case ValueType::kBool:
        record.payload = value.bool_value() ? 1 : 0;
        break;
      case ValueType::kInt:
        record.payload = static_cast<uint64_t>(value.int_value());
        break;
      case ValueType::kFloat:
        record.payload = std::bit_cast<uint64_t>(value.float_value());
        break;
      case ValueType::kString:
        record.payload = String(value.string_value());
        break;
    }
    values.push_back(record);
    return static_cast<uint32_t>(values.size()) - 1;
  }
  // The number of the first; 0 of none.
  uint32_t AddValues(const std::vector<Value>& all) {
    const auto first = static_cast<uint32_t>(values.size());
    for (const Value& value : all) AddValue(value);
    return first;
  }

  uint32_t Formula(std::string_view expression_text) {
    const auto expression = Expression::Compile(expression_text, symbols_);
    TUNEFARM_CHECK_OK(expression);
    const ExportedProgram program = expression->Export();
    const uint32_t first_value = AddValues(program.constants);
    formulas.push_back({static_cast<uint32_t>(instructions.size()), static_cast<uint32_t>(program.code.size()),
                        String(expression_text)});
    for (const ExportedProgram::Instruction& one : program.code) {
      const bool is_constant = one.operation == 39;
      instructions.push_back(
          {one.operation, one.sub, is_constant ? one.argument + static_cast<int32_t>(first_value) : one.argument});
    }
    return static_cast<uint32_t>(formulas.size()) - 1;
  }

  uint32_t Binary(BinaryRecord record, std::string_view bytes) {
    data.resize((data.size() + 63) / 64 * 64, '\0');
    record.offset = data.size();
    record.bytes = bytes.size();
    record.digest = String(Sha256(bytes).Hex());
    data += bytes;
    binaries.push_back(record);
    return static_cast<uint32_t>(binaries.size()) - 1;
  }

  std::string Finish() const {
    Header header = {};
    std::memcpy(header.magic, kMagic, sizeof(kMagic));
    header.version = kVersion;
    header.header_bytes = sizeof(Header);
    std::string file(sizeof(Header), '\0');
    header.strings = Append(strings, 8, &file);
    header.text = Append(std::vector<char>(text.begin(), text.end()), 8, &file);
    header.kernels = Append(kernels, 8, &file);
    header.dims = Append(dims, 8, &file);
    header.values = Append(values, 8, &file);
    header.choices = Append(choices, 8, &file);
    header.pairs = Append(pairs, 8, &file);
    header.buffers = Append(buffers, 8, &file);
    header.steps = Append(steps, 8, &file);
    header.arguments = Append(arguments, 8, &file);
    header.tensor_maps = Append(tensor_maps, 8, &file);
    header.formulas = Append(formulas, 8, &file);
    header.instructions = Append(instructions, 8, &file);
    header.classes = Append(classes, 8, &file);
    header.binaries = Append(binaries, 8, &file);
    header.data = Append(std::vector<char>(data.begin(), data.end()), 64, &file);
    header.file_bytes = file.size();
    std::memcpy(file.data(), &header, sizeof(header));
    SetChecksum(&file);
    return file;
  }

  std::vector<StringRecord> strings;
  std::string text, data;
  std::vector<KernelRecord> kernels;
  std::vector<DimRecord> dims;
  std::vector<ValueRecord> values;
  std::vector<ChoiceRecord> choices;
  std::vector<PairRecord> pairs;
  std::vector<BufferRecord> buffers;
  std::vector<StepRecord> steps;
  std::vector<ArgumentRecord> arguments;
  std::vector<TensorMapRecord> tensor_maps;
  std::vector<FormulaRecord> formulas;
  std::vector<InstructionRecord> instructions;
  std::vector<ClassRecord> classes;
  std::vector<BinaryRecord> binaries;

 private:
  template <typename Record>
  static Section Append(const std::vector<Record>& records, size_t alignment, std::string* file) {
    file->resize((file->size() + alignment - 1) / alignment * alignment, '\0');
    const Section section{file->size(), records.size()};
    file->append(reinterpret_cast<const char*>(records.data()), records.size() * sizeof(Record));
    return section;
  }

  SymbolTable symbols_;
  std::map<std::string, uint32_t> string_numbers_;
};

}  // namespace tunefarm::package
