// Numbers that agents send: of devices and of trials. What is none (NaN, an infinity), or negative where nothing can
// be, is believed nowhere.
//
// Pure functions.
#pragma once

#include "absl/status/status.h"
#include "tunefarm/v1/device.pb.h"
#include "tunefarm/v1/trial.pb.h"

namespace tunefarm {

// InvalidArgument (AGENT_INVALID) that names the device, the number and its value.
absl::Status CheckDeviceNumbers(const tunefarm::v1::Device& device);

// A trial with a number that is none becomes LOST, with a message that says so and without what it claims: that is the
// agent's fault and says nothing of the config. Unchanged otherwise.
void LoseIfNotNumbers(tunefarm::v1::Trial* trial);

}  // namespace tunefarm
