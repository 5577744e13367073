#include "server/definition/source_includes.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "server/definition/checker.h"

namespace tunefarm {
namespace {

constexpr size_t kIncludedNameMax = 256;

bool IsBlank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v'; }

bool IsWordCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// `#define macro "text"`.
struct DefinedText {
  size_t begin = 0;  // of the text, behind the quote
  std::string_view macro, text;
};

// Reads a source once, from its first byte to its last.
class IncludeScanner {
 public:
  explicit IncludeScanner(std::string_view source) : source_(source) { Scan(); }

  const std::vector<IncludedName>& names() const { return names_; }
  // M of `#include M`.
  const std::set<std::string_view>& macros() const { return macros_; }
  const std::vector<DefinedText>& defined_texts() const { return defined_texts_; }

 private:
  void Scan() {
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
  }

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
    } else if (word == "define") {
      ReadDefine();
    } else if (word == "pragma") {
      SkipBlanks();
      if (ReadWord() != "once") is_leading_ = false;
    } else if (!BeginsGuard(word)) {
      is_leading_ = false;
      if (word == "error" || word == "warning") at_ = EndOfLine();  // free text, in which a quote may stand alone
    }
  }

  // Whether the directive begins an include guard: #ifndef NAME, then #define NAME.
  bool BeginsGuard(std::string_view word) {
    if (word != "ifndef" || !names_.empty() || !guard_.empty()) return false;
    SkipBlanks();
    guard_ = ReadWord();
    guard_is_open_ = true;
    return !guard_.empty();
  }

  void ReadDefine() {
    SkipBlanks();
    const std::string_view macro = ReadWord();
    if (!std::exchange(guard_is_open_, false) || macro != guard_) is_leading_ = false;
    SkipBlanks();
    if (!StartsWith("\"")) return;
    const size_t end = source_.find('"', at_ + 1);
    if (end >= EndOfLine() || end - at_ - 1 > kIncludedNameMax) return;
    defined_texts_.push_back({at_ + 1, macro, source_.substr(at_ + 1, end - at_ - 1)});
    at_ = end + 1;
  }

