// Calls functions of a shared object with up to 64 arguments. The worker's own calls
// (server/worker/host/kernel_calls.cc) use libffi, which this library must not need; both pass pointers and scalars as
// C does, f16 and bf16 as 16-bit integers, f8e4m3 as 8-bit ones.
//
// Threads: any; there is no state.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tunefarm::launch {

// An argument: the bytes of driver_step::EncodeScalar or an address, and its type; 0: an address.
struct HostArgument {
  const void* bytes = nullptr;
  uint32_t type = 0;
};

// `entry` returns nothing.
void CallHost(void* entry, const HostArgument* arguments, size_t count);

}  // namespace tunefarm::launch
