#include "server/definition/source_includes.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <set>

namespace tunefarm {
namespace {

constexpr size_t kIncludedNameMax = 256;

bool IsBlank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v'; }

bool IsWordCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// Reads a source once, from its first byte to its last.
class IncludeScanner {
 public:
  explicit IncludeScanner(std::string_view source) : source_(source) {}

  std::vector<IncludedName> Scan() {
    while (at_ < source_.size()) {
      if (source_[at_] == '\n') {
        ++at_;
        line_has_code_ = false;
      } else if (IsBlank(source_[at_])) {
        ++at_;
      } else if (StartsWith("//")) {
        at_ = EndOfLine();
      } else if (StartsWith("/*")) {
        const size_t end = source_.find("*/", at_ + 2);
        at_ = end == std::string_view::npos ? source_.size() : end + 2;
      } else if (source_[at_] == '#' && !line_has_code_) {
        line_has_code_ = true;
        ReadDirective();
      } else {
        line_has_code_ = true;
        is_leading_ = false;
        SkipToken();
      }
    }
    return std::move(found_);
  }

 private:
  bool StartsWith(std::string_view text) const { return source_.substr(at_, text.size()) == text; }
  size_t EndOfLine() const { return std::min(source_.find('\n', at_), source_.size()); }
  void SkipBlanks() {
    while (at_ < source_.size() && IsBlank(source_[at_])) ++at_;
  }
  std::string_view ReadWord() {
    const size_t begin = at_;
    while (at_ < source_.size() && IsWordCharacter(source_[at_])) ++at_;
    return source_.substr(begin, at_ - begin);
  }

  // From '#'. What remains of the line is read as code, since a comment may begin there.
  void ReadDirective() {
    ++at_;
    SkipBlanks();
    const std::string_view word = ReadWord();
    if (guard_is_open_ && word != "define") is_leading_ = false;  // a condition, no guard
    if (word == "include") {
      ReadName(false);
    } else if (word == "pragma") {
      SkipBlanks();
      if (ReadWord() != "once") is_leading_ = false;
    } else if (!IsGuard(word)) {
      is_leading_ = false;
      if (word == "error" || word == "warning") at_ = EndOfLine();  // free text, in which a quote may stand alone
    }
  }

  // Whether the directive belongs to an include guard: #ifndef NAME first, then #define NAME.
  bool IsGuard(std::string_view word) {
    if (word == "ifndef" && found_.empty() && guard_.empty()) {
      SkipBlanks();
      guard_ = ReadWord();
      guard_is_open_ = true;
      return !guard_.empty();
    }
    if (word != "define" || !guard_is_open_) return false;
    SkipBlanks();
    guard_is_open_ = false;
    return ReadWord() == guard_;
  }

  // From the blanks before the quote or bracket.
  void ReadName(bool is_test) {
    SkipBlanks();
    const bool is_quoted = StartsWith("\"");
    if (!is_quoted && !StartsWith("<")) {
      is_leading_ = false;  // a macro
      return;
    }
    const size_t end = source_.find(is_quoted ? '"' : '>', at_ + 1);
    if (end >= EndOfLine()) return;
    const std::string_view name = source_.substr(at_ + 1, end - at_ - 1);
    if (!name.empty() && name.size() <= kIncludedNameMax) {
      found_.push_back({at_ + 1, std::string(name), is_quoted, is_test, is_leading_});
    }
    at_ = end + 1;
  }

  void SkipToken() {
    if (IsWordCharacter(source_[at_])) {
      const std::string_view word = ReadWord();
      if (word == "__has_include") {
        SkipBlanks();
        if (!StartsWith("(")) return;
        ++at_;
        ReadName(true);
      } else if (StartsWith("\"") && (word == "R" || word == "u8R" || word == "uR" || word == "UR" || word == "LR")) {
        SkipRawString();
      } else if (StartsWith("'") && word.front() >= '0' && word.front() <= '9') {
        ++at_;  // separates digits
      }
    } else if (source_[at_] == '"' || source_[at_] == '\'') {
      SkipLiteral(source_[at_]);
    } else {
      ++at_;
    }
  }

  // Ends with its line at the latest.
  void SkipLiteral(char quote) {
    for (++at_; at_ < source_.size() && source_[at_] != '\n'; ++at_) {
      if (source_[at_] == '\\' && at_ + 1 < source_.size()) {
        ++at_;
      } else if (source_[at_] == quote) {
        ++at_;
        return;
      }
    }
  }

  void SkipRawString() {
    const size_t open = source_.find('(', at_);
    if (open == std::string_view::npos || open - at_ > 17) {  // A delimiter has at most 16 characters.
      ++at_;
      return;
    }
    const std::string close = fmt::format("){}\"", source_.substr(at_ + 1, open - at_ - 1));
    const size_t end = source_.find(close, open);
    at_ = end == std::string_view::npos ? source_.size() : end + close.size();
  }

