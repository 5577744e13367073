// MeasuredKey: the name of a measurement. Two trials of the same key would end the same, so the second one takes over
// the first one's verdict instead of running: a grown space or another strategy pays only for what is new.
//
// Equal must be: the program, the problem (with its seeds and pins), the device class, the toolkit (for TRITON with
// Triton's release), the driver (of a CPU the kernel), with which a time may change as it does in the catalog, how is
// measured, and the config. Only verdicts on the config are taken over: OK with a time taken under good conditions,
// wrong results, damage, refusals by the driver. Not crashes and hangs, which the poison index remembers
// (jobs/poison_index.h); not what a compiler or loader says, since a missing header or a full disk makes errors too,
// and those would stand for ever; not NOISY, OUT_OF_MEMORY and what the machinery lost.
//
// The key does not tell headers outside of the definition apart, which are known after compiling only. A measurement
// with such headers (Trial.headers) is taken over by the agent, once it has compiled the config with the same ones.
//
// Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tunefarm/v1/measurement.pb.h"
#include "tunefarm/v1/trial.pb.h"

namespace tunefarm {

// All but the config, as bytes. Empty, which names nothing, where the toolkit is not known (a driver need not be).
// `policy` is resolved; what concerns finals only does not count.
std::string MeasuredScope(std::string_view program_digest, std::string_view problem_key, std::string_view class_id,
                          std::string_view toolkit, std::string_view driver,
                          const tunefarm::v1::MeasurementPolicy& policy);

// 16 bytes; empty for an empty scope. `config` is the canonical text.
std::string MeasuredKey(std::string_view scope, std::string_view config);

// What a trial of the scope does (Trial.work), as studies file it: devices of another scope take nothing over. 0, which
// names nothing, for an empty scope and where the work is not known.
int64_t WorkKey(std::string_view scope, uint64_t work);

// Whether a trial of a search may be taken over by others.
bool IsMeasurement(const tunefarm::v1::Trial& trial);

// What another trial of the same key gets: the verdict of `measured`, which is called `name`.
tunefarm::v1::Trial TakenOver(const tunefarm::v1::Trial& measured, std::string_view name);

}  // namespace tunefarm
