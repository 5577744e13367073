#include "server/base/format.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace tunefarm {
namespace {

// Three significant digits of a value in [0, 1024). The bounds are where rounding would add a digit.
std::string ThreeDigits(double value) {
  if (value < 9.995) return fmt::format("{:.2f}", value);
  if (value < 99.95) return fmt::format("{:.1f}", value);
  return fmt::format("{:.0f}", value);
}

// 1 s or more.
std::string FormatSeconds(double seconds) {
  if (seconds < 59.95) return ThreeDigits(seconds) + " s";
  if (seconds < 3599.5) {
    const auto whole = std::llround(seconds);
    return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  }
  if (seconds > 1e15) return fmt::format("{:.3g} s", seconds);
  const auto minutes = std::llround(seconds / 60);
  return fmt::format("{} h {:02} min", minutes / 60, minutes % 60);
}

}  // namespace

std::string FormatDuration(double ns) {
  if (!std::isfinite(ns)) return "n/a";
  if (ns < 0) return fmt::format("-{}", FormatDuration(-ns));
  if (ns == 0) return "0 ns";
  const double rounding = 999.5;
  if (ns < rounding) {
    const bool whole = ns == std::floor(ns);
    return (whole ? fmt::format("{:.0f}", ns) : ThreeDigits(ns)) + " ns";
  }
  if (ns < rounding * 1e3) return ThreeDigits(ns / 1e3) + " µs";
  if (ns < rounding * 1e6) return ThreeDigits(ns / 1e6) + " ms";
  return FormatSeconds(ns / 1e9);
}

std::string FormatBytes(uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  size_t unit = 0;
  uint64_t step = 1;
  // 1023.5 and more would print as 1024 of the smaller unit.
  while (unit < 6 && static_cast<double>(bytes) >= 1023.5 * static_cast<double>(step)) {
    step *= 1024;
    ++unit;
  }
  if (bytes % step == 0) return fmt::format("{} {}", bytes / step, kUnits[unit]);
  return fmt::format("{} {}", ThreeDigits(static_cast<double>(bytes) / static_cast<double>(step)), kUnits[unit]);
}

std::string FormatCount(int64_t count) {
  const std::string digits = fmt::format("{}", count);
  const size_t first = count < 0 ? 1 : 0;
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > first && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string FormatCount(int64_t count, std::string_view one, std::string_view many) {
  if (count == 1) return fmt::format("1 {}", one);
  return many.empty() ? fmt::format("{} {}s", FormatCount(count), one) : fmt::format("{} {}", FormatCount(count), many);
}

namespace {

constexpr size_t kNameColumns = 28;
constexpr size_t kHelpColumnsMin = 40;

size_t CharactersOf(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

// Lines of words, of at most `width` columns each; a longer word has a line of its own.
std::vector<std::string> Wrap(std::string_view text, size_t width) {
  std::vector<std::string> lines;
  std::string line;
  size_t start = 0;
  while (start < text.size()) {
    const size_t space = std::min(text.find(' ', start), text.size());
    const std::string_view word = text.substr(start, space - start);
    if (!line.empty() && CharactersOf(line) + 1 + CharactersOf(word) > width) {
      lines.push_back(line);
      line.clear();
    }
    if (!line.empty()) line += ' ';
    line += word;
    start = space + 1;
  }
  if (!line.empty()) lines.push_back(line);
  return lines;
}

// A command line of an example: "  tunefarm tune ..." without a meaning behind it.
bool IsCommandLine(std::string_view line) {
  return line.substr(0, 10) == "  tunefarm" && line.find("  ", 2) == std::string_view::npos;
}

std::string WrapCommandLine(std::string_view line, size_t columns) {
  constexpr std::string_view kIndent = "      ";
  constexpr std::string_view kGoesOn = " \\";
  // What fits in front of the backslash, from the second line on behind the indentation.
  const std::vector<std::string> parts = Wrap(line.substr(2), columns - kIndent.size() - kGoesOn.size());
  std::string out;
  for (size_t i = 0; i < parts.size(); ++i) {
    out += i == 0 ? "  " : std::string(kIndent);
    out += parts[i];
    if (i + 1 < parts.size()) out += kGoesOn;
    out += '\n';
  }
  return out;
}

}  // namespace

size_t TerminalColumns(std::FILE* file) {
  winsize size{};
  const int fd = fileno(file);
  return fd >= 0 && isatty(fd) == 1 && ioctl(fd, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

size_t HelpColumns(size_t terminal_columns) {
  return terminal_columns == 0 ? kHelpColumns : std::clamp(terminal_columns, kHelpColumnsMin, kHelpColumns);
}

std::string HelpEntry(std::string_view name, std::string_view text, size_t columns) {
  const size_t begin = std::min(columns / 2, kNameColumns);
  std::string out = "  " + std::string(name);
  size_t column = out.size();
  for (const std::string& line : Wrap(text, columns - begin)) {
    if (column + 2 > begin) {
      out += '\n';
      column = 0;
    }
    out += std::string(begin - column, ' ') + line;
    column = begin;
  }
  return out + "\n";
}

std::string WrapLines(std::string_view text, size_t columns) {
  std::string out;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (CharactersOf(line) <= columns) {
      out += std::string(line) + "\n";
      continue;
    }
    if (IsCommandLine(line)) {
      out += WrapCommandLine(line, columns);
      continue;
    }
    const size_t first = std::min(line.find_first_not_of(' '), line.size());
    const size_t gap = line.find("  ", first);
    size_t column = gap == std::string_view::npos ? first + 2 : line.find_first_not_of(' ', gap);
    const size_t start = gap == std::string_view::npos ? first : column;
    std::string indent;
    if (column >= columns / 2) {
      out += std::string(line.substr(0, gap)) + "\n";
      column = first + 4;
      indent = std::string(column, ' ');
    } else {
      out += line.substr(0, start);
    }
    for (const std::string& part : Wrap(line.substr(start), columns - column)) {
      out += indent + part + "\n";
      indent = std::string(column, ' ');
    }
  }
  return out;
}

}  // namespace tunefarm
