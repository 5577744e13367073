#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_set>
#include <utility>

#include "server/base/hash.h"
#include "server/base/status_macros.h"
#include "server/interchange/gunzip.h"
#include "server/interchange/json_document.h"
#include "server/interchange/recorded_file.h"

namespace tunefarm::interchange {
namespace {

constexpr size_t kParametersMax = 64;
constexpr size_t kNameMax = 256;
constexpr size_t kRuntimesMax = 100'000;

const std::map<std::string, Invalidity, std::less<>>& Invalidities() {
  static const std::map<std::string, Invalidity, std::less<>> kTable = {
      {"correct", Invalidity::kCorrect}, {"constraints", Invalidity::kConstraints}, {"compile", Invalidity::kCompile},
      {"runtime", Invalidity::kRuntime}, {"correctness", Invalidity::kCorrectness}, {"timeout", Invalidity::kTimeout}};
  return kTable;
}

// The names of Kernel Tuner's errors, which stand where a time should.
std::optional<Invalidity> NamedError(std::string_view text) {
  if (text == "CompilationFailedConfig") return Invalidity::kCompile;
  if (text == "RuntimeFailedConfig") return Invalidity::kRuntime;
  if (text == "InvalidConfig") return Invalidity::kConstraints;
  return std::nullopt;
}

absl::StatusOr<Value> ScalarOf(const JsonRef& ref) {
  switch (ref.kind()) {
    case JsonKind::kBool:
      return Value(ref.bool_value());
    case JsonKind::kInt:
      return Value(ref.int_value());
    case JsonKind::kFloat:
      return Value(ref.number());
    case JsonKind::kString:
      if (ref.text().size() <= kNameMax) return Value(ref.text());
      return ref.Error(kBadField, "the text has more than {} bytes", kNameMax);
    default:
      return ref.Error(kBadField, "a value of a parameter is needed here, not {}", JsonKindName(ref.kind()));
  }
}

absl::StatusOr<std::optional<double>> TimeOf(const JsonRef& object, std::string_view key) {
  const std::optional<JsonRef> ref = object.Find(key);
  if (!ref.has_value()) return std::optional<double>();
  if (!ref->is_number() || !std::isfinite(ref->number()) || ref->number() < 0) {
    return ref->Error(kBadField, "a time is needed here, not {}",
                      ref->is_number() ? fmt::format("{}", ref->number()) : std::string(JsonKindName(ref->kind())));
  }
  return std::optional<double>(ref->number());
}

absl::Status ReadRuntimes(const JsonRef& ref, std::vector<double>* runtimes) {
  if (!ref.is_array()) return ref.Error(kBadField, "an array is needed here, not {}", JsonKindName(ref.kind()));
  const std::vector<JsonRef> entries = ref.Children();
  if (entries.size() > kRuntimesMax) return ref.Error(kBadField, "there are more than {} runtimes", kRuntimesMax);
  for (const JsonRef& entry : entries) {
    if (!entry.is_number() || !std::isfinite(entry.number()))
      return entry.Error(kBadField, "a time is needed here, not {}", JsonKindName(entry.kind()));
    runtimes->push_back(entry.number());
  }
  return absl::OkStatus();
}

// What tells configs apart: types, too.
Digest KeyOf(const Config& config) {
  std::string key;
  for (const auto& [name, value] : config) {
    const std::string text = value.ToText();
    // Every row has the same names.
    key += fmt::format("{}:{}:{};", static_cast<int>(value.type()), text.size(), text);
  }
  return Sha256(key);
}

class RecordedReader {
 public:
  explicit RecordedReader(RecordedFile* file) : file_(file) {}

  absl::Status ReadT4Row(const JsonRef& row) {
    if (!row.is_object()) return row.Error(kBadField, "an object is needed here, not {}", JsonKindName(row.kind()));
    const std::optional<JsonRef> configuration = row.Find("configuration");
    if (!configuration.has_value() || !configuration->is_object())
      return row.Error(kBadField, "\"configuration\" is missing");
    RecordedRow recorded;
    RETURN_IF_ERROR(ReadConfig(*configuration, configuration->Children(), &recorded));
    const std::optional<JsonRef> invalidity = row.Find("invalidity");
    if (!invalidity.has_value()) return row.Error(kBadField, "\"invalidity\" is missing");
    const auto known = invalidity->is_string() ? Invalidities().find(invalidity->text()) : Invalidities().end();
    if (known == Invalidities().end()) {
      return invalidity->Error(kBadField,
                               "this is none of correct, constraints, compile, runtime, correctness, timeout");
    }
    recorded.invalidity = known->second;
    if (const auto times = row.Find("times"); times.has_value()) RETURN_IF_ERROR(ReadTimes(*times, &recorded));
    if (const auto stamp = row.Find("timestamp"); stamp.has_value() && stamp->is_string())
      recorded.timestamp = stamp->text().substr(0, 64);
    RETURN_IF_ERROR(ReadObjective(row, &recorded));
    return Keep(row, std::move(recorded));
  }

