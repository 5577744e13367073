// Reading what NVRTC and its assembler (--ptxas-options=-v) print. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace tunefarm::cuda {

struct PtxasUse {
  int registers = 0;
  int spill_bytes = 0;  // stores and loads
  int stack_bytes = 0;
  int static_shared_bytes = 0;
};

// By the entry's mangled name. Lines that are not understood are skipped.
std::map<std::string, PtxasUse> ParsePtxasLog(std::string_view log);

// The log without the lines that ParsePtxasLog reads; warnings, those numbered C7500 and up too, stay.
std::string WithoutResourceLines(std::string_view log);

// The first line that says what is wrong; at most 1 KiB. Empty if none does.
std::string FirstErrorLine(std::string_view log);

}  // namespace tunefarm::cuda
