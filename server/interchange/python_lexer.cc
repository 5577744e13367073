// Text to tokens.
#include <fmt/core.h>

#include <charconv>
#include <cmath>
#include <utility>

#include "server/base/status_macros.h"
#include "server/interchange/python_token.h"

namespace tunefarm::interchange {
namespace {

bool IsNameStart(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsNamePart(char c) { return IsNameStart(c) || IsDigit(c); }

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  absl::StatusOr<std::vector<PythonToken>> Run() {
    std::vector<PythonToken> tokens;
    while (true) {
      while (at_ < text_.size() &&
             (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r'))
        ++at_;
      PythonToken token;
      token.column = static_cast<int>(at_) + 1;
      if (at_ == text_.size()) {
        tokens.push_back(std::move(token));
        return tokens;
      }
      if (static_cast<int>(tokens.size()) >= kPythonTokensMax) return PythonError(token.column, "the text is too long");
      const char c = text_[at_];
      if (IsNameStart(c)) {
        token.kind = PythonToken::Kind::kName;
        while (at_ < text_.size() && IsNamePart(text_[at_])) token.text += text_[at_++];
      } else if (IsDigit(c) || (c == '.' && at_ + 1 < text_.size() && IsDigit(text_[at_ + 1]))) {
        token.kind = PythonToken::Kind::kNumber;
        ASSIGN_OR_RETURN(token.number, Number(token.column));
      } else if (c == '\'' || c == '"') {
        token.kind = PythonToken::Kind::kString;
        ASSIGN_OR_RETURN(token.text, String(token.column));
      } else {
        token.kind = PythonToken::Kind::kOperator;
        ASSIGN_OR_RETURN(token.text, Operator(token.column));
      }
      tokens.push_back(std::move(token));
    }
  }

 private:
  absl::StatusOr<std::string> Operator(int column) {
    static constexpr std::string_view kOperators[] = {"**", "//", "<<", ">>", "<=", ">=", "==", "!=", "+",
                                                      "-",  "*",  "/",  "%",  "<",  ">",  "(",  ")",  "[",
                                                      "]",  ",",  ".",  ":",  "&",  "|",  "^",  "~"};
    for (const std::string_view op : kOperators) {
      if (text_.substr(at_, op.size()) != op) continue;
      at_ += op.size();
      return std::string(op);
    }
    const unsigned char c = static_cast<unsigned char>(text_[at_]);
    return PythonError(column, c >= 0x20 && c < 0x7f ? fmt::format("'{}' is not expected here", text_[at_])
                                                     : fmt::format("byte 0x{:02x} is not expected here", c));
  }

  absl::StatusOr<std::string> String(int column) {
    const char quote = text_[at_++];
    std::string value;
    while (at_ < text_.size() && text_[at_] != quote) {
      char c = text_[at_++];
      if (c == '\n') break;
      if (c == '\\') {
        if (at_ == text_.size()) break;
        c = text_[at_++];
        if (c == 'n') {
          c = '\n';
        } else if (c == 't') {
          c = '\t';
        } else if (c != '\\' && c != '\'' && c != '"') {
          return PythonError(static_cast<int>(at_) - 1, "of the escapes only \\\\, \\', \\\", \\n and \\t are read");
        }
      }
      value += c;
      if (value.size() > kPythonStringMax)
        return PythonError(column, fmt::format("the string has more than {} bytes", kPythonStringMax));
    }
    if (at_ >= text_.size() || text_[at_] != quote) return PythonError(column, "the string has no end");
    ++at_;
    return value;
  }

  absl::StatusOr<PythonValue> Number(int column) {
    std::string digits;
    int base = 10;
    if (text_[at_] == '0' && at_ + 1 < text_.size()) {
      const char mark = text_[at_ + 1];
      base = mark == 'x' || mark == 'X' ? 16 : mark == 'o' || mark == 'O' ? 8 : mark == 'b' || mark == 'B' ? 2 : 10;
      if (base != 10) at_ += 2;
    }
    bool is_float = false;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '_') {
        ++at_;
        continue;
      }
      const bool is_sign =
          base == 10 && (c == '+' || c == '-') && !digits.empty() && (digits.back() == 'e' || digits.back() == 'E');
      if (!IsNamePart(c) && c != '.' && !is_sign) break;
      is_float = is_float || (base == 10 && (c == '.' || c == 'e' || c == 'E'));
      digits += c;
      ++at_;
    }
    const char* const end = digits.data() + digits.size();
    if (is_float) {
      double value = 0;
      const auto [stop, error] = std::from_chars(digits.data(), end, value);
      if (error == std::errc() && stop == end && std::isfinite(value)) return PythonValue(value);
    } else {
      int64_t value = 0;
      const auto [stop, error] = std::from_chars(digits.data(), end, value, base);
      if (error == std::errc() && stop == end) return PythonValue(value);
      if (error == std::errc::result_out_of_range) return PythonError(column, "the number does not fit in 64 bits");
    }
    return PythonError(column, fmt::format("'{}' is not a number", digits.substr(0, 40)));
  }

  const std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

absl::StatusOr<std::vector<PythonToken>> PythonTokens(std::string_view text) { return Lexer(text).Run(); }

}  // namespace tunefarm::interchange
