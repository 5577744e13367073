// What tunefarmd --help prints: the flags in groups, wrapped, with examples at the end.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

namespace tunefarm {

// The title under which a setting stands, by its key in the configuration file; "Other" for one without a group. Pure.
std::string DaemonHelpGroup(std::string_view key);

// Help in lines of at most `columns`, for an app whose options have groups of DaemonHelpGroup.
class DaemonHelpFormatter : public CLI::Formatter {
 public:
  explicit DaemonHelpFormatter(size_t columns) : columns_(columns) {}

  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;

 private:
  const size_t columns_;
};

}  // namespace tunefarm
