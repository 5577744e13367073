// The outputs of a reference as one run worker hands them to another through the daemon: for each output buffer what
// the reference left under the first poison, and under the second where that was needed. Made and read by our own code,
// but a worker may have been damaged when it made them: nothing is used unless everything fits. Pure.
//
// Format, little-endian: magic, XXH3 of all that follows, length of the key, the key, number of blocks, their lengths,
// then their bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tunefarm {

// `key` names kernel, problem and seed. Blocks are in the order of the buffers, those under the first poison first.
std::string PackExpected(std::string_view key, const std::vector<std::string>& blocks);

// The blocks, which point into `file`; nothing if the file is not whole or is of another key.
std::optional<std::vector<std::string_view>> UnpackExpected(std::string_view file, std::string_view key);

}  // namespace tunefarm
