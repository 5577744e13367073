// The two digests of a definition. Private to this folder.
//
// They are computed from an encoding of our own, because protobuf promises no stable serialization across versions: the
// fields that are set, in the order of their numbers, each with its number, its kind and, for what has a length, its
// length; maps sorted by key; what is unset leaves no trace.
#pragma once

#include <string>

#include "google/protobuf/message.h"
#include "tunefarm/v1/kernel.pb.h"

namespace tunefarm::definition {

// Appends the encoding of a message. Unknown fields are left out.
void AppendCanonical(const google::protobuf::Message& message, std::string* out);

// Both know a data file with a digest by its digest and its bytes.

// Hex. The whole canonical definition, less its output-only fields.
std::string KernelId(const tunefarm::v1::Kernel& canonical);

// Hex. What can change a trial's verdict or time, and nothing else: sources (also headers that no other source
// includes: what is included is only known to the compiler), language and options, names, types and binds of dims and
// parameters, derived values, arguments, prepare steps, launches, reference, tolerance, and the compile target. The
// order in which dims, parameters, derived values, arguments and headers are declared does not count, nor do the names
// of launches.
//
// Defaults of parameters are left out, although the reference and per-problem prepare steps are compiled with them: a
// reference computes what the outputs must be, so its result may depend on the config only within the tolerance, and
// inputs that depend on a tunable would make configs incomparable anyway. Including them would throw away all results
// of a kernel whenever its author adopts the tuned config as the default, the very thing tuning is for.
std::string ProgramDigest(const tunefarm::v1::Kernel& canonical);

}  // namespace tunefarm::definition
