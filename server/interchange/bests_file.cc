#include "server/interchange/bests_file.h"

#include <fmt/core.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "server/base/check.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/interchange/json_document.h"
#include "server/interchange/json_fields.h"
#include "server/measure/kept_samples.h"

namespace tunefarm::interchange {
namespace {

constexpr std::string_view kFormat = "tunefarm-bests";
constexpr size_t kFormatWithin = 256;  // bytes at the beginning of a file
constexpr size_t kTextMax = 4096;
constexpr size_t kNamesMax = 64;
constexpr size_t kNameBytesMax = 256;
constexpr JsonLimits kLimits = {.bytes_max = kBestsBytesMax, .depth_max = 16, .values_max = 20'000'000};

// Keys sorted, so that equal messages are equal texts.
nlohmann::json JsonOfMessage(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string text;
  TUNEFARM_CHECK(google::protobuf::util::MessageToJsonString(message, &text, options).ok());
  return nlohmann::json::parse(text);
}

absl::StatusOr<std::string> TextOf(const JsonRef& object, std::string_view key, bool is_required) {
  const std::optional<JsonRef> member = object.Find(key);
  if (!member.has_value() && !is_required) return std::string();
  ASSIGN_OR_RETURN(std::string text, RequiredText(object, key));
  if (text.empty() && is_required) return member->Error(kBadField, "\"{}\" is empty", key);
  if (text.size() > kTextMax) return member->Error(kBadField, "the text has more than {} bytes", kTextMax);
  return text;
}

// JSON of messages has 64-bit integers as strings.
absl::StatusOr<int64_t> IntegerOf(const JsonRef& ref) {
  if (ref.is_int()) return ref.int_value();
  if (ref.is_string()) {
    int64_t number = 0;
    const std::string& text = ref.text();
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error == std::errc() && end == text.data() + text.size()) return number;
  }
  return ref.Error(kBadField, "a whole number is needed here");
}

absl::StatusOr<int64_t> OptionalInteger(const JsonRef& object, std::string_view key) {
  const std::optional<JsonRef> member = object.Find(key);
  if (!member.has_value()) return 0;
  return IntegerOf(*member);
}

absl::StatusOr<v1::Value> ValueOf(const JsonRef& ref) {
  v1::Value value;
  const std::vector<JsonRef> members = ref.Children();
  if (!ref.is_object() || members.size() != 1) {
    return ref.Error(kBadField, "one of int_value, double_value, bool_value and string_value is needed here");
  }
  const JsonRef& member = members[0];
  if (member.key() == "int_value") {
    ASSIGN_OR_RETURN(const int64_t number, IntegerOf(member));
    value.set_int_value(number);
  } else if (member.key() == "double_value" && member.is_number()) {
    const bool is_exact =
        !member.is_rounded_int() && (!member.is_int() || (std::abs(member.number()) < 0x1p63 &&
                                                          static_cast<int64_t>(member.number()) == member.int_value()));
    if (!is_exact) return member.Error(kBadField, "the integer is more than a double holds exactly");
    value.set_double_value(member.number());
  } else if (member.key() == "bool_value" && member.kind() == JsonKind::kBool) {
    value.set_bool_value(member.bool_value());
  } else if (member.key() == "string_value" && member.is_string()) {
    value.set_string_value(member.text());
  } else {
    return member.Error(kBadField, "this is none of int_value, double_value, bool_value and string_value");
  }
  return value;
}

template <typename Map>
absl::Status ReadValues(const JsonRef& object, Map* values) {
  if (!object.is_object())
    return object.Error(kBadField, "an object is needed here, not {}", JsonKindName(object.kind()));
  for (const JsonRef& member : object.Children()) {
    if (values->size() >= kNamesMax) return member.Error(kBadField, "more than {} names are too many", kNamesMax);
    if (member.key().empty() || member.key().size() > kNameBytesMax)
      return member.Error(kBadField, "a name has 1 to {} bytes", kNameBytesMax);
    ASSIGN_OR_RETURN((*values)[member.key()], ValueOf(member));
  }
  return absl::OkStatus();
}

absl::Status ReadProblem(const JsonRef& ref, v1::Problem* problem) {
  if (const auto dims = ref.Find("dims")) RETURN_IF_ERROR(ReadValues(*dims, problem->mutable_dims()));
  if (const auto pinned = ref.Find("pinned")) RETURN_IF_ERROR(ReadValues(*pinned, problem->mutable_pinned()));
  if (const auto seeds = ref.Find("input_seeds")) {
    RETURN_IF_ERROR(NeedArray(*seeds));
    for (const JsonRef& seed : seeds->Children()) {
      ASSIGN_OR_RETURN(const int64_t number, IntegerOf(seed));
      problem->add_input_seeds(static_cast<uint64_t>(number));
    }
  }
  ASSIGN_OR_RETURN(*problem->mutable_key(), TextOf(ref, "key", false));
  return absl::OkStatus();
}

absl::Status ReadMeasurement(const JsonRef& ref, v1::Measurement* measurement) {
  ASSIGN_OR_RETURN(const std::optional<double> median, OptionalNumber(ref, "median_ns"));
  if (!(median.value_or(0) > 0)) return ref.Error(kBadField, "\"median_ns\" must be a time above 0");
  measurement->set_median_ns(*median);
  ASSIGN_OR_RETURN(const std::optional<double> low, OptionalNumber(ref, "ci_low_ns"));
  ASSIGN_OR_RETURN(const std::optional<double> high, OptionalNumber(ref, "ci_high_ns"));
  measurement->set_ci_low_ns(low.value_or(0));
  measurement->set_ci_high_ns(high.value_or(0));
  ASSIGN_OR_RETURN(const int64_t samples, OptionalInteger(ref, "samples"));
  measurement->set_samples(static_cast<int32_t>(std::clamp<int64_t>(samples, 0, 1 << 30)));
  return absl::OkStatus();
}

absl::StatusOr<v1::BestConfig> ReadBest(const JsonRef& ref) {
  v1::BestConfig best;
  ASSIGN_OR_RETURN(*best.mutable_kernel_name(), TextOf(ref, "kernel_name", true));
  ASSIGN_OR_RETURN(*best.mutable_device_class_id(), TextOf(ref, "device_class_id", true));
  ASSIGN_OR_RETURN(*best.mutable_device_class_name(), TextOf(ref, "device_class_name", false));
  ASSIGN_OR_RETURN(*best.mutable_kernel_id(), TextOf(ref, "kernel_id", false));
  ASSIGN_OR_RETURN(*best.mutable_program_digest(), TextOf(ref, "program_digest", false));
  ASSIGN_OR_RETURN(*best.mutable_toolkit_version(), TextOf(ref, "toolkit_version", false));
  ASSIGN_OR_RETURN(*best.mutable_driver_version(), TextOf(ref, "driver_version", false));
  ASSIGN_OR_RETURN(*best.mutable_baseline_label(), TextOf(ref, "baseline_label", false));
  ASSIGN_OR_RETURN(*best.mutable_note(), TextOf(ref, "note", false));
  ASSIGN_OR_RETURN(const std::optional<double> baseline, OptionalNumber(ref, "baseline_ns"));
  best.set_baseline_ns(baseline.value_or(0));
  ASSIGN_OR_RETURN(const int64_t promoted, OptionalInteger(ref, "promoted_at_ms"));
  best.set_promoted_at_ms(promoted);
  ASSIGN_OR_RETURN(const int64_t revision, OptionalInteger(ref, "revision"));
  best.set_revision(revision);
  ASSIGN_OR_RETURN(const JsonRef problem, Required(ref, "problem"));
  RETURN_IF_ERROR(ReadProblem(problem, best.mutable_problem()));
  ASSIGN_OR_RETURN(const JsonRef config, Required(ref, "config"));
  ASSIGN_OR_RETURN(const JsonRef values, Required(config, "values"));
  RETURN_IF_ERROR(ReadValues(values, best.mutable_config()->mutable_values()));
  if (best.config().values().empty()) return values.Error(kBadField, "the config is empty");
  ASSIGN_OR_RETURN(const JsonRef measurement, Required(ref, "measurement"));
  RETURN_IF_ERROR(ReadMeasurement(measurement, best.mutable_measurement()));
  return best;
}

absl::Status CheckHead(const JsonRef& root) {
  const std::optional<JsonRef> format = root.Find("format");
  if (!format.has_value() || !format->is_string() || format->text() != kFormat) {
    return (format.has_value() ? *format : root)
        .Error(kBadField, "\"format\" is not \"{}\": this is no file that tunefarm export bests wrote", kFormat);
  }
  ASSIGN_OR_RETURN(const JsonRef version, Required(root, "version"));
  ASSIGN_OR_RETURN(const int64_t number, IntegerOf(version));
  if (number < 1 || number > kBestsVersion) {
    return version.Error(kNotMappable, "version {} is not known; this program reads version {}", number, kBestsVersion);
  }
  return absl::OkStatus();
}

}  // namespace

