#include "server/package/package_tables.h"

#include <fmt/core.h>

#include <bit>
#include <limits>

#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm {

absl::Status CheckPackageCount(size_t count, uint32_t most, std::string_view what) {
  if (count <= most) return absl::OkStatus();
  return InvalidArgument("{} {} are too many for a package, which holds at most {}", count, what, most);
}

absl::StatusOr<uint32_t> PackageTables::AddString(std::string_view text) {
  if (text.size() > package::kStringBytesMax) {
    return InvalidArgument("a text of {} bytes is too long for a package, which holds at most {}", text.size(),
                           package::kStringBytesMax);
  }
  if (const auto known = string_numbers_.find(text); known != string_numbers_.end()) return known->second;
  if (text_.size() > std::numeric_limits<uint32_t>::max() - text.size() - 1) {
    return InvalidArgument("the texts take more than 4 GiB; name fewer devices or dims");
  }
  const auto number = static_cast<uint32_t>(strings_.size());
  string_numbers_.emplace(text, number);
  strings_.push_back({static_cast<uint32_t>(text_.size()), static_cast<uint32_t>(text.size())});
  text_.append(text);
  text_.push_back('\0');
  return number;
}

absl::StatusOr<package::ValueRecord> PackageTables::RecordOf(const Value& value) {
  switch (value.type()) {
    case ValueType::kBool:
      return package::ValueRecord{package::kBool, 0, value.bool_value() ? uint64_t{1} : 0};
    case ValueType::kInt:
      return package::ValueRecord{package::kInt, 0, static_cast<uint64_t>(value.int_value())};
    case ValueType::kFloat:
      return package::ValueRecord{package::kFloat, 0, std::bit_cast<uint64_t>(value.float_value())};
    case ValueType::kString:
      break;
  }
  ASSIGN_OR_RETURN(const uint32_t text, AddString(value.string_value()));
  return package::ValueRecord{package::kString, 0, text};
}

absl::StatusOr<uint32_t> PackageTables::AddValues(const std::vector<Value>& values) {
  std::vector<package::ValueRecord> records;
  for (const Value& value : values) {
    ASSIGN_OR_RETURN(const package::ValueRecord record, RecordOf(value));
    records.push_back(record);
  }
  return values_.Add(records);
}

uint32_t PackageTables::AddFormula(const FormulaCode& formula) {
  const package::FormulaRecord record = {instructions_.Add(formula.code), static_cast<uint32_t>(formula.code.size()),
                                         formula.text};
  return formulas_.Add({record});
}

uint32_t PackageTables::AddFormulaList(const std::vector<FormulaCode>& formulas) {
  std::string key;
  for (const FormulaCode& formula : formulas) {
    key += fmt::format("{}:{}:", formula.text, formula.code.size());
    key.append(reinterpret_cast<const char*>(formula.code.data()),
               formula.code.size() * sizeof(package::InstructionRecord));
  }
  const auto [known, is_new] = formula_lists_.try_emplace(key, 0);
  if (!is_new) return known->second;
  std::vector<package::FormulaRecord> records;
  for (const FormulaCode& formula : formulas) {
    records.push_back({instructions_.Append(formula.code), static_cast<uint32_t>(formula.code.size()), formula.text});
  }
  known->second = formulas_.Append(records);
  return known->second;
}

}  // namespace tunefarm
