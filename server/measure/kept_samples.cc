#include "server/measure/kept_samples.h"

namespace tunefarm {

using tunefarm::v1::Measurement;

Measurement KeptSamples(const Measurement& measurement) {
  Measurement samples;
  SetKeptSamples(measurement, &samples);
  return samples;
}

void SetKeptSamples(const Measurement& samples, Measurement* measurement) {
  *measurement->mutable_sample_ns() = samples.sample_ns();
  *measurement->mutable_yardstick_ns() = samples.yardstick_ns();
  *measurement->mutable_blocks() = samples.blocks();
}

void DropSamples(Measurement* measurement) {
  measurement->clear_sample_ns();
  measurement->clear_yardstick_ns();
  measurement->clear_blocks();
}

}  // namespace tunefarm
