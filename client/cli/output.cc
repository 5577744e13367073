#include "client/cli/output.h"

#include <algorithm>
#include <iterator>

#include "server/base/check.h"
#include "server/base/log_escape.h"
#include "server/base/status.h"

namespace tunefarm::cli {
namespace {

// The first `count` characters of a text.
std::string_view Characters(std::string_view text, size_t count) {
  size_t taken = 0;
  size_t at = 0;
  while (at < text.size() && ((text[at] & 0xC0) == 0x80 || taken++ < count)) ++at;
  return text.substr(0, at);
}

// Words of a cell, a line after the other, each of at most `width` columns; a word that is longer is broken.
std::vector<std::string> Folded(std::string_view cell, size_t width) {
  std::vector<std::string> lines(1);
  if (TextWidth(cell) <= width) {
    lines[0] = cell;
    return lines;
  }
  while (!cell.empty()) {
    std::string_view word = cell.substr(0, cell.find(' '));
    cell.remove_prefix(std::min(cell.size(), word.size() + 1));
    if (!lines.back().empty() && TextWidth(lines.back()) + 1 + TextWidth(word) > width) lines.emplace_back();
    if (!lines.back().empty()) lines.back() += ' ';
    while (TextWidth(word) > width) {
      const std::string_view part = Characters(word, width);
      lines.back() += part;
      lines.emplace_back();
      word.remove_prefix(part.size());
    }
    lines.back() += word;
  }
  return lines;
}

// A mark of Styled is this byte, which UTF-8 never has, and a letter.
constexpr char kMarkByte = '\xff';
constexpr char kEndLetter = '0';
struct Mark {
  Style style;
  char letter;
  std::string_view code;
};
constexpr Mark kMarks[] = {{Style::kPlain, kEndLetter, "\x1b[0m"},
                           {Style::kBold, 'B', "\x1b[1m"},
                           {Style::kRed, 'R', "\x1b[31m"},
                           {Style::kGreen, 'G', "\x1b[32m"},
                           {Style::kYellow, 'Y', "\x1b[33m"}};

// The control code of a mark's letter; empty for no mark.
std::string_view CodeOf(char letter) {
  for (const Mark& mark : kMarks) {
    if (mark.letter == letter) return mark.code;
  }
  return {};
}

// Text is not folded into less than the first of these or, where that is not enough for the line, the second.
constexpr size_t kFoldedMin[] = {12, 8};

size_t WidestCell(const std::vector<std::vector<std::string>>& rows, size_t column) {
  size_t widest = 0;
  for (const std::vector<std::string>& row : rows) widest = std::max(widest, TextWidth(row[column]));
  return widest;
}

size_t LongestWord(std::string_view text) {
  size_t longest = 0;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    longest = std::max(longest, TextWidth(word));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
  }
  return longest;
}

void AppendCsv(std::string_view cell, std::string* out) {
  if (cell.find_first_of(",\"\r\n") == std::string_view::npos) {
    *out += cell;
    return;
  }
  *out += '"';
  for (const char c : cell) {
    if (c == '"') *out += '"';
    *out += c;
  }
  *out += '"';
}

}  // namespace

absl::StatusOr<OutputFormat> ParseOutputFormat(std::string_view text) {
  if (text == "table") return OutputFormat::kTable;
  if (text == "json") return OutputFormat::kJson;
  if (text == "csv") return OutputFormat::kCsv;
  return InvalidArgument("--output {} is unknown; choose table, json or csv", text);
}

std::string Visible(std::string_view text) { return internal::EscapeForText(text); }

std::string Styled(Style style, const std::string& text) {
  const std::string visible = internal::EscapeLinesForText(text);
  if (style == Style::kPlain || text.empty()) return visible;
  const auto mark = std::find_if(std::begin(kMarks), std::end(kMarks), [&](const Mark& m) { return m.style == style; });
  return std::string{kMarkByte, mark->letter} + visible + std::string{kMarkByte, kEndLetter};
}

std::string Rendered(std::string_view text, bool with_styles) {
  std::string out;
  while (!text.empty()) {
    const size_t at = std::min(text.find(kMarkByte), text.size());
    out += internal::EscapeLinesForText(text.substr(0, at));
    text.remove_prefix(at);
    if (text.empty()) break;
    const std::string_view code = text.size() > 1 ? CodeOf(text[1]) : std::string_view();
    if (code.empty()) {
      out += internal::EscapeLinesForText(text.substr(0, 1));
      text.remove_prefix(1);
      continue;
    }
    if (with_styles) out += code;
    text.remove_prefix(2);
  }
  return out;
}

void Table::AddRow(std::vector<std::string> cells, Style style) {
  TUNEFARM_CHECK(cells.size() == columns_.size());
  rows_.push_back(std::move(cells));
  styles_.push_back(style);
}

