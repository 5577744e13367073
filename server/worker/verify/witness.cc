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
    verdict_.failed = !Hear();
    return verdict_;
  }

 private:
  bool Hear() {
    if (!MeasureOverhead(0)) return false;
    const int wanted = WitnessesOf(verdict_.claimed_ns);
    for (int i = 0; i < wanted; ++i) {
      if (!Launch()) return false;
    }
    if (!Judge()) return true;
    // A processor that wakes up from a long wait, or waits for one, takes longer than after a short one.
    if (!MeasureOverhead(verdict_.claimed_ns) || !LaunchInDoubt()) return false;
    if (!verdict_.contradicted) return true;
    // The samples may be from a faster time of the machine.
    const std::optional<double> again = calls_.sample_again();
    if (!again) return false;
    verdict_.claimed_ns = *again;
    least_ns_ = std::numeric_limits<double>::infinity();
    return LaunchInDoubt();
  }

  bool LaunchInDoubt() {
    const MonotonicTime start = clock_.Now();
    for (int i = 0; i < kDoubtfulLaunches; ++i) {
      if (i >= kDoubtfulLaunchesMin && clock_.Now() - start > kPatience) break;
      if (!Launch()) return false;
      if (!Judge()) break;
    }
    return true;
  }

  bool Launch() {
    const std::optional<double> ns = calls_.launch();
    if (!ns) return false;
    ++verdict_.launches;
    least_ns_ = std::min(least_ns_, *ns);
    return true;
  }

  bool MeasureOverhead(double busy_ns) {
    const std::optional<double> ns = calls_.overhead(busy_ns);
    if (!ns) return false;
    overhead_ns_ = std::max(overhead_ns_, *ns);
    return true;
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
