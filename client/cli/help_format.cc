#include "client/cli/help_format.h"

#include <algorithm>
#include <vector>

namespace tunefarm::cli {
namespace {

constexpr size_t kNameColumns = 28;

// Words up to `width` columns a line; a word that is longer stands alone.
std::vector<std::string> Wrap(std::string_view text, size_t width) {
  std::vector<std::string> lines;
  std::string line;
  size_t start = 0;
  while (start < text.size()) {
    const size_t space = std::min(text.find(' ', start), text.size());
    const std::string_view word = text.substr(start, space - start);
    if (!line.empty() && line.size() + 1 + word.size() > width) {
      lines.push_back(line);
      line.clear();
    }
    if (!line.empty()) line += ' ';
    line += word;
    start = space + 1;
  }
  if (!line.empty()) lines.push_back(line);
  return lines;
}

// "-o,--output FORMAT", "--max-trials N", "--quiet".
std::string OptionName(const CLI::Option& option) {
  std::string name;
  for (const std::string& one : option.get_snames()) name += (name.empty() ? "-" : ", -") + one;
  for (const std::string& one : option.get_lnames()) name += (name.empty() ? "--" : ", --") + one;
  if (option.get_type_size() == 0) return name;
  // Validators append what they check to the type; the descriptions say it in words.
  std::string type = option.get_type_name();
  type = type.substr(0, type.find(':'));
  if (type == "INT" || type == "UINT" || type == "FLOAT") type = "N";
  return name + " " + type;
}

std::string Usage(const CLI::App& app, const std::string& name) {
  std::string path = app.get_name();
  for (const CLI::App* parent = app.get_parent(); parent != nullptr; parent = parent->get_parent()) {
    path = parent->get_name() + " " + path;
  }
  std::string text = "Usage: " + (app.get_parent() == nullptr ? name : path);
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_positional()) continue;
    const bool is_list = option->get_expected_max() > 1;
    const std::string shown = option->get_name(true, false) + (is_list ? "..." : "");
    text += option->get_required() ? " " + shown : " [" + shown + "]";
  }
  if (!app.get_subcommands([](const CLI::App*) { return true; }).empty()) {
    const bool is_optional = app.get_parent() != nullptr && app.get_require_subcommand_min() == 0;
    text += is_optional ? " [COMMAND]" : " COMMAND";
  }
  return text + " [OPTIONS]\n";
}

}  // namespace

size_t HelpColumns(size_t terminal_columns) {
  return terminal_columns == 0 ? kHelpColumns : std::clamp<size_t>(terminal_columns, 60, kHelpColumns);
}

std::string HelpEntry(std::string_view name, std::string_view text, size_t columns) {
  std::string out = "  " + std::string(name);
  size_t column = out.size();
  for (const std::string& line : Wrap(text, columns - kNameColumns)) {
    if (column + 2 > kNameColumns) {
      out += '\n';
      column = 0;
    }
    out += std::string(kNameColumns - column, ' ') + line;
    column = kNameColumns;
  }
  return out + "\n";
}

std::string WrapLines(std::string_view text, size_t columns) {
  std::string out;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const size_t first = std::min(line.find_first_not_of(' '), line.size());
    const size_t gap = line.find("  ", first);
    const size_t column = gap == std::string_view::npos ? first + 2 : line.find_first_not_of(' ', gap);
    if (line.size() <= columns || column >= columns / 2) {
      out += std::string(line) + "\n";
      continue;
    }
    const size_t start = gap == std::string_view::npos ? first : column;
    out += line.substr(0, start);
    std::string indent;
    for (const std::string& part : Wrap(line.substr(start), columns - column)) {
      out += indent + part + "\n";
      indent = std::string(column, ' ');
    }
  }
  return out;
}

std::string HelpFormatter::make_help(const CLI::App* app, std::string name, CLI::AppFormatMode) const {
  // Command lines of examples stay whole, so that they can be copied.
  const auto prose = [this](const std::string& lines) {
    std::string wrapped;
    for (size_t start = 0; start < lines.size();) {
      const size_t end = std::min(lines.find('\n', start), lines.size());
      const std::string line = lines.substr(start, end - start);
      wrapped += line.rfind("  ", 0) == 0 || line.empty() ? line + "\n" : WrapLines(line, columns_);
      start = end + 1;
    }
    return wrapped;
  };
  std::string text = prose(app->get_description()) + "\n" + Usage(*app, name);
  std::string positionals;
  std::string options;
  for (const CLI::Option* option : app->get_options()) {
    if (option->get_group().empty()) continue;
    if (option->get_positional()) {
      positionals += HelpEntry(option->get_name(true, false), option->get_description(), columns_);
    } else {
      options += HelpEntry(OptionName(*option), option->get_description(), columns_);
    }
  }
  std::string commands;
  for (const CLI::App* command : app->get_subcommands([](const CLI::App*) { return true; })) {
    if (!command->get_group().empty()) commands += HelpEntry(command->get_name(), command->get_description(), columns_);
  }
  if (!commands.empty()) text += "\nCommands:\n" + commands;
  if (!positionals.empty()) text += "\nArguments:\n" + positionals;
  if (!options.empty()) text += "\nOptions:\n" + options;
  if (!app->get_footer().empty()) text += "\n" + prose(app->get_footer());
  return text;
}

void SetExample(CLI::App* command, std::string_view lines) {
  std::string text = lines.find('\n') == std::string_view::npos ? "Example:" : "Examples:";
  size_t start = 0;
  while (start <= lines.size()) {
    const size_t end = std::min(lines.find('\n', start), lines.size());
    text += "\n  " + std::string(lines.substr(start, end - start));
    start = end + 1;
  }
  command->footer(text + "\n\nOptions of every command, such as --server and --output: see tunefarm --help");
}

}  // namespace tunefarm::cli
