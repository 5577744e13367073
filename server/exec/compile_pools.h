#pragma once

// The compile half of ProcessEvaluator: a pool of compile workers per backend behind the cache of binaries. Requests
// for one binary join one compile.
//
// A binary depends on its compiler too, which only a worker knows. So requests that come before a backend's first
// worker is ready wait for it in the pool's queue, which starts workers, and are looked up when it has said what it is.

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/exec/binary_cache.h"
#include "server/exec/evaluator.h"
#include "server/exec/evaluator_stats.h"
#include "server/exec/event_loop.h"
#include "server/exec/preparation_cache.h"
#include "server/exec/process_evaluator_options.h"
#include "server/exec/worker_pool.h"

namespace tunefarm {

// A CPU cannot compile and measure at once: what the halves ask each other. Loop thread only.
struct HostTurns {
  std::function<bool()> runs_wanted;        // a host run waits or is under way
  std::function<bool()> compiles_busy;      // a host compile is under way
  std::function<void()> something_changed;  // the answers may have: both halves look again, soon
};

// Loop thread only, but for MakeJob.
class CompilePools {
 public:
  using Done = std::function<void(CompileResult)>;

  struct Job {
    Digest key;  // of all that the binary depends on but the compiler
    std::string backend;
    WorkerTask task;
  };

  // All outlive the pools.
  CompilePools(EventLoop* loop, const ProcessEvaluatorOptions* options, const HostTurns* turns,
               PreparationCache* preparations, EvaluatorStats* stats);

  // Any thread. An error's message says why no such binary can be (the config is PRUNED).
  absl::StatusOr<Job> MakeJob(const CompileRequest& request) const;

  void Start(Evaluator::Id id, Job job, Done done);
  // False: unknown.
  bool Cancel(Evaluator::Id id);

  std::vector<WorkerPool*> All() const;
  // Answers with LOST what is being looked up, and from now on everything; the pools' own Shutdown answers the rest.
  void Shutdown();
  // All workers must be gone or stuck. Waits for binaries that are being written.
  void Clear();
  bool host_busy() const;
  void PumpHost();
  // How many compiles of one backend run at once.
  int workers() const { return workers_; }

 private:
  struct Waiter {
    Evaluator::Id id;
    Done done;
  };
  struct InFlight {
    Job job;            // whole until it is given to the pool for good
    uint64_t step = 0;  // answers to earlier steps are dropped
    // Being looked up: 0.
    WorkerPool::TaskId task = 0;
    bool awaits_compiler = false;
    std::vector<Waiter> waiters;
  };
  using Entry = std::map<Digest, InFlight>::iterator;

  void LookUp(Entry entry);
  // Not in the cache: others may have it.
  void AskOthers(Entry entry, const Digest& full);
  // Null: binaries of the backend are this machine's own.
  SharedBinaries* SharedOf(const std::string& backend) const;
  void Submit(Entry entry);
  // Gives the pool a task that only makes it start a worker.
  void AwaitCompiler(Entry entry);
  void OnHello(const std::string& backend, const std::string& toolchain);
  void OnCompiled(const Digest& key, uint64_t step, WorkerTaskEnd end);
  void Answer(Entry entry, CompileResult result);
  // The end of in_flight_: dropped, or already a step further.
  Entry FindStep(const Digest& key, uint64_t step);
  WorkerPool* Pool(const std::string& backend);

  EventLoop* const loop_;
  const ProcessEvaluatorOptions& options_;
  const HostTurns& turns_;
  PreparationCache* const preparations_;
  const int workers_;

  EvaluatorStats* const stats_;
  BinaryCache cache_;
  bool shut_down_ = false;
  uint64_t last_step_ = 0;
  std::map<std::string, std::string> toolchains_;  // by backend, as the last Hello told
  std::map<Digest, InFlight> in_flight_;           // by the job's key
  std::map<Evaluator::Id, Digest> keys_;
  std::map<std::string, std::unique_ptr<WorkerPool>> pools_;  // by backend
};

}  // namespace tunefarm
