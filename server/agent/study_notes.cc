#include "server/agent/study_notes.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string_view>

#include "server/agent/trial_report.h"
#include "server/base/status_macros.h"
#include "server/definition/launch_digest.h"
#include "server/measure/kept_samples.h"

namespace tunefarm {

namespace {

void AddPart(Sha256Stream* stream, std::string_view part) {
  stream->Update(fmt::format("{}:", part.size()));
  stream->Update(part);
}

}  // namespace

StudyNotes::Study& StudyNotes::Of(int64_t study_id) {
  const auto found = studies_.find(study_id);
  if (found != studies_.end()) {
    found->second.used = ++uses_;
    return found->second;
  }
  if (studies_.size() >= kStudiesMax) {
    const auto oldest = std::min_element(studies_.begin(), studies_.end(), [](const auto& a, const auto& b) {
      // Whose work runs is needed when that ends.
      return std::pair(!a.second.running.empty(), a.second.used) < std::pair(!b.second.running.empty(), b.second.used);
    });
    studies_.erase(oldest);
  }
  Study& study = studies_[study_id];
  study.used = ++uses_;
  return study;
}

StudyNotes::Twin StudyNotes::Find(int64_t study_id, const Digest& work) {
  Study& study = Of(study_id);
  const auto found = study.verdicts.find(work);
  if (found != study.verdicts.end()) return {false, &found->second};
  return {study.running.count(work) > 0, nullptr};
}

void StudyNotes::Begin(int64_t study_id, const Digest& work) { Of(study_id).running.insert(work); }

void StudyNotes::End(int64_t study_id, const Digest& work, const v1::Trial* ended) {
  Of(study_id).running.erase(work);
  if (ended != nullptr) Learn(study_id, work, *ended);
}

void StudyNotes::Learn(int64_t study_id, const Digest& work, const v1::Trial& ended) {
  if (!IsVerdict(ended)) return;
  Study& study = Of(study_id);
  v1::Trial kept = ended;
  kept.clear_config();
  kept.clear_log();
  DropSamples(kept.mutable_measurement());
  if (!ended.has_measurement()) kept.clear_measurement();
  if (!study.verdicts.emplace(work, std::move(kept)).second) return;
  study.order.push_back(work);
  if (study.order.size() <= kVerdictsPerStudyMax) return;
  study.verdicts.erase(study.order.front());
  study.order.pop_front();
}

double StudyNotes::RaceLimitNs(int64_t study_id, double from_control) {
  const double own = Of(study_id).smallest_high_ns;
  if (!(std::isfinite(from_control) && from_control > 0)) return own;
  return own > 0 ? std::min(own, from_control) : from_control;
}

void StudyNotes::NoteTime(int64_t study_id, const v1::Trial& trial) {
  const double high = trial.measurement().ci_high_ns();
  if (trial.outcome() != v1::OUTCOME_OK || !(std::isfinite(high) && high > 0)) return;
  double& smallest = Of(study_id).smallest_high_ns;
  smallest = smallest > 0 ? std::min(smallest, high) : high;
}

uint64_t WorkNumber(const Digest& work) {
  uint64_t number = 0;
  std::memcpy(&number, work.bytes.data(), sizeof(number));
  return number;
}

absl::StatusOr<Digest> WorkDigest(const UnitWork& unit, const TrialWork& trial, const DeviceClass& device_class) {
  ASSIGN_OR_RETURN(const Digest launches, LaunchDigest(*unit.plan, *unit.problem, trial.config, device_class));
  Sha256Stream stream;
  AddPart(&stream, launches.view());
  AddPart(&stream, trial.compile.artifact->bytes);
  for (const auto& [entry, symbol] : trial.compile.artifact->lowered_names) {
    AddPart(&stream, entry);
    AddPart(&stream, symbol);
  }
  return stream.Finish();
}

}  // namespace tunefarm
