// The catalog's changes for those who watch it. A watcher is the revision it was last told of and a wake-up: what it is
// told next is read from the catalog when its reader can take it, so that a slow one costs no queue and sees several
// changes of a best as one.
//
// Threads: all methods of CatalogWatch may be called from any thread. Callbacks run on the executor, with no lock of
// the service held.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/base/executor.h"
#include "server/base/mutex.h"
#include "server/catalog/catalog.h"
#include "tunefarm/v1/catalog_service.pb.h"

namespace tunefarm {

// A watcher hears at least this often: callers are promised 5 s, the rest is for machines that are busy.
inline constexpr Duration kCatalogHeartbeat = std::chrono::seconds(4);
// Of the bests in one response; one that is larger goes alone.
inline constexpr size_t kCatalogPartBytesMax = 1 << 20;

class CatalogWatch;

// One watcher. Ends with its destructor: no callback is under way or will come once that has returned. Not to be
// destroyed from a callback.
class CatalogStream {
 public:
  ~CatalogStream();
  CatalogStream(const CatalogStream&) = delete;
  CatalogStream& operator=(const CatalogStream&) = delete;

  // The next response; none: there is nothing to say until the next wake-up. One caller at a time.
  std::optional<tunefarm::v1::WatchBestConfigsResponse> Next();

 private:
  friend class CatalogWatch;
  struct Watcher;
  CatalogStream(const Catalog* catalog, std::string catalog_id, const tunefarm::v1::WatchBestConfigsRequest& request,
                std::shared_ptr<Watcher> watcher);
  // Whether there is a change to tell.
  bool Begin(bool must_answer);
  tunefarm::v1::WatchBestConfigsResponse Part();

  const Catalog* const catalog_;
  const std::string catalog_id_, kernel_;
  const std::shared_ptr<Watcher> watcher_;
  int64_t told_ = 0;  // the revision
  bool has_answered_ = false;
  bool resets_ = false;                // the first response says so
  std::optional<CatalogChanges> now_;  // being told
  size_t bests_told_ = 0;
};

class CatalogWatch : public std::enable_shared_from_this<CatalogWatch> {
 public:
  // The executor and the catalog outlive it and every stream.
  CatalogWatch(Executor* executor, const Catalog* catalog, int watchers_max);

  // The catalog is loaded and has this id. Before the first Watch.
  void Open(std::string catalog_id);

  // `wake`: ask Next again; it may come more often than there is something to say. `end`: once, when the service stops;
  // no wake-up follows. Neither may block. InvalidArgument (REVISION_INVALID), ResourceExhausted (TOO_MANY_WATCHERS),
  // Unavailable after Close.
  absl::StatusOr<std::unique_ptr<CatalogStream>> Watch(const tunefarm::v1::WatchBestConfigsRequest& request,
                                                       std::function<void()> wake,
                                                       std::function<void(absl::Status)> end);

  // The catalog has changed. Returns at once.
  void Changed();
  // All watchers get `end` with the status; later ones are refused with it.
  void Close(const absl::Status& status);

  int watchers() const;

 private:
  using Watcher = CatalogStream::Watcher;

  void Post() EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Deliver() LOCKS_EXCLUDED(mutex_);
  void StartHeartbeat() EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Beat() LOCKS_EXCLUDED(mutex_);
  void Prune() EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Executor* const executor_;
  const Catalog* const catalog_;
  const size_t watchers_max_;

  mutable Mutex mutex_;
  std::string catalog_id_ GUARDED_BY(mutex_);
  absl::Status closed_ GUARDED_BY(mutex_);
  std::vector<std::weak_ptr<Watcher>> watchers_ GUARDED_BY(mutex_);
  std::vector<std::weak_ptr<Watcher>> replaced_ GUARDED_BY(mutex_);  // to be told so
  bool is_posted_ GUARDED_BY(mutex_) = false;
  bool beats_ GUARDED_BY(mutex_) = false;  // a timer is set
};

}  // namespace tunefarm
