#include "server/worker/host/trial/sample_batches.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tunefarm {
namespace {

// A batch ends the wait for the next look at deadlines and budgets; longer than this it need not be to hide the way.
constexpr double kBatchNs = 500'000;

int BatchMax(double sample_ns, bool one_by_one) {
  if (one_by_one) return 1;
  return static_cast<int>(
      std::clamp(kBatchNs / std::max(sample_ns, 1.0), 1.0, static_cast<double>(kSamplesPerBatchMax)));
}

}  // namespace

SampleBatches::SampleBatches(double sample_ns, bool one_by_one, TakeSamples take)
    : batch_max_(BatchMax(sample_ns, one_by_one)), take_(std::move(take)) {}

std::optional<TakenSample> SampleBatches::Next(int until_look) {
  if (taken_.empty()) {
    const MonotonicTime start = Clock::Real()->Now();
    const std::optional<std::vector<int64_t>> claimed = take_(std::clamp(until_look, 1, batch_max_));
    if (!claimed || claimed->empty()) return std::nullopt;
    const double wall_ns = static_cast<double>((Clock::Real()->Now() - start).count());
    double sum_ns = 0;
    for (const int64_t nanoseconds : *claimed) sum_ns += static_cast<double>(nanoseconds);
    // What lies around the samples costs each of them the same. Claims that cannot be cost nothing, which shows them.
    const bool is_possible = sum_ns >= 0 && sum_ns <= wall_ns;
    const double around_ns = (wall_ns - sum_ns) / static_cast<double>(claimed->size());
    for (const int64_t nanoseconds : *claimed) {
      const double cost_ns = is_possible ? std::ceil(static_cast<double>(nanoseconds) + around_ns) : 0;
      taken_.push_back({static_cast<double>(nanoseconds), Duration(static_cast<int64_t>(std::max(cost_ns, 0.0)))});
    }
  }
  const Sample sample = taken_.front();
  taken_.pop_front();
  clock_.Advance(sample.cost);
  return TakenSample{sample.nanoseconds};
}

}  // namespace tunefarm
