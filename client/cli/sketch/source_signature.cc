#include "client/cli/sketch/source_signature.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <set>

namespace tunefarm::cli {
namespace {

constexpr size_t kFunctionsMax = 64;
constexpr size_t kSignaturePartsMax = 64;  // arguments or template parameters of one function

struct Word {
  std::string text;
  size_t offset = 0;  // in the source

  bool operator==(std::string_view other) const { return text == other; }
};
using Words = std::vector<Word>;

bool StartsWord(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool IsInWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// Words, numbers and signs of a source, without comments and texts (but for "C") and without lines for the
// preprocessor, which are collected.
class SourceWords {
 public:
  explicit SourceWords(std::string_view text) : text_(text) {
    while (at_ < text_.size()) Next();
  }

  Words words;
  std::vector<std::string> directives;  // "ifndef BLOCK", "define BLOCK 256"

 private:
  bool At(std::string_view what) const { return text_.substr(at_, what.size()) == what; }

  void Next() {
    const char c = text_[at_];
    if (c == '\n' || std::isspace(static_cast<unsigned char>(c)) != 0) {
      is_line_start_ = is_line_start_ || c == '\n';
      ++at_;
    } else if (At("//")) {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else if (At("/*")) {
      const size_t end = text_.find("*/", at_ + 2);
      at_ = end == std::string_view::npos ? text_.size() : end + 2;
    } else if (c == '#' && is_line_start_) {
      ReadDirective();
    } else {
      is_line_start_ = false;
      ReadWord(c);
    }
  }

  // To the end of the line, and over lines that a backslash joins.
  void ReadDirective() {
    std::string line;
    for (++at_; at_ < text_.size() && text_[at_] != '\n'; ++at_) {
      if (At("\\\n")) {
        ++at_;
        continue;
      }
      if (At("//") || At("/*")) break;
      line += text_[at_];
    }
    const size_t begin = line.find_first_not_of(" \t");
    if (begin != std::string::npos) directives.push_back(line.substr(begin));
  }

  void ReadWord(char c) {
    const size_t begin = at_;
    if (At("R\"")) {
      const size_t open = text_.find('(', at_);
      const std::string close =
          open == std::string_view::npos ? "" : ")" + std::string(text_.substr(at_ + 2, open - at_ - 2)) + "\"";
      const size_t end = close.empty() ? std::string_view::npos : text_.find(close, open);
      at_ = end == std::string_view::npos ? text_.size() : end + close.size();
    } else if (c == '"' || c == '\'') {
      for (++at_; at_ < text_.size() && text_[at_] != c && text_[at_] != '\n'; ++at_) {
        if (text_[at_] == '\\') ++at_;
      }
      at_ = std::min(at_ + 1, text_.size());
      if (text_.substr(begin, at_ - begin) == "\"C\"") words.push_back({"\"C\"", begin});
    } else if (IsInWord(c)) {
      while (at_ < text_.size() && (IsInWord(text_[at_]) || (!StartsWord(c) && text_[at_] == '.'))) ++at_;
      words.push_back({std::string(text_.substr(begin, at_ - begin)), begin});
    } else {
      ++at_;
      words.push_back({std::string(1, c), begin});
    }
  }

  std::string_view text_;
  size_t at_ = 0;
  bool is_line_start_ = true;
};

// The index behind the bracket that closes the one at `open`; the number of words where none does.
size_t Behind(const Words& words, size_t open, const std::string& opening, const std::string& closing) {
  int depth = 0;
  for (size_t i = open; i < words.size(); ++i) {
    depth += words[i] == opening ? 1 : words[i] == closing ? -1 : 0;
    if (depth == 0) return i + 1;
  }
  return words.size();
}

// The parts of [begin, end) between commas that stand in no brackets.
std::vector<Words> PartsOf(const Words& words, size_t begin, size_t end) {
  std::vector<Words> parts;
  Words part;
  int depth = 0;
  int angles = 0;  // outside of other brackets, where < and > compare
  for (size_t i = begin; i < end && parts.size() < kSignaturePartsMax; ++i) {
    const Word& word = words[i];
    if (word == "(" || word == "[" || word == "{") ++depth;
    if (word == ")" || word == "]" || word == "}") --depth;
    if (depth == 0) angles += word == "<" ? 1 : word == ">" ? -1 : 0;
    if (word == "," && depth == 0 && angles == 0) {
      parts.push_back(std::move(part));
      part.clear();
      continue;
    }
    part.push_back(word);
  }
  if (!part.empty()) parts.push_back(std::move(part));
  return parts;
}

// A part without its default value.
Words Declared(const Words& part) { return {part.begin(), std::find(part.begin(), part.end(), "=")}; }

std::optional<SourceArgument> ArgumentOf(const Words& part) {
  static const std::set<std::string, std::less<>> kQualifiers = {
      "volatile",          "restrict", "__restrict", "__restrict__",
      "__grid_constant__", "struct",   "typename",   "maybe_unused",
      "register",          "std",      ":",          "&"};
  SourceArgument argument;
  Words type;
  int depth = 0;  // of brackets, which hold extents, attributes and the arguments of templates
  for (const Word& word : Declared(part)) {
    if (word == "[" || word == "<") {
      ++depth;
      if (word == "[" && !type.empty()) ++argument.pointers;  // else an attribute
    } else if (word == "]" || word == ">") {
      --depth;
    } else if (depth > 0) {
      continue;
    } else if (word == "*") {
      ++argument.pointers;
    } else if (word == "const") {
      argument.is_const = argument.is_const || !argument.is_pointer();
    } else if (kQualifiers.count(word.text) == 0) {
      type.push_back(word);
    }
  }
  if (type.size() < 2 || !StartsWord(type.back().text[0])) return std::nullopt;
  argument.name = type.back().text;
  argument.offset = type.back().offset;
  type.pop_back();
  for (const Word& word : type) argument.type += (argument.type.empty() ? "" : " ") + word.text;
  return argument;
}

// From the word `open`, which is the '(' of the arguments. False where that is no list of arguments.
bool ReadArguments(const Words& words, size_t open, SourceFunction* function) {
  const size_t end = Behind(words, open, "(", ")");
  if (end == words.size() && (end == 0 || words[end - 1] != ")")) return false;
  for (const Words& part : PartsOf(words, open + 1, end - 1)) {
    if (part.size() == 1 && part[0] == "void") continue;
    std::optional<SourceArgument> argument = ArgumentOf(part);
    if (!argument.has_value()) return false;
    function->arguments.push_back(*std::move(argument));
  }
  return true;
}

// Of "template <typename T, int BLOCK = 32> [extern "C"] [static] __global__ ...", where __global__ is word `at`.
std::vector<TemplateParameter> TemplatesBefore(const Words& words, size_t at) {
  std::vector<TemplateParameter> templates;
  while (at > 0 && (words[at - 1] == "static" || words[at - 1] == "inline")) --at;
  if (at == 0 || words[at - 1] != ">") return templates;
  size_t open = at - 1;
  int parentheses = 0;  // in which < and > compare
  for (int depth = 1; open > 0 && depth > 0;) {
    --open;
    parentheses += words[open] == ")" ? 1 : words[open] == "(" ? -1 : 0;
    if (parentheses == 0) depth += words[open] == ">" ? 1 : words[open] == "<" ? -1 : 0;
  }
  if (open == 0 || words[open - 1] != "template") return templates;
  for (const Words& part : PartsOf(words, open + 1, at - 1)) {
    const Words declared = Declared(part);
    if (declared.size() < 2) continue;
    TemplateParameter parameter;
    parameter.name = declared.back().text;
    for (size_t i = 0; i + 1 < declared.size(); ++i) parameter.type += (i == 0 ? "" : " ") + declared[i].text;
    templates.push_back(std::move(parameter));
  }
  return templates;
}

std::vector<SourceFunction> CudaFunctions(const Words& words) {
  std::vector<SourceFunction> functions;
  for (size_t i = 0; i < words.size() && functions.size() < kFunctionsMax; ++i) {
    if (words[i] != "__global__") continue;
    SourceFunction function;
    function.templates = TemplatesBefore(words, i);
    for (size_t back = i; back > 0 && i - back < 4; --back) function.is_extern_c |= words[back - 1] == "\"C\"";
    size_t at = i + 1;
    // Attributes such as __launch_bounds__(256) stand before the name, too.
    while (at + 1 < words.size() && !(words[at + 1] == "(" && words[at].text.rfind("__", 0) != 0)) {
      at = words[at + 1] == "(" ? Behind(words, at + 1, "(", ")") : at + 1;
      if (at < words.size() && (words[at] == ";" || words[at] == "{")) break;
    }
    if (at + 1 >= words.size() || words[at + 1] != "(") continue;
    function.name = words[at].text;
    if (ReadArguments(words, at + 1, &function)) functions.push_back(std::move(function));
  }
  return functions;
}

std::vector<SourceFunction> HostFunctions(const Words& words) {
  std::vector<SourceFunction> functions;
  size_t extern_c_end = 0;  // of a block
  for (size_t i = 0; i + 2 < words.size() && functions.size() < kFunctionsMax; ++i) {
    if (words[i] == "extern" && words[i + 1] == "\"C\"" && words[i + 2] == "{")
      extern_c_end = Behind(words, i + 2, "{", "}");
    if (words[i] != "void" || words[i + 2] != "(" || !StartsWord(words[i + 1].text[0])) continue;
    // A definition, not a declaration or a call.
    const size_t end = Behind(words, i + 2, "(", ")");
    size_t body = end;
    if (body < words.size() && words[body] == "noexcept") ++body;
    if (body >= words.size() || words[body] != "{") continue;
    SourceFunction function;
    function.name = words[i + 1].text;
    function.is_extern_c = i < extern_c_end || (i > 0 && words[i - 1] == "\"C\"");
    if (ReadArguments(words, i + 2, &function)) functions.push_back(std::move(function));
    i = end - 1;
  }
  const auto is_extern_c = [](const SourceFunction& function) { return function.is_extern_c; };
  if (std::any_of(functions.begin(), functions.end(), is_extern_c)) {
    functions.erase(std::remove_if(functions.begin(), functions.end(), std::not_fn(is_extern_c)), functions.end());
  }
  return functions;
}

std::vector<std::string> SplitAtSpaces(const std::string& line) {
  std::vector<std::string> words;
  for (size_t at = line.find_first_not_of(" \t"); at != std::string::npos; at = line.find_first_not_of(" \t", at)) {
    const size_t end = std::min(line.find_first_of(" \t", at), line.size());
    words.push_back(line.substr(at, end - at));
    at = end;
  }
  return words;
}

}  // namespace

std::string SourceArgument::data_type() const {
  static const std::map<std::string, std::string> kTypes = {{"float", "F32"},
                                                            {"double", "F64"},
                                                            {"half", "F16"},
                                                            {"__half", "F16"},
                                                            {"_Float16", "F16"},
                                                            {"__nv_bfloat16", "BF16"},
                                                            {"nv_bfloat16", "BF16"},
                                                            {"__nv_fp8_e4m3", "F8E4M3"},
                                                            {"int", "I32"},
                                                            {"signed", "I32"},
                                                            {"int32_t", "I32"},
                                                            {"unsigned", "U32"},
                                                            {"unsigned int", "U32"},
                                                            {"uint32_t", "U32"},
                                                            {"long", "I64"},
                                                            {"long int", "I64"},
                                                            {"long long", "I64"},
                                                            {"int64_t", "I64"},
                                                            {"ptrdiff_t", "I64"},
                                                            {"ssize_t", "I64"},
                                                            {"size_t", "U64"},
                                                            {"unsigned long", "U64"},
                                                            {"unsigned long long", "U64"},
                                                            {"uint64_t", "U64"},
                                                            {"short", "I16"},
                                                            {"int16_t", "I16"},
                                                            {"unsigned short", "U16"},
                                                            {"uint16_t", "U16"},
                                                            {"char", "I8"},
                                                            {"signed char", "I8"},
                                                            {"int8_t", "I8"},
                                                            {"unsigned char", "U8"},
                                                            {"uint8_t", "U8"},
                                                            {"bool", "U8"}};
  const auto found = kTypes.find(type);
  return found == kTypes.end() || pointers > 1 ? std::string() : found->second;
}

SourceSignature ReadSignature(std::string_view source, bool is_cuda) {
  const SourceWords text(source);
  SourceSignature signature;
  signature.functions = is_cuda ? CudaFunctions(text.words) : HostFunctions(text.words);
  std::set<std::string> seen;
  for (size_t i = 0; i + 1 < text.directives.size(); ++i) {
    const std::vector<std::string> guard = SplitAtSpaces(text.directives[i]);
    const std::vector<std::string> value = SplitAtSpaces(text.directives[i + 1]);
    if (guard.size() != 2 || guard[0] != "ifndef" || value.size() != 3 || value[0] != "define" || value[1] != guard[1])
      continue;
    int64_t number = 0;
    const std::string& digits = value[2];
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (read.ec != std::errc() || read.ptr != digits.data() + digits.size() || number < 0) continue;
    if (seen.insert(guard[1]).second) signature.macros.emplace_back(guard[1], number);
  }
  return signature;
}

}  // namespace tunefarm::cli
