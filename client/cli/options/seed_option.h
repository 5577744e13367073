// Seeds on the command line. Pure.
#pragma once

#include <string>

namespace tunefarm::cli {

// A check of CLI11: empty for a whole number from 0 to 2^64 - 1, else what is wrong. Without it a negative or larger
// number would become another seed in silence.
std::string CheckSeed(const std::string& text);

}  // namespace tunefarm::cli
