#include "server/definition/text_scanner.h"

#include <algorithm>
#include <cctype>

namespace tunefarm::definition {
namespace {
namespace chars {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsNameByte(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

}  // namespace chars
}  // namespace

bool TextScanner::Skip(char c) {
  if (AtEnd() || text_[at_] != c) return false;
  ++at_;
  return true;
}

void TextScanner::SkipSpace() {
  while (at_ < text_.size()) {
    if (text_[at_] == '#') {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else if (std::isspace(static_cast<unsigned char>(text_[at_])) != 0) {
      ++at_;
    } else {
      return;
    }
  }
}

void TextScanner::SkipSeparator() {
  const size_t begin = at_;
  SkipSpace();
  if (!Skip(',') && !Skip(';')) at_ = begin;
}

bool TextScanner::SkipValue() {
  if (Peek() != '{' && Peek() != '<' && Peek() != '[') return ReadToken().has_value();
  int depth = 0;
  do {
    const char c = Peek();
    if (AtEnd()) return false;
    if (IsQuote(c)) {
      if (!ReadQuoted()) return false;
    } else if (c == '#') {
      SkipSpace();
    } else {
      depth += c == '{' || c == '<' || c == '[' ? 1 : c == '}' || c == '>' || c == ']' ? -1 : 0;
      ++at_;
    }
  } while (depth > 0);
  return true;
}

std::optional<std::string> TextScanner::ReadName() {
  const size_t begin = at_;
  while (chars::IsNameByte(Peek())) ++at_;
  if (at_ == begin || chars::IsDigit(text_[begin])) return std::nullopt;
  return std::string(text_.substr(begin, at_ - begin));
}

bool TextScanner::ReadQuoted() {
  const char quote = text_[at_++];
  while (at_ < text_.size() && text_[at_] != quote && text_[at_] != '\n') {
    at_ += text_[at_] == '\\' ? 2 : 1;
  }
  at_ = std::min(at_, text_.size());
  return Skip(quote);
}

std::optional<TextToken> TextScanner::ReadToken() {
  TextToken token{at_, at_, TextToken::Kind::kString};
  if (IsQuote(Peek())) {
    while (IsQuote(Peek())) {
      if (!ReadQuoted()) return std::nullopt;
      token.end = at_;
      SkipSpace();
    }
    at_ = token.end;
    return token;
  }
  if (Skip('-')) SkipSpace();
  const size_t begin = at_;
  const bool is_number = chars::IsDigit(Peek()) || Peek() == '.';
  const bool is_hex = text_.substr(at_, 2) == "0x" || text_.substr(at_, 2) == "0X";
  bool is_float = false;
  for (; at_ < text_.size(); ++at_) {
    const char c = text_[at_];
    const bool after_exponent = at_ > begin && (text_[at_ - 1] == 'e' || text_[at_ - 1] == 'E');
    const bool is_sign = is_number && !is_hex && after_exponent && (c == '+' || c == '-');
    if (!chars::IsNameByte(c) && !is_sign && !(is_number && c == '.')) break;
    is_float = is_float || (is_number && !is_hex && std::string_view(".eEfF").find(c) != std::string_view::npos);
  }
  if (at_ == begin) return std::nullopt;
  token.end = at_;
  const std::string_view word = text_.substr(begin, at_ - begin);
  std::string lower;
  for (const char c : word) lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (is_number) {
    token.kind = is_float ? TextToken::Kind::kFloat : TextToken::Kind::kInt;
  } else if (lower == "inf" || lower == "infinity" || lower == "nan") {
    token.kind = TextToken::Kind::kFloat;
  } else if (word == "true" || word == "false" || word == "True" || word == "False") {
    token.kind = TextToken::Kind::kBool;
  } else {
    token.kind = TextToken::Kind::kWord;
  }
  return token;
}

std::optional<TextToken> TextScanner::PeekToken() {
  const size_t begin = at_;
  const std::optional<TextToken> token = ReadToken();
  at_ = begin;
  return token;
}

}  // namespace tunefarm::definition
