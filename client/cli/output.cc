#include "client/cli/output.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/util/json_util.h>
#include <google/protobuf/util/type_resolver_util.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "server/base/check.h"
#include "server/base/status.h"

namespace tunefarm::cli {
namespace {

// Words of a cell, a line after the other, each of at most `width` columns where its words allow it.
std::vector<std::string> Folded(const std::string& cell, size_t width) {
  std::vector<std::string> lines(1);
  size_t start = 0;
  while (start < cell.size()) {
    const size_t end = std::min(cell.find(' ', start), cell.size());
    const std::string word = cell.substr(start, end - start);
    if (!lines.back().empty() && TextWidth(lines.back()) + 1 + TextWidth(word) > width) lines.emplace_back();
    if (!lines.back().empty()) lines.back() += ' ';
    lines.back() += word;
    start = end + 1;
  }
  return lines;
}

// The last column is not folded into less than this.
constexpr size_t kFoldedMin = 24;

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

std::string Styled(Style style, const std::string& text) {
  if (style == Style::kPlain || text.empty()) return text;
  return (style == Style::kBold ? "\x1b[1m" : "\x1b[31m") + text + "\x1b[0m";
}

void Table::AddRow(std::vector<std::string> cells, Style style) {
  TUNEFARM_CHECK(cells.size() == columns_.size());
  rows_.push_back(std::move(cells));
  styles_.push_back(style);
}

size_t TerminalColumns(std::FILE* file) {
  winsize size{};
  const int fd = fileno(file);
  return fd >= 0 && isatty(fd) == 1 && ioctl(fd, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

size_t TextWidth(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
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

std::string Table::ToText(bool with_styles, size_t width) const {
  std::vector<size_t> widths;
  size_t before_last = 0;
  for (size_t c = 0; c < columns_.size(); ++c) {
    size_t widest = TextWidth(columns_[c].name);
    for (const std::vector<std::string>& row : rows_) widest = std::max(widest, TextWidth(row[c]));
    widths.push_back(widest);
    if (c + 1 < columns_.size()) before_last += widest + 2;
  }
  const bool is_folded = width >= before_last + kFoldedMin && !columns_.empty() && !columns_.back().right;
  if (is_folded) widths.back() = std::min(widths.back(), width - before_last);
  std::string text;
  const auto append = [&](Style style, auto cell_of) {
    std::string line;
    for (size_t c = 0; c + 1 < columns_.size(); ++c) {
      const std::string& cell = cell_of(c);
      const std::string padding(widths[c] - TextWidth(cell), ' ');
      line += (columns_[c].right ? padding + cell : cell + padding) + "  ";
    }
    const auto put = [&](std::string whole) {
      whole.erase(whole.find_last_not_of(' ') + 1);
      text += Styled(with_styles ? style : Style::kPlain, whole) + "\n";
    };
    if (columns_.empty()) return put(line);
    const std::string& last = cell_of(columns_.size() - 1);
    if (!is_folded) {
      const std::string padding(columns_.back().right ? widths.back() - TextWidth(last) : 0, ' ');
      return put(line + padding + last);
    }
    for (const std::string& part : Folded(last, widths.back())) {
      put(line + part);
      line.assign(before_last, ' ');
    }
  };
  append(Style::kPlain, [&](size_t c) -> const std::string& { return columns_[c].name; });
  for (size_t r = 0; r < rows_.size(); ++r) {
    append(styles_[r], [&](size_t c) -> const std::string& { return rows_[r][c]; });
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

namespace {

std::string JsonText(const google::protobuf::Message& message, bool is_indented) {
  // By way of a deterministic serialization, which sorts maps: the same message is the same text, always.
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    TUNEFARM_CHECK(message.SerializeToCodedStream(&coded));
  }
  const std::string prefix = "type.googleapis.com";
  const std::unique_ptr<google::protobuf::util::TypeResolver> resolver(
      google::protobuf::util::NewTypeResolverForDescriptorPool(prefix, message.GetDescriptor()->file()->pool()));
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = is_indented;
  options.preserve_proto_field_names = true;
  std::string text;
  const auto status = google::protobuf::util::BinaryToJsonString(
      resolver.get(), prefix + "/" + message.GetDescriptor()->full_name(), bytes, &text, options);
  TUNEFARM_CHECK(status.ok());
  return text;
}

}  // namespace

std::string ToJson(const google::protobuf::Message& message) { return JsonText(message, true); }

std::string ToJsonLine(const google::protobuf::Message& message) { return JsonText(message, false) + "\n"; }

}  // namespace tunefarm::cli
