// Who gets into the interleaved final of a study, and what it decides. Pure.
//
// Promotion rests on the final's own samples only: search times were taken under other conditions. A config that failed
// verification in the final can never be promoted, however fast it was before.
//
// A final has rounds, and every finalist is measured once in each, on GPUs with launches of one of them, the yardstick,
// as neighbours of its own. Two finalists are compared by the ratio of their times within each round: what drifts
// (clocks, heat, other work) is in both and cancels. One is faster than another if the 95 % interval of the ratio lies
// below 1 (measure/compare.h, CompareMeasurements). One rule decides:
//
// 1. Where there is an incumbent, it stays unless some finalist is faster than it by more than kPromotionMargin (the
//    interval lies below 1 - kPromotionMargin). Only those finalists go on; without an incumbent all do.
// 2. Of them the one with the smallest median is kept, unless others are faster than it: then the one of those with the
//    smallest ratio.
//
// By energy, or by its product with the time, the same rule decides, but energy is measured in one round only: the
// ratio of two finalists is that of their figures, and its interval reaches from the smallest to the largest ratio that
// both intervals allow, so that it lies below 1 where they are disjoint. Where a finalist has no energy, time decides.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tunefarm/v1/job.pb.h"
#include "tunefarm/v1/measurement.pb.h"
#include "tunefarm/v1/trial.pb.h"

namespace tunefarm {

inline constexpr int kFinalsMax = 3;
// How much faster than the incumbent a challenger must be, beyond noise.
inline constexpr double kPromotionMargin = 0.01;

// The fastest configs of the search, fastest first. Ties go to the smaller ordinal, so that the order in which results
// arrive does not matter.
class Leaderboard {
 public:
  struct Entry {
    double median_ns = 0;
    int64_t ordinal = 0;
    std::string config;       // canonical text
    std::string measured_as;  // the same for those that are one measurement; empty: as no other

    friend bool operator<(const Entry& a, const Entry& b) {
      return a.median_ns != b.median_ns ? a.median_ns < b.median_ns : a.ordinal < b.ordinal;
    }
  };

  // Keeps the best `capacity`, of one measurement one.
  explicit Leaderboard(size_t capacity) : capacity_(capacity) {}

  void Add(Entry entry);
  // The best `count` whose configs are not in `excluded`.
  std::vector<Entry> Best(size_t count, const std::set<std::string>& excluded) const;
  bool empty() const { return entries_.empty(); }

 private:
  const size_t capacity_;
  std::set<Entry> entries_;
};

// Whether the trial says how long its config takes.
bool HasTime(const tunefarm::v1::Trial& trial);

// Whether a final may go by energy: the objective needs it.
bool NeedsEnergy(tunefarm::v1::Objective objective);

// Whether the trial's time is hard to believe: less than half of the roofline's floor with cold caches. Half, since
// peaks are nominal and definitions count roughly. `floor_ns`: 0 unknown.
bool IsImplausible(const tunefarm::v1::Trial& trial, double floor_ns);

// A trial of the final.
struct FinalTrial {
  std::string config;  // canonical text; empty for the baseline
  tunefarm::v1::Trial trial;
};

struct FinalDecision {
  enum class Kind {
    kNone,     // no finalist is OK: another final, or nothing is promoted
    kPromote,  // the winner becomes the best
    kRefresh,  // the incumbent stays, with its new measurement
  };
  Kind kind = Kind::kNone;
  const FinalTrial* winner = nullptr;  // for kRefresh: the incumbent
  // Of the winner's time to the incumbent's (kRefresh: of the smallest ratio that was seen) or, without one, to that of
  // the smallest median, with its 95 % interval; 0 where nobody is OK.
  double ratio = 0, ratio_low = 0, ratio_high = 0;
  // By what was decided: TIME where a finalist has no energy. Ratios are of this.
  tunefarm::v1::Objective objective = tunefarm::v1::OBJECTIVE_TIME;
  // The first finalist without an energy, which kept the final from going by it; null: none did.
  const FinalTrial* without_energy = nullptr;
};

// Whether the final says anything about the config: a time or a failure of its own. Lost, too noisy and absent say
// nothing.
bool WasJudged(const std::vector<FinalTrial>& trials, const std::string& config);

// Rests on the incumbent having been judged. `incumbent`: its canonical text, empty if there is none or it cannot take
// part. `rounds`: of the final; the samples of each trial are as many from every round, in the order of the rounds.
// The decision points into `trials`, which must not be a temporary.
FinalDecision Decide(const std::vector<FinalTrial>& trials, const std::string& incumbent, int rounds,
                     tunefarm::v1::Objective objective = tunefarm::v1::OBJECTIVE_TIME);
FinalDecision Decide(std::vector<FinalTrial>&& trials, const std::string& incumbent, int rounds,
                     tunefarm::v1::Objective objective = tunefarm::v1::OBJECTIVE_TIME) = delete;

// How the winner compares with the smallest median of the final in what decided, where that is another's; else nothing.
// For decisions by energy without an incumbent.
struct AgainstFastest {
  const FinalTrial* fastest = nullptr;  // null: the winner is it
  double ratio = 0, ratio_low = 0, ratio_high = 0;
};
AgainstFastest CompareWithFastest(const std::vector<FinalTrial>& trials, const FinalDecision& decision);

}  // namespace tunefarm
