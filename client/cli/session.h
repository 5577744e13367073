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
#include "server/base/clock.h"
#include "server/base/format.h"
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
  size_t columns = 0;      // width of the terminal that `out` is; 0: `out` is none
  Clock* clock = Clock::Real();

  // The chosen command's body; set by CLI11 when the command line is parsed.
  std::function<absl::StatusOr<ExitCode>()> command;

  absl::StatusOr<Connection*> connection();
  absl::StatusOr<OutputFormat> format() const { return ParseOutputFormat(output); }
  // For commands whose result is no table: InvalidArgument for csv.
  absl::StatusOr<OutputFormat> format_without_csv() const;
  // For commands whose result has one form alone (a file, a script): InvalidArgument for all but table.
  absl::Status CheckOneForm() const;
  bool has_color() const { return use_color && !no_color; }
  // The text in a style, for Print; without colour the style is left out there.
  std::string Styled(Style style, const std::string& text) const;

  // Whether all that was printed has been written: the error of the first write that failed, else OK. After an error
  // all later output is dropped.
  absl::Status FlushOutput() const;
  // Writes a file that the user named (WriteOutputFile); "-" is `out`.
  absl::Status WriteFile(const std::string& path, std::string_view bytes) const;
  // Text for `out`, as Rendered makes it. Everything that is printed goes through the functions of this class, so that
  // no text of others reaches a terminal as it is; tests/tidy sees to it.
  void Print(std::string_view text) const;
  // A table in one of the two formats that it has.
  void PrintTable(const Table& table, OutputFormat format) const;
  // The contents of a file for `out`: as they are, unless a terminal would show them.
  void PrintFile(std::string_view contents) const;
  // A line for people; silent with --quiet.
  void Note(std::string_view text) const;
  // A paragraph for people, wrapped to the width of the terminal that `err` is. Not for commands that are copied.
  void NoteWrapped(std::string_view text) const;
  // "tunefarm: TEXT", also with --quiet: why a command has failed.
  void Complain(std::string_view text) const;
  // Asks on stderr; true for an answer that begins with y or Y. Only where both ends are a terminal: true elsewhere,
  // since scripts mean what they say.
  bool Confirm(std::string_view question) const;

 private:
  void Put(std::string_view text) const;

  std::unique_ptr<Connection> connection_;
  mutable int output_error_ = 0;  // an errno
};

}  // namespace tunefarm::cli
