// Which bests of the catalog an export takes: --kernel, --device and --dim.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/session.h"
#include "server/interchange/best_selection.h"
#include "server/interchange/exported_best.h"

namespace tunefarm::cli {

struct BestFilter {
  std::string kernel;
  std::string device;
  std::vector<std::string> dims;

  // --kernel, --device and --dim.
  void AddTo(CLI::App* command);

  // Class ids, and class names or whole words of them, whatever the case.
  bool TakesDevice(const std::string& class_id, const std::string& class_name) const;
};

// The filter that --dim options make.
absl::StatusOr<interchange::DimFilter> MakeDimFilter(const std::vector<std::string>& dims);

// Sorted, and for each problem of a kernel and class the one that a lookup answers with: of the definition that is
// asked for, else of the newest of the name, else of the latest other one. `inputs` are that definition's. NotFound,
// with what there is, where nothing is left.
absl::StatusOr<std::vector<interchange::ExportedBest>> FetchBests(Session* session, const BestFilter& filter);

}  // namespace tunefarm::cli
