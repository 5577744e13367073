#include "server/daemon/monitoring.h"

#include <chrono>
#include <utility>

#include "server/base/mutex.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/store_maintenance.h"

namespace tunefarm {
namespace {

constexpr Duration kDriverPatience = std::chrono::seconds(2);
// Each check of the store costs a sync of the disk: who asks more often gets the last answer.
constexpr Duration kHealthKept = std::chrono::seconds(1);

HttpAnswer MetricsPage(ControlPlane& plane, Store* store, const std::function<void(MetricsSnapshot*)>& fill) {
  MetricsSnapshot snapshot;
  const absl::StatusOr<QueueCounts> queue = store->maintenance()->CountQueue();
  const absl::StatusOr<StoreStatus> status = store->maintenance()->Status();
  for (const absl::Status& one : {queue.status(), status.status()}) {
    if (!one.ok()) return {503, std::string(MessageOf(one)) + "\n"};
  }
  snapshot.queue = *queue;
  snapshot.trials = plane.tally().counts();
  snapshot.job_watchers = plane.events().watchers();
  snapshot.catalog_watchers = plane.catalog_watch().watchers();
  snapshot.missed_problems = plane.misses().stored();
  snapshot.misses_not_counted = plane.misses().table()->not_counted();
  snapshot.misses_unwritten = plane.misses().unwritten();
  snapshot.compiles = plane.link().compiles();
  snapshot.store = *status;
  snapshot.commits = store->maintenance()->Commits();
  fill(&snapshot);
  return {200, RenderMetrics(snapshot), "text/plain; version=0.0.4; charset=utf-8"};
}

class Health {
 public:
  Health(ControlPlane* plane, Store* store) : plane_(plane), store_(store) {}

  HttpAnswer Page() LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    const MonotonicTime now = Clock::Real()->Now();
    if (!checked_ || now - checked_at_ > kHealthKept) {
      status_ = Check();
      checked_ = true;
      checked_at_ = Clock::Real()->Now();
    }
    if (status_.ok()) return {200, "ok\n"};
    return {503, std::string(MessageOf(status_)) + "\n"};
  }

 private:
  absl::Status Check() const {
    RETURN_IF_ERROR(Annotate(store_->maintenance()->CheckWritable(), "the database cannot be written"));
    return plane_->CheckAlive(kDriverPatience);
  }

  ControlPlane* const plane_;
  Store* const store_;
  Mutex mutex_;
  bool checked_ GUARDED_BY(mutex_) = false;
  MonotonicTime checked_at_ GUARDED_BY(mutex_);
  absl::Status status_ GUARDED_BY(mutex_);
};

}  // namespace

absl::StatusOr<std::unique_ptr<HttpServer>> StartMonitoring(const std::string& listen, ControlPlane* plane,
                                                            Store* store, std::function<void(MetricsSnapshot*)> fill) {
  HttpServerOptions options;
  const size_t colon = listen.rfind(':');
  options.host = listen.substr(0, colon);
  if (options.host == "[::1]") options.host = "::1";
  options.port = std::stoi(listen.substr(colon + 1));
  const auto health = std::make_shared<Health>(plane, store);
  options.pages["/healthz"] = [health] { return health->Page(); };
  options.pages["/metrics"] = [=, fill = std::move(fill)] { return MetricsPage(*plane, store, fill); };
  return HttpServer::Start(std::move(options));
}

}  // namespace tunefarm
