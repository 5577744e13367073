#include "client/cli/session.h"

#include <cerrno>

#include "server/base/file.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm::cli {

absl::StatusOr<Connection*> Session::connection() {
  if (!connection_) {
    ASSIGN_OR_RETURN(connection_, Connection::Open(connect, environment));
  }
  return connection_.get();
}

void Session::Print(std::string_view text) const {
  if (output_error_ != 0) return;
  if (std::fwrite(text.data(), 1, text.size(), out) != text.size()) output_error_ = errno != 0 ? errno : EIO;
}

absl::Status Session::FlushOutput() const {
  if (output_error_ == 0 && std::fflush(out) != 0) output_error_ = errno != 0 ? errno : EIO;
  return output_error_ == 0 ? absl::OkStatus() : ErrnoStatus(output_error_, "cannot write standard output");
}

absl::Status Session::WriteFile(const std::string& path, std::string_view bytes) const {
  if (path != "-") return WriteOutputFile(path, bytes);
  Print(bytes);
  return FlushOutput();
}

void Session::Note(std::string_view text) const {
  if (quiet) return;
  std::fwrite(text.data(), 1, text.size(), err);
  std::fputc('\n', err);
}

absl::StatusOr<OutputFormat> Session::format_without_csv() const {
  ASSIGN_OR_RETURN(const OutputFormat chosen, format());
  if (chosen == OutputFormat::kCsv)
    return InvalidArgument("--output csv: this command has no rows; choose table or json");
  return chosen;
}

std::string Session::Styled(Style style, const std::string& text) const {
  return tunefarm::cli::Styled(has_color() ? style : Style::kPlain, text);
}

bool Session::Confirm(std::string_view question) const {
  if (!in_is_terminal || !err_is_terminal) return true;
  std::fprintf(err, "%s [y/N] ", std::string(question).c_str());
  std::fflush(err);
  const int first = std::fgetc(in);
  for (int c = first; c != EOF && c != '\n'; c = std::fgetc(in)) {
  }
  return first == 'y' || first == 'Y';
}

}  // namespace tunefarm::cli
