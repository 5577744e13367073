#include "server/store/shared/key_sha.h"

#include <string>

namespace tunefarm {

Digest KeySha(std::initializer_list<std::string_view> parts) {
  Sha256Stream stream;
  for (const std::string_view part : parts) {
    stream.Update(std::to_string(part.size()) + ":");
    stream.Update(part);
  }
  return stream.Finish();
}

}  // namespace tunefarm
