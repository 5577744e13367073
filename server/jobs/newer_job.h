// Jobs that a newer daemon of the same store has accepted, of which this program does not know all: they are its to
// drive, not ours.
#pragma once

#include <string>

#include "server/store/job_rows.h"
#include "tunefarm/v1/job.pb.h"

namespace tunefarm {

// What this program does not know of a stored request, for people: "the strategy 'x'", "the value 7 of
// policy.preset", "the field 42 of strategy". Empty: it knows all of it. Thread-safe.
std::string FirstUnknown(const tunefarm::v1::Job& spec);
// The same of a row; empty where the request cannot be read at all.
std::string FirstUnknown(const JobRow& row);

}  // namespace tunefarm
