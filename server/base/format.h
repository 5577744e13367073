#pragma once

// Numbers for people: three significant digits and a unit. Never parsed back; machine output carries raw numbers.
// Below them the lines of help texts.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace tunefarm {

// "0 ns", "870 ns", "41.2 µs", "1.50 ms", "12.3 s", "2 min 05 s", "3 h 20 min". Negative values carry "-"; "n/a" for
// what is not finite.
std::string FormatDuration(double ns);

// Binary units: "0 B", "227 KiB", "1.50 GiB".
std::string FormatBytes(uint64_t bytes);

// "1,248".
std::string FormatCount(int64_t count);

// Texts of --help, for all programs.

// How many columns the terminal of a stream shows; 0 for what is none.
size_t TerminalColumns(std::FILE* file);

// Lines of help are never longer than this many columns, and on narrower terminals than those.
inline constexpr size_t kHelpColumns = 100;
// For a terminal of so many columns (0: none): at least 40.
size_t HelpColumns(size_t terminal_columns);

// "  name   text", the text wrapped and aligned in a column of its own. For texts without line breaks.
std::string HelpEntry(std::string_view name, std::string_view text, size_t columns = kHelpColumns);

// Lines that are longer than `columns` are broken between words, and go on below the last column of theirs (what
// stands behind two spaces) or, where that is too far right, begin that column on the next line. Command lines, which
// are indented by two spaces and begin with "tunefarm", are broken by a backslash, so that they can be copied. Words
// are never broken.
std::string WrapLines(std::string_view text, size_t columns = kHelpColumns);

}  // namespace tunefarm
