// MissTable: problems that were looked up and had no exact best, with how often, in memory. Bounded: when it is full, a
// new problem takes the place of the one asked least often among the 16 that nobody has asked for longest, whose
// questions then count as not counted. So neither a flood of problems that are asked once drives out those that are
// asked all the time, nor do old ones hold their place for ever.
//
// It also knows what a store must be told to be like the table: TakeChanges.
//
// Threads: all methods from any thread. One lock, held for a microsecond or a few; Remove, TakeChanges and Snapshot
// hold it for about a tenth of a millisecond where the table is full.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/functional/function_ref.h"
#include "server/base/mutex.h"
#include "server/store/lookup_store.h"
#include "tunefarm/v1/best_config.pb.h"
#include "tunefarm/v1/problem.pb.h"

namespace tunefarm {

// What the questions of one call have in common.
struct MissSource {
  std::string_view kernel_name, program_digest, class_id, class_name;
  int64_t asked_at_ms = 0;
};

// A question and how it was answered.
struct MissQuestion {
  std::string_view problem_key;
  tunefarm::v1::Match match = tunefarm::v1::MATCH_NOT_FOUND;
  double distance = 0;
};

// What was asked for. Immutable.
struct MissedProblem {
  std::string kernel_name, problem_key, class_id, class_name, program_digest;
  std::string problem;  // a tunefarm.v1.Problem with its key and all dims
};

struct Miss {
  std::shared_ptr<const MissedProblem> what;
  int64_t asked = 0;
  int match = 0;  // a tunefarm.v1.Match: of the last answer, as is the distance
  double distance = 0;
  int64_t first_asked_at_ms = 0, last_asked_at_ms = 0;
};

class MissTable {
 public:
  static constexpr size_t kProblemsMax = 10'000;
  static constexpr size_t kBytesMax = size_t{32} << 20;

  explicit MissTable(size_t problems_max = kProblemsMax, size_t bytes_max = kBytesMax)
      : problems_max_(problems_max), bytes_max_(bytes_max) {}

  // Counts questions that were not answered exactly. `problem_of` is called, without the lock, with the index of a
  // question whose problem is not in the table yet; without an answer, or for one that no store would take, the
  // question is not counted.
  void Count(const MissSource& source, std::span<const MissQuestion> questions,
             absl::FunctionRef<std::optional<tunefarm::v1::Problem>(size_t)> problem_of) LOCKS_EXCLUDED(mutex_);

  // Forgets the problem if this program was the last one asked: that program has an exact best for it now.
  void Tuned(std::string_view program_digest, std::string_view problem_key, std::string_view class_id)
      LOCKS_EXCLUDED(mutex_);
  // Forgets the misses of a kernel name and a class, either or both of which may be empty: all. How many went. Without
  // both, what was not counted is forgotten too.
  int64_t Remove(std::string_view kernel_name, std::string_view class_id) LOCKS_EXCLUDED(mutex_);

  // The most recently asked first.
  std::vector<Miss> Snapshot() const LOCKS_EXCLUDED(mutex_);
  int64_t size() const LOCKS_EXCLUDED(mutex_);
  // Problems that have changed since TakeChanges.
  int64_t changed() const LOCKS_EXCLUDED(mutex_);
  // Questions, since the table was made.
  int64_t not_counted() const LOCKS_EXCLUDED(mutex_);

  // Before anything else: what a store holds.
  void Load(const std::vector<MissRow>& rows) LOCKS_EXCLUDED(mutex_);

  // What has changed since the last call. The caller writes it to the store, or gives back what could not be
  // written before the next call.
  struct Changes {
    struct Present {
      Miss miss;
      bool was_stored = false;  // before this change
    };
    std::vector<std::shared_ptr<const MissedProblem>> gone;
    std::vector<Present> present;
  };
  Changes TakeChanges() LOCKS_EXCLUDED(mutex_);
  void GiveBack(const Changes& changes) LOCKS_EXCLUDED(mutex_);
  // Of a change that was taken and is written: its questions are no longer this table's to count.
  void Subtract(const Miss& written) LOCKS_EXCLUDED(mutex_);

 private:
  struct Entry {
    Miss miss;
    uint64_t hash = 0;
    bool is_stored = false;   // the store has it, or is being told of it
    bool is_changed = false;  // since the store was told
  };
  using Entries = std::list<Entry>;
  struct IsBefore {
    bool operator()(const std::shared_ptr<const MissedProblem>& a, const std::shared_ptr<const MissedProblem>& b) const;
  };

  Entries::iterator Find(uint64_t hash, std::string_view kernel_name, std::string_view problem_key,
                         std::string_view class_id) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Entries::iterator Find(const MissedProblem& what) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // False if it is not there.
  bool Add(const MissSource& source, const MissQuestion& question) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Insert(Entry entry) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Out of the table into `removed`, to be freed when the lock is released.
  void Take(Entries::iterator entry, Entries* removed) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void MakeRoom(Entries* removed) EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t problems_max_, bytes_max_;

  mutable Mutex mutex_;
  Entries entries_ GUARDED_BY(mutex_);  // the most recently asked first
  // By problem key and class: what a promotion names, and all kernels that share them.
  std::unordered_multimap<uint64_t, Entries::iterator> index_ GUARDED_BY(mutex_);
  size_t bytes_ GUARDED_BY(mutex_) = 0;
  int64_t not_counted_ GUARDED_BY(mutex_) = 0;
  // What the store has and the table has not; never more than the store was told of.
  std::set<std::shared_ptr<const MissedProblem>, IsBefore> gone_ GUARDED_BY(mutex_);
};

}  // namespace tunefarm
