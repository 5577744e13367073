// What goes to stdout: tables for people, JSON and CSV for programs.
#pragma once

#include <google/protobuf/message.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace tunefarm::cli {

enum class OutputFormat { kTable, kJson, kCsv };
absl::StatusOr<OutputFormat> ParseOutputFormat(std::string_view text);

// What others wrote (the daemon, other principals, compilers, files), for one line of a terminal: control characters,
// marks that change the direction of text and bytes that are no UTF-8 become \n, \t or \xNN.
std::string Visible(std::string_view text);

// Few, and never the only carrier of a meaning.
enum class Style { kPlain, kBold, kRed, kGreen, kYellow };
// The text, made visible, between marks that Rendered replaces; kPlain and empty texts have none. The marks are no
// UTF-8, which no text of the daemon's can hold.
std::string Styled(Style style, const std::string& text);
// What a terminal gets: the marks of Styled as control codes, or left out where no styles are wanted; everything else
// as Visible makes it, but line feeds and tabs stay. All output goes through it, in Session.
std::string Rendered(std::string_view text, bool with_styles);

// In code points, which is what a terminal shows for the texts we print; marks of Styled take no room.
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

  // One cell per column. The style is that of the whole line and only of ToText, which makes the cells visible.
  void AddRow(std::vector<std::string> cells, Style style = Style::kPlain);
  size_t rows() const { return rows_.size(); }

  // For Rendered. Columns padded to their widest cell (by code points), two spaces between, no trailing space. Where a
  // line would be longer than `width` (0: no limit), the widest texts are wrapped within their columns, of at least 8.
  // A table that is still too wide is printed as a paragraph for each row, with a line for each cell that is not empty.
  std::string ToText(bool with_styles = false, size_t width = 0) const;
  // RFC 4180, with a header line.
  std::string ToCsv() const;

 private:
  // The widths of the columns; empty if the table cannot be that narrow.
  std::vector<size_t> Widths(const std::vector<std::vector<std::string>>& rows, size_t width) const;
  std::string RecordsText(const std::vector<std::vector<std::string>>& rows, bool with_styles, size_t width) const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
  std::vector<Style> styles_;  // one per row
};

// JSON of a message, with a line feed at the end: fields by their name in the proto, zeros and empty lists too;
// messages that are not set are left out. 64-bit integers are numbers, enums their names, bytes base64, maps sorted by
// key. A v1.Value is its number, text or truth value, and a v1.Config the object of its values. Numbers that JSON does
// not know (NaN, infinities) are null.
std::string ToJson(const google::protobuf::Message& message);
// The same in one line, for streams and long lists.
std::string ToJsonLine(const google::protobuf::Message& message);
// A string of JSON, with its quotes. What Visible escapes is escaped as JSON does it.
std::string JsonString(std::string_view text);
// An object of fields, and a list, of what is JSON already; laid out as ToJson does it, with a line feed at the end.
using JsonFields = std::vector<std::pair<std::string, std::string>>;
std::string JsonObject(const JsonFields& fields);
std::string JsonList(const std::vector<std::string>& items);
// An object as ToJson writes it, with more fields at its end.
std::string WithFields(std::string_view object, const JsonFields& fields);

}  // namespace tunefarm::cli
