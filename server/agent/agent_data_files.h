// AgentDataFiles: the data files that kernels name, open for an agent's runs: of the store of this data directory and,
// on another machine than control's, first fetched from control into it.
//
// Thread-safe; files are fetched one after another on an executor of their own.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/agent/remote_link.h"
#include "server/base/executor.h"
#include "server/base/mutex.h"
#include "server/data_files/data_file_store.h"
#include "server/exec/data_file_handle.h"
#include "tunefarm/v1/kernel.pb.h"

namespace tunefarm {

class AgentDataFiles {
 public:
  using Done = std::function<void(absl::StatusOr<std::vector<DataFileHandle>>)>;

  // The store is control's own, which has every file or none. It outlives this.
  explicit AgentDataFiles(DataFileStore* store) : AgentDataFiles(store, nullptr, nullptr) {}
  // Control is asked for what the store lacks. All outlive this, `calls`, which is its own, up to End.
  AgentDataFiles(DataFileStore* store, RemoteLink* link, Executor* calls) : store_(store), link_(link), calls_(calls) {}

  // All files of the definition, each once. Calls `done` once, on any thread, also before it returns; never after End.
  // Unavailable: control is away, ask again later. Others say in one sentence which file is missing, and what to do.
  void Open(const tunefarm::v1::Kernel& kernel, Done done) LOCKS_EXCLUDED(mutex_);
  // Nothing is fetched any more. What is under way is over when `calls` has stopped.
  void End() LOCKS_EXCLUDED(mutex_);

 private:
  struct Wanted {
    std::string digest;
    int64_t bytes = 0;
    std::string name;  // for people
  };

  absl::StatusOr<std::vector<DataFileHandle>> OpenAll(const std::vector<Wanted>& files);
  absl::StatusOr<OpenDataFile> OpenOne(const Wanted& file);
  absl::Status Fetch(const Wanted& file);

  DataFileStore* const store_;
  RemoteLink* const link_;
  Executor* const calls_;
  std::atomic<bool> ending_{false};
  Mutex mutex_;
  bool ended_ GUARDED_BY(mutex_) = false;
};

}  // namespace tunefarm
