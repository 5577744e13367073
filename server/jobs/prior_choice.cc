#include "server/jobs/prior_choice.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>
#include <utility>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/jobs/prior_results.h"
#include "server/store/device_store.h"
#include "server/store/poison_store.h"
#include "server/store/trial_store.h"

namespace tunefarm {
namespace {

using tunefarm::v1::Problem;

// The newest ones; older ones are not even looked at.
constexpr int kStudiesMax = 4096;
// Sources that are read, also those that turn out to have too few results.
constexpr int kCandidatesRead = 12;
// Studies of a source that are read.
constexpr size_t kStudiesPerSource = 4;
// Shares of what is read of one study.
constexpr int kFastestPart = 5, kSpreadPart = 3, kFailedPart = 2, kParts = 10;
// Known crashes, of whichever problem.
constexpr size_t kPoisonMax = 1000;
constexpr int kDimsShown = 3;

// How far a problem is from the asked one.
struct ProblemDistance {
  int incomparable = 0;  // dims that differ although their rule is EXACT, or that are no numbers
  double octaves = 0;
  bool same = true;  // but for dims with inputs_only
  std::string text;  // "M=64 instead of 128"
};

std::string TextOf(const v1::Value& value) {
  switch (value.kind_case()) {
    case v1::Value::kIntValue:
      return std::to_string(value.int_value());
    case v1::Value::kDoubleValue:
      return fmt::format("{}", value.double_value());
    case v1::Value::kBoolValue:
      return value.bool_value() ? "true" : "false";
    case v1::Value::kStringValue:
      return value.string_value();
    case v1::Value::KIND_NOT_SET:
      break;
  }
  return "?";
}

// An EXACT one where the kernel has no dim of the name.
const tunefarm::v1::Dim& DimOf(const KernelPlan& plan, const std::string& name) {
  for (const auto& dim : plan.kernel().dims()) {
    if (dim.name() == name) return dim;
  }
  return tunefarm::v1::Dim::default_instance();
}

ProblemDistance DistanceTo(const KernelPlan& plan, const Problem& asked, const Problem& known) {
  ProblemDistance distance;
  int shown = 0, differ = 0;
  double product = 0;                            // octaves by which the products of the PRODUCT dims differ
  std::map<std::string, const v1::Value*> dims;  // in a fixed order
  for (const auto& [name, value] : asked.dims()) dims[name] = &value;
  for (const auto& [name, own] : dims) {
    const auto found = known.dims().find(name);
    const std::string other = found == known.dims().end() ? "?" : TextOf(found->second);
    if (other == TextOf(*own)) continue;
    const bool numbers = found != known.dims().end() && own->kind_case() == v1::Value::kIntValue &&
                         found->second.kind_case() == v1::Value::kIntValue && own->int_value() > 0 &&
                         found->second.int_value() > 0;
    const tunefarm::v1::Dim& dim = DimOf(plan, name);
    const auto rule = dim.lookup();
    // A bucket's bounds say from where on configs are expected to change; how far away it is counts all the same.
    const bool comparable = rule == tunefarm::v1::LOOKUP_RULE_LOG || rule == tunefarm::v1::LOOKUP_RULE_BUCKET ||
                            rule == tunefarm::v1::LOOKUP_RULE_NEXT_POWER_OF_TWO ||
                            rule == tunefarm::v1::LOOKUP_RULE_PRODUCT;
    if (!dim.inputs_only()) {
      distance.same = false;
      if (!numbers || !comparable) ++distance.incomparable;
      const double octaves =
          numbers ? std::log2(static_cast<double>(own->int_value()) / static_cast<double>(found->second.int_value()))
                  : 0;
      if (rule == tunefarm::v1::LOOKUP_RULE_PRODUCT) {
        product += octaves;
      } else {
        distance.octaves += std::abs(octaves);
      }
    }
    if (++differ <= kDimsShown) {
      distance.text += fmt::format("{}{}={} instead of {}", shown++ == 0 ? "" : ", ", name, other, TextOf(*own));
    }
  }
  distance.octaves += std::abs(product);
  if (differ > kDimsShown) distance.text += fmt::format(" and {} more", differ - kDimsShown);
  return distance;
}

// How much two classes have in common.
enum class Kinship { kSame = 0, kSameArchitecture = 1, kOther = 2 };

Kinship KinshipOf(const PriorQuestion& question, std::string_view class_id, const DeviceClass& known) {
  if (class_id == question.class_id) return Kinship::kSame;
  const DeviceClass& own = *question.device_class;
  if (own.kind != known.kind) return Kinship::kOther;
  // CPUs have no compute capability: the same model is what comes closest.
  const bool related = own.compute_capability > 0 ? own.compute_capability == known.compute_capability
                                                  : own.display_name == known.display_name;
  return related ? Kinship::kSameArchitecture : Kinship::kOther;
}

int TierOf(Kinship kinship, const ProblemDistance& distance) {
  if (kinship == Kinship::kSame) return distance.incomparable == 0 ? 0 : 2;
  if (kinship == Kinship::kSameArchitecture) return distance.same ? 1 : 4;
  return distance.same ? 3 : 5;
}

// Of a problem's key: without seeds and pins, which do not change what a config is worth.
std::string DimsOf(const std::string& problem_key) { return problem_key.substr(0, problem_key.find('|')); }

std::string DifferenceOf(const PriorQuestion& question, const PriorCandidate& candidate,
                         const ProblemDistance& distance) {
  std::string text = distance.text;
  if (candidate.class_id != question.class_id) {
    text += fmt::format("{}on {}", text.empty() ? "" : " ", candidate.class_name);
  }
  if (!candidate.toolkit.empty() && !question.toolkit.empty() && candidate.toolkit != question.toolkit) {
    text += fmt::format("{}with toolkit {}", text.empty() ? "" : " ", candidate.toolkit);
  }
  return text;
}

absl::Status Read(const PriorQuestion& question, const PriorCandidate& candidate, Store* store,
                  PriorCollector* collector) {
  const bool same_class = candidate.class_id == question.class_id;
  for (size_t i = 0; i < candidate.study_ids.size() && i < kStudiesPerSource && collector->room() > 0; ++i) {
    ResultQuery query;
    query.study_id = candidate.study_ids[i];
    const auto room = static_cast<int>(collector->room());
    query.fastest_max = room * kFastestPart / kParts;
    query.spread_max = room * kSpreadPart / kParts;
    query.failed_max = room * kFailedPart / kParts;
    query.failed_outcomes = FailedOutcomes(same_class);
    ASSIGN_OR_RETURN(const std::vector<ResultRow> rows, store->trials()->SampleResults(query));
    for (const ResultRow& row : rows) collector->Add(row, same_class);
  }
  return absl::OkStatus();
}

// Configs that crashed or hung on the class, of jobs that may be long deleted.
absl::Status AddPoison(const PriorQuestion& question, Store* store, PriorCollector* collector) {
  ASSIGN_OR_RETURN(const std::vector<PoisonRow> rows,
                   store->poison()->LoadPoison(question.plan->program_digest(), question.class_id));
  for (size_t i = 0; i < rows.size() && i < kPoisonMax; ++i) collector->AddFailed(rows[i].config);
  return absl::OkStatus();
}

absl::StatusOr<ClassesById> LoadClasses(Store* store) {
  ASSIGN_OR_RETURN(const std::vector<DeviceClassRow> rows, store->devices()->ListDeviceClasses());
  ClassesById classes;
  for (const DeviceClassRow& row : rows) {
    tunefarm::v1::DeviceClass proto;
    if (!proto.ParseFromString(row.properties)) continue;
    auto device_class = DeviceClass::FromProto(proto);
    if (device_class.ok()) classes.emplace(row.class_id, *std::move(device_class));
  }
  return classes;
}

}  // namespace

std::vector<PriorCandidate> RankPriors(const PriorQuestion& question, const std::vector<KnownStudyRow>& known,
                                       const ClassesById& classes) {
  struct Ranked {
    PriorCandidate candidate;
    int tier = 0;
    ProblemDistance distance;
    bool other_toolkit = false;
    int64_t newest = 0;

    // Problems of other inputs alone come right behind the very problem.
    auto Key() const {
      return std::make_tuple(tier, distance.incomparable, distance.octaves, !distance.text.empty(), other_toolkit,
                             -newest);
    }
  };
  std::map<std::tuple<std::string, std::string, std::string>, Ranked> sources;
  const Problem asked = question.problem->ToProto();
  for (const KnownStudyRow& study : known) {
    if (study.study_id == question.study_id) continue;
    const auto device_class = classes.find(study.class_id);
    if (device_class == classes.end()) continue;
    const auto [slot, inserted] =
        sources.try_emplace(std::make_tuple(DimsOf(study.problem_key), study.class_id, study.toolkit));
    Ranked& ranked = slot->second;
    ranked.candidate.study_ids.push_back(study.study_id);
    if (!inserted) continue;
    Problem problem;
    problem.ParseFromString(study.problem);  // what cannot be read is far from everything
    ranked.candidate.problem_key = DimsOf(study.problem_key);
    ranked.candidate.class_id = study.class_id;
    ranked.candidate.class_name = device_class->second.display_name;
    ranked.candidate.toolkit = study.toolkit;
    ranked.distance = DistanceTo(*question.plan, asked, problem);
    ranked.tier = TierOf(KinshipOf(question, study.class_id, device_class->second), ranked.distance);
    ranked.other_toolkit = study.toolkit != question.toolkit;
    ranked.newest = study.study_id;
    ranked.candidate.difference = DifferenceOf(question, ranked.candidate, ranked.distance);
  }
  std::vector<Ranked> order;
  for (auto& [key, ranked] : sources) order.push_back(std::move(ranked));
  std::sort(order.begin(), order.end(), [](const Ranked& a, const Ranked& b) { return a.Key() < b.Key(); });
  std::vector<PriorCandidate> candidates;
  for (Ranked& ranked : order) candidates.push_back(std::move(ranked.candidate));
  return candidates;
}

absl::StatusOr<ChosenPriors> ChoosePriors(const PriorQuestion& question, Store* store) {
  ASSIGN_OR_RETURN(const std::vector<KnownStudyRow> known,
                   store->studies()->StudiesOfProgram(question.plan->program_digest(), kStudiesMax));
  ChosenPriors chosen;
  if (known.empty()) return chosen;
  ASSIGN_OR_RETURN(const ClassesById classes, LoadClasses(store));
  const std::vector<PriorCandidate> candidates = RankPriors(question, known, classes);
  for (size_t i = 0; i < candidates.size() && i < kCandidatesRead && std::ssize(chosen.rows) < kPriorSourcesMax; ++i) {
    const PriorCandidate& candidate = candidates[i];
    PriorCollector collector(question.plan);
    RETURN_IF_ERROR(Read(question, candidate, store, &collector));
    if (collector.measured() < kPriorMeasuredMin) continue;
    if (chosen.rows.empty()) RETURN_IF_ERROR(AddPoison(question, store, &collector));
    PriorRow row;
    row.rank = static_cast<int>(chosen.rows.size());
    row.payload = collector.Encode();
    chosen.rows.push_back(std::move(row));
    tunefarm::v1::PriorSourceSummary summary;
    summary.set_problem_key(candidate.problem_key);
    summary.set_device_class_id(candidate.class_id);
    summary.set_device_class_name(candidate.class_name);
    summary.set_toolkit_version(candidate.toolkit);
    summary.set_studies(static_cast<int32_t>(std::min(candidate.study_ids.size(), kStudiesPerSource)));
    summary.set_measured(static_cast<int32_t>(collector.measured()));
    summary.set_failed(static_cast<int32_t>(collector.failed()));
    summary.set_difference(candidate.difference);
    chosen.summaries.push_back(std::move(summary));
  }
  return chosen;
}

}  // namespace tunefarm