  const std::string_view source_;
  size_t at_ = 0;
  bool line_has_code_ = false;
  bool is_leading_ = true;
  std::string_view guard_;
  bool guard_is_open_ = false;
  std::vector<IncludedName> found_;
};

// Without "." and ".."; none if it leaves the folder.
std::optional<std::string> Normalized(std::string_view path) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    if (part == "..") {
      if (parts.empty()) return std::nullopt;
      parts.pop_back();
    } else if (!part.empty() && part != ".") {
      parts.push_back(part);
    }
    if (slash == std::string_view::npos) break;
    path.remove_prefix(slash + 1);
  }
  std::string normalized;
  for (const std::string_view part : parts) {
    if (!normalized.empty()) normalized += '/';
    normalized += part;
  }
  return normalized;
}

const v1::SourceFile* FindSource(const v1::Kernel& kernel, std::string_view path) {
  const std::optional<std::string> normalized = Normalized(path);
  if (!normalized.has_value()) return nullptr;
  for (const v1::SourceFile& source : kernel.sources()) {
    if (source.path() == *normalized) return &source;
  }
  return nullptr;
}

// "vector", "cmath": no file of another project is named so.
bool IsStandardHeader(std::string_view name) { return name.find_first_of("./") == std::string_view::npos; }

// Collects the library headers with which sources begin.
class LeadingHeaders {
 public:
  explicit LeadingHeaders(const v1::Kernel& kernel) : kernel_(kernel) {}

  void AddFrom(const v1::SourceFile& source) {
    if (!seen_.insert(source.path()).second) return;
    for (const IncludedName& included : FindIncludedNames(source.content())) {
      if (!included.is_leading) return;
      const v1::SourceFile* const own = FindIncludedSource(kernel_, source.path(), included.name, included.is_quoted);
      if (own != nullptr) {
        AddFrom(*own);
        // What that source defines may configure the headers behind it, but for those of the language.
        behind_source_ = true;
      } else if (!included.is_quoted && (!behind_source_ || IsStandardHeader(included.name))) {
        if (added_.insert(included.name).second) names_.push_back(included.name);
      }
    }
  }

  const std::vector<std::string>& names() const { return names_; }

 private:
  const v1::Kernel& kernel_;
  std::set<std::string> seen_, added_;
  std::vector<std::string> names_;
  bool behind_source_ = false;
};

}  // namespace

std::vector<IncludedName> FindIncludedNames(std::string_view source) { return IncludeScanner(source).Scan(); }

const v1::SourceFile* FindIncludedSource(const v1::Kernel& kernel, std::string_view includer, std::string_view name,
                                         bool is_quoted) {
  if (name.empty() || name.front() == '/') return nullptr;
  if (is_quoted) {
    const size_t slash = includer.rfind('/');
    const std::string_view folder = slash == std::string_view::npos ? "" : includer.substr(0, slash + 1);
    const v1::SourceFile* const beside = FindSource(kernel, fmt::format("{}{}", folder, name));
    if (beside != nullptr) return beside;
  }
  return FindSource(kernel, name);
}

std::string WithFullIncludePaths(const v1::Kernel& kernel, const v1::SourceFile& source) {
  const std::string& content = source.content();
  std::string text;
  size_t copied = 0;
  for (const IncludedName& included : FindIncludedNames(content)) {
    const v1::SourceFile* const meant = FindIncludedSource(kernel, source.path(), included.name, included.is_quoted);
    if (meant == nullptr || meant->path() == included.name) continue;
    text.append(content, copied, included.begin - copied);
    text += meant->path();
    copied = included.begin + included.name.size();
  }
  text.append(content, copied);
  return text;
}

std::optional<std::pair<std::string, std::string>> MacroOfOption(std::string_view option) {
  if (option.size() <= 2 || option.substr(0, 2) != "-D") return std::nullopt;
  option.remove_prefix(2);
  const size_t equals = option.find('=');
  if (equals == std::string_view::npos) return std::pair(std::string(option), std::string("1"));
  return std::pair(std::string(option.substr(0, equals)), std::string(option.substr(equals + 1)));
}

std::string DefineLine(const std::pair<std::string, std::string>& macro) {
  return fmt::format("#define {} {}\n", macro.first, macro.second);
}

std::vector<std::pair<std::string, std::string>> AllMacros(
    const v1::Kernel& kernel, const std::vector<std::pair<std::string, std::string>>& constants) {
  std::vector<std::pair<std::string, std::string>> macros;
  for (const std::string& option : kernel.compile_options()) {
    if (auto macro = MacroOfOption(option); macro.has_value()) macros.push_back(*std::move(macro));
  }
  macros.insert(macros.end(), constants.begin(), constants.end());
  return macros;
}

std::string ConfigHeader(const v1::Kernel& kernel, const std::vector<std::pair<std::string, std::string>>& constants) {
  std::string header;
  if (kernel.sources_size() > 0) {
    LeadingHeaders leading(kernel);
    leading.AddFrom(kernel.sources(0));
    // A missing one is an error of the source that names it. GCC forgets that error where __has_include has asked for
    // the same name before: it is asked for by another one.
    const std::string_view folder = kernel.language() == v1::LANGUAGE_CUDA ? "" : "./";
    for (const std::string& name : leading.names()) {
      header += fmt::format("#if __has_include(<{0}{1}>)\n#include <{1}>\n#endif\n", folder, name);
    }
  }
  header += "// The constants of this config.\n";
  for (const auto& constant : constants) header += DefineLine(constant);
  return header;
}

}  // namespace tunefarm
