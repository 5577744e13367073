// Whether the times that a kernel's own samples claim can be true, by witnessed launches: launches that are timed by a
// clock out of the kernel's reach, on freshly poisoned outputs and inputs that the kernel cannot expect, and whose
// outputs are compared. A kernel shares its process or its context with what takes its samples and can falsify those,
// or skip work that samples repeat; in a witnessed launch all of its work must be done between two readings of the
// clock.
//
// Disturbances only make a witnessed launch longer, so that the shortest counts, and before a time is contradicted many
// are taken, and the overhead of command and answer and the samples are measured again. On a machine with more runnable
// threads than processors every launch waits for one; that wait does not count (NeededNs).
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

// Whether a config is as fast as the best so far: only those are witnessed, and all in finals, which have no limit.
// `race_limit_ns` as in RunInput; 0: unknown.
bool MayWin(double median_ns, double race_limit_ns);

// Whether a launch cannot be as short as claimed if it took `witnessed_ns`: shorter by more than 8 % and by more than
// `slack_ns`, which covers what only a first launch pays (cold code and address translations, a processor that wakes).
bool IsContradicted(double claimed_ns, double witnessed_ns, double slack_ns);

// One witnessed launch. Where only wall_ns is known, the others are 0, and all of wall_ns counts.
struct WitnessedTime {
  double wall_ns = 0;         // by the clock, with the overhead of command and answer
  double waited_ns = 0;       // of that: the kernel's first thread or the worker could run, but had no processor
  double busy_ns = 0;         // processor time of all of the kernel's threads
  double others_busy_ns = 0;  // of that: of threads beside the first, whose waits for a processor nobody sees
};

// The nanoseconds that the launch takes apart from waits for a processor and from `overhead_ns`. The processor time of
// the kernel's threads always counts: a kernel whose own threads make the first one wait, or that answers before its
// work is done, gains nothing. Never more than wall_ns.
double NeededNs(const WitnessedTime& time, double overhead_ns);

// What the worker does. HearWitnesses ends with the first call that fails.
struct WitnessCalls {
  // One witnessed launch.
  std::function<Failure(WitnessedTime* time)> launch;
  // The overhead of command and answer, measured around work of `busy_ns`.
  std::function<Failure(double busy_ns, double* ns)> overhead;
  // Takes the samples again: the median.
  std::function<Failure(double* median_ns)> sample_again;
};

struct WitnessVerdict {
  Failure failure;  // of the call that failed
  bool contradicted = false;
  // The time is contradicted, but threads beside the first may have waited for a processor, which is not counted: the
  // first thread or the worker had to wait. This says nothing about the config; `contradicted` is false.
  bool unsettled = false;
  double claimed_ns = 0;    // by the samples that count: the last ones
  double witnessed_ns = 0;  // the shortest launch since by NeededNs
  int launches = 0;
};

WitnessVerdict HearWitnesses(double claimed_ns, double slack_ns, const Clock& clock, const WitnessCalls& calls);

}  // namespace tunefarm
