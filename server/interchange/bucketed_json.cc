#include "server/interchange/bucketed_json.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "server/base/status.h"
#include "server/interchange/json_document.h"
#include "server/interchange/triton_json.h"

namespace tunefarm::interchange {
namespace {

constexpr int64_t kUnbounded = std::numeric_limits<int64_t>::max();
constexpr int64_t kGemmBoundMax = 8192;

struct Bucket {
  std::string key;
  int64_t first = 1, last = kUnbounded;  // the M that belong to it
};

std::vector<Bucket> BucketsOf(BucketKeys keys) {
  if (keys == BucketKeys::kGuide) return {{"small", 1, 256}, {"medium", 257, 2048}, {"large", 2049, kUnbounded}};
  if (keys == BucketKeys::kMoe) return {{"small_M", 1, 255}, {"medium_M", 256, 1023}, {"large_M", 1024, kUnbounded}};
  std::vector<Bucket> buckets;
  int64_t first = 1;
  for (int64_t bound = 1; bound <= kGemmBoundMax; bound = bound == 1 ? 4 : 2 * bound) {
    buckets.push_back({fmt::format("M_LEQ_{}", bound), first, bound});
    first = bound + 1;
  }
  buckets.push_back({fmt::format("M_GEQ_{}", kGemmBoundMax), first, kUnbounded});
  return buckets;
}

// How many octaves lie between an M and a bucket.
double DistanceTo(const Bucket& bucket, int64_t m) {
  const int64_t nearest = std::clamp(m, bucket.first, bucket.last);
  return std::abs(std::log2(static_cast<double>(m) / static_cast<double>(nearest)));
}

}  // namespace

absl::StatusOr<TritonTable> WriteBucketedJson(const std::vector<TritonResult>& results, BucketKeys keys) {
  if (results.empty()) return WithReason(InvalidArgument("there is no config to write"), kNotMappable);
  const std::vector<TritonResult> sorted = FastestOfEachM(results);
  TritonTable table;
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  const auto add = [&](const std::string& key, const TritonResult& result, bool is_filled) {
    json[key] = JsonOf(result.config);
    table.keys.push_back({key, result.m, is_filled});
  };
  for (const Bucket& bucket : BucketsOf(keys)) {
    const TritonResult* largest = nullptr;
    const TritonResult* nearest = &sorted.front();
    for (const TritonResult& result : sorted) {
      if (result.m >= bucket.first && result.m <= bucket.last) largest = &result;
      if (DistanceTo(bucket, result.m) < DistanceTo(bucket, nearest->m) - 1e-9) nearest = &result;
    }
    if (largest != nullptr) {
      add(bucket.key, *largest, false);
    } else if (keys != BucketKeys::kGemm) {
      add(bucket.key, *nearest, true);
    }
  }
  if (keys == BucketKeys::kGemm) add("any", sorted.back(), false);
  table.text = json.dump(4) + "\n";
  return table;
}

std::string BucketedFileName(std::string_view device, std::string_view family, std::string_view tag, int64_t n,
                             int64_t k) {
  const std::string shape = n > 0 && k > 0 ? fmt::format("-N={}-K={}", n, k) : "";
  return fmt::format("{}-{}-{}{}.json", device, family, tag, shape);
}

}  // namespace tunefarm::interchange
