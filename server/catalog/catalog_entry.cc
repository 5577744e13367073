#include "server/catalog/catalog_entry.h"

#include <fmt/core.h>

namespace tunefarm {

CatalogEntry::CatalogEntry(const BestRow& row)
    : text(fmt::format("{}{}{}{}{}", row.problem_key, row.program_digest, row.class_id, row.config, row.kernel_name)),
      problem_key(text.data(), row.problem_key.size()),
      program_digest(problem_key.data() + problem_key.size(), row.program_digest.size()),
      class_id(program_digest.data() + program_digest.size(), row.class_id.size()),
      config(class_id.data() + class_id.size(), row.config.size()),
      kernel_name(config.data() + config.size(), row.kernel_name.size()) {}

}  // namespace tunefarm
