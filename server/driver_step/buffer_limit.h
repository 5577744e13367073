// How large a buffer may be, so that a launch refuses what tuning refuses.
#pragma once

#include <cstdint>

namespace tunefarm::driver_step {

// Bytes: far above any device, so that sizes can be added without overflow.
inline constexpr int64_t kBufferBytesMax = int64_t{1} << 44;

}  // namespace tunefarm::driver_step
