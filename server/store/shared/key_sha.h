#pragma once

#include <initializer_list>
#include <string_view>

#include "server/base/hash.h"

namespace tunefarm {

// The column key_sha of a table, which stands for a key whose parts may be longer than an index entry: the SHA-256 of
// the parts, each with its length before it.
Digest KeySha(std::initializer_list<std::string_view> parts);

}  // namespace tunefarm