size_t TextWidth(std::string_view text) {
  const auto characters = std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
  return static_cast<size_t>(characters - 2 * std::count(text.begin(), text.end(), kMarkByte));
}

std::string CutTo(size_t columns, const std::string& text) {
  if (columns == 0 || TextWidth(text) <= columns) return text;
  std::string cut;
  size_t taken = 0;
  for (const char c : text) {
    if ((c & 0xC0) != 0x80 && ++taken == columns) break;
    cut += c;
  }
  return cut + "…";
}

std::vector<size_t> Table::Widths(const std::vector<std::vector<std::string>>& rows, size_t width) const {
  std::vector<size_t> widths;
  size_t total = 0;
  for (size_t c = 0; c < columns_.size(); ++c) {
    const size_t widest = std::max(TextWidth(columns_[c].name), WidestCell(rows, c));
    widths.push_back(widest);
    total += widest + (c > 0 ? 2 : 0);
  }
  // The widest text gives way first, in the end headers of numbers too.
  for (const size_t folded_min : kFoldedMin) {
    while (width > 0 && total > width) {
      size_t widest = columns_.size();
      for (size_t c = 0; c < columns_.size(); ++c) {
        const bool is_number = columns_[c].right;
        if (is_number && folded_min == kFoldedMin[0]) continue;
        const size_t least = is_number ? std::max(WidestCell(rows, c), LongestWord(columns_[c].name))
                                       : std::max(folded_min, TextWidth(columns_[c].name));
        if (widths[c] <= least) continue;
        if (widest == columns_.size() || widths[c] >= widths[widest]) widest = c;
      }
      if (widest == columns_.size()) break;
      --widths[widest];
      --total;
    }
  }
  if (width > 0 && total > width) return {};
  return widths;
}

std::string Table::ToText(bool with_styles, size_t width) const {
  std::vector<std::vector<std::string>> visible = rows_;
  for (std::vector<std::string>& row : visible) {
    for (std::string& cell : row) cell = Visible(cell);
  }
  const std::vector<size_t> widths = Widths(visible, width);
  if (widths.empty()) return RecordsText(visible, with_styles, width);
  std::string text;
  const auto append = [&](Style style, auto cell_of) {
    std::vector<std::vector<std::string>> cells;
    size_t height = 1;
    for (size_t c = 0; c < columns_.size(); ++c) {
      cells.push_back(Folded(cell_of(c), widths[c]));
      height = std::max(height, cells.back().size());
    }
    for (size_t i = 0; i < height; ++i) {
      std::string line;
      for (size_t c = 0; c < columns_.size(); ++c) {
        const std::string part = i < cells[c].size() ? cells[c][i] : "";
        const std::string padding(widths[c] - std::min(widths[c], TextWidth(part)), ' ');
        line += (c > 0 ? "  " : "") + (columns_[c].right ? padding + part : part + padding);
      }
      line.erase(line.find_last_not_of(' ') + 1);
      text += Styled(with_styles ? style : Style::kPlain, line) + "\n";
    }
  };
  append(Style::kPlain, [&](size_t c) -> const std::string& { return columns_[c].name; });
  for (size_t r = 0; r < visible.size(); ++r) {
    append(styles_[r], [&](size_t c) -> const std::string& { return visible[r][c]; });
  }
  return text;
}

std::string Table::RecordsText(const std::vector<std::vector<std::string>>& rows, bool with_styles,
                               size_t width) const {
  size_t names = 0;
  for (const Column& column : columns_) names = std::max(names, TextWidth(column.name));
  const size_t texts = std::max(kFoldedMin[1], width - std::min(width, names + 2));
  std::string text;
  for (size_t r = 0; r < rows.size(); ++r) {
    if (r > 0) text += '\n';
    for (size_t c = 0; c < columns_.size(); ++c) {
      if (rows[r][c].empty()) continue;
      std::string head = columns_[c].name + std::string(names - TextWidth(columns_[c].name) + 2, ' ');
      for (const std::string& part : Folded(rows[r][c], texts)) {
        text += Styled(with_styles ? styles_[r] : Style::kPlain, head + part) + "\n";
        head = std::string(names + 2, ' ');
      }
    }
  }
  return text;
}

std::string Table::ToCsv() const {
  std::string text;
  for (size_t c = 0; c < columns_.size(); ++c) {
    if (c > 0) text += ',';
    AppendCsv(columns_[c].name, &text);
  }
  text += "\n";
  for (const std::vector<std::string>& row : rows_) {
    for (size_t c = 0; c < row.size(); ++c) {
      if (c > 0) text += ',';
      AppendCsv(row[c], &text);
    }
    text += "\n";
  }
  return text;
}

}  // namespace tunefarm::cli
