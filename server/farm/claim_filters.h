// ClaimFilters: which trials of a claim need not run, and what is stored for them instead: configs that are known to
// crash or that agents were lost with, those that were measured before, and what is left of a final that another device
// has begun.
//
// Thread-safe. Calls read the store and block meanwhile; their errors are the store's.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/base/clock.h"
#include "server/farm/claim.h"
#include "server/farm/other_studies.h"
#include "server/farm/poison_index.h"
#include "server/store/store.h"
#include "tunefarm/v1/job.pb.h"
#include "tunefarm/v1/trial.pb.h"

namespace tunefarm {

class ClaimFilters {
 public:
  using Trials = std::vector<tunefarm::v1::Trial>;

  // All outlive it.
  ClaimFilters(Store* store, Clock* clock, PoisonIndex* poison)
      : store_(store), clock_(clock), poison_(poison), other_studies_(store, clock) {}

  // LOST for what is left of a final of which other devices have results (Study measures all of it again).
  // `present_devices`: those that have.
  Trials OfBegunFinal(const Claim& claim, const std::vector<std::string>& present_devices) const;
  // POISONED for configs that are known to crash, unless the job wants them tried again.
  absl::StatusOr<Trials> Poisoned(const Claim& claim, const tunefarm::v1::Job& spec);
  // POISONED for all if too many agents were lost with them; their configs are recorded as crashes.
  absl::StatusOr<Trials> Lost(const Claim& claim, const tunefarm::v1::Job& spec);
  // What was measured, for configs that were measured before. Where it holds for the same headers only, it goes into
  // the claim's trial instead (TrialSpec.measured).
  absl::StatusOr<Trials> Measured(Claim* claim);

  // Results of a claim: configs that crashed or hung are recorded. What cannot be stored is logged.
  void Record(const Claim& claim, const Trials& trials);

 private:
  Store* const store_;
  Clock* const clock_;
  PoisonIndex* const poison_;
  OtherStudies other_studies_;
};

}  // namespace tunefarm
