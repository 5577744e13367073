// CacheApi: the calls of CacheService, by which other programs keep their caches here.
//
// Callers load entries as code. A caller therefore gets its own entries and those of administrators, and no others.
//
// Thread-safe. All calls block on the disk.
#pragma once

#include "absl/status/statusor.h"
#include "server/access/principal.h"
#include "server/data_files/remote_cache.h"
#include "tunefarm/v1/cache_service.pb.h"

namespace tunefarm {

class CacheApi {
 public:
  // `cache` outlives it; null: the daemon keeps no entries, finds none, and refuses new ones.
  explicit CacheApi(RemoteCache* cache) : cache_(cache) {}

  // InvalidArgument (CACHE_ENTRY_INVALID) for a bad name of a cache, a bad key, and no keys or more than 100.
  absl::StatusOr<v1::GetCacheEntriesResponse> GetCacheEntries(const Principal& principal,
                                                              const v1::GetCacheEntriesRequest& request);
  // InvalidArgument (CACHE_ENTRY_INVALID), ResourceExhausted (CACHE_FULL), FailedPrecondition (CACHE_DISABLED); the
  // file system's errors.
  absl::StatusOr<v1::PutCacheEntryResponse> PutCacheEntry(const Principal& principal,
                                                          const v1::PutCacheEntryRequest& request);
  // InvalidArgument (CACHE_ENTRY_INVALID, PAGE_SIZE_INVALID, PAGE_TOKEN_INVALID).
  absl::StatusOr<v1::ListCacheEntriesResponse> ListCacheEntries(const Principal& principal,
                                                                const v1::ListCacheEntriesRequest& request);

 private:
  RemoteCache* const cache_;
};

}  // namespace tunefarm
