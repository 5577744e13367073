// Measures the sentinels of an agent's devices, each device by itself, all at once.
#pragma once

#include <functional>
#include <vector>

#include "server/base/clock.h"
#include "server/exec/evaluator.h"
#include "tunefarm/v1/device.pb.h"

namespace tunefarm {

// `done` gets the devices as they were given, with Device.sentinels of those whose sentinels ran well. It is called
// once, on the evaluator's thread, or on the caller's where nothing has to be run. Devices that are out of service are
// left alone. A sentinel that fails is run again, three times in all, but not later than ten seconds after the begin;
// what cannot be measured is logged and left out: a device without sentinels works, and is compared with no other.
//
// Where the evaluator ends before the measuring, `done` may never be called.
void MeasureSentinels(Evaluator* evaluator, Clock* clock, std::vector<tunefarm::v1::Device> devices,
                      std::function<void(std::vector<tunefarm::v1::Device>)> done);

}  // namespace tunefarm
