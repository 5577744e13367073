// When the search of a study has gone far enough, by the budget's rules that look at results. What it says is a
// function of the trials that were told, in the order of the decision log: a replay comes to the same end at the same
// trial.
//
// Not thread-safe: a study owns it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "tunefarm/v1/job.pb.h"
#include "tunefarm/v1/trial.pb.h"

namespace tunefarm {

// Of a budget's bounds in seconds: a year.
inline constexpr int64_t kBudgetSecondsMax = 366LL * 24 * 3600;

// InvalidArgument (reason BUDGET_INVALID) for a value outside its limits.
absl::Status CheckBudget(const tunefarm::v1::Budget& budget);
// The same for a rule that cannot be applied to a problem: a floor that is asked for and not known (0).
absl::Status CheckBudgetApplies(const tunefarm::v1::Budget& budget, double floor_ns, std::string_view problem_key,
                                std::string_view device);

// What a trial counts in Budget.max_device_seconds, in milliseconds: the time that the device worked for it, where that
// was not measured the time that it held the device.
double DeviceBusyMs(const tunefarm::v1::Trial& trial);

class StoppingRule {
 public:
  // floor_ns: the least time that a launch sequence can take; 0 unknown.
  StoppingRule(const tunefarm::v1::Budget& budget, double floor_ns);

  // A trial of the search. Those that say nothing about their config (LOST) do not count. Two in a row that crashed or
  // hung before their own evaluation began end the search whatever the budget, and so do the first three that reached a
  // device if they were LOST as they were to be measured, with one message: the device cannot measure as the job wants,
  // with its clock held for example. All the others would end the same way.
  void Tell(const tunefarm::v1::Trial& trial);

  // Why the search is over, in a few words; empty: it is not. Stays as it was first.
  const std::string& because() const { return because_; }

 private:
  void NoteLoss(const tunefarm::v1::Trial& trial);

  const double limit_ns_;  // 0: none
  const double floor_ns_;
  const int64_t patience_;  // 0: none
  double best_ns_ = 0;      // 0: none yet
  int64_t without_gain_ = 0;
  int never_began_ = 0;  // trials in a row that ended while the reference or the inputs were built
  int lost_alike_ = 0;   // of the first that reached a device, all with loss_; -1: another one was different
  std::string loss_;
  std::string because_;
};

}  // namespace tunefarm
