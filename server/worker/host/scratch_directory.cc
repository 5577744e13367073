#include "server/worker/host/scratch_directory.h"

#include <dirent.h>

#include <memory>
#include <string_view>
#include <vector>

#include "server/base/file.h"

namespace tunefarm {

void EmptyScratchDirectory(const std::string& path) {
  if (path.empty()) return;
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir(path.c_str()), closedir);
  if (directory == nullptr) return;
  // Listed before anything is removed: a directory must not change while it is read.
  std::vector<std::string> names;
  while (const dirent* entry = readdir(directory.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  for (const std::string& name : names) (void)RemoveTree(path + "/" + name);
}

}  // namespace tunefarm
