// A part of a list, and how the next one is asked for.
#pragma once

#include <string>
#include <vector>

namespace tunefarm {

struct PageRequest {
  int page_size = 50;  // at most 1000 (more counts as 1000); 0 and less count as 50
  std::string
      page_token;  // opaque; InvalidArgument (reason PAGE_TOKEN_INVALID) if it is not one of ours for the same query
};
// Rows that come or go between two pages neither repeat nor hide others.
template <typename Row>
struct Page {
  std::vector<Row> rows;
  std::string next_page_token;
};

}  // namespace tunefarm
