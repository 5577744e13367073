#pragma once

#include <cstddef>
#include <string_view>

namespace tunefarm {

// A file compiled into the program (CMake: tunefarm_embed(target Symbol FILES ...)). The embedding code declares
//   extern const EmbeddedFile kSymbol[];
//   extern const size_t kSymbolCount;
// in namespace tunefarm, next to its use. Read-only and alive for the whole program, but initialised with the other
// globals: not to be used from a global's constructor.
struct EmbeddedFile {
  std::string_view name;  // Base name, without a folder.
  std::string_view bytes;
};

}  // namespace tunefarm
