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
  std::FILE* in = stdin;    // answers to questions
  bool in_is_terminal = false;
  bool err_is_terminal = false;
  bool use_color = false;  // of what goes to `out`; --no-color wins

  // The chosen command's body; set by CLI11 when the command line is parsed.
  std::function<absl::StatusOr<ExitCode>()> command;

  absl::StatusOr<Connection*> connection();
  absl::StatusOr<OutputFormat> format() const { return ParseOutputFormat(output); }
  // For commands whose result is no table: InvalidArgument for csv.
  absl::StatusOr<OutputFormat> format_without_csv() const;
  bool has_color() const { return use_color && !no_color; }
  // The text in a style where colour is wanted, else as it is.
  std::string Styled(Style style, const std::string& text) const;

  // An error is kept for FlushOutput.
  void Print(std::string_view text) const;
  // Whether all that was printed has been written: the error of the first write that failed, else OK. After an error
  // all later output is dropped.
  absl::Status FlushOutput() const;
  // Writes a file that the user named (WriteOutputFile); "-" is `out`.
  absl::Status WriteFile(const std::string& path, std::string_view bytes) const;
  // A line for people; silent with --quiet.
  void Note(std::string_view text) const;
  // Asks on stderr; true for an answer that begins with y or Y. Only where both ends are a terminal: true elsewhere,
  // since scripts mean what they say.
  bool Confirm(std::string_view question) const;

 private:
  std::unique_ptr<Connection> connection_;
  mutable int output_error_ = 0;  // an errno
};

}  // namespace tunefarm::cli
