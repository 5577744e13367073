#include "server/worker/cuda/library_search.h"

#include <fmt/core.h>
#include <glob.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "server/base/status.h"

namespace tunefarm::cuda {
namespace {

constexpr size_t kGlobMatchesMax = 64;
constexpr size_t kPlacesMax = 128;

bool IsDirectory(const std::string& path) {
  struct stat status;
  return stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

bool IsFile(const std::string& path) {
  struct stat status;
  return stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

std::string FromEnvironment(const char* name) {
  const char* const value = getenv(name);
  return value == nullptr ? "" : value;
}

std::vector<std::string> Glob(const std::string& pattern) {
  std::vector<std::string> paths;
  glob_t found = {};
  if (glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found) == 0) {
    for (size_t i = 0; i < found.gl_pathc && paths.size() < kGlobMatchesMax; ++i) paths.emplace_back(found.gl_pathv[i]);
  }
  globfree(&found);
  // The newest version first; the unversioned link before all.
  std::sort(paths.begin(), paths.end(),
            [](const std::string& a, const std::string& b) { return strverscmp(a.c_str(), b.c_str()) > 0; });
  return paths;
}

// Configured paths are literal, whatever characters they have.
std::string Escaped(const std::string& path) {
  std::string escaped;
  for (const char c : path) {
    if (c == '*' || c == '?' || c == '[' || c == '\\') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

class Places {
 public:
  void Add(const std::string& directory, const std::vector<std::string>& include_directories, const std::string& why) {
    if (places_.size() >= kPlacesMax || !IsDirectory(directory)) return;
    const bool known = std::any_of(places_.begin(), places_.end(),
                                   [&directory](const SearchPlace& place) { return place.directory == directory; });
    if (known) return;
    SearchPlace place{directory, {}, why};
    for (const std::string& include : include_directories) {
      if (IsDirectory(include)) place.include_directories.push_back(include);
    }
    places_.push_back(std::move(place));
  }

  void AddToolkit(const std::string& root, const std::string& why) {
    const std::vector<std::string> includes = {root + "/include", root + "/targets/x86_64-linux/include",
                                               root + "/targets/sbsa-linux/include"};
    for (const char* library : {"/lib64", "/lib", "/targets/x86_64-linux/lib", "/targets/sbsa-linux/lib"}) {
      Add(root + library, includes, why);
    }
    AddPip(root, why);
  }

  // `packages` is a site-packages directory. CUDA 12: one folder per component; CUDA 13: one for all.
  void AddPip(const std::string& packages, const std::string& why) {
    if (!IsDirectory(packages + "/nvidia")) return;
    const std::vector<std::string> includes = Glob(Escaped(packages) + "/nvidia/*/include");
    for (const std::string& library : Glob(Escaped(packages) + "/nvidia/*/lib")) Add(library, includes, why);
  }

  void AddLoader() { places_.push_back({"", {}, "the loader's paths"}); }

  std::vector<SearchPlace> Take() { return std::move(places_); }

 private:
  std::vector<SearchPlace> places_;
};

// site-packages of the python3 on PATH, through symbolic links too (virtual environments are folders of links).
std::vector<std::string> PythonPackages(const std::string& path) {
  size_t begin = 0;
  for (int entries = 0; begin <= path.size() && entries < 64; ++entries) {
    const size_t end = std::min(path.find(':', begin), path.size());
    const std::string directory = path.substr(begin, end - begin);
    if (!directory.empty() && access((directory + "/python3").c_str(), X_OK) == 0) {
      return Glob(Escaped(directory) + "/../lib/python3*/site-packages");
    }
    begin = end + 1;
  }
  return {};
}

}  // namespace

SearchEnvironment SearchEnvironment::FromProcess(std::string cuda_path) {
  SearchEnvironment environment;
  environment.cuda_path = std::move(cuda_path);
  environment.cuda_home = FromEnvironment("CUDA_HOME");
  if (environment.cuda_home.empty()) environment.cuda_home = FromEnvironment("CUDA_PATH");
  // A worker's own HOME is its scratch directory.
  environment.home = FromEnvironment("TUNEFARM_USER_HOME");
  if (environment.home.empty()) environment.home = FromEnvironment("HOME");
  environment.virtual_env = FromEnvironment("VIRTUAL_ENV");
  environment.path = FromEnvironment("PATH");
  return environment;
}

std::vector<SearchPlace> SearchPlaces(const SearchEnvironment& environment) {
  Places places;
  if (!environment.cuda_path.empty()) places.AddToolkit(environment.cuda_path, "cuda.path");
  if (!environment.cuda_home.empty()) places.AddToolkit(environment.cuda_home, "CUDA_HOME");
  places.AddLoader();
  const std::string root = Escaped(environment.root);
  for (const std::string& toolkit : Glob(root + "/usr/local/cuda")) places.AddToolkit(toolkit, toolkit);
  for (const std::string& toolkit : Glob(root + "/usr/local/cuda-*")) places.AddToolkit(toolkit, toolkit);
  std::vector<std::string> patterns;
  if (!environment.virtual_env.empty())
    patterns.push_back(Escaped(environment.virtual_env) + "/lib/python3*/site-packages");
  for (const std::string& packages : PythonPackages(environment.path)) patterns.push_back(Escaped(packages));
  if (!environment.home.empty()) patterns.push_back(Escaped(environment.home) + "/.local/lib/python3*/site-packages");
  for (const char* pattern : {"/usr/local/lib/python3*/dist-packages", "/usr/local/lib/python3*/site-packages",
                              "/usr/lib/python3*/dist-packages", "/opt/*/lib/python3*/site-packages",
                              "/opt/*/.venv/lib/python3*/site-packages", "/opt/*/venv/lib/python3*/site-packages",
                              "/opt/*/*/.venv/lib/python3*/site-packages"}) {
    patterns.push_back(root + pattern);
  }
  for (const std::string& pattern : patterns) {
    for (const std::string& packages : Glob(pattern)) places.AddPip(packages, "pip");
  }
  return places.Take();
}

const std::vector<SearchPlace>& ProcessSearchPlaces(const std::string& cuda_path) {
  static const std::vector<SearchPlace> places = SearchPlaces(SearchEnvironment::FromProcess(cuda_path));
  return places;
}

absl::StatusOr<FoundLibrary> FindLibrary(const std::vector<SearchPlace>& places, const std::vector<std::string>& names,
                                         const std::function<bool(const std::string& path)>& opens) {
  std::string looked;
  for (const SearchPlace& place : places) {
    for (const std::string& name : names) {
      const std::string path = place.directory.empty() ? name : place.directory + "/" + name;
      if (!place.directory.empty() && !IsFile(path)) continue;
      if (opens(path)) return FoundLibrary{path, place};
    }
    looked += fmt::format("{}{}", looked.empty() ? "" : ", ", place.directory.empty() ? place.why : place.directory);
  }
  return NotFound("{} was not found in {}; set cuda.path to a CUDA Toolkit or install one", names.front(), looked);
}

std::string FindHeaderDirectory(const std::vector<SearchPlace>& places, const SearchPlace& preferred,
                                const std::string& header) {
  const auto find = [&header](const SearchPlace& place) -> std::string {
    for (const std::string& include : place.include_directories) {
      if (IsFile(include + "/" + header)) return include;
    }
    return "";
  };
  std::string found = find(preferred);
  for (size_t i = 0; i < places.size() && found.empty(); ++i) found = find(places[i]);
  return found;
}

}  // namespace tunefarm::cuda
