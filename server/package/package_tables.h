// The sections of a package file (client/launch/package_format.h) that records of several kernels and choices share:
// texts, values, formulas, and what launch sequences are made of. Equal ones are stored once.
//
// Numbers are those of the first record in its section. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/launch/package_format.h"
#include "server/expression/value.h"
#include "server/package/record_table.h"

namespace tunefarm {

// InvalidArgument, with `what` as its name, for more than the format holds.
absl::Status CheckPackageCount(size_t count, uint32_t most, std::string_view what);

// A compiled formula, whose constants are numbers of values.
struct FormulaCode {
  std::vector<package::InstructionRecord> code;
  uint32_t text = 0;  // string
};

class PackageTables {
 public:
  // InvalidArgument for a text of more than 64 KiB, and once all texts take more than 4 GiB.
  absl::StatusOr<uint32_t> AddString(std::string_view text);
  absl::StatusOr<uint32_t> AddValues(const std::vector<Value>& values);
  uint32_t AddFormula(const FormulaCode& formula);
  // Formulas one after another. A list that is new has instructions of its own: where many lists shared those of some
  // formulas, readers would walk them for each, and they refuse what takes long to check.
  uint32_t AddFormulaList(const std::vector<FormulaCode>& formulas);

  RecordTable<package::PairRecord> pairs;
  RecordTable<package::BufferRecord> buffers;
  RecordTable<package::StepRecord> steps;
  RecordTable<package::ArgumentRecord> arguments;
  RecordTable<package::TensorMapRecord> tensor_maps;
  RecordTable<package::ClassRecord> classes;

  const std::vector<package::StringRecord>& strings() const { return strings_; }
  const std::string& text() const { return text_; }
  const std::vector<package::ValueRecord>& values() const { return values_.records(); }
  const std::vector<package::FormulaRecord>& formulas() const { return formulas_.records(); }
  const std::vector<package::InstructionRecord>& instructions() const { return instructions_.records(); }

 private:
  absl::StatusOr<package::ValueRecord> RecordOf(const Value& value);

  std::vector<package::StringRecord> strings_;
  std::string text_;
  std::map<std::string, uint32_t, std::less<>> string_numbers_;
  RecordTable<package::ValueRecord> values_;
  RecordTable<package::FormulaRecord> formulas_;
  RecordTable<package::InstructionRecord> instructions_;
  std::map<std::string, uint32_t> formula_lists_;  // to the first formula
};

}  // namespace tunefarm
