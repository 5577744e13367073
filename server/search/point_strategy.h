// PointStrategy: a Strategy made of a history, a few first points and a Proposer. What it guarantees for every
// proposer: valid points only, none twice, the default config first, never waiting for results, the whole space in the
// end, and the same proposals after a replay.
//
// Threads: not thread-safe; one owner.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "server/search/history.h"
#include "server/search/proposer.h"
#include "server/search/strategy.h"

namespace tunefarm {

class PointStrategy final : public Strategy {
 public:
  // `first` is proposed after the default config and the starting configs, in its order. `proposer` may be null: random
  // points only.
  PointStrategy(std::string name, int version, std::shared_ptr<const SearchSpace> space, uint64_t seed,
                std::vector<Point> first, std::unique_ptr<Proposer> proposer);

  std::string_view name() const override { return name_; }
  int version() const override { return version_; }
  absl::StatusOr<std::vector<Config>> Ask(int n) override;
  absl::Status MarkProposed(const Config& config) override;
  void Tell(const Told& told) override;
  bool Exhausted() const override { return history_.IsExhausted(); }
  std::optional<uint64_t> Total() const override;

 private:
  // None when the space is exhausted.
  absl::StatusOr<std::optional<Point>> Next();
  void Mark(std::span<const uint16_t> point);

  const std::string name_;
  const int version_;
  const uint64_t seed_;
  History history_;
  std::deque<Point> first_;  // what is left of it
  const std::unique_ptr<Proposer> proposer_;
};

}  // namespace tunefarm
