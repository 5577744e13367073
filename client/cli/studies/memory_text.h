// What a study has from earlier jobs, in a line.
#pragma once

#include <string>

#include "tunefarm/v1/job.pb.h"

namespace tunefarm::cli {

// "M=64 instead of 128 (812 configs), on NVIDIA H100 (400 configs, 3 failed)"; empty if it starts from nothing.
std::string PriorsText(const v1::Study& study);

// "312 configs were measured by earlier jobs and not run again"; empty if none was.
std::string TakenOverText(const v1::Study& study);

// "parameter ORDER changes neither binary nor launch"; empty if there is none.
std::string WithoutEffectText(const v1::Study& study);

}  // namespace tunefarm::cli
