#pragma once

// Numbers for people: three significant digits and a unit. Never parsed back; machine output carries raw numbers.

#include <cstdint>
#include <string>

namespace tunefarm {

// "0 ns", "870 ns", "41.2 µs", "1.50 ms", "12.3 s", "2 min 05 s", "3 h 20 min". Negative values carry "-"; "n/a" for
// what is not finite.
std::string FormatDuration(double ns);

// Binary units: "0 B", "227 KiB", "1.50 GiB".
std::string FormatBytes(uint64_t bytes);

// "1,248".
std::string FormatCount(int64_t count);

}  // namespace tunefarm