  absl::Status ReadCacheRow(const JsonRef& row, const std::vector<std::string>& names) {
    if (!row.is_object()) return row.Error(kBadField, "an object is needed here, not {}", JsonKindName(row.kind()));
    std::vector<JsonRef> values;
    for (const std::string& name : names) {
      const std::optional<JsonRef> value = row.Find(name);
      if (!value.has_value()) return row.Error(kBadField, "the parameter \"{}\" is missing", name);
      values.push_back(*value);
    }
    RecordedRow recorded;
    RETURN_IF_ERROR(ReadConfig(row, values, &recorded));
    ASSIGN_OR_RETURN(recorded.compile_ms, TimeOf(row, "compile_time"));
    ASSIGN_OR_RETURN(recorded.benchmark_ms, TimeOf(row, "benchmark_time"));
    ASSIGN_OR_RETURN(recorded.framework_ms, TimeOf(row, "framework_time"));
    ASSIGN_OR_RETURN(recorded.search_ms, TimeOf(row, "strategy_time"));
    ASSIGN_OR_RETURN(recorded.validation_ms, TimeOf(row, "verification_time"));
    if (const auto times = row.Find("times"); times.has_value())
      RETURN_IF_ERROR(ReadRuntimes(*times, &recorded.runtimes_ms));
    if (const auto stamp = row.Find("timestamp"); stamp.has_value() && stamp->is_string())
      recorded.timestamp = stamp->text().substr(0, 64);
    const std::optional<JsonRef> value = row.Find(file_->objective);
    if (!value.has_value()) return row.Error(kBadField, "\"{}\" is missing", file_->objective);
    RETURN_IF_ERROR(SetObjective(*value, &recorded));
    return Keep(row, std::move(recorded));
  }

 private:
  absl::Status ReadConfig(const JsonRef& place, const std::vector<JsonRef>& values, RecordedRow* recorded) {
    if (values.empty()) return place.Error(kBadField, "the configuration is empty");
    if (values.size() > kParametersMax)
      return place.Error(kBadField, "{} parameters are too many; at most {} are read", values.size(), kParametersMax);
    for (const JsonRef& value : values) {
      if (value.key().empty() || value.key().size() > kNameMax)
        return value.Error(kBadField, "a parameter's name has 1 to {} bytes", kNameMax);
      ASSIGN_OR_RETURN(Value scalar, ScalarOf(value));
      recorded->config.Set(value.key(), std::move(scalar));
      if (seen_.empty()) file_->parameters.push_back(value.key());
    }
    for (const std::string& name : file_->parameters) {
      if (recorded->config.Find(name) == nullptr)
        return place.Error(kBadField, "the parameter \"{}\" of the first row is missing", name);
    }
    if (recorded->config.size() != file_->parameters.size())
      return place.Error(kBadField, "there are parameters that the first row lacks");
    return absl::OkStatus();
  }

  absl::Status ReadTimes(const JsonRef& times, RecordedRow* recorded) {
    if (!times.is_object())
      return times.Error(kBadField, "an object is needed here, not {}", JsonKindName(times.kind()));
    ASSIGN_OR_RETURN(recorded->compile_ms, TimeOf(times, "compilation_time"));
    if (!recorded->compile_ms.has_value()) {
      ASSIGN_OR_RETURN(recorded->compile_ms, TimeOf(times, "compilation"));
    }
    ASSIGN_OR_RETURN(recorded->benchmark_ms, TimeOf(times, "benchmark"));
    ASSIGN_OR_RETURN(recorded->framework_ms, TimeOf(times, "framework"));
    ASSIGN_OR_RETURN(recorded->search_ms, TimeOf(times, "search_algorithm"));
    ASSIGN_OR_RETURN(recorded->validation_ms, TimeOf(times, "validation"));
    if (const auto runtimes = times.Find("runtimes"); runtimes.has_value())
      return ReadRuntimes(*runtimes, &recorded->runtimes_ms);
    return absl::OkStatus();
  }

