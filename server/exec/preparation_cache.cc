#include "server/exec/preparation_cache.h"

#include <fmt/core.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "server/base/hash.h"

namespace tunefarm {
namespace {

// Of as many problems may trials come in turns before preparations are made again: two for each, to compile and to run.
constexpr size_t kPreparationsMax = 16;

bool AreTheSame(const std::vector<DataFileHandle>& files, const std::vector<DataFileHandle>& others) {
  return std::equal(files.begin(), files.end(), others.begin(), others.end(),
                    [](const DataFileHandle& file, const DataFileHandle& other) { return file.file == other.file; });
}

}  // namespace

std::shared_ptr<const WorkerPreparation> PreparationCache::Get(const std::shared_ptr<const KernelPlan>& plan,
                                                               const std::shared_ptr<const ResolvedProblem>& problem,
                                                               const DeviceClass& device_class, uint64_t seed,
                                                               const std::shared_ptr<const Artifact>& reference,
                                                               const std::vector<DataFileHandle>& data_files) {
  MutexLock lock(&mutex_);
  for (auto entry = entries_.rbegin(); entry != entries_.rend(); ++entry) {
    const WorkerPreparation& known = *entry->preparation;
    if (known.plan == plan && known.resolved_problem == problem && known.reference_artifact == reference &&
        known.input_seed == seed && AreTheSame(known.data_files, data_files) && entry->device_class == device_class) {
      return entry->preparation;
    }
  }
  auto made = std::make_shared<WorkerPreparation>();
  // The reference's binary may be another one for the same kernel: headers and compilers change.
  const uint64_t binary = Xxh3(reference == nullptr ? std::string_view() : std::string_view(reference->bytes));
  made->key = fmt::format("{}|{}|{}|{}|{:016x}", plan->kernel_id(), device_class.Id(), seed, problem->key, binary);
  made->plan = plan;
  made->resolved_problem = problem;
  made->problem = problem->ToProto();
  made->device_class = device_class.ToProto();
  made->input_seed = seed;
  made->reference_artifact = reference;
  made->compile_options = compile_options_;
  made->data_files = data_files;
  if (entries_.size() >= kPreparationsMax) entries_.erase(entries_.begin());
  entries_.push_back({device_class, made});
  return made;
}

}  // namespace tunefarm
