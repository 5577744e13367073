#pragma once

// Keeps a log record on one line, and a terminal's state as it is, whatever a message quotes. Pure functions.

#include <string>
#include <string_view>

namespace tunefarm::internal {

// Control characters (also U+0080 to U+009F, which terminals obey), marks that change the direction of text (U+202E and
// others), separators of lines, and bytes that are no UTF-8 become \n, \t or \xNN, byte by byte.
std::string EscapeForText(std::string_view bytes);
// The same, but line feeds and tabs stay.
std::string EscapeLinesForText(std::string_view bytes);

// The inside of a JSON string. Bytes that are no UTF-8 become U+FFFD.
std::string EscapeForJson(std::string_view bytes);

}  // namespace tunefarm::internal
