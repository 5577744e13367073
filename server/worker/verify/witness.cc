#include "server/worker/verify/witness.h"

#include <algorithm>
#include <chrono>
#include <limits>

namespace tunefarm {
namespace {

constexpr double kShare = 0.08;
constexpr double kShortNs = 20e6;
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
    least_ns_ = std::numeric_limits<double>::infinity();
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
    double ns = 0;
    TUNEFARM_RETURN_IF_FAILED(calls_.launch(&ns));
    ++verdict_.launches;
    least_ns_ = std::min(least_ns_, ns);
    return {};
  }

  Failure MeasureOverhead(double busy_ns) {
    double ns = 0;
    TUNEFARM_RETURN_IF_FAILED(calls_.overhead(busy_ns, &ns));
    overhead_ns_ = std::max(overhead_ns_, ns);
    return {};
  }

  bool Judge() {
    verdict_.witnessed_ns = std::max(least_ns_ - overhead_ns_, 0.0);
    verdict_.contradicted = IsContradicted(verdict_.claimed_ns, verdict_.witnessed_ns, slack_ns_);
    return verdict_.contradicted;
  }

  const double slack_ns_;
  const Clock& clock_;
  const WitnessCalls& calls_;
  double overhead_ns_ = 0;
  double least_ns_ = std::numeric_limits<double>::infinity();
  WitnessVerdict verdict_;
};

}  // namespace

int WitnessesOf(double claimed_ns) { return claimed_ns < kShortNs ? 2 : 1; }

bool MayWin(double median_ns, double race_limit_ns) { return !(race_limit_ns > 0) || median_ns <= race_limit_ns; }

bool IsContradicted(double claimed_ns, double witnessed_ns, double slack_ns) {
  return claimed_ns < witnessed_ns - std::max(kShare * witnessed_ns, slack_ns);
}

WitnessVerdict HearWitnesses(double claimed_ns, double slack_ns, const Clock& clock, const WitnessCalls& calls) {
  return Hearing(claimed_ns, slack_ns, clock, calls).Run();
}

}  // namespace tunefarm
