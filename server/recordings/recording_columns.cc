#include "server/recordings/recording_columns.h"

#include <utility>

#include "server/base/status.h"
#include "server/definition/value_proto.h"

namespace tunefarm {
namespace {

using interchange::Invalidity;
using interchange::RecordedFile;
using interchange::RecordedRow;

constexpr int kNotesMax = 16;
constexpr size_t kLabelMax = 256;

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

}  // namespace

absl::Status RecordingColumns::Add(const RecordedFile& file, const RecordedRow& row) {
  if (parameters_.empty()) {
    for (const std::string& name : file.parameters) {
      Places places;
      places.name = name;
      places.parameter.set_name(name);
      parameters_.push_back(std::move(places));
    }
  }
  // The reader has checked that every row has every parameter.
  for (Places& places : parameters_) {
    const Value& value = *row.config.Find(places.name);
    std::string key = std::to_string(static_cast<int>(value.type())) + value.ToText();
    const auto [at, is_new] = places.of_value.emplace(std::move(key), static_cast<uint32_t>(places.of_value.size()));
    part_.add_value_indexes(at->second);
    if (!is_new) continue;
    *places.parameter.add_values() = definition::ToProto(value);
    if (++values_ > kRecordedValuesMax) {
      return WithReason(InvalidArgument("the parameters have more than {} values", kRecordedValuesMax),
                        "RECORDING_TOO_LARGE");
    }
  }
  const bool is_valid = row.invalidity == Invalidity::kCorrect;
  const double objective = is_valid ? row.objective.value_or(0) : 0;
  part_.add_outcomes(OutcomeOf(row.invalidity));
  part_.add_objectives(objective);
  part_.add_cost_ms(row.CostMs());
  if (is_valid && (valid_++ == 0 || objective < best_)) best_ = objective;
  if (++results_ % kResultsInPart == 0) ClosePart();
  return absl::OkStatus();
}

void RecordingColumns::ClosePart() {
  const int count = part_.outcomes_size();
  if (count == 0) return;
  parts_.push_back({results_ - count, count, part_.SerializeAsString()});
  part_.Clear();
}

v1::Recording RecordingColumns::Describe(const RecordedFile& file) const {
  v1::Recording recording;
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
  recording.set_result_count(results_);
  recording.set_valid_count(valid_);
  recording.set_failed_count(results_ - valid_);
  recording.set_best_objective(best_);
  for (const Places& places : parameters_) *recording.add_parameters() = places.parameter;
  return recording;
}

std::vector<RecordingPart> RecordingColumns::TakeParts() {
  ClosePart();
  return std::move(parts_);
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
