#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/expression/expression_internal.h"

namespace tunefarm::expression {
namespace {

constexpr std::array<std::string_view, 12> kKeywords = {"and",  "or",    "not",  "in",     "if",  "else",
                                                        "True", "False", "None", "lambda", "for", "is"};

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsNameStart(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool IsNamePart(char c) { return IsNameStart(c) || IsDigit(c); }

int DigitValue(char c) {
  if (IsDigit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return 99;
}

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  absl::StatusOr<std::vector<Token>> Run() {
    std::vector<Token> tokens;
    while (true) {
      while (position_ < text_.size() && IsSpace(text_[position_])) ++position_;
      Token token;
      token.column = Column();
      if (position_ == text_.size()) {
        tokens.push_back(std::move(token));
        return tokens;
      }
      RETURN_IF_ERROR(Next(&token));
      tokens.push_back(std::move(token));
    }
  }

 private:
  static bool IsSpace(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
  int Column() const { return static_cast<int>(position_) + 1; }
  char Peek(size_t ahead = 0) const { return position_ + ahead < text_.size() ? text_[position_ + ahead] : '\0'; }

  absl::Status Next(Token* token) {
    const char c = Peek();
    if (IsNameStart(c)) return ReadName(token);
    if (IsDigit(c) || (c == '.' && IsDigit(Peek(1)))) return ReadNumber(token);
    if (c == '\'' || c == '"') return ReadString(token);
    return ReadSymbol(token);
  }

  absl::Status ReadName(Token* token) {
    const size_t start = position_;
    while (true) {
      while (IsNamePart(Peek())) ++position_;
      if (Peek() != '.' || !IsNameStart(Peek(1))) break;
      ++position_;
    }
    token->text = std::string(text_.substr(start, position_ - start));
    if (Peek() == '\'' || Peek() == '"') {
      return ErrorAt(text_, token->column,
                     fmt::format("string prefix '{}' is not supported; write a plain string", token->text));
    }
    if (Peek() == '.') return ErrorAt(text_, Column(), "a name must follow '.'");
    token->kind = IsKeyword(token->text) ? TokenKind::kKeyword : TokenKind::kName;
    if (token->text == "None" || token->text == "lambda" || token->text == "is") {
      return ErrorAt(text_, token->column, fmt::format("'{}' is not part of the expression language", token->text));
    }
    return absl::OkStatus();
  }

  // Digits of `base` with single underscores between them. Returns false on a misplaced underscore or no digit at all.
  bool ReadDigits(int base, std::string* digits) {
    bool last_was_digit = false;
    while (true) {
      if (DigitValue(Peek()) < base) {
        *digits += Peek();
        last_was_digit = true;
      } else if (Peek() == '_' && last_was_digit && DigitValue(Peek(1)) < base) {
        last_was_digit = false;
      } else {
        return last_was_digit;
      }
      ++position_;
    }
  }

  absl::Status ReadNumber(Token* token) {
    const char second = static_cast<char>(Peek(1) | 0x20);
    if (Peek() == '0' && (second == 'x' || second == 'o' || second == 'b')) {
      position_ += 2;
      return ReadInt(token, second == 'x' ? 16 : (second == 'o' ? 8 : 2));
    }
    const size_t start = position_;
    std::string digits;
    bool is_float = false;
    if (IsDigit(Peek()) && !ReadDigits(10, &digits)) return BadNumber(token);
    if (Peek() == '.') {
      is_float = true;
      digits += '.';
      ++position_;
      if (IsDigit(Peek()) && !ReadDigits(10, &digits)) return BadNumber(token);
    }
    if (Peek() == 'e' || Peek() == 'E') {
      is_float = true;
      digits += 'e';
      ++position_;
      // from_chars takes a minus but no plus in an exponent.
      if (Peek() == '-') digits += '-';
      if (Peek() == '+' || Peek() == '-') ++position_;
      if (!ReadDigits(10, &digits)) return BadNumber(token);
    }
    if (IsNamePart(Peek()) || (is_float && Peek() == '.')) return BadNumber(token);
    if (is_float) return FinishFloat(token, digits);
    if (digits.size() > 1 && digits[0] == '0' && digits.find_first_not_of('0') != std::string::npos) {
      return ErrorAt(text_, token->column, "an int must not start with 0 (write 0o for octal)");
    }
    position_ = start;
    return ReadInt(token, 10);
  }

  absl::Status FinishFloat(Token* token, const std::string& digits) {
    token->kind = TokenKind::kFloat;
    const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), token->float_value);
    if (error == std::errc::result_out_of_range) {
      // Python rounds such literals to 0.0 or inf; neither is what a kernel's author meant.
      return ErrorAt(text_, token->column, "float literal is out of the range of a double");
    }
    if (error != std::errc() || stop != digits.data() + digits.size()) return BadNumber(token);
    return absl::OkStatus();
  }

  absl::Status ReadInt(Token* token, int base) {
    std::string digits;
    if (Peek() == '_') ++position_;  // 0x_ff
    if (!ReadDigits(base, &digits) || IsNamePart(Peek())) return BadNumber(token);
    uint64_t magnitude = 0;
    constexpr uint64_t kMinMagnitude = uint64_t{1} << 63;
    for (const char c : digits) {
      if (__builtin_mul_overflow(magnitude, static_cast<uint64_t>(base), &magnitude) ||
          __builtin_add_overflow(magnitude, static_cast<uint64_t>(DigitValue(c)), &magnitude) ||
          magnitude > kMinMagnitude) {
        return ErrorAt(text_, token->column, "int literal does not fit in 64 bits");
      }
    }
    token->kind = magnitude == kMinMagnitude ? TokenKind::kIntMinMagnitude : TokenKind::kInt;
    token->int_value = static_cast<int64_t>(magnitude);
    return absl::OkStatus();
  }

  absl::Status BadNumber(const Token* token) { return ErrorAt(text_, token->column, "malformed number"); }

  absl::Status ReadString(Token* token) {
    token->kind = TokenKind::kString;
    const char quote = Peek();
    ++position_;
    while (true) {
      if (position_ == text_.size() || Peek() == '\n') {
        return ErrorAt(text_, token->column, fmt::format("string is not closed; it lacks a {}", quote));
      }
      const char c = text_[position_++];
      if (c == quote) return absl::OkStatus();
      if (c != '\\') {
        token->text += c;
        continue;
      }
      const char escaped = Peek();
      if (escaped == '\\' || escaped == '\'' || escaped == '"') {
        token->text += escaped;
      } else if (escaped == 'n') {
        token->text += '\n';
      } else if (escaped == 't') {
        token->text += '\t';
      } else {
        return ErrorAt(text_, Column() - 1, "unknown escape in a string; known are \\\\ \\' \\\" \\n and \\t");
      }
      ++position_;
    }
  }

  absl::Status ReadSymbol(Token* token) {
    struct Foreign {
      std::string_view text;
      std::string_view advice;
    };
    static constexpr Foreign kForeign[] = {
        {"&&", "write 'and'"},
        {"||", "write 'or'"},
        {"?", "write 'a if c else b'"},
        {":", "slices, dicts and ':=' are not supported"},
    };
    static constexpr std::string_view kSymbols[] = {"**", "//", "<<", ">>", "<=", ">=", "==", "!=", "<", ">", "+", "-",
                                                    "*",  "/",  "%",  "&",  "|",  "^",  "~",  "(",  ")", "[", "]", ","};
    const std::string_view rest = text_.substr(position_);
    for (const Foreign& foreign : kForeign) {
      if (rest.substr(0, foreign.text.size()) != foreign.text) continue;
      return ErrorAt(text_, token->column, fmt::format("unexpected '{}': {}", foreign.text, foreign.advice));
    }
    for (const std::string_view symbol : kSymbols) {
      if (rest.substr(0, symbol.size()) != symbol) continue;
      token->kind = TokenKind::kSymbol;
      token->text = std::string(symbol);
      position_ += symbol.size();
      return absl::OkStatus();
    }
    const unsigned char c = static_cast<unsigned char>(Peek());
    if (c == '!') return ErrorAt(text_, token->column, "unexpected '!': write 'not'");
    if (c == '=') return ErrorAt(text_, token->column, "unexpected '=': write '==' to compare");
    if (c < 0x20 || c >= 0x7f) return ErrorAt(text_, token->column, fmt::format("unexpected byte 0x{:02x}", c));
    return ErrorAt(text_, token->column, fmt::format("unexpected '{}'", static_cast<char>(c)));
  }

  const std::string_view text_;
  size_t position_ = 0;
};

}  // namespace

bool IsKeyword(std::string_view word) { return std::find(kKeywords.begin(), kKeywords.end(), word) != kKeywords.end(); }

absl::Status ErrorAt(std::string_view text, int column, std::string_view message) {
  // A long text is shown around the column.
  constexpr size_t kBefore = 60;
  constexpr size_t kShown = 110;
  size_t begin = static_cast<size_t>(column - 1) > kBefore ? static_cast<size_t>(column - 1) - kBefore : 0;
  if (text.size() <= kShown) begin = 0;
  const auto is_continuation = [](char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; };
  while (begin > 0 && is_continuation(text[begin])) --begin;
  size_t end = std::min(text.size(), begin + kShown);
  while (end < text.size() && is_continuation(text[end])) ++end;
  std::string shown(text.substr(begin, end - begin));
  size_t caret = 0;
  for (size_t i = 0; i < shown.size(); ++i) {
    if (i + begin < static_cast<size_t>(column - 1) && !is_continuation(shown[i])) ++caret;
    if (static_cast<unsigned char>(shown[i]) < 0x20 || shown[i] == 0x7f) shown[i] = ' ';
  }
  if (begin > 0) {
    shown = "..." + shown;
    caret += 3;
  }
  if (end < text.size()) shown += "...";
  return InvalidArgument("expression error at column {}: {}\n  {}\n  {}^", column, message, shown,
                         std::string(caret, ' '));
}

absl::StatusOr<std::vector<Token>> Tokenize(std::string_view text) {
  if (text.size() > kExpressionTextMax) {
    return ErrorAt(text, kExpressionTextMax + 1,
                   fmt::format("the expression has {} bytes; at most {} are allowed", text.size(), kExpressionTextMax));
  }
  return Lexer(text).Run();
}

}  // namespace tunefarm::expression

namespace tunefarm {

bool IsValidName(std::string_view name) {
  if (name.empty() || name.size() > 128) return false;
  bool at_start = true;
  size_t part_begin = 0;
  for (size_t i = 0; i <= name.size(); ++i) {
    if (i == name.size() || name[i] == '.') {
      const std::string_view part = name.substr(part_begin, i - part_begin);
      if (part.empty()) return false;
      part_begin = i + 1;
      at_start = true;
      continue;
    }
    if (at_start ? !expression::IsNameStart(name[i]) : !expression::IsNamePart(name[i])) return false;
    at_start = false;
  }
  const expression::FunctionSpec* const function = expression::FindFunction(name);
  return !expression::IsKeyword(name) && (function == nullptr || function->is_name_too);
}

}  // namespace tunefarm
