#include "client/cli/session.h"

#include <unistd.h>

#include <cerrno>

#include "server/base/file.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm::cli {
namespace {

void PutText(std::string_view text, std::FILE* file) { std::fwrite(text.data(), 1, text.size(), file); }

}  // namespace

absl::StatusOr<Connection*> Session::connection() {
  if (!connection_) {
    ASSIGN_OR_RETURN(connection_, Connection::Open(connect, environment));
  }
  return connection_.get();
}

// An error of `out` is kept for FlushOutput.
void Session::Put(std::string_view text) const {
  if (output_error_ != 0) return;
  if (std::fwrite(text.data(), 1, text.size(), out) != text.size()) output_error_ = errno != 0 ? errno : EIO;
}

void Session::Print(std::string_view text) const { Put(Rendered(text, has_color())); }

void Session::PrintTable(const Table& table, OutputFormat format) const {
  Print(format == OutputFormat::kCsv ? table.ToCsv() : table.ToText(has_color(), columns));
}

void Session::PrintFile(std::string_view contents) const {
  const int fd = fileno(out);
  if (fd >= 0 && isatty(fd) == 1) return Print(contents);
  Put(contents);
}

absl::Status Session::FlushOutput() const {
  if (output_error_ == 0 && std::fflush(out) != 0) output_error_ = errno != 0 ? errno : EIO;
  return output_error_ == 0 ? absl::OkStatus() : ErrnoStatus(output_error_, "cannot write standard output");
}

absl::Status Session::WriteFile(const std::string& path, std::string_view bytes) const {
  if (path != "-") return WriteOutputFile(path, bytes);
  PrintFile(bytes);
  return FlushOutput();
}

void Session::Note(std::string_view text) const {
  if (quiet) return;
  PutText(Rendered(text, err_is_terminal && has_color()) + "\n", err);
}

void Session::NoteWrapped(std::string_view text) const {
  const std::string lines = WrapLines(text, HelpColumns(TerminalColumns(err)));
  Note(std::string_view(lines).substr(0, lines.size() - 1));
}

void Session::Complain(std::string_view text) const {
  const bool is_red = err_is_terminal && has_color();
  PutText(Rendered(tunefarm::cli::Styled(Style::kRed, "tunefarm:"), is_red) + " " + Rendered(text, false) + "\n", err);
}

absl::StatusOr<OutputFormat> Session::format_without_csv() const {
  ASSIGN_OR_RETURN(const OutputFormat chosen, format());
  if (chosen == OutputFormat::kCsv)
    return InvalidArgument("--output csv: this command has no rows; choose table or json");
  return chosen;
}

std::string Session::Styled(Style style, const std::string& text) const { return tunefarm::cli::Styled(style, text); }

absl::Status Session::CheckOneForm() const {
  ASSIGN_OR_RETURN(const OutputFormat chosen, format());
  if (chosen == OutputFormat::kTable) return absl::OkStatus();
  return InvalidArgument("--output {}: what this command prints has one form; leave --output out", output);
}

bool Session::Confirm(std::string_view question) const {
  if (!in_is_terminal || !err_is_terminal) return true;
  PutText(Rendered(question, false) + " [y/N] ", err);
  std::fflush(err);
  const int first = std::fgetc(in);
  for (int c = first; c != EOF && c != '\n'; c = std::fgetc(in)) {
  }
  return first == 'y' || first == 'Y';
}

}  // namespace tunefarm::cli
