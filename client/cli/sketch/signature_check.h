// Whether a definition passes to its kernels what their signatures in the sources ask for. Pure.
#pragma once

#include <string>
#include <vector>

#include "tunefarm/v1/kernel.pb.h"

namespace tunefarm::cli {

// "folder/scale.cu:3:40: ..." for each buffer or scalar that a step passes as another type than the kernel's; at most
// 20. For kernels in CUDA and C++ whose sources are filled in. A best effort (source_signature.h): what cannot be read,
// such as overloads, types of templates and arguments that conditions choose, is taken to be right, and so are pointers
// to bytes and to integers of the size of the buffer's elements, by which kernels read other types.
std::vector<std::string> SignatureMismatches(const tunefarm::v1::Kernel& kernel, const std::string& folder);

}  // namespace tunefarm::cli
