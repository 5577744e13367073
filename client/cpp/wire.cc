#include "client/cpp/wire.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "server/base/status.h"
#include "tunefarm/v1/error.pb.h"

namespace tunefarm::client {
namespace {

using google::protobuf::FieldDescriptor;

constexpr int kProblemsMax = 256;

std::vector<std::pair<std::string, Value>> Sorted(const google::protobuf::Map<std::string, v1::Value>& values) {
  std::vector<std::pair<std::string, Value>> sorted;
  sorted.reserve(values.size());
  for (const auto& [name, value] : values) sorted.emplace_back(name, FromWire(value));
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  return sorted;
}

Progress ProgressOf(const v1::Progress& progress) {
  return {progress.total(),       progress.total_is_estimate(), progress.done(),
          progress.finals_done(), progress.finals_total(),      progress.eta_ms()};
}

Study StudyOf(const v1::Study& study) {
  Study own;
  own.problem = study.problem().key();
  own.device_class_id = study.device_class_id();
  own.device_class_name = study.device_class_name();
  own.progress = ProgressOf(study.progress());
  if (study.has_best()) own.best = FromBest(study.best(), Match::kExact, Source::kDaemon);
  return own;
}

Trial TrialOf(const v1::Trial& trial) {
  Trial own;
  own.ordinal = trial.ordinal();
  constexpr std::string_view kPrefix = "OUTCOME_";
  const std::string name = v1::Outcome_Name(trial.outcome());
  own.outcome = name.size() > kPrefix.size() ? name.substr(kPrefix.size()) : "UNKNOWN";
  own.message = trial.message();
  own.config = client::FromWire(trial.config());
  own.median_ns = trial.measurement().median_ns();
  return own;
}

Status BadKnob(const std::string& name, const std::string& value, const std::string& what) {
  return {Code::kInvalidArgument, "measure: " + name + "=" + value + ": " + what, "MEASURE_INVALID"};
}

std::string KnobNames() {
  std::string names;
  const auto* const descriptor = v1::MeasurementPolicy::descriptor();
  for (int i = 0; i < descriptor->field_count(); ++i) names += (i == 0 ? "" : ", ") + descriptor->field(i)->name();
  return names;
}

// The values of an enum are written without what their names have in common.
Status SetEnum(const std::string& name, const std::string& text, const FieldDescriptor* field,
               v1::MeasurementPolicy* policy) {
  const auto* const type = field->enum_type();
  const std::string& unset = type->value(0)->name();
  std::string wanted = unset.substr(0, unset.size() - std::string_view("UNSPECIFIED").size());
  for (const char c : text) wanted += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  const auto* const value = type->FindValueByName(wanted);
  if (value == nullptr || value->number() == 0) return BadKnob(name, text, "there is no such choice");
  policy->GetReflection()->SetEnum(policy, field, value);
  return {};
}

Status SetKnob(const std::string& name, const std::string& text, v1::MeasurementPolicy* policy) {
  const FieldDescriptor* const field = v1::MeasurementPolicy::descriptor()->FindFieldByName(name);
  if (field == nullptr) return BadKnob(name, text, "there is no such knob; knobs are " + KnobNames());
  const auto* const reflection = policy->GetReflection();
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_ENUM:
      return SetEnum(name, text, field, policy);
    case FieldDescriptor::CPPTYPE_BOOL:
      if (text != "true" && text != "false") return BadKnob(name, text, "write true or false");
      reflection->SetBool(policy, field, text == "true");
      return {};
    case FieldDescriptor::CPPTYPE_INT32: {
      int32_t value = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
      if (error != std::errc() || end != text.data() + text.size()) return BadKnob(name, text, "write a whole number");
      reflection->SetInt32(policy, field, value);
      return {};
    }
    default: {
      char* end = nullptr;
      const double value = std::strtod(text.c_str(), &end);
      if (text.empty() || *end != '\0' || !std::isfinite(value)) return BadKnob(name, text, "write a number");
      reflection->SetDouble(policy, field, value);
      return {};
    }
  }
}

}  // namespace

Status FromAbsl(const absl::Status& status) {
  if (status.ok()) return {};
  return {static_cast<Code>(status.code()), std::string(MessageOf(status)), ReasonOf(status)};
}

Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return {};
  Status own{static_cast<Code>(status.error_code()), status.error_message(), {}};
  v1::ErrorDetail detail;
  if (!status.error_details().empty() && detail.ParseFromString(status.error_details())) own.reason = detail.reason();
  return own;
}

Value FromWire(const v1::Value& value) {
  switch (value.kind_case()) {
    case v1::Value::kIntValue:
      return value.int_value();
    case v1::Value::kDoubleValue:
      return value.double_value();
    case v1::Value::kBoolValue:
      return value.bool_value();
    case v1::Value::kStringValue:
      return value.string_value();
    default:
      return {};
  }
}

