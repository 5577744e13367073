// PriorResults: results of one source in the form in which a study keeps them, from the rows of the store to what a
// strategy is told. A study is told what it reads back from that form, also the first time: a restart sees the same,
// bit for bit.
//
// Pure: no store, no clock. Not thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>

#include "absl/status/statusor.h"
#include "server/definition/kernel_plan.h"
#include "server/search/strategy.h"
#include "server/store/study_store.h"
#include "server/store/trial_store.h"
#include "tunefarm/v1/trial.pb.h"

namespace tunefarm {

// What a stored outcome says to a study on the same device class or on another one: kLost is nothing. Failures count
// wherever they happened, but for what a device's limits ruled out: another device has others. NOISY says nothing: the
// config works, and nobody knows how fast it is.
ToldOutcome PriorOutcome(tunefarm::v1::Outcome outcome, bool same_class);

// The outcomes that PriorOutcome takes for failures.
std::vector<int> FailedOutcomes(bool same_class);

// Gathers results, each config once.
class PriorCollector {
 public:
  static constexpr size_t kResultsMax = 5000;  // of a source

  // The plan is that of the study that is to learn; it outlives the collector.
  explicit PriorCollector(const KernelPlan* plan) : plan_(plan) {}

  // Takes a result unless its config is known already, or not one of this definition, or there is no room.
  void Add(const ResultRow& row, bool same_class);
  // The same for a config that crashed or hung.
  void AddFailed(std::string_view config);

  size_t measured() const { return measured_; }
  size_t failed() const { return results_.size() - measured_; }
  size_t room() const { return kResultsMax - results_.size(); }

  // The stored form. Equal results give equal bytes, in whatever order they came.
  std::string Encode() const;

 private:
  struct Result {
    Config config;
    double median_ns = 0;  // 0: failed
  };
  void Take(std::string_view text, double median_ns);

  const KernelPlan* const plan_;
  std::unordered_map<std::string, Result> results_;  // by the config's text
  size_t measured_ = 0;
};

// What a strategy is told. DataLoss for bytes that are no stored form.
absl::StatusOr<PriorSource> DecodePrior(const PriorRow& row);

}  // namespace tunefarm
