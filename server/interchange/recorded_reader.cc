#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <unordered_set>
#include <utility>

#include "server/base/format.h"
#include "server/base/hash.h"
#include "server/base/log_escape.h"
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

// What early versions of Kernel Tuner wrote as the time of a config that failed.
constexpr double kErrorValue = 1e20;

// Whether a number can be an objective: far enough from the ends of a double for units and reciprocals.
bool IsObjective(double value) { return value >= 1e-100 && value <= 1e100 && value != kErrorValue; }

// The directions that Kernel Tuner knows: whether the objective is maximised.
std::optional<bool> KnownDirection(std::string_view objective) {
  static const std::map<std::string_view, bool> kTable = {
      {"time", false},    {"energy", false},  {"cost", false},   {"loss", false},  {"fitness", true},
      {"score", true},    {"GFLOP/s", true},  {"TFLOP/s", true}, {"GB/s", true},   {"TB/s", true},
      {"GFLOPS/W", true}, {"TFLOPS/W", true}, {"GFLOP/J", true}, {"TFLOP/J", true}};
  const auto known = kTable.find(objective);
  return known == kTable.end() ? std::nullopt : std::optional<bool>(known->second);
}

// How many milliseconds a unit of time is; none for what is no unit of time.
std::optional<double> MillisecondsOf(std::string_view unit) {
  static const std::map<std::string_view, double> kTable = {
      {"s", 1e3},           {"sec", 1e3},          {"second", 1e3},        {"seconds", 1e3}, {"ms", 1},
      {"millisecond", 1},   {"milliseconds", 1},   {"miliseconds", 1},     {"us", 1e-3},     {"\xc2\xb5s", 1e-3},
      {"\xce\xbcs", 1e-3},  {"microsecond", 1e-3}, {"microseconds", 1e-3}, {"ns", 1e-6},     {"nanosecond", 1e-6},
      {"nanoseconds", 1e-6}};
  const auto known = kTable.find(unit);
  return known == kTable.end() ? std::nullopt : std::optional<double>(known->second);
}

absl::Status UnknownTimeUnit(const JsonRef& unit) {
  return unit.Error(kNotMappable, "'{}' is no known unit of time; s, ms, us and ns are",
                    internal::EscapeForText(unit.text().substr(0, 64)));
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
      if (ref.is_rounded_int()) return ref.Error(kBadField, "the integer does not fit in 64 bits");
      if (!std::isfinite(ref.number())) return ref.Error(kBadField, "a value of a parameter cannot be NaN or infinite");
      return Value(ref.number());
    case JsonKind::kString:
      if (ref.text().size() <= kNameMax) return Value(ref.text());
      return ref.Error(kBadField, "the text has more than {} bytes", kNameMax);
    default:
      return ref.Error(kBadField, "a value of a parameter is needed here, not {}", JsonKindName(ref.kind()));
  }
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

// A number of rows or values that are not read, and the first of them.
struct Unread {
  uint64_t count = 0;
  std::string first;
  void Add(const JsonRef& place) {
    if (count++ == 0) first = internal::EscapeForText(place.Pointer());
  }
};

