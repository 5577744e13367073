// How --help looks: the same layout for every command, wrapped, with an example at the end.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

namespace tunefarm::cli {

// Lines of help are never longer than this many columns, and on narrower terminals than those.
inline constexpr size_t kHelpColumns = 100;
// For a terminal of so many columns (0: none): at least 60.
size_t HelpColumns(size_t terminal_columns);

// Set on the root before any subcommand is added, so that all of them inherit it.
class HelpFormatter : public CLI::Formatter {
 public:
  explicit HelpFormatter(size_t columns) : columns_(columns) {}

  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;

 private:
  const size_t columns_;
};

// "  name   text", the text wrapped and aligned in a column of its own. For texts without line breaks.
std::string HelpEntry(std::string_view name, std::string_view text, size_t columns = kHelpColumns);

// Lines that are longer than `columns` are broken between words, and go on below the last column of theirs (what
// stands behind two spaces).
std::string WrapLines(std::string_view text, size_t columns = kHelpColumns);

// What the help of a command ends with. `lines` are whole command lines, one each.
void SetExample(CLI::App* command, std::string_view lines);

}  // namespace tunefarm::cli
