#include "server/catalog/catalog_watch.h"

#include <algorithm>
#include <utility>

#include "server/base/status.h"

namespace tunefarm {

using tunefarm::v1::BestConfigKey;
using tunefarm::v1::WatchBestConfigsRequest;
using tunefarm::v1::WatchBestConfigsResponse;

namespace {

// Keys are a few hundred bytes, at most some thousand.
constexpr int kRemovedInPartMax = 1000;

}  // namespace

struct CatalogStream::Watcher {
  std::atomic<bool> is_due{false};  // to hear something, whether there is anything new or not
  // Held while a callback runs, so that the stream's destructor waits for it.
  Mutex mutex;
  bool live GUARDED_BY(mutex) = true;
  std::function<void()> wake GUARDED_BY(mutex);
  std::function<void(absl::Status)> end GUARDED_BY(mutex);
};

// ---- One stream ----

CatalogStream::CatalogStream(const Catalog* catalog, std::string catalog_id, const WatchBestConfigsRequest& request,
                             std::shared_ptr<Watcher> watcher)
    : catalog_(catalog), catalog_id_(std::move(catalog_id)), kernel_(request.kernel()), watcher_(std::move(watcher)) {
  // A revision that is yet to come was counted by a catalog that is no more.
  if (request.catalog_id() == catalog_id_ && request.after_revision() <= catalog_->revision()) {
    told_ = request.after_revision();
  }
  resets_ = told_ == 0;
}

CatalogStream::~CatalogStream() {
  // The callbacks are destroyed outside the lock: they may own whatever they like.
  std::function<void()> wake;
  std::function<void(absl::Status)> end;
  MutexLock lock(&watcher_->mutex);
  watcher_->live = false;
  wake.swap(watcher_->wake);
  end.swap(watcher_->end);
}

bool CatalogStream::Begin(bool must_answer) {
  if (has_answered_ && catalog_->revision() <= told_ && !must_answer) return false;
  CatalogChanges changes = catalog_->ChangesSince(told_, kernel_);
  // Of other kernels only: the next heartbeat tells the revision.
  if (has_answered_ && !must_answer && changes.bests.empty() && changes.removed.empty()) {
    told_ = changes.revision;
    return false;
  }
  now_ = std::move(changes);
  bests_told_ = 0;
  return true;
}

std::optional<WatchBestConfigsResponse> CatalogStream::Next() {
  const bool is_due = watcher_->is_due.exchange(false);
  if (!now_.has_value() && !Begin(is_due)) return std::nullopt;
  has_answered_ = true;
  return Part();
}

WatchBestConfigsResponse CatalogStream::Part() {
  WatchBestConfigsResponse part;
  part.set_catalog_id(catalog_id_);
  part.set_reset(std::exchange(resets_, false));
  while (!now_->removed.empty() && part.retired_size() < kRemovedInPartMax) {
    BestConfigKey* const key = part.add_retired();
    key->set_program_digest(std::move(now_->removed.back().program_digest));
    key->set_problem_key(std::move(now_->removed.back().problem_key));
    key->set_device_class_id(std::move(now_->removed.back().class_id));
    now_->removed.pop_back();
  }
  if (!now_->removed.empty()) return part;
  for (size_t bytes = 0; bests_told_ < now_->bests.size(); ++bests_told_) {
    const tunefarm::v1::BestConfig& best = *now_->bests[bests_told_];
    bytes += best.ByteSizeLong();
    if (bytes > kCatalogPartBytesMax && part.bests_size() > 0) return part;
    *part.add_bests() = best;
  }
  told_ = now_->revision;
  part.set_revision(told_);
  now_.reset();
  return part;
}

// ---- All of them ----

CatalogWatch::CatalogWatch(Executor* executor, const Catalog* catalog, int watchers_max)
    : executor_(executor), catalog_(catalog), watchers_max_(static_cast<size_t>(std::max(watchers_max, 0))) {}

void CatalogWatch::Open(std::string catalog_id) {
  MutexLock lock(&mutex_);
  const bool is_another = !catalog_id_.empty() && catalog_id_ != catalog_id;
  catalog_id_ = std::move(catalog_id);
  if (!is_another) return;
  // What they were told counts for nothing in this one: they ask again, and begin with the whole catalog.
  replaced_.insert(replaced_.end(), watchers_.begin(), watchers_.end());
  watchers_.clear();
  Post();
}

absl::StatusOr<std::unique_ptr<CatalogStream>> CatalogWatch::Watch(const WatchBestConfigsRequest& request,
                                                                   std::function<void()> wake,
                                                                   std::function<void(absl::Status)> end) {
  if (request.after_revision() < 0) {
    return WithReason(InvalidArgument("after_revision {} is negative; 0 asks for everything", request.after_revision()),
                      "REVISION_INVALID");
  }
  auto watcher = std::make_shared<Watcher>();
  {
    MutexLock lock(&watcher->mutex);
    watcher->wake = std::move(wake);
    watcher->end = std::move(end);
  }
  MutexLock lock(&mutex_);
  if (!closed_.ok()) return closed_;
  Prune();
  if (watchers_.size() >= watchers_max_) {
    return WithReason(ResourceExhausted("{} clients watch the catalog, no more are taken; look configs up instead, or "
                                        "share one watch",
                                        watchers_.size()),
                      "TOO_MANY_WATCHERS");
  }
  watchers_.push_back(watcher);
  StartHeartbeat();
  return std::unique_ptr<CatalogStream>(new CatalogStream(catalog_, catalog_id_, request, std::move(watcher)));
}

void CatalogWatch::Changed() {
  MutexLock lock(&mutex_);
  if (!watchers_.empty()) Post();
}

void CatalogWatch::Close(const absl::Status& status) {
  MutexLock lock(&mutex_);
  if (!closed_.ok()) return;
  closed_ = status;
  Post();
}

void CatalogWatch::Post() {
  if (is_posted_) return;
  is_posted_ = true;
  executor_->Post([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->Deliver();
  });
}

void CatalogWatch::Deliver() {
  std::vector<std::weak_ptr<Watcher>> watchers, replaced;
  absl::Status closed;
  {
    MutexLock lock(&mutex_);
    is_posted_ = false;
    Prune();
    watchers = watchers_;
    replaced.swap(replaced_);
    closed = closed_;
  }
  for (const auto& weak : replaced) {
    const auto watcher = weak.lock();
    if (watcher == nullptr) continue;
    MutexLock lock(&watcher->mutex);
    if (!watcher->live) continue;
    watcher->live = false;
    watcher->end(Unavailable("the database was restored to an older state and has a new catalog; watch again"));
  }
  for (const auto& weak : watchers) {
    const auto watcher = weak.lock();
    if (watcher == nullptr) continue;
    MutexLock lock(&watcher->mutex);
    if (!watcher->live) continue;
    if (closed.ok()) {
      watcher->wake();
    } else {
      watcher->live = false;
      watcher->end(closed);
    }
  }
}

void CatalogWatch::StartHeartbeat() {
  if (beats_) return;
  beats_ = true;
  executor_->PostAfter(kCatalogHeartbeat, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->Beat();
  });
}

void CatalogWatch::Beat() {
  {
    MutexLock lock(&mutex_);
    beats_ = false;
    Prune();
    if (watchers_.empty() || !closed_.ok()) return;
    for (const auto& weak : watchers_) {
      if (const auto watcher = weak.lock()) watcher->is_due.store(true);
    }
    StartHeartbeat();
  }
  Deliver();
}

void CatalogWatch::Prune() {
  std::erase_if(watchers_, [](const auto& watcher) { return watcher.expired(); });
}

int CatalogWatch::watchers() const {
  MutexLock lock(&mutex_);
  return static_cast<int>(
      std::count_if(watchers_.begin(), watchers_.end(), [](const auto& watcher) { return !watcher.expired(); }));
}

}  // namespace tunefarm
