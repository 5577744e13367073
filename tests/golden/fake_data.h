// The fixed answers of the fake daemon.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tunefarm/v1/best_config.pb.h"
#include "tunefarm/v1/catalog_service.pb.h"
#include "tunefarm/v1/device.pb.h"
#include "tunefarm/v1/job.pb.h"
#include "tunefarm/v1/kernel.pb.h"
#include "tunefarm/v1/trial.pb.h"

namespace tunefarm::golden {

// Of jobs 17 to 26. Times lie 90 minutes in the past: half a minute from the next change of the shown age.
v1::Job JobNumbered(int number);
// All are of the first study. Job 23's are those of a search of 120 trials.
std::vector<v1::Trial> TrialsOf(int number);
// What a watcher of job 17 or 19 sees, in order.
std::vector<v1::JobEvent> EventsOf(int number);
std::vector<v1::Device> Devices();
v1::BestConfig Best();
// Most often asked first.
std::vector<v1::Miss> Misses();
v1::Kernel StoredKernel();
// Of whose parameters Best is a config; with its source.
v1::Kernel TunedKernel();
// Now less the given seconds, in milliseconds since 1970.
int64_t MillisecondsAgo(int64_t seconds);

}  // namespace tunefarm::golden
