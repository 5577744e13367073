// The toolkit's headers that a compile may read. NVRTC does not say which ones it has read, so they are found by the
// names in #include: conditions are not evaluated, and headers of branches that are not taken count too.
//
// One thread. Files are read; what they include is remembered while they are unchanged.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "server/worker/cuda/nvrtc.h"

namespace tunefarm::cuda {

class ToolkitHeaders {
 public:
  // Searched in this order.
  explicit ToolkitHeaders(std::vector<std::string> include_directories)
      : directories_(std::move(include_directories)) {}

  // Absolute paths. A few more than FileSet takes where there are that many.
  std::vector<std::string> ReachableFrom(const NvrtcInput& input);

 private:
  struct Name {
    std::string name;
    bool is_quoted = false;
  };
  struct Scanned {
    int64_t bytes = 0;
    int64_t modified_ns = 0;
    std::vector<Name> names;
  };

  const std::vector<Name>& NamesIn(const std::string& path);

  const std::vector<std::string> directories_;
  std::map<std::string, Scanned> scanned_;  // by path
};

}  // namespace tunefarm::cuda
