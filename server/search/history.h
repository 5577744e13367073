// History: what a strategy knows: which points were proposed, and what was told of them in the order in which it was.
//
// Threads: not thread-safe; one owner.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "server/base/random.h"
#include "server/search/search_space.h"
#include "server/search/strategy.h"

namespace tunefarm {

class History {
 public:
  // How many of the best are kept in order.
  static constexpr size_t kEliteMax = 256;

  explicit History(std::shared_ptr<const SearchSpace> space);

  const SearchSpace& space() const { return *space_; }

  // Proposals so far.
  uint64_t proposed_count() const { return proposed_count_; }
  bool IsProposed(std::span<const uint16_t> point) const;
  // False when it was proposed before. The point is valid.
  bool Propose(std::span<const uint16_t> point);
  // A listed space of which everything is proposed, or a sampled one in which nothing new could be found.
  bool IsExhausted() const;

  // The number of the observation; none when the point was never proposed, was told before, or is lost (which is only
  // noted as no longer in flight).
  std::optional<size_t> Tell(std::span<const uint16_t> point, ToldOutcome outcome, double objective_ns);

  // Observations: points told OK or failed, in order.
  size_t size() const { return values_.size(); }
  std::span<const uint16_t> PointOf(size_t observation) const;
  // The logarithm of the objective, so that differences are ratios; infinity where the config failed.
  double ValueOf(size_t observation) const { return values_[observation]; }
  bool IsOk(size_t observation) const;

  // Observations with the smallest values, best first, at most kEliteMax; of equals the earlier.
  const std::vector<uint32_t>& elite() const { return elite_; }
  // Proposals without a result yet; one that is never told counts for ever.
  size_t in_flight() const { return in_flight_; }

  // A uniformly random point that was not proposed; in a listed space always, if there is one, and close to uniform
  // when almost everything is proposed. None when the space is exhausted. Fails as Space::SampleUniform.
  absl::StatusOr<std::optional<Point>> DrawUnproposed(PhiloxStream& random);

 private:
  enum State : char { kFree = 0, kInFlight = 1, kTold = 2 };

  // nullptr for a point that was not proposed, in a sampled space.
  char* StateOf(std::span<const uint16_t> point);

  const std::shared_ptr<const SearchSpace> space_;
  std::string row_states_;                        // of a listed space: a State per row
  std::unordered_map<std::string, char> states_;  // of a sampled one: by the point's bytes
  uint64_t proposed_count_ = 0;
  size_t in_flight_ = 0;
  bool is_exhausted_ = false;
  std::vector<uint16_t> points_;
  std::vector<double> values_;
  std::vector<uint32_t> elite_;
};

}  // namespace tunefarm
