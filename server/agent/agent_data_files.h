// AgentDataFiles: the data files that kernels name, open for an agent's runs: of the store of this data directory and,
// on another machine than control's, first fetched into it from a control daemon that has them. A file is on the one
// that it was uploaded to, which need not be the one that the agent talks to: all of the agent's list are asked.
//
// Thread-safe; files are fetched one after another on an executor of their own.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/agent/control_list.h"
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
  // `controls` are asked for what the store lacks. The store outlives this, `calls`, which is its own, up to End.
  AgentDataFiles(DataFileStore* store, std::unique_ptr<ControlList> controls, Executor* calls)
      : store_(store), controls_(std::move(controls)), calls_(calls) {}

  // All files of the definition, each once. Calls `done` once, on any thread, also before it returns; never after End.
  // Unavailable: no control daemon answers, ask again later. Others say in one sentence which file is missing, and what
  // to do.
  void Open(const tunefarm::v1::Kernel& kernel, Done done) LOCKS_EXCLUDED(mutex_);
  // Nothing is fetched any more, and a call under way is ended. What is under way is over when `calls` has stopped.
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
  // Of the control daemon that had the last part, or of the next that has the file.
  absl::StatusOr<tunefarm::agent::v1::FetchDataFileResponse> FetchPart(const Wanted& file, int64_t offset);

  DataFileStore* const store_;
  const std::unique_ptr<ControlList> controls_;  // null: the store has all there is
  Executor* const calls_;
  Mutex mutex_;
  bool ended_ GUARDED_BY(mutex_) = false;
};

}  // namespace tunefarm
