#include "server/records/measured_key.h"

#include <fmt/core.h>

#include "server/base/hash.h"
#include "server/measure/kept_samples.h"

namespace tunefarm {
namespace {

constexpr size_t kKeyBytes = 16;

void AddPart(std::string* bytes, std::string_view part) { *bytes += fmt::format("{}:{}", part.size(), part); }

}  // namespace

std::string MeasuredScope(std::string_view program_digest, std::string_view problem_key, std::string_view class_id,
                          std::string_view toolkit, std::string_view driver,
                          const tunefarm::v1::MeasurementPolicy& policy) {
  if (toolkit.empty()) return {};
  tunefarm::v1::MeasurementPolicy how = policy;
  how.clear_preset();  // its numbers are in the other fields
  how.clear_finalists();
  how.clear_final_rounds();
  how.clear_no_second_inputs();
  how.clear_no_reuse();
  how.clear_measure_energy();  // of finalists alone, whose trials are not taken over
  std::string scope = "tunefarm measurement v3\n";
  for (const std::string_view part : {program_digest, problem_key, class_id, toolkit, driver}) AddPart(&scope, part);
  AddPart(&scope, how.SerializeAsString());
  return scope;
}

std::string MeasuredKey(std::string_view scope, std::string_view config) {
  if (scope.empty()) return {};
  std::string bytes(scope);
  AddPart(&bytes, config);
  const Digest digest = Sha256(bytes);
  return std::string(digest.view().substr(0, kKeyBytes));
}

int64_t WorkKey(std::string_view scope, uint64_t work) {
  return scope.empty() || work == 0 ? 0 : static_cast<int64_t>(work ^ Xxh3(scope));
}

bool IsMeasurement(const tunefarm::v1::Trial& trial) {
  if (trial.purpose() != tunefarm::v1::TRIAL_PURPOSE_SEARCH) return false;
  if (!trial.reused_trial().empty()) return false;  // a copy: the original is found
  switch (trial.outcome()) {
    case tunefarm::v1::OUTCOME_OK:
      return trial.measurement().median_ns() > 0 && !trial.measurement().throttled() &&
             !trial.measurement().contended();
    case tunefarm::v1::OUTCOME_INFEASIBLE_LAUNCH:
    case tunefarm::v1::OUTCOME_OUT_OF_BOUNDS:
    case tunefarm::v1::OUTCOME_WRONG_RESULT:
      // It came to the config itself: a reference that crashes says nothing about it.
      return trial.phase() != tunefarm::v1::PHASE_UNSPECIFIED;
    default:
      return false;
  }
}

tunefarm::v1::Trial TakenOver(const tunefarm::v1::Trial& measured, std::string_view name) {
  tunefarm::v1::Trial trial;
  trial.set_outcome(measured.outcome());
  trial.set_phase(measured.phase());
  trial.set_message(measured.message());
  if (measured.has_resources()) *trial.mutable_resources() = measured.resources();
  if (measured.has_verification()) *trial.mutable_verification() = measured.verification();
  if (measured.has_measurement()) *trial.mutable_measurement() = measured.measurement();
  DropSamples(trial.mutable_measurement());
  if (!measured.has_measurement()) trial.clear_measurement();
  trial.set_stopped_early(measured.stopped_early());
  trial.set_device_uuid(measured.device_uuid());
  trial.set_work(measured.work());
  trial.set_headers(measured.headers());
  trial.set_reused(true);
  trial.set_reused_trial(std::string(name));
  return trial;
}

}  // namespace tunefarm
