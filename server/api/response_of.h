// A response that holds one message.
#pragma once

#include <utility>

#include "absl/status/statusor.h"

namespace tunefarm {

// `field`: the response's accessor, such as &v1::GetJobResponse::mutable_job. The error of `item`, if it is one.
template <typename Response, typename Item>
absl::StatusOr<Response> ResponseOf(absl::StatusOr<Item> item, Item* (Response::*field)()) {
  if (!item.ok()) return item.status();
  Response response;
  *(response.*field)() = *std::move(item);
  return response;
}

}  // namespace tunefarm
