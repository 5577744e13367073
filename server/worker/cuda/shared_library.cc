#include "server/worker/cuda/shared_library.h"

#include <link.h>

#include "server/base/status_macros.h"

namespace tunefarm::cuda {

absl::StatusOr<SharedLibrary> SharedLibrary::Find(const std::vector<SearchPlace>& places,
                                                  const std::vector<std::string>& names,
                                                  const std::vector<std::string>& siblings) {
  SharedLibrary library;
  const auto open = [&](const std::string& path) {
    const size_t slash = path.rfind('/');
    if (slash != std::string::npos) {
      for (const std::string& sibling : siblings)
        (void)dlopen((path.substr(0, slash + 1) + sibling).c_str(), RTLD_LAZY | RTLD_GLOBAL);
    }
    library.handle_ = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
    return library.handle_ != nullptr;
  };
  ASSIGN_OR_RETURN(library.found_, FindLibrary(places, names, open));
  library.path_ = library.found_.path;
  link_map* map = nullptr;
  if (dlinfo(library.handle_, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr && map->l_name[0] == '/') {
    library.path_ = map->l_name;
  }
  return library;
}

}  // namespace tunefarm::cuda
