// How many bests there are of each kernel on each device class, and how good they are.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/base/mutex.h"
#include "server/catalog/catalog.h"
#include "tunefarm/v1/catalog_service.pb.h"

namespace tunefarm {

inline constexpr size_t kBestSummariesMax = 10'000;

// Keeps what it has counted until something changes, so that clients that poll cost no pass over the catalog each.
// Thread-safe; where a pass is needed, one caller makes it and the others wait.
class BestSummaries {
 public:
  // By name: the program of the newest definition. Bests of a name that is not there count as made from it.
  using NewestPrograms = std::map<std::string, std::string, std::less<>>;

  explicit BestSummaries(const Catalog* catalog) : catalog_(catalog) {}  // outlives it

  // Of one kernel, or all if the name is empty: by kernel name and class name, the first kBestSummariesMax.
  tunefarm::v1::SummarizeBestConfigsResponse Of(std::string_view kernel_name, const NewestPrograms& newest_programs)
      LOCKS_EXCLUDED(mutex_);
  // All of them, in this order. The same object as long as neither the catalog nor the programs change.
  std::shared_ptr<const std::vector<tunefarm::v1::BestConfigSummary>> All(const NewestPrograms& newest_programs)
      LOCKS_EXCLUDED(mutex_);

 private:
  const Catalog* const catalog_;
  Mutex mutex_;
  int64_t version_ GUARDED_BY(mutex_) = 0;  // of the catalog, when they were counted
  NewestPrograms newest_programs_ GUARDED_BY(mutex_);
  std::shared_ptr<const std::vector<tunefarm::v1::BestConfigSummary>> all_ GUARDED_BY(mutex_);  // null: not counted yet
};

}  // namespace tunefarm
