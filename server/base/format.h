#pragma once

// Texts for people. Numbers have three significant digits and a unit; they are never parsed back, and machine output
// carries raw numbers. Help texts are wrapped to the width of the terminal. Pure but for TerminalColumns; any thread.

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

// "1 trial", "1,248 trials", "1 trial is", "3 trials are". `many`: needed where it is not `one` with an "s".
std::string FormatCount(int64_t count, std::string_view one, std::string_view many = {});

// The width of the terminal of a stream, in columns; 0 if it is none.
size_t TerminalColumns(std::FILE* file);

// The maximum length of lines of help; less on narrower terminals (HelpColumns).
inline constexpr size_t kHelpColumns = 100;
// The line length of help on a terminal of this width (0: no terminal): 40 to kHelpColumns.
size_t HelpColumns(size_t terminal_columns);

// "  name   text", the text wrapped and aligned in a column of its own. For texts without line breaks.
std::string HelpEntry(std::string_view name, std::string_view text, size_t columns = kHelpColumns);

// Breaks lines that are longer than `columns` between words. They continue below their last column, which is what
// follows two spaces; where that begins too far to the right, the column begins on the next line. Command lines, which
// are indented by two spaces and begin with "tunefarm", are broken by a backslash, so that they can be copied. Words
// are never broken.
std::string WrapLines(std::string_view text, size_t columns = kHelpColumns);

}  // namespace tunefarm
