// The headers of the C and C++ standard libraries that CUDA sources may include, since NVRTC has none: what of them
// makes sense on a device. A source of the definition with the same path takes a header's place.
//
// Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tunefarm::cuda {

// Name and content.
const std::vector<std::pair<std::string, std::string>>& StandardHeaders();

// Changes with their content; part of what a binary depends on.
uint32_t StandardHeadersVersion();

}  // namespace tunefarm::cuda
