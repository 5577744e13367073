#include "server/worker/verify/witness.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <vector>

#include "server/measure/race.h"

namespace tunefarm {
namespace {

constexpr double kShare = 0.08;
constexpr double kShortNs = 20e6;
// The share of a launch's processor time above which threads other than the first affect its time.
constexpr double kOthersShare = 0.08;
// A helper works if it is busy for this share of a launch: threads that sleep are continued and stopped, which takes a
// few microseconds. Helpers do much of the work if all of them together are busy for half of the launch.
constexpr double kHelperShare = 0.1;
constexpr double kMuchShare = 0.5;
// A wait for a processor that is longer shows that the machine has more runnable threads than processors.
constexpr double kLongWaitNs = 1e6;
// Undisturbed launches before a time is contradicted: kDoubtfulLaunches, over kDoubtMin at least, since a machine that
// has much to do at once is slow for tens of milliseconds. Fewer after kPatience or kLaunchesMax launches of all, but
// at least kDoubtfulLaunchesMin.
constexpr int kDoubtfulLaunches = 24;
constexpr int kDoubtfulLaunchesMin = 3;
constexpr int kLaunchesMax = 1000;
constexpr Duration kDoubtMin = std::chrono::milliseconds(200);
constexpr Duration kPatience = std::chrono::seconds(2);
// Launches whose processor time allows a time, so that it stands. Linux takes what a hypervisor has taken before from
// the processor time of a launch now and then, up to all of it.
constexpr int kRanThroughMin = 3;
// Launches of nothing before their shortest counts as overhead: a few may all be disturbed by chance.
constexpr size_t kNothingsMin = 8;
// Of one command: two cores in their deepest sleep. If more is measured every time, the machine is busy with something
// else, and to take that for overhead would excuse false times.
constexpr double kOverheadMaxNs = 300e3;
// To continue and to stop a thread that sleeps takes 1 to 2 µs.
constexpr double kOverheadPerHelperMaxNs = 5e3;

class Hearing {
 public:
  Hearing(double claimed_ns, const WitnessSlack& slack, const Clock& clock, const WitnessCalls& calls)
      : slack_(slack), clock_(clock), calls_(calls) {
    verdict_.claimed_ns = claimed_ns;
  }

  WitnessVerdict Run() {
    verdict_.failure = Hear();
    verdict_.unsettled = verdict_.contradicted && MayHideWaits();
    if (verdict_.unsettled) verdict_.contradicted = false;
    return verdict_;
  }

 private:
  struct Witnessed {
    WitnessedTime launch;
    WitnessedTime nothing;  // just before it
  };

  Failure Hear() {
    if (calls_.overhead) TUNEFARM_RETURN_IF_FAILED(calls_.overhead(&calm_overhead_ns_));
    calm_overhead_ns_ = std::min(calm_overhead_ns_, kOverheadMaxNs) * calls_.commands_per_launch;
    const int wanted = WitnessesOf(verdict_.claimed_ns);
    for (int i = 0; i < wanted; ++i) {
      TUNEFARM_RETURN_IF_FAILED(Prepare());
      TUNEFARM_RETURN_IF_FAILED(Launch());
    }
    if (!Judge()) return {};
    TUNEFARM_RETURN_IF_FAILED(LaunchInDoubt());
    if (!verdict_.contradicted) return {};
    // The samples may be from a faster time of the machine.
    TUNEFARM_RETURN_IF_FAILED(calls_.sample_again(&verdict_.claimed_ns));
    return LaunchInDoubt();
  }

  Failure LaunchInDoubt() {
    witnessed_.clear();
    least_nothing_ns_ = least_first_busy_ns_ = least_others_busy_ns_ = std::numeric_limits<double>::infinity();
    const MonotonicTime start = clock_.Now();
    for (int i = 0; i < kLaunchesMax; ++i) {
      const Duration elapsed = clock_.Now() - start;
      if (elapsed > kDoubtMin && Undisturbed() >= kDoubtfulLaunches) break;
      if (elapsed > kPatience && i >= kDoubtfulLaunchesMin) break;
      TUNEFARM_RETURN_IF_FAILED(Prepare());
      WitnessedTime nothing;
      if (calls_.launch_nothing) {
        TUNEFARM_RETURN_IF_FAILED(calls_.launch_nothing(verdict_.claimed_ns, &nothing));
        least_nothing_ns_ = std::min(least_nothing_ns_, NothingNs(nothing));
        least_others_busy_ns_ = std::min(least_others_busy_ns_, nothing.others_busy_ns * calls_.commands_per_launch);
        least_first_busy_ns_ = std::min(least_first_busy_ns_, FirstBusyNs(nothing) * calls_.commands_per_launch);
      }
      TUNEFARM_RETURN_IF_FAILED(Launch(nothing));
      if (!Judge()) break;
    }
    return {};
  }

