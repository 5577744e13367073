// Strategies whose order of proposals does not depend on results.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "server/base/random.h"
#include "server/search/search_space.h"
#include "server/search/strategy.h"
#include "server/space/space.h"

namespace tunefarm {

// Proposes the configs of a table in a given order: "exhaustive", and "random" over spaces that can be listed.
class ListedStrategy final : public Strategy {
 public:
  // `order` is empty (the table's own order) or a permutation of the table's rows. The table is not empty.
  ListedStrategy(std::string name, int version, const Space& space, ConfigTable table, std::vector<uint32_t> order);

  std::string_view name() const override { return name_; }
  int version() const override { return version_; }
  absl::StatusOr<std::vector<Config>> Ask(int n) override;
  absl::Status MarkProposed(const Config& config) override;
  void Tell(const Told&) override {}
  bool Exhausted() const override { return proposed_count_ == table_.size(); }
  std::optional<uint64_t> Total() const override { return table_.size(); }

 private:
  // The row with these value indices; the table's size when there is none.
  uint64_t FindRow(const std::vector<uint16_t>& indices) const;
  void Mark(uint64_t row);

  const std::string name_;
  const int version_;
  const Space space_;
  const ConfigTable table_;
  const std::vector<uint32_t> order_;
  std::optional<uint64_t> default_row_;
  std::vector<bool> is_proposed_;
  uint64_t proposed_count_ = 0;
  uint64_t next_ = 0;  // position in the order; everything before it is proposed
};

// "random" over spaces too large to list: uniform samples without those seen before.
class SampledStrategy final : public Strategy {
 public:
  SampledStrategy(std::string name, int version, const Space& space, uint64_t seed);

  std::string_view name() const override { return name_; }
  int version() const override { return version_; }
  absl::StatusOr<std::vector<Config>> Ask(int n) override;
  absl::Status MarkProposed(const Config& config) override;
  void Tell(const Told&) override {}
  bool Exhausted() const override { return is_exhausted_; }
  std::optional<uint64_t> Total() const override { return std::nullopt; }

 private:
  // True when it was not proposed before.
  bool Mark(const std::vector<uint16_t>& indices);
  // One that was not proposed before; nullopt when there is practically none left.
  absl::StatusOr<std::optional<Point>> Draw() const;

  const std::string name_;
  const int version_;
  const Space space_;
  const uint64_t seed_;
  std::unordered_set<std::string> proposed_;  // value indices as bytes
  bool is_default_considered_ = false;
  bool is_exhausted_ = false;
};

}  // namespace tunefarm
