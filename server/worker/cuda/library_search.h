// Where the parts of a CUDA Toolkit are: NVRTC, its headers, cuBLAS. Looked for in this order: the configured path,
// CUDA_HOME and CUDA_PATH, the loader's own paths (ldconfig), /usr/local/cuda*, pip's nvidia packages.
//
// Reads directories only, a bounded number of them; opens nothing. Any thread.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace tunefarm::cuda {

struct SearchEnvironment {
  std::string cuda_path;  // from the config; empty: none
  std::string cuda_home;  // CUDA_HOME or CUDA_PATH
  std::string home;       // TUNEFARM_USER_HOME, else HOME
  std::string virtual_env;
  std::string path;  // PATH, for the python3 in it
  // Put before every absolute path that is built in ("/usr/local/cuda"); for tests.
  std::string root;

  static SearchEnvironment FromProcess(std::string cuda_path);
};

// One place where libraries may lie.
struct SearchPlace {
  std::string directory;                         // of the libraries; empty: the loader's own paths
  std::vector<std::string> include_directories;  // what belongs to it, existing ones only
  std::string why;                               // "CUDA_HOME", "pip", ...
};

// Existing directories only, each once, in order of preference.
std::vector<SearchPlace> SearchPlaces(const SearchEnvironment& environment);

// Those of this process, looked up once and remembered: a sandbox that shows what is in them hides how they were found.
// `cuda_path` counts on the first call only. Not for several threads at once.
const std::vector<SearchPlace>& ProcessSearchPlaces(const std::string& cuda_path);

struct FoundLibrary {
  std::string path;  // absolute, or the bare name when the loader found it
  SearchPlace place;
};

// The first of `names` (in order of preference) in the first place that has one that `opens` accepts. `names` are file
// names
// ("libnvrtc.so.13"); `opens` tries to load a path. NotFound with one sentence that says where it looked.
absl::StatusOr<FoundLibrary> FindLibrary(const std::vector<SearchPlace>& places, const std::vector<std::string>& names,
                                         const std::function<bool(const std::string& path)>& opens);

// The include directory of `preferred`'s place that holds `header`, else of any place. Empty if none has it.
std::string FindHeaderDirectory(const std::vector<SearchPlace>& places, const SearchPlace& preferred,
                                const std::string& header);

}  // namespace tunefarm::cuda
