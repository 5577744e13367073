// A Recording is a space with the result of every config in it, measured before: what strategies are simulated on.
//
// Threads: never changes after it was made; const use from any thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/expression/config.h"
#include "server/search/search_space.h"
#include "server/search/strategy.h"

namespace tunefarm {

struct RecordedResult {
  ToldOutcome outcome = ToldOutcome::kFailed;  // kOk or kFailed
  double objective_ns = 0;                     // where kOk
  double cost_seconds = 0;                     // what finding out took: compiling, checking, measuring
};

struct RecordedTrial {
  Config config;
  RecordedResult result;
};

class Recording {
 public:
  // The parameters' values are those that occur. InvalidArgument when there is no trial, a config lacks a name of the
  // first one, one is recorded twice, nothing is OK, or a number is no finite positive one where it must be.
  static absl::StatusOr<Recording> Make(std::string name, const std::vector<RecordedTrial>& trials);

  const std::string& name() const { return name_; }
  const std::shared_ptr<const SearchSpace>& space() const { return space_; }
  const std::vector<RecordedResult>& results() const { return results_; }  // by row of the space

 private:
  Recording() = default;

  std::string name_;
  std::shared_ptr<const SearchSpace> space_;
  std::vector<RecordedResult> results_;
};

}  // namespace tunefarm
