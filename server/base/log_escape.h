#pragma once

// Keeps a log record on one line, whatever a message quotes. Pure functions.

#include <string>
#include <string_view>

namespace tunefarm::internal {

// Control characters (also U+0080 to U+009F, which terminals obey) and bytes that are no UTF-8 become \n, \t or \xNN.
std::string EscapeForText(std::string_view bytes);

// The inside of a JSON string. Bytes that are no UTF-8 become U+FFFD.
std::string EscapeForJson(std::string_view bytes);

}  // namespace tunefarm::internal
