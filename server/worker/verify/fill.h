// The data of input buffers. Host and device make the same data from the same text:
// server/worker/verify/fill_element.h, which says exactly which random words an element takes.
//
// Pure functions; any thread.
#pragma once

#include <math.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/base/philox.h"
#include "server/driver_step/e4m3.h"
#include "server/worker/verify/half.h"
// After the three it builds on.
#include "server/worker/verify/fill_element.h"
#include "tunefarm/v1/kernel.pb.h"

namespace tunefarm {

// Fills are functions of (seed, buffer name, index); this is what stands for the name: FNV-1a, 64 bits.
uint64_t FillStream(std::string_view buffer);

// The formula of a fill, ready for host and device. Defaults of the message are applied; a fill without a kind is what
// the definition's default is (normal; integers uniform 0..255). InvalidArgument for data that no formula makes (a
// prepare step, a data file), a normal fill of integers, and a uniform fill whose high is not above low.
absl::StatusOr<TunefarmFill> PlanFill(const tunefarm::v1::Fill& fill, tunefarm::v1::DataType type,
                                      std::string_view buffer, uint64_t seed);

// Writes elements first, first + 1, ... as many as fit into `output`, whose size must be a multiple of the element's.
void FillElements(const TunefarmFill& fill, uint64_t first, std::span<std::byte> output);

}  // namespace tunefarm
