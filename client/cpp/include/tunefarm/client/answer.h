// The answer to "which config is best for this kernel, problem and device?". Plain values.
#pragma once

#include <cstdint>
#include <string>

#include "tunefarm/client/value.h"

namespace tunefarm::client {

// How well an answer matches the question, best first. The numbers are those of the wire.
enum class Match {
  kUnspecified = 0,
  kExact = 1,         // same program, problem and device class, current toolkit
  kStale = 2,         // the same, but measured with another driver or toolkit, or with headers that have changed
  kStaleSource = 3,   // same name, problem and class, but from an older program
  kNearestShape = 4,  // another shape of the same class
  kSameArch = 5,      // another class of the same compute capability
  kDefault = 6,       // the definition's default config, or one that the caller compiled in
  kNotFound = 7,      // nothing can be said: the config is empty
};

// "EXACT".
const char* MatchName(Match match);

// Where an answer came from.
enum class Source {
  kDaemon,      // asked of the daemon; also when it is given again from the cache
  kCatalog,     // the catalog's stream
  kSnapshot,    // a snapshot file
  kCompiledIn,  // ClientOptions::defaults
};

struct Answer {
  Match match = Match::kNotFound;
  // For kNearestShape: the sum over the scaling dims of |log2(asked / tuned)|; 0 otherwise.
  double distance = 0;
  Config config;
  Source source = Source::kDaemon;

  // What the config was tuned for and on; empty and 0 for kDefault and kNotFound.
  std::string kernel;          // display name
  std::string kernel_id;       // of the definition that it was tuned with
  std::string program_digest;  // of that definition
  std::string problem;         // canonical text, "K=4096,M=4096,N=4096,dtype=bf16"
  std::string device_class_id;
  std::string device_class_name;
  std::string driver_version, toolkit_version;
  std::string job;       // "jobs/17"
  double median_ns = 0;  // of one launch sequence, with its 95 % interval
  double ci_low_ns = 0, ci_high_ns = 0;
  double baseline_ns = 0;      // the baseline's time in the same final; 0: there was none
  int64_t revision = 0;        // of the catalog when it was promoted
  int64_t promoted_at_ms = 0;  // milliseconds since 1970 UTC
  bool pinned = false;         // people keep it whatever jobs find
};

}  // namespace tunefarm::client