  // From the blanks before the quote or bracket.
  void ReadName(bool is_test) {
    SkipBlanks();
    const bool is_quoted = StartsWith("\"");
    if (!is_quoted && !StartsWith("<")) {
      is_leading_ = false;
      if (const std::string_view macro = ReadWord(); !macro.empty() && !is_test) macros_.insert(macro);
      return;
    }
    const size_t end = source_.find(is_quoted ? '"' : '>', at_ + 1);
    if (end >= EndOfLine()) return;
    const std::string_view name = source_.substr(at_ + 1, end - at_ - 1);
    if (!name.empty() && name.size() <= kIncludedNameMax) {
      names_.push_back({at_ + 1, std::string(name), is_quoted, is_test, is_leading_});
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
  std::vector<IncludedName> names_;
  std::set<std::string_view> macros_;
  std::vector<DefinedText> defined_texts_;
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

// For each macro that sources include, these sources in the order of the definition.
std::map<std::string_view, std::vector<const v1::SourceFile*>> IncludersOfMacros(const v1::Kernel& kernel) {
  std::map<std::string_view, std::vector<const v1::SourceFile*>> includers;
  for (const v1::SourceFile& source : kernel.sources()) {
    const IncludeScanner scanned(source.content());
    for (const std::string_view macro : scanned.macros()) includers[macro].push_back(&source);
  }
  return includers;
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

bool HasWord(std::string_view text, std::string_view word) {
  for (size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || !IsWordCharacter(text[at - 1])) && (end == text.size() || !IsWordCharacter(text[end]))) return true;
  }
  return false;
}

// Of a line "file:line:column: ..." or "file(line): ...".
std::string_view FileOf(std::string_view line) {
  std::string_view file = line.substr(0, line.find_first_of(":("));
  while (file.substr(0, 2) == "./") file.remove_prefix(2);
  return file;
}

// The lines of the first error, with the notes and the code that explain it.
std::vector<std::string_view> FirstErrorIn(std::string_view log) {
  constexpr size_t kLinesMax = 16;
  std::vector<std::string_view> lines;
  while (!log.empty() && lines.size() < kLinesMax) {
    const std::string_view line = log.substr(0, log.find('\n'));
    log.remove_prefix(std::min(line.size() + 1, log.size()));
    const bool is_error = line.find(": error: ") != std::string_view::npos;
    if (is_error && !lines.empty()) break;
    if (is_error || !lines.empty()) lines.push_back(line);
  }
  return lines;
}

// Library headers that the compiler reads after the macros of constants: "<vector> in k.cc, ...".
std::string HeadersBehindConstants(const v1::Kernel& kernel, const std::vector<std::string>& before) {
  constexpr size_t kNamedMax = 3;
  std::vector<std::string> found;
  for (const v1::SourceFile& source : kernel.sources()) {
    for (const IncludedName& included : FindIncludedNames(source.content())) {
      if (included.is_test || std::find(before.begin(), before.end(), included.name) != before.end()) continue;
      if (FindIncludedSource(kernel, source.path(), included.name, included.is_quoted) != nullptr) continue;
      found.push_back(fmt::format("<{}> in {}", included.name, source.path()));
    }
  }
  std::string text;
  for (size_t i = 0; i < found.size() && i < kNamedMax; ++i) text += (i == 0 ? "" : ", ") + found[i];
  return found.size() > kNamedMax ? text + ", ..." : text;
}

}  // namespace

std::vector<IncludedName> FindIncludedNames(std::string_view source) { return IncludeScanner(source).names(); }

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

IncludedHeaders FindIncludedHeaders(const std::string& file_name, std::string_view source,
                                    const std::function<std::optional<std::string>(const std::string& path)>& read) {
  IncludedHeaders found;
  std::set<std::string> seen = {file_name}, missing;
  size_t bytes = source.size();
  std::vector<std::pair<std::string, std::string>> texts = {{"", std::string(source)}};  // by folder
  for (size_t at = 0; at < texts.size(); ++at) {
    for (const IncludedName& included : FindIncludedNames(texts[at].second)) {
      if (!included.is_quoted || included.name.empty() || included.name.front() == '/') continue;
      bool is_known = false;
      for (const std::string& folder : {texts[at].first, std::string()}) {
        const std::optional<std::string> path = Normalized(folder + included.name);
        if (!path.has_value() || !definition::CheckSourcePath("", *path).ok()) continue;
        is_known = seen.count(*path) > 0;
        if (is_known) break;
        std::optional<std::string> text = read(*path);
        is_known = text.has_value() && !text->empty();  // a definition takes no empty source
        if (!is_known) continue;
        bytes += text->size();
        found.is_cut = found.paths.size() + 1 >= definition::kSourcesMax || bytes > definition::kSourcesBytesMax;
        if (found.is_cut) return found;
        seen.insert(*path);
        found.paths.push_back(*path);
        texts.emplace_back(path->substr(0, path->rfind('/') + 1), *std::move(text));
        break;
      }
      if (!is_known && !included.is_test && missing.insert(included.name).second)
        found.elsewhere.push_back(included.name);
    }
  }
  return found;
}

std::string WithFullIncludePaths(const v1::Kernel& kernel, const v1::SourceFile& source) {
  const std::string& content = source.content();
  const IncludeScanner scanned(content);
  // By offset: how many bytes are replaced, and by what.
  std::map<size_t, std::pair<size_t, std::string>> replaced;
  for (const IncludedName& included : scanned.names()) {
    const v1::SourceFile* const meant = FindIncludedSource(kernel, source.path(), included.name, included.is_quoted);
    if (meant != nullptr) replaced[included.begin] = {included.name.size(), meant->path()};
  }
  if (!scanned.defined_texts().empty()) {
    const auto includers = IncludersOfMacros(kernel);
    for (const DefinedText& defined : scanned.defined_texts()) {
      const auto found = includers.find(defined.macro);
      if (found == includers.end()) continue;
      for (const v1::SourceFile* const includer : found->second) {
        const v1::SourceFile* const meant = FindIncludedSource(kernel, includer->path(), defined.text, true);
        if (meant == nullptr) continue;
        replaced[defined.begin] = {defined.text.size(), meant->path()};
        break;
      }
    }
  }
  std::string text;
  size_t copied = 0;
  for (const auto& [begin, by] : replaced) {
    text.append(content, copied, begin - copied);
    text += by.second;
    copied = begin + by.first;
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

std::string HintOfConstantsInLibraries(const v1::Kernel& kernel,
                                       const std::vector<std::pair<std::string, std::string>>& constants,
                                       std::string_view log) {
  const std::vector<std::string_view> lines = FirstErrorIn(log);
  if (lines.empty() || kernel.sources_size() == 0) return "";
  // GCC reports an error in a macro at its definition, and names the place of its use last.
  std::string_view file = FileOf(lines.front());
  for (const std::string_view line : lines) {
    if (line.find("in expansion of macro") != std::string_view::npos) file = FileOf(line);
  }
  if (FindSource(kernel, file) != nullptr) return "";
  std::string names;
  for (const auto& [name, value] : constants) {
    const bool is_named =
        std::any_of(lines.begin(), lines.end(), [&name = name](std::string_view line) { return HasWord(line, name); });
    if (is_named) names += (names.empty() ? "" : ", ") + name;
  }
  LeadingHeaders leading(kernel);
  leading.AddFrom(kernel.sources(0));
  const std::string headers = HeadersBehindConstants(kernel, leading.names());
  if (names.empty() || headers.empty()) return "";
  return fmt::format(
      " The constants of a config are macros ({}), also in library headers that a source includes behind other lines "
      "than includes ({}): move these includes to the first lines of {}, or rename the parameter.",
      names, headers, kernel.sources(0).path());
}

}  // namespace tunefarm
