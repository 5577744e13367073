// A page of a list that is in memory and short: the token is the index of the next item.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/base/status.h"

namespace tunefarm {

// `add` puts one item into the response. page_size 0 or less: 50; at most 1000. InvalidArgument (PAGE_TOKEN_INVALID).
template <typename Response, typename Item, typename Add>
absl::StatusOr<Response> PageOf(const std::vector<Item>& items, int page_size, const std::string& token, Add add) {
  size_t first = 0;
  if (!token.empty()) {
    if (token.size() > 9 || token.find_first_not_of("0123456789") != std::string::npos) {
      return WithReason(InvalidArgument("page token '{}' is not one of this list", token), "PAGE_TOKEN_INVALID");
    }
    first = std::stoul(token);
  }
  if (page_size <= 0) page_size = 50;
  if (page_size > 1000) page_size = 1000;
  Response response;
  size_t index = first;
  for (; index < items.size() && index < first + static_cast<size_t>(page_size); ++index) add(items[index], &response);
  if (index < items.size()) response.set_next_page_token(std::to_string(index));
  return response;
}

}  // namespace tunefarm