  // The first objective's value among the measurements.
  absl::Status ReadObjective(const JsonRef& row, RecordedRow* recorded) {
    if (const auto objectives = row.Find("objectives"); objectives.has_value() && objectives->is_array()) {
      const std::vector<JsonRef> names = objectives->Children();
      if (!names.empty() && names[0].is_string()) {
        if (seen_.empty()) file_->objective = names[0].text().substr(0, kNameMax);
        if (names[0].text() != file_->objective)
          return names[0].Error(kBadField, "the first row's objective is \"{}\"", file_->objective);
      }
    }
    const std::optional<JsonRef> measurements = row.Find("measurements");
    if (measurements.has_value()) {
      if (!measurements->is_array())
        return measurements->Error(kBadField, "an array is needed here, not {}", JsonKindName(measurements->kind()));
      for (const JsonRef& measurement : measurements->Children()) {
        const std::optional<JsonRef> name = measurement.Find("name");
        const std::optional<JsonRef> value = measurement.Find("value");
        if (!name.has_value() || !value.has_value() || !name->is_string() || name->text() != file_->objective) continue;
        return SetObjective(*value, recorded);
      }
    }
    if (recorded->invalidity != Invalidity::kCorrect) return absl::OkStatus();
    // The mean is what Kernel Tuner calls the time.
    if (file_->objective != "time" || recorded->runtimes_ms.empty())
      return row.Error(kBadField, "a correct row needs a measurement of \"{}\"", file_->objective);
    double sum = 0;
    for (const double runtime : recorded->runtimes_ms) sum += runtime;
    recorded->objective = sum / static_cast<double>(recorded->runtimes_ms.size());
    return absl::OkStatus();
  }

  absl::Status SetObjective(const JsonRef& value, RecordedRow* recorded) {
    if (value.is_string()) {
      const std::optional<Invalidity> error = NamedError(value.text());
      if (!error.has_value()) return value.Error(kBadField, "this is neither a number nor the name of an error");
      if (recorded->invalidity == Invalidity::kCorrect) recorded->invalidity = *error;
      return absl::OkStatus();
    }
    if (!value.is_number() || !std::isfinite(value.number()))
      return value.Error(kBadField, "a number is needed here, not {}", JsonKindName(value.kind()));
    if (recorded->invalidity == Invalidity::kCorrect) recorded->objective = value.number();
    return absl::OkStatus();
  }

  absl::Status Keep(const JsonRef& row, RecordedRow recorded) {
    if (seen_.size() >= kRecordedRowsMax) return row.Error(kBadField, "there are more than {} rows", kRecordedRowsMax);
    if (!seen_.insert(KeyOf(recorded.config)).second)
      return row.Error(kBadField, "this config stands in the file twice");
    file_->rows.push_back(std::move(recorded));
    return absl::OkStatus();
  }

