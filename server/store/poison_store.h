// PoisonStore: configs that crash or hang, by what makes them do it. Threads and errors: as Store (store.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tunefarm {

struct PoisonRow {
  std::string program_digest, config, problem_key, class_id, toolkit;
  int outcome = 0;
  int crashes = 1;
};

class PoisonStore {
 public:
  virtual ~PoisonStore() = default;

  // Counts one more crash.
  virtual absl::Status RecordPoison(const PoisonRow& row) = 0;
  virtual absl::StatusOr<std::vector<PoisonRow>> LoadPoison(std::string_view program_digest,
                                                            std::string_view class_id) = 0;
};

}  // namespace tunefarm
