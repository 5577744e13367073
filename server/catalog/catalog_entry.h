// One best config as the catalog files it. Immutable; any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "server/expression/config.h"
#include "server/store/best_store.h"
#include "tunefarm/v1/best_config.pb.h"

namespace tunefarm {

// What it is filed under and what batches answer lie together: a look-up among a hundred thousand pays for each line
// of memory that it reads.
struct CatalogEntry {
  explicit CatalogEntry(const BestRow& row);
  CatalogEntry(const CatalogEntry&) = delete;
  CatalogEntry& operator=(const CatalogEntry&) = delete;

  const std::string text;  // of the next five
  const std::string_view problem_key, program_digest, class_id;
  const std::string_view config;  // canonical text
  const std::string_view kernel_name;
  double median_ns = 0;     // of the best
  uint64_t conditions = 0;  // checksum of what IsStale compares of the best
  Config dims;              // of the problem it was tuned for
  std::shared_ptr<const tunefarm::v1::BestConfig> best;
};

}  // namespace tunefarm
