#include "client/cli/options/measure_options.h"

#include <fmt/core.h>
#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "server/base/edit_distance.h"
#include "server/base/format.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm::cli {
namespace {

using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// The settings are the fields of the message by their names, so that none is ever missing here.
std::vector<std::string> Knobs() {
  std::vector<std::string> names;
  const auto* descriptor = v1::MeasurementPolicy::descriptor();
  for (int i = 0; i < descriptor->field_count(); ++i) names.emplace_back(descriptor->field(i)->name());
  return names;
}

std::string Joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

// The names of an enum's values without what they have in common, in lower case; the first, which means "not set", is
// left out.
std::vector<std::string> ShortNames(const EnumDescriptor& type) {
  const std::string unset(type.value(0)->name());
  const size_t prefix = unset.size() - std::string_view("UNSPECIFIED").size();
  std::vector<std::string> names;
  for (int i = 1; i < type.value_count(); ++i)
    names.push_back(absl::AsciiStrToLower(std::string(type.value(i)->name()).substr(prefix)));
  return names;
}

absl::Status SetEnum(const std::string& knob, const std::string& text, const FieldDescriptor* field, Message* policy) {
  const std::vector<std::string> names = ShortNames(*field->enum_type());
  const auto found = std::find(names.begin(), names.end(), absl::AsciiStrToLower(text));
  if (found == names.end()) return InvalidArgument("--measure {}={}: write one of {}", knob, text, Joined(names));
  policy->GetReflection()->SetEnum(policy, field,
                                   field->enum_type()->value(static_cast<int>(found - names.begin()) + 1));
  return absl::OkStatus();
}

absl::Status SetBool(const std::string& knob, const std::string& text, const FieldDescriptor* field, Message* policy) {
  const std::string word = absl::AsciiStrToLower(text);
  if (word != "true" && word != "false") return InvalidArgument("--measure {}={}: write true or false", knob, text);
  policy->GetReflection()->SetBool(policy, field, word == "true");
  return absl::OkStatus();
}

absl::Status Set(const std::string& knob, const std::string& text, const FieldDescriptor* field, Message* policy) {
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_ENUM:
      return SetEnum(knob, text, field, policy);
    case FieldDescriptor::CPPTYPE_BOOL:
      return SetBool(knob, text, field, policy);
    case FieldDescriptor::CPPTYPE_INT32: {
      int32_t value = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
      if (error != std::errc() || end != text.data() + text.size()) {
        return InvalidArgument("--measure {}={}: write a whole number", knob, text);
      }
      policy->GetReflection()->SetInt32(policy, field, value);
      return absl::OkStatus();
    }
    default: {
      char* end = nullptr;
      const double value = std::strtod(text.c_str(), &end);
      if (text.empty() || *end != '\0' || !std::isfinite(value)) {
        return InvalidArgument("--measure {}={}: write a number", knob, text);
      }
      policy->GetReflection()->SetDouble(policy, field, value);
      return absl::OkStatus();
    }
  }
}

absl::Status Apply(const std::string& setting, v1::MeasurementPolicy* policy) {
  const size_t equals = setting.find('=');
  if (equals == std::string::npos || equals == 0) {
    return InvalidArgument("--measure {}: write --measure NAME=VALUE; knobs are {}", setting, Joined(Knobs()));
  }
  const std::string knob = setting.substr(0, equals);
  const FieldDescriptor* const field = v1::MeasurementPolicy::descriptor()->FindFieldByName(knob);
  if (field == nullptr) {
    const std::optional<std::string> meant = ClosestMatch(knob, Knobs());
    return InvalidArgument("--measure {}: there is no '{}'{}; knobs are {}", setting, knob,
                           meant ? fmt::format(" (did you mean '{}'?)", *meant) : "", Joined(Knobs()));
  }
  return Set(knob, setting.substr(equals + 1), field, policy);
}

}  // namespace