  Failure Prepare() { return calls_.prepare ? calls_.prepare() : Failure(); }

  Failure Launch(const WitnessedTime& nothing = {}) {
    Witnessed witnessed;
    TUNEFARM_RETURN_IF_FAILED(calls_.launch(&witnessed.launch));
    witnessed.nothing = nothing;
    ++verdict_.launches;
    witnessed_.push_back(witnessed);
    return {};
  }

  // Of as many commands as a launch has.
  double NothingNs(const WitnessedTime& nothing) const { return NeededNs(nothing, 0) * calls_.commands_per_launch; }

  // Beside launches of nothing the shortest of those, once there are enough of them.
  double OverheadNs(int helpers) const {
    if (!HasNothings()) return calm_overhead_ns_;
    return std::clamp(least_nothing_ns_, calm_overhead_ns_, MostOverheadNs(helpers));
  }

  // The overhead in the processor time of the first thread. 0 until there are enough launches of nothing: calm launches
  // are not timed by processor time.
  double FirstOverheadNs(const Witnessed& witnessed) const {
    if (!HasNothings() || witnessed.launch.elsewhere) return 0;
    return std::min(least_first_busy_ns_, MostOverheadNs(witnessed.nothing.helpers));
  }

  bool HasNothings() const { return calls_.launch_nothing && witnessed_.size() >= kNothingsMin; }

  double MostOverheadNs(int helpers) const {
    return (kOverheadMaxNs + kOverheadPerHelperMaxNs * helpers) * calls_.commands_per_launch +
           slack_.memory_overhead_max_ns;
  }

  // Of the threads of nothing those that the launch has.
  static double ShareOf(int helpers, const WitnessedTime& nothing) {
    return nothing.helpers > 0 ? std::min(1.0, static_cast<double>(helpers) / nothing.helpers) : 1;
  }

  // The launch, with the processor time of its helpers less what threads that sleep need to be continued and stopped.
  WitnessedTime Work(const Witnessed& witnessed) const {
    const auto& [launch, nothing] = witnessed;
    WitnessedTime work = launch;
    if (nothing.helpers > 0) {
      work.others_busy_ns =
          std::max(work.others_busy_ns - ShareOf(launch.helpers, nothing) * least_others_busy_ns_, 0.0);
    }
    return work;
  }

  static double FirstBusyNs(const WitnessedTime& time) {
    return std::min(time.busy_ns - time.others_busy_ns, time.wall_ns);
  }

  // What the launch needs without overhead.
  struct Needed {
    double ns = 0;
    double busy_ns = 0;  // of that: processor time of all threads
  };

  // Threads that the launch does not have are no overhead of it, and of the processor time of its first thread only
  // threads that work: it may spin until they are awake, but threads that sleep are continued and stopped on other
  // processors, or while it waits.
  Needed NeededBy(const Witnessed& witnessed) const {
    const auto& [launch, nothing] = witnessed;
    const WitnessedTime work = Work(witnessed);
    const double overhead_ns = launch.elsewhere ? calm_overhead_ns_ : OverheadNs(nothing.helpers);
    const double all_ns = std::lerp(calm_overhead_ns_, overhead_ns, ShareOf(launch.helpers, nothing));
    const double first_ns = FirstOverheadNs(witnessed);
    Needed needed;
    needed.ns = std::max(NeededNs(launch, all_ns), 0.0);
    const double working = nothing.helpers > 0 ? ShareOf(WorkingHelpers(work, needed.ns), nothing) : 0;
    needed.ns = std::max(needed.ns,
                         FirstBusyNs(launch) - std::lerp(std::max(calm_overhead_ns_, first_ns), overhead_ns, working));
    needed.busy_ns = std::min(std::max(FirstBusyNs(launch) - first_ns, 0.0) + work.others_busy_ns, needed.ns);
    return needed;
  }