class RecordedReader {
 public:
  // `objective` is the one that is asked for; an empty name: the file's.
  RecordedReader(RecordedFile* file, const RecordedObjective& objective) : file_(file), wanted_(objective) {
    if (!wanted_.name.empty()) file_->objective = wanted_.name;
  }

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
    ReadTimestamp(row, &recorded);
    RETURN_IF_ERROR(ReadMeasuredObjective(row, &recorded));
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
    recorded.compile_ms = TimeOf(row, "compile_time");
    recorded.benchmark_ms = TimeOf(row, "benchmark_time");
    recorded.framework_ms = TimeOf(row, "framework_time");
    recorded.search_ms = TimeOf(row, "strategy_time");
    recorded.validation_ms = TimeOf(row, "verification_time");
    if (const auto times = row.Find("times"); times.has_value())
      RETURN_IF_ERROR(ReadRuntimes(*times, &recorded.runtimes_ms));
    ReadTimestamp(row, &recorded);
    // From Kernel Tuner 1.4 on a config that failed has this key and need have no objective.
    if (const auto error = row.Find("__error__"); error.has_value()) {
      recorded.invalidity =
          (error->is_string() ? NamedError(error->text()) : std::nullopt).value_or(Invalidity::kRuntime);
    } else {
      const std::optional<JsonRef> value = row.Find(file_->objective);
      SetObjective(value.has_value() ? *value : row, &recorded);
    }
    return Keep(row, std::move(recorded));
  }

  // After the last row. `time_unit` is how many milliseconds the file's unit of time is.
  absl::Status Finish(double time_unit) {
    if (time_unit != 1) {
      for (size_t i = 0; i < file_->rows.size(); ++i) Convert(time_unit, has_own_unit_[i], &file_->rows[i]);
      const size_t gone = std::erase_if(file_->rows, [](const RecordedRow& row) {
        return row.objective.has_value() && !IsObjective(*row.objective);
      });
      if (gone > 0 && left_out_.count == 0) left_out_.first = "/metadata/timeunit";
      left_out_.count += gone;
    }
    if (left_out_.count > 0) {
      file_->notes.push_back(fmt::format("{} of {} {} left out: \"{}\" is no number above 0; the first is {}.",
                                         left_out_.count, FormatCount(static_cast<int64_t>(seen_.size()), "row"),
                                         left_out_.count == 1 ? "is" : "are", internal::EscapeForText(file_->objective),
                                         left_out_.first));
    }
    if (bad_times_.count > 0) {
      file_->notes.push_back(
          fmt::format("{} as unknown; the first is {}.",
                      FormatCount(static_cast<int64_t>(bad_times_.count), "time is negative or no number and counts",
                                  "times are negative or no numbers and count"),
                      bad_times_.first));
    }
    return absl::OkStatus();
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

  static void ReadTimestamp(const JsonRef& row, RecordedRow* recorded) {
    if (const auto stamp = row.Find("timestamp"); stamp.has_value() && stamp->is_string())
      recorded->timestamp = stamp->text().substr(0, 64);
  }

  // Absent where the row says nothing, or nothing that is a time.
  std::optional<double> TimeOf(const JsonRef& object, std::string_view key) {
    const std::optional<JsonRef> ref = object.Find(key);
    if (!ref.has_value()) return std::nullopt;
    if (ref->is_number() && std::isfinite(ref->number()) && ref->number() >= 0) return ref->number();
    bad_times_.Add(*ref);
    return std::nullopt;
  }

  absl::Status ReadRuntimes(const JsonRef& ref, std::vector<double>* runtimes) {
    if (!ref.is_array()) return ref.Error(kBadField, "an array is needed here, not {}", JsonKindName(ref.kind()));
    const std::vector<JsonRef> entries = ref.Children();
    if (entries.size() > kRuntimesMax) return ref.Error(kBadField, "there are more than {} runtimes", kRuntimesMax);
    for (const JsonRef& entry : entries) {
      if (entry.is_number() && std::isfinite(entry.number()) && entry.number() >= 0) {
        runtimes->push_back(entry.number());
      } else {
        bad_times_.Add(entry);
      }
    }
    return absl::OkStatus();
  }

  absl::Status ReadTimes(const JsonRef& times, RecordedRow* recorded) {
    if (!times.is_object())
      return times.Error(kBadField, "an object is needed here, not {}", JsonKindName(times.kind()));
    recorded->compile_ms = TimeOf(times, "compilation_time");
    if (!recorded->compile_ms.has_value()) recorded->compile_ms = TimeOf(times, "compilation");
    recorded->benchmark_ms = TimeOf(times, "benchmark");
    recorded->framework_ms = TimeOf(times, "framework");
    recorded->search_ms = TimeOf(times, "search_algorithm");
    recorded->validation_ms = TimeOf(times, "validation");
    if (const auto runtimes = times.Find("runtimes"); runtimes.has_value())
      return ReadRuntimes(*runtimes, &recorded->runtimes_ms);
    return absl::OkStatus();
  }

  // The first of a row's objectives, unless one is asked for: the same in every row.
  absl::Status ReadObjectiveName(const JsonRef& row) {
    const auto objectives = row.Find("objectives");
    if (!wanted_.name.empty() || !objectives.has_value() || !objectives->is_array()) return absl::OkStatus();
    const std::vector<JsonRef> names = objectives->Children();
    if (names.empty() || !names[0].is_string()) return absl::OkStatus();
    if (seen_.empty()) {
      file_->objective = names[0].text().substr(0, kNameMax);
      if (names.size() > 1) {
        file_->notes.push_back(fmt::format("The file has {} objectives; the first, \"{}\", counts.", names.size(),
                                           internal::EscapeForText(file_->objective)));
      }
    }
    if (names[0].text() != file_->objective)
      return names[0].Error(kBadField, "the first row's objective is \"{}\"",
                            internal::EscapeForText(file_->objective));
    return absl::OkStatus();
  }

  // The objective's value among the measurements.
  absl::Status ReadMeasuredObjective(const JsonRef& row, RecordedRow* recorded) {
    RETURN_IF_ERROR(ReadObjectiveName(row));
    if (const auto measurements = row.Find("measurements"); measurements.has_value()) {
      if (!measurements->is_array())
        return measurements->Error(kBadField, "an array is needed here, not {}", JsonKindName(measurements->kind()));
      for (const JsonRef& measurement : measurements->Children()) {
        const std::optional<JsonRef> name = measurement.Find("name");
        const std::optional<JsonRef> value = measurement.Find("value");
        if (!name.has_value() || !value.has_value() || !name->is_string() || name->text() != file_->objective) continue;
        SetObjective(*value, recorded);
        return ReadUnit(measurement, recorded);
      }
    }
    if (recorded->invalidity != Invalidity::kCorrect || recorded->runtimes_ms.empty()) return absl::OkStatus();
    double sum = 0;
    for (const double runtime : recorded->runtimes_ms) sum += runtime;
    // The mean is what Kernel Tuner calls the time.
    const double mean = sum / static_cast<double>(recorded->runtimes_ms.size());
    if (file_->objective == "time" && IsObjective(mean)) recorded->objective = mean;
    return absl::OkStatus();
  }

  // A time is converted; the unit of another objective must be the same in all rows.
  absl::Status ReadUnit(const JsonRef& measurement, RecordedRow* recorded) {
    const std::optional<JsonRef> unit = measurement.Find("unit");
    const std::string text = unit.has_value() && unit->is_string() ? unit->text() : "";
    if (!recorded->objective.has_value()) return absl::OkStatus();
    if (file_->objective == "time") {
      if (text.empty()) return absl::OkStatus();
      const std::optional<double> milliseconds = MillisecondsOf(text);
      if (!milliseconds.has_value()) return UnknownTimeUnit(*unit);
      *recorded->objective *= *milliseconds;
      if (!IsObjective(*recorded->objective)) recorded->objective.reset();
      is_own_unit_ = true;
      return absl::OkStatus();
    }
    if (!unit_.has_value()) unit_ = text;
    if (text == *unit_) return absl::OkStatus();
    return (unit.has_value() ? *unit : measurement)
        .Error(kNotMappable, "the unit of \"{}\" is '{}' here and '{}' in the rows before",
               internal::EscapeForText(file_->objective), internal::EscapeForText(text.substr(0, 64)),
               internal::EscapeForText(unit_->substr(0, 64)));
  }

  // Where the value is neither the name of an error nor a number above 0, the row has no objective and is left out.
  void SetObjective(const JsonRef& value, RecordedRow* recorded) {
    if (recorded->invalidity != Invalidity::kCorrect) return;
    if (value.is_string()) {
      if (const auto error = NamedError(value.text()); error.has_value()) recorded->invalidity = *error;
      return;
    }
    if (!value.is_number() || !std::isfinite(value.number())) return;
    if (std::fabs(value.number()) == kErrorValue || value.number() == std::numeric_limits<double>::max()) {
      recorded->invalidity = Invalidity::kRuntime;
    } else if (IsObjective(value.number())) {
      recorded->objective = value.number();
    }
  }

  absl::Status Keep(const JsonRef& row, RecordedRow recorded) {
    const bool has_own_unit = std::exchange(is_own_unit_, false);
    if (seen_.size() >= kRecordedRowsMax) return row.Error(kBadField, "there are more than {} rows", kRecordedRowsMax);
    if (!seen_.insert(KeyOf(recorded.config)).second)
      return row.Error(kBadField, "this config stands in the file twice");
    if (recorded.invalidity == Invalidity::kCorrect && !recorded.objective.has_value()) {
      left_out_.Add(row);
      return absl::OkStatus();
    }
    file_->rows.push_back(std::move(recorded));
    has_own_unit_.push_back(has_own_unit);
    return absl::OkStatus();
  }

  void Convert(double time_unit, bool has_own_unit, RecordedRow* row) const {
    for (std::optional<double>* const time :
         {&row->compile_ms, &row->benchmark_ms, &row->framework_ms, &row->search_ms, &row->validation_ms}) {
      if (time->has_value()) **time *= time_unit;
    }
    for (double& runtime : row->runtimes_ms) runtime *= time_unit;
    if (file_->objective == "time" && row->objective.has_value() && !has_own_unit) *row->objective *= time_unit;
  }

  RecordedFile* const file_;
  const RecordedObjective wanted_;
  std::unordered_set<Digest> seen_;  // one a row
  std::vector<bool> has_own_unit_;   // of each row that is kept: its objective is in milliseconds already
  bool is_own_unit_ = false;         // of the row that is being read
  std::optional<std::string> unit_;  // of an objective that is no time
  Unread left_out_, bad_times_;
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

constexpr JsonLimits kLimits = {
    .bytes_max = kRecordedBytesMax, .depth_max = 32, .values_max = 1'000'000, .takes_non_finite = true};

// A name, or the first of an array of names.
void ReadCacheObjective(const JsonRef& root, RecordedFile* file) {
  std::optional<JsonRef> objective = root.Find("objective");
  if (!objective.has_value()) objective = root.Find("objectives");
  if (!objective.has_value()) return;
  const std::vector<JsonRef> names = objective->is_array() ? objective->Children() : std::vector{*objective};
  if (names.empty() || !names[0].is_string() || names[0].text().empty()) return;
  file->objective = names[0].text().substr(0, kNameMax);
  if (names.size() > 1) {
    file->notes.push_back(fmt::format("The file has {} objectives; the first, \"{}\", counts.", names.size(),
                                      internal::EscapeForText(file->objective)));
  }
}

// All but the rows, and the names of the parameters.
absl::Status ReadCacheOutline(const std::string& text, const std::string& file_name, bool reads_objective,
                              RecordedFile* read, std::vector<std::string>* read_names) {
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
  if (reads_objective) ReadCacheObjective(root, &file);
  return absl::OkStatus();
}

absl::StatusOr<RecordedFile> ReadCache(std::string text, const std::string& file_name,
                                       const RecordedObjective& objective) {
  RecordedFile file;
  file.format = RecordedFile::Format::kKernelTunerCache;
  // The names of the parameters are needed for the rows, and known only when all is read: twice, then.
  std::vector<std::string> names;
  RETURN_IF_ERROR(ReadCacheOutline(text, file_name, objective.name.empty(), &file, &names));
  RecordedReader reader(&file, objective);
  ASSIGN_OR_RETURN(const auto rest,
                   JsonDocument::ParseRows(std::move(text), file_name, "cache", kLimits, &file.is_truncated,
                                           [&](const JsonRef& row) { return reader.ReadCacheRow(row, names); }));
  RETURN_IF_ERROR(reader.Finish(1));
  return file;
}

absl::StatusOr<RecordedFile> ReadT4(std::string text, std::string file_name, const RecordedObjective& objective) {
  RecordedFile file;
  RecordedReader reader(&file, objective);
  ASSIGN_OR_RETURN(const auto rest, JsonDocument::ParseRows(std::move(text), std::move(file_name), "results", kLimits,
                                                            &file.is_truncated,
                                                            [&](const JsonRef& row) { return reader.ReadT4Row(row); }));
  const std::optional<JsonRef> results = rest->root().Find("results");
  if (!results.has_value() || !results->is_array())
    return rest->root().Error(kBadField, "there is neither \"results\" (T4) nor \"cache\" (Kernel Tuner)");
  const std::optional<JsonRef> metadata = rest->root().Find("metadata");
  const std::optional<JsonRef> unit = metadata.has_value() ? metadata->Find("timeunit") : std::nullopt;
  double milliseconds = 1;
  if (unit.has_value() && unit->is_string()) {
    if (unit->text() == "miliseconds")
      file.notes.push_back("The time unit is spelt \"miliseconds\"; milliseconds are meant.");
    const std::optional<double> known = MillisecondsOf(unit->text());
    if (!known.has_value()) return UnknownTimeUnit(*unit);
    milliseconds = *known;
  }
  RETURN_IF_ERROR(reader.Finish(milliseconds));
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

std::optional<double> RecordedFile::Minimised(const RecordedRow& row) const {
  if (!row.objective.has_value() || !is_maximised) return row.objective;
  return 1 / *row.objective;
}

absl::StatusOr<RecordedObjective> ParseRecordedObjective(std::string_view text) {
  RecordedObjective objective;
  for (const auto& [ending, is_maximised] : {std::pair(std::string_view(":min"), false), {":max", true}}) {
    if (!text.ends_with(ending)) continue;
    text.remove_suffix(ending.size());
    objective.is_maximised = is_maximised;
    break;
  }
  if (text.empty()) return InvalidArgument("an objective is written NAME, NAME:min or NAME:max");
  objective.name = std::string(text);
  return objective;
}

absl::StatusOr<RecordedFile> ReadRecordedFile(std::string bytes, std::string file_name,
                                              const RecordedObjective& objective) {
  ASSIGN_OR_RETURN(std::string text, PlainText(std::move(bytes), file_name, kRecordedBytesMax));
  // Behind white space and a byte order mark. Another kind of file, such as CSV, is no JSON with a mistake.
  const size_t begin = text.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  if (begin != std::string::npos && text[begin] != '{') {
    return WithReason(InvalidArgument("{}:1:1: this is neither a T4 file nor a cache file of Kernel Tuner: those are "
                                      "objects in JSON",
                                      file_name),
                      kBadField);
  }
  RecordedFile file;
  if (IsCache(text)) {
    ASSIGN_OR_RETURN(file, ReadCache(std::move(text), file_name, objective));
  } else {
    ASSIGN_OR_RETURN(file, ReadT4(std::move(text), file_name, objective));
  }
  if (file.parameters.empty()) {
    return WithReason(InvalidArgument("{}:1:1: the file has no results", file_name), kBadField);
  }
  const std::string shown = internal::EscapeForText(file.objective);
  if (file.rows.empty()) {
    return WithReason(
        InvalidArgument("{}:1:1: no row of the file can be read: none has a \"{}\" above 0", file_name, shown),
        kBadField);
  }
  const std::optional<bool> direction =
      objective.is_maximised.has_value() ? objective.is_maximised : KnownDirection(file.objective);
  if (!direction.has_value()) {
    return WithReason(
        InvalidArgument("{}: whether the objective \"{}\" is minimised or maximised is not known; say it: "
                        "--recorded-objective {}:min or {}:max",
                        file_name, shown, shown, shown),
        kNotMappable);
  }
  file.is_maximised = *direction;
  if (file.is_truncated)
    file.notes.push_back("The file ends in the middle, as that of a tuner that was killed; its whole rows are read.");
  return file;
}

}  // namespace tunefarm::interchange
