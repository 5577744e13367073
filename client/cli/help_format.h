// How --help looks: the same layout for every command, wrapped, with an example at the end.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

#include "server/base/format.h"

namespace tunefarm::cli {

// Set on the root before any subcommand is added, so that all of them inherit it.
class HelpFormatter : public CLI::Formatter {
 public:
  explicit HelpFormatter(size_t columns) : columns_(columns) {}

  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;

 private:
  const size_t columns_;
};

// What the help of a command ends with. `lines` are whole command lines, one each.
void SetExample(CLI::App* command, std::string_view lines);

}  // namespace tunefarm::cli
