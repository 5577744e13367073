#include "client/cli/sketch/triton_signature.h"

#include <algorithm>
#include <cctype>
#include <initializer_list>
#include <map>
#include <set>

#include "absl/strings/ascii.h"

namespace tunefarm::cli {
namespace {

constexpr size_t kTritonFunctionsMax = 64;
constexpr size_t kTritonParametersMax = 64;  // of one function

// A name, a number, a sign, or a string with its opening quote alone.
struct PythonWord {
  std::string text;
  int column = -1;  // of the first word of a logical line, else -1
  bool starts_line() const { return column >= 0; }
};

bool IsInPythonWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || (c & 0x80) != 0; }
bool IsQuote(char c) { return c == '"' || c == '\''; }

class PythonWords {
 public:
  explicit PythonWords(std::string_view text) : text_(text) {
    while (at_ < text_.size()) Next();
  }

  std::vector<PythonWord> words;

 private:
  void Next() {
    const char c = text_[at_];
    if (c == '\n') {
      ++at_;
      line_begin_ = at_;
      is_line_start_ = is_line_start_ || depth_ == 0;
    } else if (c == '\\' && text_.substr(at_ + 1, 1) == "\n") {
      at_ += 2;
    } else if (std::isspace(static_cast<unsigned char>(c)) != 0) {
      ++at_;
    } else if (c == '#') {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else if (IsQuote(c)) {
      const int column = Column();
      AddString(column);
    } else if (IsInPythonWord(c)) {
      ReadWord(c);
    } else {
      if (c == '(' || c == '[' || c == '{') ++depth_;
      if (c == ')' || c == ']' || c == '}') depth_ = std::max(depth_ - 1, 0);
      words.push_back({std::string(1, c), Column()});
      ++at_;
    }
  }

  int Column() {
    const int column = is_line_start_ ? static_cast<int>(at_ - line_begin_) : -1;
    is_line_start_ = false;
    return column;
  }

  void ReadWord(char c) {
    const int column = Column();
    const size_t begin = at_;
    const bool is_number = std::isdigit(static_cast<unsigned char>(c)) != 0;
    while (at_ < text_.size() && (IsInPythonWord(text_[at_]) || (is_number && text_[at_] == '.'))) ++at_;
    const std::string_view word = text_.substr(begin, at_ - begin);
    const bool is_prefix = word.size() <= 2 && word.find_first_not_of("rRbBuUfF") == std::string_view::npos;
    if (is_prefix && at_ < text_.size() && IsQuote(text_[at_])) {
      AddString(column);
    } else {
      words.push_back({std::string(word), column});
    }
  }

  // From an opening quote on. A backslash hides the next character, in raw strings too.
  void AddString(int column) {
    const char quote = text_[at_];
    const std::string three(3, quote);
    const bool is_long = text_.substr(at_, 3) == three;
    at_ += is_long ? 3 : 1;
    const size_t begin = at_;
    const auto ends = [&] {
      return is_long ? text_.substr(at_, 3) == three : text_[at_] == quote || text_[at_] == '\n';
    };
    while (at_ < text_.size() && !ends()) at_ += text_[at_] == '\\' ? 2 : 1;
    at_ = std::min(at_, text_.size());
    words.push_back({"\"" + std::string(text_.substr(begin, at_ - begin)), column});
    if (at_ < text_.size() && text_[at_] != '\n') at_ += is_long ? 3 : 1;
    at_ = std::min(at_, text_.size());
  }

  std::string_view text_;
  size_t at_ = 0;
  size_t line_begin_ = 0;
  int depth_ = 0;  // of brackets, in which lines go on
  bool is_line_start_ = true;
};

// A view of words from `begin` on that never fails.
class PythonReader {
 public:
  explicit PythonReader(const std::vector<PythonWord>& words) : words_(words) {}

