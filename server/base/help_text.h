// Texts of --help for a terminal of some width, for all programs. Pure, but for TerminalColumns.
#pragma once

#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>

namespace tunefarm {

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
// and options with their value are never broken.
std::string WrapLines(std::string_view text, size_t columns = kHelpColumns);

}  // namespace tunefarm