  RecordedFile* const file_;
  std::unordered_set<Digest> seen_;  // one a row
};

std::string TextOf(const JsonRef& root, std::string_view key) {
  const std::optional<JsonRef> ref = root.Find(key);
  if (!ref.has_value()) return "";
  if (ref->is_string()) return ref->text().substr(0, kNameMax);
  if (ref->is_int()) return std::to_string(ref->int_value());
  std::string text;
  for (const JsonRef& child : ref->Children())
    text += (text.empty() ? "" : "x") + (child.is_int()      ? std::to_string(child.int_value())
                                         : child.is_string() ? child.text()
                                                             : "?");
  return text.substr(0, kNameMax);
}

constexpr JsonLimits kLimits = {.bytes_max = kRecordedBytesMax, .depth_max = 32, .values_max = 1'000'000};

// All but the rows, and the names of the parameters.
absl::Status ReadCacheOutline(const std::string& text, const std::string& file_name, RecordedFile* read,
                              std::vector<std::string>* read_names) {
  RecordedFile& file = *read;
  std::vector<std::string>& names = *read_names;
  bool is_cut = false;
  const auto ignore = [](const JsonRef&) { return absl::OkStatus(); };
  ASSIGN_OR_RETURN(const auto outline, JsonDocument::ParseRows(text, file_name, "cache", kLimits, &is_cut, ignore));
  const JsonRef root = outline->root();
  const std::optional<JsonRef> keys = root.Find("tune_params_keys");
  if (!keys.has_value() || !keys->is_array())
    return root.Error(kBadField, "\"tune_params_keys\" is missing: this is no cache file of Kernel Tuner");
  for (const JsonRef& key : keys->Children()) {
    if (!key.is_string()) return key.Error(kBadField, "a string is needed here, not {}", JsonKindName(key.kind()));
    names.push_back(key.text());
  }
  file.device_name = TextOf(root, "device_name");
  file.kernel_name = TextOf(root, "kernel_name");
  file.problem_size = TextOf(root, "problem_size");
  if (const std::string objective = TextOf(root, "objective"); !objective.empty()) file.objective = objective;
  return absl::OkStatus();
}

absl::StatusOr<RecordedFile> ReadCache(std::string text, const std::string& file_name) {
  RecordedFile file;
  file.format = RecordedFile::Format::kKernelTunerCache;
  // The names of the parameters are needed for the rows, and known only when all is read: twice, then.
  std::vector<std::string> names;
  RETURN_IF_ERROR(ReadCacheOutline(text, file_name, &file, &names));
  RecordedReader reader(&file);
  ASSIGN_OR_RETURN(const auto rest,
                   JsonDocument::ParseRows(std::move(text), file_name, "cache", kLimits, &file.is_truncated,
                                           [&](const JsonRef& row) { return reader.ReadCacheRow(row, names); }));
  return file;
}

absl::StatusOr<RecordedFile> ReadT4(std::string text, std::string file_name) {
  RecordedFile file;
  RecordedReader reader(&file);
  ASSIGN_OR_RETURN(const auto rest, JsonDocument::ParseRows(std::move(text), std::move(file_name), "results", kLimits,
                                                            &file.is_truncated,
                                                            [&](const JsonRef& row) { return reader.ReadT4Row(row); }));
  const std::optional<JsonRef> results = rest->root().Find("results");
  if (!results.has_value() || !results->is_array())
    return rest->root().Error(kBadField, "there is neither \"results\" (T4) nor \"cache\" (Kernel Tuner)");
  const std::optional<JsonRef> metadata = rest->root().Find("metadata");
  const std::optional<JsonRef> unit = metadata.has_value() ? metadata->Find("timeunit") : std::nullopt;
  if (unit.has_value() && unit->is_string()) {
    if (unit->text() == "miliseconds") {
      file.notes.push_back("The time unit is spelt \"miliseconds\"; milliseconds are meant.");
    } else if (unit->text() != "milliseconds" && unit->text() != "ms") {
      return unit->Error(kNotMappable, "times are read in milliseconds only");
    }
  }
  return file;
}

// Which of the two it is, by the first of their keys at the outermost level.
bool IsCache(std::string_view text) {
  const size_t cache = text.find("\"tune_params_keys\"");
  const size_t results = text.find("\"results\"");
  return cache != std::string_view::npos && (results == std::string_view::npos || cache < results);
}

}  // namespace

std::string_view InvalidityName(Invalidity invalidity) {
  for (const auto& [name, value] : Invalidities()) {
    if (value == invalidity) return name;
  }
  return "runtime";
}

double RecordedRow::CostMs() const {
  double cost = compile_ms.value_or(0) + framework_ms.value_or(0) + search_ms.value_or(0) + validation_ms.value_or(0);
  if (benchmark_ms.has_value()) return cost + *benchmark_ms;
  for (const double runtime : runtimes_ms) cost += runtime;
  return cost;
}

const RecordedRow* RecordedFile::Best() const {
  const RecordedRow* best = nullptr;
  for (const RecordedRow& row : rows) {
    if (row.invalidity != Invalidity::kCorrect || !row.objective.has_value()) continue;
    if (best == nullptr || *row.objective < *best->objective) best = &row;
  }
  return best;
}

absl::StatusOr<RecordedFile> ReadRecordedFile(std::string bytes, std::string file_name) {
  ASSIGN_OR_RETURN(std::string text, PlainText(std::move(bytes), file_name, kRecordedBytesMax));
  RecordedFile file;
  if (IsCache(text)) {
    ASSIGN_OR_RETURN(file, ReadCache(std::move(text), file_name));
  } else {
    ASSIGN_OR_RETURN(file, ReadT4(std::move(text), file_name));
  }
  if (file.parameters.empty()) {
    return WithReason(InvalidArgument("{}:1:1: the file has no results", file_name), kBadField);
  }
  if (file.is_truncated)
    file.notes.push_back("The file ends in the middle, as that of a tuner that was killed; its whole rows are read.");
  return file;
}

}  // namespace tunefarm::interchange
