// What every command shares: the global options, the streams, and the connection, opened when first needed.
#pragma once

#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "client/cli/connection.h"
#include "client/cli/exit_code.h"
#include "client/cli/output.h"
#include "server/base/xdg.h"

namespace tunefarm::cli {

struct Session {
  // Global options.
  ConnectOptions connect;
  std::string output = "table";
  bool quiet = false;
  bool no_color = false;

  EnvironmentGetter environment = RealEnvironment();
  std::FILE* out = stdout;  // results
  std::FILE* err = stderr;  // everything else
  bool err_is_terminal = false;
  bool use_color = false;

  // The chosen command's body; set by CLI11 when the command line is parsed.
  std::function<absl::StatusOr<ExitCode>()> command;

  absl::StatusOr<Connection*> connection();
  absl::StatusOr<OutputFormat> format() const { return ParseOutputFormat(output); }

  void Print(std::string_view text) const { std::fwrite(text.data(), 1, text.size(), out); }
  // A line for people; silent with --quiet.
  void Note(std::string_view text) const;

 private:
  std::unique_ptr<Connection> connection_;
};

}  // namespace tunefarm::cli