  const PythonWord& At(size_t index) const { return index < words_.size() ? words_[index] : end_; }
  const std::string& Text(size_t index) const { return At(index).text; }
  bool Reads(size_t index, std::initializer_list<std::string_view> texts) const {
    for (const std::string_view text : texts) {
      if (Text(index++) != text) return false;
    }
    return true;
  }
  size_t size() const { return words_.size(); }

  // The index of the next word that starts a line, or the end.
  size_t NextLine(size_t index) const {
    for (++index; index < words_.size() && !words_[index].starts_line();) ++index;
    return std::min(index, words_.size());
  }

  // The index of the bracket that closes the one at `open`, or the end.
  size_t Closing(size_t open) const {
    int depth = 0;
    for (size_t i = open; i < words_.size(); ++i) {
      const std::string& text = words_[i].text;
      if (text == "(" || text == "[" || text == "{") ++depth;
      if ((text == ")" || text == "]" || text == "}") && --depth == 0) return i;
    }
    return words_.size();
  }

 private:
  const std::vector<PythonWord>& words_;
  const PythonWord end_;
};

// "name: annotation = default" in [begin, end).
void AddTritonParameter(const PythonReader& words, size_t begin, size_t end, TritonFunction* function) {
  // Marks and lists of arguments, which no kernel has.
  if (begin >= end || words.Text(begin) == "*" || words.Text(begin) == "/") return;
  if (function->parameters.size() >= kTritonParametersMax) return;
  TritonParameter parameter;
  parameter.name = words.Text(begin);
  size_t i = begin + 1;
  int depth = 0;
  for (; i < end && !(depth == 0 && words.Text(i) == "="); ++i) {
    const std::string& text = words.Text(i);
    if (text == "(" || text == "[") ++depth;
    if (text == ")" || text == "]") --depth;
    const bool is_text = text.starts_with('"') && text.find("constexpr") != std::string::npos;
    parameter.is_constexpr = parameter.is_constexpr || text == "constexpr" || is_text;
  }
  for (++i; i < end; ++i) parameter.default_text += words.Text(i);
  const std::string lower = absl::AsciiStrToLower(parameter.name);
  parameter.is_pointer =
      !parameter.is_constexpr && (lower.find("ptr") != std::string::npos || lower.find("pointer") != std::string::npos);
  function->parameters.push_back(std::move(parameter));
}

// What the body of a function does with its parameters.
class FunctionBody {
 public:
  FunctionBody(const PythonReader& words, size_t begin, size_t end, TritonFunction* function)
      : words_(words), begin_(begin), end_(end), function_(function) {
    for (const TritonParameter& parameter : function->parameters) source_[parameter.name] = parameter.name;
  }

  void Read() {
    for (size_t i = begin_; i < end_; ++i) {
      const std::string& word = words_.Text(i);
      if (words_.At(i).starts_line()) ReadAssignment(i);
      if (words_.Text(i + 1) != "(") continue;
      if (word == "program_id") {
        const std::string& axis = words_.Text(words_.Text(i + 2) == "axis" ? i + 4 : i + 2);
        if (axis == "1" || axis == "2") function_->grid_axes = std::max(function_->grid_axes, axis == "1" ? 2 : 3);
      }
      const bool is_atomic = word.starts_with("atomic_");
      if (word == "load" || word == "store" || is_atomic) ReadAccess(i, word != "store", word != "load");
    }
  }

 private:
  // "x = a_ptr + ...", "x += ...", "x = tl.make_block_ptr(a_ptr, ...)": what x leads to.
  void ReadAssignment(size_t at) {
    if (words_.Text(at + 1) != "=" || words_.Text(at + 2) == "=") return;
    const size_t end = std::min(words_.NextLine(at), end_);
    size_t value = at + 2;
    while (value < end && words_.Text(value) == "(") ++value;
    auto found = source_.find(words_.Text(value));
    if (words_.Reads(value, {"tl", "."}) && words_.Text(value + 2).starts_with("make_")) {
      for (value += 3; value < end && found == source_.end(); ++value) {
        // Of "base=a_ptr" the name of the argument does not count.
        if (words_.Text(value + 1) != "=") found = source_.find(words_.Text(value));
      }
    }
    if (found != source_.end()) {
      const std::string leads_to = found->second;
      source_[words_.Text(at)] = leads_to;
    }
  }

