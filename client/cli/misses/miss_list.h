// The misses that a daemon lists, for the commands that show and tune them.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "client/cli/connection.h"
#include "tunefarm/v1/catalog_service.pb.h"

namespace tunefarm::cli {

// As ListMissesRequest has them; empty: all.
struct MissFilter {
  std::string kernel;
  std::string device_class_id;
};

// The `limit` most asked (0: all), however many pages they take. The page token is set if there are more.
absl::StatusOr<v1::ListMissesResponse> FetchMisses(Connection* connection, const MissFilter& filter, int64_t limit);

// The class id behind a UUID, name or class of one of the daemon's devices, "cuda", "host" or a known class such as
// A100. Anything else is taken for a class id as it is, since misses may be of classes that are gone.
absl::StatusOr<std::string> ClassIdOf(Connection* connection, const std::string& device);

}  // namespace tunefarm::cli
