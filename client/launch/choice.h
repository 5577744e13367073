// Which of a kernel's choices answers for the dims of a launch: the rule of the daemon's look-ups
// (server/catalog/catalog.h and match_rules.cc), for what a package holds. In this order, the first that applies:
//   exact       tuned for these dims on this class of devices
//   nearest     tuned on this class for dims that answer by their rules, at the least distance
//   same arch   tuned for these dims on another class of the same compute capability
//   default     the definition's default config, of this class first
// A choice whose constraints fail for the dims is passed over. Of equals the one that the file names first answers.
//
// Dims that are compiled into binaries are equal in all choices of a table: a binary for another value computes
// something else, however near the value is.
//
// Threads: built by one; const use from any. Choose allocates nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "client/launch/include/tunefarm/launch.h"
#include "client/launch/package_format.h"

namespace tunefarm::launch {

// A dim by which choices of a table may differ: given with each launch, or fixed when the kernel was loaded.
struct LookupDim {
  uint32_t rule = package::kExact;
  std::vector<int64_t> bounds;  // of kBucket
};

class ChoiceTable {
 public:
  // `dims` in the order of their names, in which distances are added.
  ChoiceTable(std::vector<LookupDim> dims, double farthest) : dims_(std::move(dims)), farthest_(farthest) {}

  // To be called in the order of the file. `values`: those that the choice was tuned for, one for each dim.
  void Add(size_t choice, bool is_default, bool is_own_class, std::vector<int64_t> values);

  struct Found {
    size_t choice = 0;
    tunefarm_match match = TUNEFARM_MATCH_EXACT;
    double distance = 0;
  };
  // The best choice that `accepts(choice)`; false if there is none. `asked`: one value for each dim.
  template <typename Accepts>
  bool Choose(const int64_t* asked, const Accepts& accepts, Found* found) const {
    // Almost always the best is accepted; else several are found in one pass, since thousands may be passed over.
    Rank ranks[kRanksMax], after;
    for (size_t wanted = 1;; wanted = kRanksMax) {
      const size_t count = Best(asked, after, wanted, ranks);
      for (size_t i = 0; i < count; ++i) {
        const size_t choice = rows_[ranks[i].row].choice;
        if (!accepts(choice)) continue;
        *found = {choice, MatchOf(ranks[i].kind), ranks[i].distance};
        return true;
      }
      if (count < wanted) return false;
      after = ranks[count - 1];
    }
  }

  size_t size() const { return rows_.size(); }

 private:
  enum class Kind { kNothing, kExact, kNearest, kSameArch, kOwnDefault, kOtherDefault };
  struct Rank {
    Kind kind = Kind::kNothing;
    double distance = 0;
    size_t row = 0;

    bool operator<(const Rank& other) const {
      if (kind != other.kind) return kind < other.kind;
      if (distance != other.distance) return distance < other.distance;
      return row < other.row;
    }
  };
  struct Row {
    size_t choice = 0;
    bool is_default = false, is_own_class = false;
    std::vector<int64_t> values;
  };

  static constexpr size_t kRanksMax = 32;

  static tunefarm_match MatchOf(Kind kind);
  // Writes the best that rank behind `after`, or of all where that is kNothing, in order: at most `most`, which is at
  // least 1. Returns how many there are.
  size_t Best(const int64_t* asked, const Rank& after, size_t most, Rank* ranks) const;
  // kNothing where the row does not answer.
  Rank RankOf(const int64_t* asked, size_t row) const;

  const std::vector<LookupDim> dims_;
  const double farthest_;
  std::vector<Row> rows_;
};

}  // namespace tunefarm::launch