void MeasureOptions::AddTo(CLI::App* command) {
  command->add_option("--policy", policy, "How to measure: fast, default or rigorous.")
      ->type_name("POLICY")
      ->check(CLI::IsMember({"fast", "default", "rigorous"}));
  command
      ->add_option(
          "--measure", settings,
          "A knob of the policy, e.g. final_rounds=9, input_copies=4, method=cuda_graph, no_early_stop=true; a "
          "wrong one lists all. May be repeated.")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
  command->add_option("--min-samples,--samples-min", min_samples, "Fewest samples of a config.")
      ->check(CLI::Range(1, 4096));
  command->add_option("--max-samples,--samples-max", max_samples, "Most samples of a config.")
      ->check(CLI::Range(1, 4096));
  command->add_option("--time-budget-ms", time_budget_ms, "Most time for the samples of a config.")
      ->check(CLI::Range(1, 60000));
  command->add_flag("--warm-cache", warm_cache, "Do not flush caches between samples.");
  command
      ->add_option("--host-isolation", host_isolation,
                   "On a CPU: a process for each trial, or one shared by trials until one fails (default: process).")
      ->type_name("process|shared")
      ->check(CLI::IsMember({"process", "shared"}));
}

absl::StatusOr<v1::MeasurementPolicy> MakePolicy(const MeasureOptions& options) {
  v1::MeasurementPolicy policy;
  RETURN_IF_ERROR(Apply("preset=" + options.policy, &policy));
  policy.set_min_samples(options.min_samples);
  policy.set_max_samples(options.max_samples);
  policy.set_time_budget_ms(options.time_budget_ms);
  policy.set_warm_cache(options.warm_cache);
  if (options.host_isolation == "process") policy.set_host_isolation(v1::HOST_ISOLATION_PROCESS_PER_TRIAL);
  if (options.host_isolation == "shared") policy.set_host_isolation(v1::HOST_ISOLATION_SHARED_PROCESS);
  for (const std::string& setting : options.settings) RETURN_IF_ERROR(Apply(setting, &policy));
  return policy;
}

std::string ConditionsText(const v1::Measurement& m) {
  std::vector<std::string> parts;
  if (m.method() != v1::TIMING_METHOD_UNSPECIFIED) {
    std::string method =
        absl::AsciiStrToLower(v1::TimingMethod_Name(m.method()).substr(std::string_view("TIMING_METHOD_").size()));
    std::replace(method.begin(), method.end(), '_', ' ');
    parts.push_back(method);
    parts.emplace_back(m.cold_cache() ? "cold caches" : "warm caches");
  }
  if (m.input_copies() > 1) parts.push_back(fmt::format("{} input copies", m.input_copies()));
  if (m.launches_per_sample() > 1) parts.push_back(fmt::format("{} launches a sample", m.launches_per_sample()));
  if (m.clock_mhz() > 0) parts.push_back(fmt::format("{} MHz", m.clock_mhz()));
  if (m.locked_clock_mhz() > 0) parts.push_back(fmt::format("clock held at {} MHz", m.locked_clock_mhz()));
  if (m.power_watts() > 0) parts.push_back(fmt::format("{:.0f} W", m.power_watts()));
  if (m.temperature_c() > 0) parts.push_back(fmt::format("{} °C", m.temperature_c()));
  if (!m.throttle_reason().empty()) parts.push_back("held down by: " + m.throttle_reason());
  if (m.throttled()) parts.emplace_back("throttled");
  if (m.contended()) parts.emplace_back("shared with others");
  if (m.self_judged()) parts.emplace_back("self-judged");
  if (m.discarded_samples() > 0) parts.push_back(FormatCount(m.discarded_samples(), "sample") + " discarded");
  return Joined(parts);
}

std::string StopText(const v1::Measurement& m) {
  switch (m.stop_reason()) {
    case v1::STOP_REASON_CONVERGED:
      return "converged";
    case v1::STOP_REASON_TIME_BUDGET:
      return "time budget spent";
    case v1::STOP_REASON_SAMPLE_BUDGET:
      return "sample budget spent";
    case v1::STOP_REASON_LOSING:
      return "stopped early: cannot win";
    default:
      return m.converged() ? "converged" : "not converged";
  }
}

}  // namespace tunefarm::cli