v1::Value ToWire(const Value& value) {
  v1::Value wire;
  switch (value.kind()) {
    case Value::Kind::kInt:
      wire.set_int_value(value.int_value());
      break;
    case Value::Kind::kDouble:
      wire.set_double_value(value.double_value());
      break;
    case Value::Kind::kBool:
      wire.set_bool_value(value.bool_value());
      break;
    case Value::Kind::kString:
      wire.set_string_value(value.string_value());
      break;
  }
  return wire;
}

Config FromWire(const v1::Config& config) { return Config(Sorted(config.values())); }

Match FromWire(v1::Match match) {
  // What a newer daemon may say one day is no worse than what it can be taken for.
  return v1::Match_IsValid(match) ? static_cast<Match>(match) : Match::kNotFound;
}

Answer FromBest(const v1::BestConfig& best, Match match, Source source) {
  Answer answer;
  answer.match = match;
  answer.source = source;
  answer.config = FromWire(best.config());
  answer.kernel = best.kernel_name();
  answer.kernel_id = best.kernel_id();
  answer.program_digest = best.program_digest();
  answer.problem = best.problem().key();
  answer.device_class_id = best.device_class_id();
  answer.device_class_name = best.device_class_name();
  answer.driver_version = best.driver_version();
  answer.toolkit_version = best.toolkit_version();
  answer.job = best.job();
  answer.median_ns = best.measurement().median_ns();
  answer.ci_low_ns = best.measurement().ci_low_ns();
  answer.ci_high_ns = best.measurement().ci_high_ns();
  answer.baseline_ns = best.baseline_ns();
  answer.revision = best.revision();
  answer.promoted_at_ms = best.promoted_at_ms();
  answer.pinned = best.pinned();
  return answer;
}

Answer FromWire(const v1::LookupConfigResponse& response) {
  Answer answer = FromBest(response.best(), FromWire(response.match()), Source::kDaemon);
  if (answer.match == Match::kUnspecified) answer.match = Match::kNotFound;
  answer.distance = response.distance();
  return answer;
}

Job FromWire(const v1::Job& job) {
  Job own;
  own.name = job.name();
  own.kernel_name = job.kernel_name();
  own.state = v1::JobState_IsValid(job.state()) ? static_cast<JobState>(job.state()) : JobState::kUnspecified;
  own.state_reason = job.state_reason();
  own.error = job.error();
  own.label = job.label();
  own.progress = ProgressOf(job.progress());
  for (const v1::Study& study : job.studies()) own.studies.push_back(StudyOf(study));
  own.created_at_ms = job.created_at_ms();
  own.started_at_ms = job.started_at_ms();
  own.ended_at_ms = job.ended_at_ms();
  return own;
}

JobEvent FromWire(const v1::JobEvent& event) {
  JobEvent own;
  own.event_id = event.event_id();
  own.progress = ProgressOf(event.progress());
  if (event.has_job()) own.job = FromWire(event.job());
  if (event.has_trial_ended()) own.trial = TrialOf(event.trial_ended());
  if (event.has_study_changed()) own.study = StudyOf(event.study_changed());
  own.message = event.message();
  return own;
}

Result<v1::Job> ToWire(const JobSpec& spec) {
  v1::Job job;
  if (spec.kernel.empty()) return Status{Code::kInvalidArgument, "the job names no kernel", "KERNEL_MISSING"};
  if (spec.problems.empty() || spec.problems.size() > kProblemsMax) {
    return Status{Code::kInvalidArgument,
                  "a job has 1 to 256 problems, not " + std::to_string(spec.problems.size()) + "; make several jobs",
                  "PROBLEM_COUNT"};
  }
  job.set_kernel(spec.kernel);
  for (const Problem& problem : spec.problems) {
    v1::Problem* const wire = job.add_problems();
    for (const auto& [name, value] : problem.dims) (*wire->mutable_dims())[name] = ToWire(value);
    for (const auto& [name, value] : problem.pinned) (*wire->mutable_pinned())[name] = ToWire(value);
    for (const uint64_t seed : problem.input_seeds) wire->add_input_seeds(seed);
  }
  job.set_device_selector(spec.device);
  job.mutable_strategy()->set_strategy_name(spec.strategy);
  job.mutable_strategy()->set_seed(spec.seed);
  for (const auto& [name, value] : spec.strategy_options) (*job.mutable_strategy()->mutable_options())[name] = value;
  job.mutable_budget()->set_max_trials(spec.max_trials);
  job.mutable_budget()->set_max_seconds(spec.max_seconds);
  job.mutable_budget()->set_max_device_seconds(spec.max_device_seconds);
  job.mutable_budget()->set_stop_within_floor(spec.stop_within_floor);
  job.mutable_budget()->set_max_trials_without_gain(spec.max_trials_without_gain);
  for (const auto& [name, value] : spec.measure) {
    if (Status set = SetKnob(name, value, job.mutable_policy()); !set.ok()) return set;
  }
  job.set_priority(spec.priority);
  job.set_no_promotion(spec.no_promotion);
  job.set_promote_given(spec.promote_given);
  job.set_no_memory(spec.no_memory);
  job.set_retry_poisoned(spec.retry_poisoned);
  job.set_label(spec.label);
  return job;
}

}  // namespace tunefarm::client
