// A daemon whose catalog the test writes: real gRPC on a Unix socket, killed, frozen and started again at will.
//
// It knows the kernel "matmul" with the dims M and N (ints, N with the default 8) and dtype, and one host device.
// Look-ups answer EXACT, else STALE_SOURCE with the best of another program, else NEAREST_SHAPE with the best whose M
// is nearest, else DEFAULT.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "server/base/mutex.h"
#include "server/base/thread.h"
#include "tunefarm/client/client.h"
#include "tunefarm/v1/best_config.pb.h"
#include "tunefarm/v1/catalog_service.pb.h"
#include "tunefarm/v1/job.pb.h"
#include "tunefarm/v1/tuning_service.pb.h"

namespace tunefarm::client {

inline constexpr char kProgram[] = "program-1";
inline constexpr char kClass[] = "cpu-class";

// A best of "matmul" whose config is TILE=`tile`.
v1::BestConfig MakeBest(int64_t m, int64_t n, int64_t tile, const std::string& program = kProgram,
                        const std::string& device_class = kClass);

// What outlives a daemon's process. Thread-safe.
class FakeCatalog {
 public:
  // Files a best, and answers with the revision that it made.
  int64_t Put(v1::BestConfig best) LOCKS_EXCLUDED(mutex);
  int64_t Retire(const v1::BestConfig& best) LOCKS_EXCLUDED(mutex);
  // All changes so far are only known as a whole: an older watcher gets all of it again.
  void ForgetHistory() LOCKS_EXCLUDED(mutex);
  // Another, empty database.
  void Replace(const std::string& catalog_id) LOCKS_EXCLUDED(mutex);
  // The kernel's newest program.
  void SetProgram(const std::string& program) LOCKS_EXCLUDED(mutex);
  int64_t revision() const LOCKS_EXCLUDED(mutex);

  struct Change {
    int64_t revision = 0;
    v1::BestConfig best;
    bool retired = false;
  };

  mutable Mutex mutex;
  CondVar changed;
  std::string catalog_id GUARDED_BY(mutex) = "catalog-1";
  std::string program GUARDED_BY(mutex) = kProgram;
  std::string toolkit GUARDED_BY(mutex) = "13.0";
  int64_t last_revision GUARDED_BY(mutex) = 0;
  int64_t history_from GUARDED_BY(mutex) = 0;  // a watch after an older revision is reset
  std::map<std::string, v1::BestConfig> bests GUARDED_BY(mutex);
  std::vector<Change> history GUARDED_BY(mutex);
};

class FakeDaemon {
 public:
  // Does not run yet.
  FakeDaemon(FakeCatalog* catalog, std::string socket_path);
  ~FakeDaemon();

  void Start();
  // Streams and calls break.
  void Kill();
  // Says nothing more, to nobody, but keeps its connections; streams, too, fall silent.
  void Freeze();
  void Thaw();

  std::string address() const;
  int lookups() const;
  int watches() const;
  // Watches so far that were sent everything anew.
  int resets() const;
  // The next watch breaks off after so many parts of its first change.
  void BreakNextWatchAfter(int parts);
  // Waits until so many calls are held by Freeze.
  void WaitUntilHeld(int calls);

  // Of jobs/1: its events so far. An event without a kind ends the stream.
  void AddJobEvent(v1::JobEvent event);
  std::vector<v1::CreateJobRequest> submitted() const;
  // The next CreateJob is carried out, but its answer gets lost.
  void LoseNextSubmit();
  std::vector<int64_t> job_watches() const;  // after_event_id of each

 private:
  struct Services;
  FakeCatalog* const catalog_;
  const std::string socket_path_;
  std::unique_ptr<Services> services_;
  std::unique_ptr<grpc::Server> server_;
};

// True once the condition holds; false if it does not for a minute.
bool Eventually(const std::function<bool()>& condition);

// A client of the daemon that notices things in tenths of seconds.
ClientOptions QuickOptions(const FakeDaemon& daemon);

// matmul, M and N varying, dtype bf16, on the host.
QuestionSpec MatmulSpec();

}  // namespace tunefarm::client
