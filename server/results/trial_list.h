// Pages of the trials of a study that pass a filter. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/analysis/selection.h"
#include "server/store/page.h"

namespace tunefarm {

struct TrialPage {
  std::vector<int64_t> ordinals;
  std::string next_page_token;  // empty: there are no more
};

// The matching trials by their ends, or with by_time the fastest first, then those without a time by ordinal.
// `identity`: of the query, for its page tokens. InvalidArgument (PAGE_TOKEN_INVALID).
absl::StatusOr<TrialPage> PageOf(const Selection& trials, bool by_time, const PageRequest& page,
                                 const std::string& identity);

}  // namespace tunefarm
