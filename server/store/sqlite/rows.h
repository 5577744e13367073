#pragma once

#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/statusor.h"
#include "server/base/status_macros.h"
#include "server/store/read_rows.h"
#include "server/store/sqlite/statement.h"

namespace tunefarm::sqlite {

// All rows of the statement, each read by `read`, such as one of read_rows.h.
template <typename Read>
auto ReadAll(Statement& rows, Read read) -> absl::StatusOr<std::vector<std::invoke_result_t<Read, const Statement&>>> {
  std::vector<std::invoke_result_t<Read, const Statement&>> all;
  while (true) {
    ASSIGN_OR_RETURN(const bool has_row, rows.Step());
    if (!has_row) return all;
    all.push_back(read(rows));
  }
}

// "[1,2,3]", for json_each: how a list is bound to one parameter.
template <typename Numbers>
std::string JsonList(const Numbers& numbers) {
  std::string text = "[";
  for (const auto number : numbers) {
    if (text.size() > 1) text += ',';
    text += std::to_string(static_cast<int>(number));
  }
  return text + "]";
}

}  // namespace tunefarm::sqlite
