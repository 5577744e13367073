// The middle of the fastest times of groups of evaluations, exactly, in two passes over the times and without sorting
// them.
//
// The first pass counts the times of each group in buckets. The counts tell in which bucket a group's middle lies; the
// second pass collects the times of that bucket, a small part of all, and only those are ordered. The buckets are equal
// steps of a positive double's bits as an integer, which grow with the number and about with its logarithm.
//
// Needs 64 KiB and 50 bytes a group, beside the times that it collects, at 8 bytes each: with thousands of groups, or
// where most times are nearly equal, up to all of them. Takes a time in proportion to the times and groups. Threads:
// not thread-safe.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tunefarm {

class MiddleTimes {
 public:
  // The two in the middle, or the one twice where their number is odd. Nanoseconds; 0 of a group without times.
  struct Middle {
    double lower_ns = 0, upper_ns = 0;
  };

  // All times are at least `least_ns`, which is above 0 unless there are none, and at most `most_ns`.
  MiddleTimes(size_t groups, double least_ns, double most_ns)
      : bucket_bits_(std::clamp(kBucketBitsOfAll - static_cast<int>(std::bit_width(groups)), 0, kBucketBitsMax)),
        least_(std::bit_cast<uint64_t>(least_ns)),
        shift_(std::max(0, static_cast<int>(std::bit_width(std::bit_cast<uint64_t>(most_ns) - least_)) - bucket_bits_)),
        counts_(groups << bucket_bits_),
        groups_(groups) {}

  // The first pass: each time of each group.
  void Count(size_t group, double ns) { ++counts_[(group << bucket_bits_) + BucketOf(ns)]; }

  // Between the passes. The middle is that of the fastest of a group, as many as `fastest_of(number of its times)`
  // says: at least one, at most all.
  template <typename FastestOf>
  void Choose(const FastestOf& fastest_of) {
    size_t start = 0;
    for (size_t g = 0; g < groups_.size(); ++g) {
      const uint32_t* counts = &counts_[g << bucket_bits_];
      size_t times = 0;
      for (size_t bucket = 0; bucket < size_t{1} << bucket_bits_; ++bucket) times += counts[bucket];
      groups_[g].start = groups_[g].end = start;
      if (times > 0) start += SetBuckets(counts, fastest_of(times), &groups_[g]);
    }
    collected_.resize(start);
  }

  // The second pass: the same times.
  void Collect(size_t group, double ns) {
    Group& of = groups_[group];
    // One comparison, false also for buckets before the first since it wraps around: of two, each by itself would be as
    // good as random and could not be predicted.
    if (BucketOf(ns) - of.first_bucket <= of.last_bucket - of.first_bucket) collected_[of.end++] = ns;
  }

  // After it, once for each group.
  Middle Of(size_t group) {
    const Group& of = groups_[group];
    if (of.start == of.end) return {};
    const auto end = collected_.begin() + static_cast<ptrdiff_t>(of.end);
    const auto lower = collected_.begin() + static_cast<ptrdiff_t>(of.start + of.lower);
    std::nth_element(collected_.begin() + static_cast<ptrdiff_t>(of.start), lower, end);
    return {*lower, of.upper == of.lower ? *lower : *std::min_element(lower + 1, end)};
  }

 private:
  static constexpr int kBucketBitsOfAll = 14, kBucketBitsMax = 12;  // 2^14 buckets in all, 2^12 of a group

  struct Group {
    uint64_t first_bucket = 0, last_bucket = 0;  // those that hold the middle
    size_t lower = 0, upper = 0;                 // its ranks among the times of these buckets, from 0
    size_t start = 0, end = 0;                   // where these times lie in collected_
  };

  uint64_t BucketOf(double ns) const { return (std::bit_cast<uint64_t>(ns) - least_) >> shift_; }

  // Answers how many times the buckets hold.
  static size_t SetBuckets(const uint32_t* counts, size_t fastest, Group* group) {
    const size_t lower = (fastest - 1) / 2, upper = fastest / 2;
    size_t before = 0;
    uint64_t bucket = 0;
    while (before + counts[bucket] <= lower) before += counts[bucket++];
    group->first_bucket = bucket;
    group->lower = lower - before;
    group->upper = upper - before;
    size_t until = before + counts[bucket];
    while (until <= upper) until += counts[++bucket];
    group->last_bucket = bucket;
    return until - before;
  }

  const int bucket_bits_;  // a group has 2^bucket_bits_ buckets
  const uint64_t least_;
  const int shift_;
  std::vector<uint32_t> counts_;  // by group and bucket
  std::vector<Group> groups_;
  std::vector<double> collected_;  // by group
};

}  // namespace tunefarm
