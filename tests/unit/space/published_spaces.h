// Search spaces that others have published, as their T1 files and benchmarks state them, and spaces made to be hard.
// Shared by the tests, which hold the counts, and by the benchmarks, which time them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "server/space/space.h"

namespace tunefarm {

struct PublishedSpace {
  std::string name;
  SpaceDefinition definition;
  uint64_t valid = 0;
  double kernel_tuner_s = 0;  // its best time with its compiled solver on a machine of this kind; 0 where not known
};

// Spaces that are small enough to be listed.
std::vector<PublishedSpace> PublishedSpaces();

// Of the shape of an FFT's: 21 parameters, 806,215,680,000 points. Without rules all of them are valid; with rules that
// connect neighbouring parameters a part is.
SpaceDefinition FftLikeDefinition(bool has_rules);

}  // namespace tunefarm
