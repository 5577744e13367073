// One best config as the catalog files it. Immutable; any thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "server/expression/config.h"
#include "tunefarm/v1/best_config.pb.h"

namespace tunefarm {

// What it is filed under lies in one piece of memory: a look-up among a hundred thousand pays for each line it reads.
struct CatalogEntry {
  CatalogEntry(std::string_view kernel_name_text, std::string_view program_digest_text,
               std::string_view problem_key_text, std::string_view class_id_text);
  CatalogEntry(const CatalogEntry&) = delete;
  CatalogEntry& operator=(const CatalogEntry&) = delete;

  const std::string text;  // of the next four
  const std::string_view problem_key, program_digest, class_id, kernel_name;
  std::string config;  // canonical text
  Config dims;         // of the problem it was tuned for
  std::shared_ptr<const tunefarm::v1::BestConfig> best;
};

}  // namespace tunefarm
