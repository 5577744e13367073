// What goes to stdout: tables for people, JSON and CSV for programs.
#pragma once

#include <google/protobuf/message.h>

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace tunefarm::cli {

enum class OutputFormat { kTable, kJson, kCsv };
absl::StatusOr<OutputFormat> ParseOutputFormat(std::string_view text);

// Few, and never the only carrier of a meaning.
enum class Style { kPlain, kBold, kRed };
// The text between terminal control codes; kPlain and empty texts stay as they are.
std::string Styled(Style style, const std::string& text);

// How many columns a terminal shows; 0 for what is none.
size_t TerminalColumns(std::FILE* file);
// In code points, which is what a terminal shows for the texts we print.
size_t TextWidth(std::string_view text);
// At most `columns` of it, which ends in "…" where something is cut off; 0: all.
std::string CutTo(size_t columns, const std::string& text);

// Rows of cells with a header. Numbers stand right, text left.
class Table {
 public:
  struct Column {
    std::string name;
    bool right = false;
  };
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // One cell per column. The style is that of the whole line and only of ToText.
  void AddRow(std::vector<std::string> cells, Style style = Style::kPlain);
  size_t rows() const { return rows_.size(); }

  // Columns padded to their widest cell (by code points), two spaces between, no trailing space.
  // Where a line would be longer than `width` and its last column is text, that text goes on below itself (0: never).
  std::string ToText(bool with_styles = false, size_t width = 0) const;
  // RFC 4180, with a header line.
  std::string ToCsv() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
  std::vector<Style> styles_;  // one per row
};

// Canonical proto JSON, indented, maps sorted by key, fields with default values left out, with a newline at the end.
std::string ToJson(const google::protobuf::Message& message);
// The same in one line, for streams.
std::string ToJsonLine(const google::protobuf::Message& message);

}  // namespace tunefarm::cli
