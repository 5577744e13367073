#include "server/measure/energy.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "server/measure/statistics.h"

namespace tunefarm {
namespace {

double MillijoulesOfOne(const EnergyBatch& batch) {
  return batch.seconds > 0 ? batch.millijoules / batch.seconds * batch.sequence_seconds : 0;
}

double Watts(double millijoules, double seconds) { return seconds > 0 ? millijoules / seconds / 1000 : 0; }

}  // namespace

tunefarm::v1::Energy EnergyOf(const EnergyReadings& readings) {
  tunefarm::v1::Energy energy;
  energy.set_idle_power_watts(Watts(readings.idle_millijoules, readings.idle_seconds));
  const bool subtracts = !readings.before.empty();
  const size_t batches =
      subtracts ? std::min(readings.launches.size(), readings.before.size()) : readings.launches.size();
  std::vector<double> each;
  double millijoules = 0, seconds = 0, shortest = 0;
  for (size_t i = 0; i < batches; ++i) {
    const EnergyBatch& batch = readings.launches[i];
    each.push_back(MillijoulesOfOne(batch) - (subtracts ? MillijoulesOfOne(readings.before[i]) : 0));
    millijoules += batch.millijoules;
    seconds += batch.seconds;
    const double shorter = subtracts ? std::min(batch.seconds, readings.before[i].seconds) : batch.seconds;
    shortest = i == 0 ? shorter : std::min(shortest, shorter);
  }
  energy.set_batches(static_cast<int32_t>(batches));
  energy.set_batch_seconds(shortest);
  energy.set_power_watts(Watts(millijoules, seconds));
  if (batches < 2) {
    energy.set_missing_because("fewer than two batches were measured");
    return energy;
  }
  const SampleSummary summary = Summarize(each);
  if (!(summary.mean > 0)) {
    energy.set_missing_because("the energy of a launch is lost in the noise of what comes before each sample");
    return energy;
  }
  const double half_width =
      StudentQuantile(batches - 1, 0.975) * summary.stdev / std::sqrt(static_cast<double>(batches));
  energy.set_millijoules(summary.mean);
  energy.set_ci_low_millijoules(std::max(summary.mean - half_width, 0.0));
  energy.set_ci_high_millijoules(summary.mean + half_width);
  return energy;
}

}  // namespace tunefarm
