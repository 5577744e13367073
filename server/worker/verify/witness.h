// Whether the times that a kernel's own samples claim can be true, by witnessed launches: launches that are timed by a
// clock out of the kernel's reach, on freshly poisoned outputs and inputs that the kernel cannot expect, and whose
// outputs are compared. A kernel shares its process or its context with what takes its samples and can falsify those,
// or skip work that samples repeat; in a witnessed launch all of its work must be done between two readings of the
// clock.
//
// Disturbances only make a witnessed launch longer, so that the shortest counts, and before a time is contradicted many
// are taken, each beside a launch of nothing, and the samples are taken again. On a machine with more runnable threads
// than processors every launch waits for one; that wait does not count (NeededNs). Other disturbances cannot be
// subtracted: a device works while the worker waits, and what a hypervisor takes away the operating system does not
// count. Launches with such disturbances do not contradict a time (IsDisturbed). An idle processor of a virtual machine
// may take 100 µs to wake up, and more in some launches than in others: a time stands, too, if the kernel's processor
// time in launches that ran through allows it.
//
// Pure but for the calls. One thread.
#pragma once

#include <functional>

#include "server/base/clock.h"
#include "server/worker/verify/failure.h"

namespace tunefarm {

// Witnessed launches of a trial whose time is not in doubt: two, so that one that works in every second launch is
// found, but one of a long one.
int WitnessesOf(double claimed_ns);

// Whether the search goes by this time from now on: its upper bound is the least so far, or its median is below the
// race limit by more than kRaceMargin (measure/race.h). Only those are witnessed, and all in finals, which have no
// limit. Configs that are as fast as the best are many where a parameter has no effect. `race_limit_ns` as in RunInput;
// 0: unknown.
bool IsAheadInRace(double median_ns, double high_ns, double race_limit_ns);

// Whether a launch cannot be as short as claimed if it took `witnessed_ns`: shorter by more than 8 % and by more than
// `slack_ns`, which covers what only a first launch pays (cold code and address translations, a processor that wakes).
bool IsContradicted(double claimed_ns, double witnessed_ns, double slack_ns);

// One witnessed launch. Where only wall_ns is known, the others are 0, and all of wall_ns counts. On a device only
// wall_ns and waited_ns of the worker's thread are known.
struct WitnessedTime {
  double wall_ns = 0;  // by the clock, with the overhead of command and answer
  // Of that: the kernel's first thread, or the worker after the kernel was let run, could run, but had no processor.
  double waited_ns = 0;
  double busy_ns = 0;         // processor time of all of the kernel's threads
  double others_busy_ns = 0;  // of that: of threads beside the first, whose waits for a processor nobody sees
  int helpers = 0;            // threads beside the first that the kernel has both before and after the launch
  // The kernel's first thread neither slept nor had to leave its processor to another one: beside the processor time of
  // the kernel's threads there is only what it takes to wake it up and the worker. False where nobody knows.
  bool ran_through = false;
  bool on_device = false;  // the kernel is not a thread: it may have worked while the worker waited
  bool elsewhere = false;  // it left the processor of the launches of nothing
};

// By how much a witnessed launch may take longer than a sample although both times are true.
struct WitnessSlack {
  double ns = 0;             // what only a first launch pays
  double per_helper_ns = 0;  // for each helper that works in the launch: it must wake up
  double shared_ns = 0;      // once, where helpers do much of the work: they read what another core has written
  // The most that page tables which are in no cache may add to the overhead of a launch.
  double memory_overhead_max_ns = 0;
};

// Helpers that work in a launch that takes `needed_ns` (NeededNs): those that sleep count for nothing, and those beyond
// kHelpersMax too.
inline constexpr int kHelpersMax = 63;
int WorkingHelpers(const WitnessedTime& time, double needed_ns);

// What of the slack a launch is allowed that takes `needed_ns`.
double SlackOf(const WitnessSlack& slack, const WitnessedTime& time, double needed_ns);

// The nanoseconds that the launch takes apart from waits for a processor and from `overhead_ns`. The processor time of
// the kernel's threads always counts: a kernel whose own threads make the first one wait, or that answers before its
// work is done, gains nothing. Never more than wall_ns. On a device waits count too: a kernel that works during one
// must not appear shorter.
double NeededNs(const WitnessedTime& time, double overhead_ns);

// Whether disturbances that NeededNs does not subtract are more than half of what IsContradicted allows, so that a
// launch that needs `needed_ns`, overhead included, may be that long because of them.
bool IsDisturbed(double disturbances_ns, double needed_ns, double slack_ns);

// What the worker does. HearWitnesses ends with the first call that fails.
struct WitnessCalls {
  // Makes everything ready for one witnessed launch, so that a launch of nothing lies directly before it. Null:
  // `launch` does that itself.
  std::function<Failure()> prepare;
  // How often the worker commands a launch and hears the answer, each time with the same overhead: at least 1.
  int commands_per_launch = 1;
  // One witnessed launch.
  std::function<Failure(WitnessedTime* time)> launch;
  // The overhead of one command and answer of a kernel with one thread, on a calm machine. Null on a device: none.
  std::function<Failure(double* ns)> overhead;
  // One command for nothing but `busy_ns` of work, on the processor that the kernel's launch is to have, in a process
  // with as many threads as the kernel's has now, or fewer where no more can be had, which sleep: its time without that
  // work. Null on a device.
  std::function<Failure(double busy_ns, WitnessedTime* time)> launch_nothing;
  // Takes the samples again: the median.
  std::function<Failure(double* median_ns)> sample_again;
};

struct WitnessVerdict {
  Failure failure;  // of the call that failed
  bool contradicted = false;
  // The time is contradicted, but perhaps by disturbances: threads beside the first may have waited for a processor,
  // which is not counted, since the first thread or the worker had to wait; or fewer than three launches were without
  // disturbance (IsDisturbed). This says nothing about the config; `contradicted` is false.
  bool unsettled = false;
  double claimed_ns = 0;    // by the samples that count: the last ones
  double witnessed_ns = 0;  // the least that a launch since needs without overhead, or its processor time if less
  int launches = 0;
};

WitnessVerdict HearWitnesses(double claimed_ns, const WitnessSlack& slack, const Clock& clock,
                             const WitnessCalls& calls);

}  // namespace tunefarm
