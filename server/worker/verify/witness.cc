#include "server/worker/verify/witness.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <vector>

namespace tunefarm {
namespace {

constexpr double kShare = 0.08;
constexpr double kShortNs = 20e6;
// The share of a launch's processor time above which threads other than the first affect its time.
constexpr double kOthersShare = 0.08;
// A wait for a processor that is longer shows that the machine has more runnable threads than processors.
constexpr double kLongWaitNs = 1e6;
// Launches before a time is contradicted: kDoubtfulLaunches, or fewer after kPatience, but at least
// kDoubtfulLaunchesMin.
constexpr int kDoubtfulLaunches = 24;
constexpr int kDoubtfulLaunchesMin = 3;
constexpr Duration kPatience = std::chrono::seconds(2);

class Hearing {
 public:
  Hearing(double claimed_ns, double slack_ns, const Clock& clock, const WitnessCalls& calls)
      : slack_ns_(slack_ns), clock_(clock), calls_(calls) {
    verdict_.claimed_ns = claimed_ns;
  }

  WitnessVerdict Run() {
    verdict_.failure = Hear();
    verdict_.unsettled = verdict_.contradicted && MayHideWaits();
    if (verdict_.unsettled) verdict_.contradicted = false;
    return verdict_;
  }

 private:
  Failure Hear() {
    TUNEFARM_RETURN_IF_FAILED(MeasureOverhead(0));
    const int wanted = WitnessesOf(verdict_.claimed_ns);
    for (int i = 0; i < wanted; ++i) TUNEFARM_RETURN_IF_FAILED(Launch());
    if (!Judge()) return {};
    // A processor that wakes up from a long wait, or waits for one, takes longer than after a short one.
    TUNEFARM_RETURN_IF_FAILED(MeasureOverhead(verdict_.claimed_ns));
    TUNEFARM_RETURN_IF_FAILED(LaunchInDoubt());
    if (!verdict_.contradicted) return {};
    // The samples may be from a faster time of the machine.
    TUNEFARM_RETURN_IF_FAILED(calls_.sample_again(&verdict_.claimed_ns));
    times_.clear();
    return LaunchInDoubt();
  }

  Failure LaunchInDoubt() {
    const MonotonicTime start = clock_.Now();
    for (int i = 0; i < kDoubtfulLaunches; ++i) {
      if (i >= kDoubtfulLaunchesMin && clock_.Now() - start > kPatience) break;
      TUNEFARM_RETURN_IF_FAILED(Launch());
      if (!Judge()) break;
    }
    return {};
  }

  Failure Launch() {
    WitnessedTime time;
    TUNEFARM_RETURN_IF_FAILED(calls_.launch(&time));
    ++verdict_.launches;
    times_.push_back(time);
    return {};
  }

  Failure MeasureOverhead(double busy_ns) {
    double ns = 0;
    TUNEFARM_RETURN_IF_FAILED(calls_.overhead(busy_ns, &ns));
    overhead_ns_ = std::max(overhead_ns_, ns);
    return {};
  }

  bool Judge() {
    double least_ns = std::numeric_limits<double>::infinity();
    for (const WitnessedTime& time : times_) least_ns = std::min(least_ns, NeededNs(time, overhead_ns_));
    verdict_.witnessed_ns = std::max(least_ns, 0.0);
    verdict_.contradicted = IsContradicted(verdict_.claimed_ns, verdict_.witnessed_ns, slack_ns_);
    return verdict_.contradicted;
  }

  bool MayHideWaits() const {
    bool has_others = false, waits = false;
    for (const WitnessedTime& time : times_) {
      has_others = has_others || time.others_busy_ns > kOthersShare * time.busy_ns;
      waits = waits || time.waited_ns > kLongWaitNs;
    }
    return has_others && waits;
  }

  const double slack_ns_;
  const Clock& clock_;
  const WitnessCalls& calls_;
  double overhead_ns_ = 0;
  std::vector<WitnessedTime> times_;  // since the samples that count
  WitnessVerdict verdict_;
};

}  // namespace

int WitnessesOf(double claimed_ns) { return claimed_ns < kShortNs ? 2 : 1; }

bool MayWin(double median_ns, double race_limit_ns) { return !(race_limit_ns > 0) || median_ns <= race_limit_ns; }

bool IsContradicted(double claimed_ns, double witnessed_ns, double slack_ns) {
  return claimed_ns < witnessed_ns - std::max(kShare * witnessed_ns, slack_ns);
}

double NeededNs(const WitnessedTime& time, double overhead_ns) {
  return std::min(time.wall_ns, std::max(time.wall_ns - time.waited_ns, time.busy_ns)) - overhead_ns;
}

WitnessVerdict HearWitnesses(double claimed_ns, double slack_ns, const Clock& clock, const WitnessCalls& calls) {
  return Hearing(claimed_ns, slack_ns, clock, calls).Run();
}

}  // namespace tunefarm
