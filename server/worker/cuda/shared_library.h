// A library opened with dlopen for as long as the process lives. One thread.
#pragma once

#include <dlfcn.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/worker/cuda/library_search.h"

namespace tunefarm::cuda {

class SharedLibrary {
 public:
  // Opens the first of `names` that a place has. `siblings` lie beside it and are opened before it where they exist,
  // because the library looks for them by name alone. NotFound with one sentence.
  static absl::StatusOr<SharedLibrary> Find(const std::vector<SearchPlace>& places,
                                            const std::vector<std::string>& names,
                                            const std::vector<std::string>& siblings);

  const FoundLibrary& found() const { return found_; }
  // "/usr/local/cuda/lib64/libnvrtc.so.13"
  const std::string& path() const { return path_; }

  // False if the library has no such symbol.
  template <typename Function>
  bool Resolve(const char* name, Function* function) const {
    *function = reinterpret_cast<Function>(dlsym(handle_, name));
    return *function != nullptr;
  }

 private:
  void* handle_ = nullptr;
  FoundLibrary found_;
  std::string path_;
};

}  // namespace tunefarm::cuda
