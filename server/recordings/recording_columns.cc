#include "server/recordings/recording_columns.h"

#include <algorithm>
#include <unordered_map>

#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm {
namespace {

using interchange::Invalidity;
using interchange::RecordedFile;
using interchange::RecordedRow;

constexpr int kNotesMax = 16;
constexpr size_t kLabelMax = 256;

v1::Value ToProto(const Value& value) {
  v1::Value proto;
  switch (value.type()) {
    case ValueType::kBool:
      proto.set_bool_value(value.bool_value());
      break;
    case ValueType::kInt:
      proto.set_int_value(value.int_value());
      break;
    case ValueType::kFloat:
      proto.set_double_value(value.float_value());
      break;
    case ValueType::kString:
      proto.set_string_value(value.string_value());
      break;
  }
  return proto;
}

v1::RecordedOutcome OutcomeOf(Invalidity invalidity) {
  switch (invalidity) {
    case Invalidity::kCorrect:
      return v1::RECORDED_OUTCOME_CORRECT;
    case Invalidity::kConstraints:
      return v1::RECORDED_OUTCOME_CONSTRAINTS;
    case Invalidity::kCompile:
      return v1::RECORDED_OUTCOME_COMPILE;
    case Invalidity::kRuntime:
      return v1::RECORDED_OUTCOME_RUNTIME;
    case Invalidity::kCorrectness:
      return v1::RECORDED_OUTCOME_CORRECTNESS;
    case Invalidity::kTimeout:
      return v1::RECORDED_OUTCOME_TIMEOUT;
  }
  return v1::RECORDED_OUTCOME_UNSPECIFIED;
}

// At most so many bytes, and no half of a character at the end: messages hold UTF-8 only.
std::string Label(std::string text) {
  if (text.size() > kLabelMax) text.resize(kLabelMax);
  size_t last = text.size();
  while (last > 0 && (static_cast<unsigned char>(text[last - 1]) & 0xc0) == 0x80) --last;
  if (last == 0) return text;
  const auto lead = static_cast<unsigned char>(text[--last]);
  const size_t bytes = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  if (text.size() - last < bytes) text.resize(last);
  return text;
}

// The values that one parameter has had, and their places.
class ValueTable {
 public:
  ValueTable(std::string name, v1::RecordedParameter* parameter) : parameter_(parameter) {
    parameter->set_name(std::move(name));
  }

  const std::string& name() const { return parameter_->name(); }
  uint32_t IndexOf(const Value& value) {
    // Type and text are a value's identity.
    std::string key = std::to_string(static_cast<int>(value.type())) + value.ToText();
    const auto [at, is_new] = places_.emplace(std::move(key), static_cast<uint32_t>(places_.size()));
    if (is_new) *parameter_->add_values() = ToProto(value);
    return at->second;
  }
  size_t size() const { return places_.size(); }

 private:
  v1::RecordedParameter* const parameter_;
  std::unordered_map<std::string, uint32_t> places_;
};

void AddRow(const RecordedRow& row, std::vector<ValueTable>* tables, v1::RecordedResults* results) {
  // The reader has checked that every row has every parameter.
  for (ValueTable& table : *tables) results->add_value_indexes(table.IndexOf(*row.config.Find(table.name())));
  results->add_outcomes(OutcomeOf(row.invalidity));
  results->add_objectives(row.invalidity == Invalidity::kCorrect ? row.objective.value_or(0) : 0);
  results->add_cost_ms(row.CostMs());
}

void Close(v1::RecordedResults* results, int64_t end, std::vector<RecordingPart>* parts) {
  const int count = results->outcomes_size();
  if (count == 0) return;
  parts->push_back({end - count, count, results->SerializeAsString()});
  results->Clear();
}

}  // namespace

absl::StatusOr<RecordingColumns> ColumnsOf(const RecordedFile& file, std::string_view file_name) {
  RecordingColumns columns;
  v1::Recording& recording = columns.recording;
  recording.set_format(file.format == RecordedFile::Format::kT4 ? v1::RECORDING_FORMAT_T4
                                                                : v1::RECORDING_FORMAT_KERNEL_TUNER_CACHE);
  recording.set_kernel_name(Label(file.kernel_name));
  recording.set_problem(Label(file.problem_size));
  recording.set_device_name(Label(file.device_name));
  recording.set_objective(Label(file.objective));
  recording.set_is_truncated(file.is_truncated);
  for (const std::string& note : file.notes) {
    if (recording.notes_size() < kNotesMax) recording.add_notes(note);
  }
  std::vector<ValueTable> tables;
  tables.reserve(file.parameters.size());
  for (const std::string& name : file.parameters) tables.emplace_back(name, recording.add_parameters());
  v1::RecordedResults results;
  int64_t end = 0;
  int64_t valid = 0;
  for (const RecordedRow& row : file.rows) {
    AddRow(row, &tables, &results);
    valid += row.invalidity == Invalidity::kCorrect ? 1 : 0;
    if (++end % kResultsInPart != 0) continue;
    Close(&results, end, &columns.parts);
    size_t values = 0;
    for (const ValueTable& table : tables) values += table.size();
    if (values > kRecordedValuesMax) break;
  }
  Close(&results, end, &columns.parts);
  size_t values = 0;
  for (const ValueTable& table : tables) values += table.size();
  if (values > kRecordedValuesMax) {
    return WithReason(InvalidArgument("{}: the parameters have more than {} values", file_name, kRecordedValuesMax),
                      "RECORDING_TOO_LARGE");
  }
  recording.set_result_count(end);
  recording.set_valid_count(valid);
  recording.set_failed_count(end - valid);
  if (const RecordedRow* best = file.Best(); best != nullptr) recording.set_best_objective(*best->objective);
  return columns;
}

absl::StatusOr<v1::RecordedResults> ResultsOfPart(const RecordingPart& part, int parameters, int first, int count) {
  v1::RecordedResults all;
  if (!all.ParseFromString(part.results) || all.outcomes_size() != part.result_count ||
      all.value_indexes_size() != part.result_count * parameters || all.objectives_size() != part.result_count ||
      all.cost_ms_size() != part.result_count) {
    return DataLoss("the recorded results from {} on cannot be read", part.first_result);
  }
  if (first == 0 && count == part.result_count) return all;
  v1::RecordedResults some;
  some.mutable_value_indexes()->Add(all.value_indexes().begin() + int64_t{first} * parameters,
                                    all.value_indexes().begin() + int64_t{first + count} * parameters);
  some.mutable_outcomes()->Add(all.outcomes().begin() + first, all.outcomes().begin() + first + count);
  some.mutable_objectives()->Add(all.objectives().begin() + first, all.objectives().begin() + first + count);
  some.mutable_cost_ms()->Add(all.cost_ms().begin() + first, all.cost_ms().begin() + first + count);
  return some;
}

}  // namespace tunefarm
