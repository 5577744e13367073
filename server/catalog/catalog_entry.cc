#include "server/catalog/catalog_entry.h"

#include <fmt/core.h>

namespace tunefarm {

CatalogEntry::CatalogEntry(std::string_view kernel_name_text, std::string_view program_digest_text,
                           std::string_view problem_key_text, std::string_view class_id_text)
    : text(fmt::format("{}{}{}{}", problem_key_text, program_digest_text, class_id_text, kernel_name_text)),
      problem_key(text.data(), problem_key_text.size()),
      program_digest(problem_key.data() + problem_key.size(), program_digest_text.size()),
      class_id(program_digest.data() + program_digest.size(), class_id_text.size()),
      kernel_name(class_id.data() + class_id.size(), kernel_name_text.size()) {}

}  // namespace tunefarm