bool IsBestsFile(std::string_view text) {
  return text.substr(0, kFormatWithin).find(kFormat) != std::string_view::npos;
}

std::string WriteBestsFile(const BestsFile& file) {
  nlohmann::ordered_json head;
  head["host"] = file.source.host;
  head["data_directory"] = file.source.data_directory;
  head["tunefarm_version"] = file.source.tunefarm_version;
  constexpr auto kReplace = nlohmann::ordered_json::error_handler_t::replace;
  std::string text = fmt::format(
      "{{\n  \"format\": \"{}\",\n  \"version\": {},\n  \"source\": {},\n  \"exported_at_ms\": {},\n  \"bests\": [",
      kFormat, kBestsVersion, head.dump(-1, ' ', false, kReplace), file.source.exported_at_ms);
  const char* separator = "\n    ";
  for (const ExportedBest& exported : file.bests) {
    v1::BestConfig best = exported.best;
    DropSamples(best.mutable_measurement());
    text += separator + JsonOfMessage(best).dump();
    separator = ",\n    ";
  }
  return text + "\n  ]\n}\n";
}

absl::StatusOr<BestsFile> ReadBestsFile(std::string text, std::string file_name) {
  ASSIGN_OR_RETURN(const auto document, JsonDocument::Parse(std::move(text), std::move(file_name), kLimits));
  const JsonRef root = document->root();
  RETURN_IF_ERROR(CheckHead(root));
  BestsFile file;
  ASSIGN_OR_RETURN(const JsonRef source, Required(root, "source"));
  ASSIGN_OR_RETURN(file.source.host, TextOf(source, "host", true));
  ASSIGN_OR_RETURN(file.source.data_directory, TextOf(source, "data_directory", false));
  ASSIGN_OR_RETURN(file.source.tunefarm_version, TextOf(source, "tunefarm_version", false));
  ASSIGN_OR_RETURN(file.source.exported_at_ms, OptionalInteger(root, "exported_at_ms"));
  ASSIGN_OR_RETURN(const JsonRef bests, Required(root, "bests"));
  RETURN_IF_ERROR(NeedArray(bests));
  const std::vector<JsonRef> entries = bests.Children();
  if (entries.size() > kBestsMax) return bests.Error(kBadField, "there are more than {} bests", kBestsMax);
  for (const JsonRef& entry : entries) {
    ASSIGN_OR_RETURN(v1::BestConfig best, ReadBest(entry));
    absl::StatusOr<ExportedBest> exported = MakeExportedBest(std::move(best), v1::MATCH_EXACT);
    if (!exported.ok()) return entry.Error(kBadField, "{}", MessageOf(exported.status()));
    file.bests.push_back(*std::move(exported));
  }
  return file;
}

}  // namespace tunefarm::interchange
