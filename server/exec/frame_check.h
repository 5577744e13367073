#pragma once

// Judges what a worker says before anybody believes it. Each function returns an empty string for an acceptable frame,
// else what is wrong, continuing "the worker ...". Pure.

#include <cstddef>
#include <string>
#include <string_view>

#include "server/exec/outcome_table.h"
#include "tunefarm/worker/v1/worker.pb.h"

namespace tunefarm {

std::string CheckHello(const tunefarm::worker::v1::Hello& hello, WorkerRole role, std::string_view backend,
                       size_t fds = 0);
std::string CheckPrepared(const tunefarm::worker::v1::Prepared& prepared, WorkerRole role, size_t fds = 0);
std::string CheckHealthReport(const tunefarm::worker::v1::HealthReport& report);
std::string CheckPhase(const tunefarm::worker::v1::PhaseBegan& phase);
// `fds` is how many descriptors came with it. `needs_measurement`: an OK without a time would be a lie.
std::string CheckResult(const tunefarm::worker::v1::Result& result, WorkerRole role, size_t fds,
                        bool needs_measurement);
std::string CheckProbeReport(const tunefarm::worker::v1::ProbeReport& report);

}  // namespace tunefarm
