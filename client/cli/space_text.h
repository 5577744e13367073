// The size of a space and what its rules remove, as text. "≈" stands before what was sampled, and only there.
#pragma once

#include <string>
#include <string_view>

#include "tunefarm/v1/job.pb.h"

namespace tunefarm::cli {

// The number of all combinations with its digits grouped, whether or not they came grouped.
std::string CartesianText(const v1::SpaceSize& space);

// "1,248", "≈1,250" where it was sampled, "9.2e18 or more" where it does not fit.
std::string ValidText(const v1::SpaceSize& space);

// What the rules of a space removed, a line or two for each that removed something, behind `indent`. Rules that removed
// nothing (most device limits) are only counted.
std::string RulesText(const v1::SpaceSize& space, std::string_view indent);

}  // namespace tunefarm::cli