  bool Judge() {
    verdict_.witnessed_ns = std::numeric_limits<double>::infinity();
    verdict_.contradicted = true;
    std::vector<double> busy_ns;  // of launches that ran through
    int allowing = 0;             // of those, the ones that contradict nothing
    for (const Witnessed& witnessed : witnessed_) {
      const WitnessedTime& launch = witnessed.launch;
      const Needed needed = NeededBy(witnessed);
      verdict_.witnessed_ns = std::min(verdict_.witnessed_ns, needed.ns);
      if (!IsContradicted(verdict_.claimed_ns, needed.ns, SlackOf(slack_, Work(witnessed), needed.ns))) {
        verdict_.contradicted = false;
      }
      if (!launch.ran_through) continue;
      busy_ns.push_back(needed.busy_ns);
      const double slack_ns = SlackOf(slack_, Work(witnessed), busy_ns.back());
      if (!IsContradicted(verdict_.claimed_ns, busy_ns.back(), slack_ns)) ++allowing;
    }
    if (busy_ns.size() >= kRanThroughMin) {
      const auto counts = busy_ns.begin() + kRanThroughMin - 1;
      std::nth_element(busy_ns.begin(), counts, busy_ns.end());
      verdict_.witnessed_ns = std::min(verdict_.witnessed_ns, *counts);
    }
    if (allowing >= kRanThroughMin) verdict_.contradicted = false;
    return verdict_.contradicted;
  }

  // The launch of nothing shows what has delayed both, unless it has fewer threads to continue and to stop.
  int Undisturbed() const {
    return static_cast<int>(std::ranges::count_if(witnessed_, [&](const Witnessed& witnessed) {
      const auto& [launch, nothing] = witnessed;
      if (calls_.launch_nothing && nothing.helpers < launch.helpers) return false;
      const double disturbances_ns =
          launch.on_device ? launch.waited_ns : NothingNs(nothing) - OverheadNs(nothing.helpers);
      return !IsDisturbed(disturbances_ns, NeededNs(launch, 0), slack_.ns);
    }));
  }

  bool MayHideWaits() const {
    bool has_others = false, waits = false;
    for (const auto& [launch, nothing] : witnessed_) {
      has_others = has_others || launch.others_busy_ns > kOthersShare * launch.busy_ns;
      waits = waits || launch.waited_ns > kLongWaitNs;
    }
    return (has_others && waits) || Undisturbed() < kDoubtfulLaunchesMin;
  }

  const WitnessSlack slack_;
  const Clock& clock_;
  const WitnessCalls& calls_;
  double calm_overhead_ns_ = 0;
  double least_nothing_ns_ = std::numeric_limits<double>::infinity();
  // Of launches of nothing: the processor time of the first thread, and of all others.
  double least_first_busy_ns_ = std::numeric_limits<double>::infinity();
  double least_others_busy_ns_ = std::numeric_limits<double>::infinity();
  std::vector<Witnessed> witnessed_;  // since the samples that count
  WitnessVerdict verdict_;
};

}  // namespace

int WitnessesOf(double claimed_ns) { return claimed_ns < kShortNs ? 2 : 1; }

bool IsAheadInRace(double median_ns, double high_ns, double race_limit_ns) {
  return !(race_limit_ns > 0) || high_ns < race_limit_ns || median_ns < race_limit_ns * (1 - kRaceMargin);
}

bool IsContradicted(double claimed_ns, double witnessed_ns, double slack_ns) {
  return claimed_ns < witnessed_ns - std::max(kShare * witnessed_ns, slack_ns);
}

double NeededNs(const WitnessedTime& time, double overhead_ns) {
  if (time.on_device) return time.wall_ns - overhead_ns;
  return std::min(time.wall_ns, std::max(time.wall_ns - time.waited_ns, time.busy_ns)) - overhead_ns;
}

bool IsDisturbed(double disturbances_ns, double needed_ns, double slack_ns) {
  return disturbances_ns > std::max(kShare * needed_ns, slack_ns) / 2;
}

int WorkingHelpers(const WitnessedTime& time, double needed_ns) {
  const double working = std::floor(time.others_busy_ns / (kHelperShare * std::max(needed_ns, 1.0)));
  return static_cast<int>(std::min(working, static_cast<double>(std::min(time.helpers, kHelpersMax))));
}

double SlackOf(const WitnessSlack& slack, const WitnessedTime& time, double needed_ns) {
  const bool shares = time.helpers > 0 && time.others_busy_ns >= kMuchShare * needed_ns;
  return slack.ns + slack.per_helper_ns * WorkingHelpers(time, needed_ns) + (shares ? slack.shared_ns : 0);
}

WitnessVerdict HearWitnesses(double claimed_ns, const WitnessSlack& slack, const Clock& clock,
                             const WitnessCalls& calls) {
  return Hearing(claimed_ns, slack, clock, calls).Run();
}

}  // namespace tunefarm
