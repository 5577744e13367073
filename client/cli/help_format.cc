#include "client/cli/help_format.h"

#include <algorithm>
#include <vector>

namespace tunefarm::cli {
namespace {

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

std::string HelpFormatter::make_help(const CLI::App* app, std::string name, CLI::AppFormatMode) const {
  std::string text = WrapLines(app->get_description(), columns_) + "\n" + Usage(*app, name);
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
  if (!app->get_footer().empty()) text += "\n" + WrapLines(app->get_footer(), columns_);
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
