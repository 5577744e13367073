// Recorded results with the definition whose launches they are of.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/definition/kernel_plan.h"
#include "server/device/device_class.h"
#include "server/search/recording.h"

namespace tunefarm {

struct DataSet {
  std::string name;
  std::shared_ptr<const KernelPlan> plan;
  ResolvedProblem problem;
  DeviceClass device;
  Recording recording;
};

// Reads a list: a line per set, "name | definition | results | device | dims", with # before comments. The definition
// is a .pbtxt; sources are not looked at. Results are T4 or cache files, or a CSV of `results --output csv` as
// in tests/bench/results. {NAME} in a path is the environment's. A set whose file is not there is said and left out.
absl::StatusOr<std::vector<DataSet>> ReadDataSets(const std::string& list);

}  // namespace tunefarm
