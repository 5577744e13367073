// The data files of a definition (tunefarm.v1.DataFile): those that it names by path, and those of --input and
// --expected. Each is read, and then named by its digest in the definition.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/data/open_data_file.h"
#include "tunefarm/v1/kernel.pb.h"

namespace tunefarm::cli {

// --input and --expected: files in place of what the definition says.
struct DataOptions {
  std::vector<std::string> inputs;    // "x=x.npy"
  std::vector<std::string> expected;  // "y=y.npy"

  bool empty() const { return inputs.empty() && expected.empty(); }
  void AddTo(CLI::App* command);
};

struct DescribedFile {
  OpenDataFile file;
  std::string digest;
};

// Fills in digest, bytes and type of every data file of the definition that has no digest, after those of the options
// have taken the place of the buffers' fills and of the reference. A prepare step whose buffers are all filled from
// files is left out. Paths are relative to `folder` (empty: the working directory), and lead nowhere else; those of the
// options may lead anywhere. Returns the files, in no certain order.
// InvalidArgument: a buffer that does not exist or takes no such file, a file that cannot be used or is of another
// type.
absl::StatusOr<std::vector<DescribedFile>> DescribeDataFiles(v1::Kernel* kernel, const std::string& folder,
                                                             const DataOptions& options);

}  // namespace tunefarm::cli
