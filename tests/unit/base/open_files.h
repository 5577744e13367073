#pragma once

#include <dirent.h>

#include <cstddef>

namespace tunefarm {

// How many file descriptors this process has open (the listing's own not counted).
inline size_t CountOpenFiles() {
  DIR* directory = opendir("/proc/self/fd");
  size_t count = 0;
  while (readdir(directory) != nullptr) ++count;
  closedir(directory);
  return count;
}

}  // namespace tunefarm