  // "tl.load(x ...", or "descriptor.load(...", where word `at` is "load".
  void ReadAccess(size_t at, bool is_read, bool is_written) {
    if (at < 2 || words_.Text(at - 1) != ".") return;
    size_t target = at - 2;
    if (words_.Text(target) == "tl" || words_.Text(target) == "language") {
      target = at + 2;
      if (words_.Text(target + 1) == "=") target += 2;
      while (words_.Text(target) == "(") ++target;
    }
    const auto found = source_.find(words_.Text(target));
    if (found == source_.end()) return;
    for (TritonParameter& parameter : function_->parameters) {
      if (parameter.name != found->second || parameter.is_constexpr) continue;
      parameter.is_pointer = true;
      parameter.is_read = parameter.is_read || is_read;
      parameter.is_written = parameter.is_written || is_written;
    }
  }

  const PythonReader& words_;
  size_t begin_, end_;
  TritonFunction* function_;
  std::map<std::string, std::string> source_;  // name to the parameter that it is made from
};

bool ImportsJit(const PythonReader& words) {
  for (size_t i = 0; i < words.size(); i = words.NextLine(i)) {
    if (!words.Reads(i, {"from", "triton", "import"})) continue;
    for (size_t k = i; k < words.NextLine(i); ++k) {
      if (words.Text(k) == "jit") return true;
    }
  }
  return false;
}

// From the "def" at `at` on; returns the index behind its body.
size_t ReadFunction(const PythonReader& words, size_t at, TritonFunction* function, std::set<std::string>* called) {
  function->name = words.Text(at + 1);
  const size_t close = words.Closing(at + 2);
  size_t begin = at + 3;
  int depth = 0;
  for (size_t i = begin; i <= close; ++i) {
    const std::string& text = words.Text(i);
    if (i == close || (text == "," && depth == 0)) {
      AddTritonParameter(words, begin, std::min(i, words.size()), function);
      begin = i + 1;
    }
    if (text == "(" || text == "[" || text == "{") ++depth;
    if (text == ")" || text == "]" || text == "}") --depth;
  }
  size_t end = words.NextLine(close);
  while (end < words.size() && words.At(end).column > words.At(at).column) end = words.NextLine(end);
  FunctionBody(words, close, end, function).Read();
  for (size_t i = close; i < end; ++i) {
    if (words.Text(i + 1) == "(") called->insert(words.Text(i));
  }
  return end;
}

}  // namespace

std::vector<TritonFunction> ReadTritonKernels(std::string_view source) {
  const PythonWords text(source);
  const PythonReader words(text.words);
  const bool imports_jit = ImportsJit(words);
  std::vector<TritonFunction> functions;
  std::set<std::string> called;
  bool is_jit = false;  // of the decorators before a function
  for (size_t i = 0; i < words.size() && functions.size() < kTritonFunctionsMax;) {
    if (words.Text(i) == "@") {
      is_jit = is_jit || words.Reads(i + 1, {"triton", ".", "jit"}) || (imports_jit && words.Text(i + 1) == "jit");
    } else if (words.Text(i) == "def" && is_jit && words.Text(i + 2) == "(") {
      TritonFunction function;
      i = ReadFunction(words, i, &function, &called);
      functions.push_back(std::move(function));
      is_jit = false;
      continue;
    } else {
      is_jit = false;
    }
    i = words.NextLine(i);
  }
  const auto is_called = [&](const TritonFunction& function) { return called.count(function.name) > 0; };
  if (!std::all_of(functions.begin(), functions.end(), is_called))
    functions.erase(std::remove_if(functions.begin(), functions.end(), is_called), functions.end());
  return functions;
}

}  // namespace tunefarm::cli
