// BestMirror: the bests of one kernel as the catalog's stream tells them, within the client's bounds.
//
// Threads: one (the client's executor).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "client/cpp/answer_table.h"
#include "tunefarm/v1/catalog_service.pb.h"

namespace tunefarm::client {

// What the mirrors of all kernels may hold, and do. One thread.
struct CacheBudget {
  size_t bests_max = 0, bytes_max = 0;
  size_t bests = 0, bytes = 0;
  bool HasRoomFor(size_t more) const { return bests < bests_max && more <= bytes_max - bytes; }
};

// A best in the form in which questions take it. Immutable.
struct MirrorBest {
  std::string program, class_id, driver, toolkit;
  std::vector<std::pair<std::string, Value>> dims;  // of its problem, by name
  bool is_plain = false;                            // no seeds and no pins: dims alone name the problem
  std::shared_ptr<const StoredAnswer> exact;        // the answer where it matches exactly
  size_t bytes = 0;                                 // about what it takes
};

struct MirrorChange {
  bool reset = false;                                             // everything is new; then the lists are empty
  std::vector<std::shared_ptr<const MirrorBest>> removed, added;  // in this order; a changed best is in both
};

class BestMirror {
 public:
  // `budget` outlives it.
  explicit BestMirror(CacheBudget* budget) : budget_(budget) {}
  ~BestMirror() { Clear(); }
  BestMirror(const BestMirror&) = delete;
  BestMirror& operator=(const BestMirror&) = delete;

  // Takes a part of a change; nothing is changed before Commit.
  void Stage(const v1::WatchBestConfigsResponse& part);
  // Forgets the parts that were staged: the stream broke in the middle of a change.
  void DropStaged();
  // Makes the change. What does not fit is left out, and the best that it replaces goes.
  MirrorChange Commit();

  using Bests = std::unordered_map<std::string, std::shared_ptr<const MirrorBest>>;  // by key
  const Bests& bests() const { return bests_; }
  size_t bytes() const { return bytes_; }
  // How often a best did not fit since the last reset.
  size_t left_out() const { return left_out_; }

 private:
  void Clear();
  std::shared_ptr<const MirrorBest> Erase(const std::string& key);

  CacheBudget* const budget_;
  Bests bests_;
  size_t bytes_ = 0;
  size_t left_out_ = 0;
  bool staged_reset_ = false;
  size_t staged_left_out_ = 0;
  std::vector<std::pair<std::string, std::shared_ptr<const MirrorBest>>> staged_;  // null: retired
};

// Of a best on the wire.
std::shared_ptr<const MirrorBest> MakeMirrorBest(const v1::BestConfig& best);

}  // namespace tunefarm::client
