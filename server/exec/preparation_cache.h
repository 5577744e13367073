#pragma once

// The preparations of the problems at work. All trials of one problem share one, so that its key, a hash over the
// device's properties among others, and its messages are made once and not for every trial. The last few stay, with the
// plan, the reference's binary and the open data files that they point to.
//
// Thread-safe.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "server/base/mutex.h"
#include "server/definition/kernel_plan.h"
#include "server/device/device_class.h"
#include "server/exec/data_file_handle.h"
#include "server/exec/worker_request.h"

namespace tunefarm {

class PreparationCache {
 public:
  // `compile_options` of every preparation.
  explicit PreparationCache(std::vector<std::string> compile_options) : compile_options_(std::move(compile_options)) {}

  // `reference` may be null; its content is part of the key. Plans, problems, binaries and open files are told apart by
  // their addresses: two that are equal but not the same get preparations of their own with equal keys.
  std::shared_ptr<const WorkerPreparation> Get(const std::shared_ptr<const KernelPlan>& plan,
                                               const std::shared_ptr<const ResolvedProblem>& problem,
                                               const DeviceClass& device_class, uint64_t seed,
                                               const std::shared_ptr<const Artifact>& reference,
                                               const std::vector<DataFileHandle>& data_files) LOCKS_EXCLUDED(mutex_);

 private:
  struct Entry {
    DeviceClass device_class;
    std::shared_ptr<const WorkerPreparation> preparation;
  };

  const std::vector<std::string> compile_options_;
  Mutex mutex_;
  std::vector<Entry> entries_ GUARDED_BY(mutex_);  // the one that was made last at the end
};

}  // namespace tunefarm
