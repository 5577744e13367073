#include "server/interchange/cpp_header.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/definition/value_proto.h"
#include "server/interchange/json_document.h"

namespace tunefarm::interchange {
namespace {

const std::set<std::string_view>& Keywords() {
  static const std::set<std::string_view> kWords = {
      "alignas",     "alignof",  "and",        "and_eq",    "asm",       "auto",         "bitand",
      "bitor",       "bool",     "break",      "case",      "catch",     "char",         "char16_t",
      "char32_t",    "char8_t",  "class",      "co_await",  "co_return", "co_yield",     "compl",
      "concept",     "const",    "const_cast", "consteval", "constexpr", "constinit",    "continue",
      "decltype",    "default",  "delete",     "do",        "double",    "dynamic_cast", "else",
      "enum",        "explicit", "export",     "extern",    "false",     "float",        "for",
      "friend",      "goto",     "if",         "inline",    "int",       "long",         "mutable",
      "namespace",   "new",      "noexcept",   "not",       "not_eq",    "nullptr",      "operator",
      "or",          "or_eq",    "private",    "protected", "public",    "register",     "reinterpret_cast",
      "requires",    "return",   "short",      "signed",    "sizeof",    "static",       "static_assert",
      "static_cast", "struct",   "switch",     "template",  "this",      "thread_local", "throw",
      "true",        "try",      "typedef",    "typeid",    "typename",  "union",        "unsigned",
      "using",       "virtual",  "void",       "volatile",  "wchar_t",   "while",        "xor",
      "xor_eq"};
  return kWords;
}

// A name that can be written; names with "__" and "_Upper" belong to the compiler.
std::string Identifier(std::string_view name) {
  std::string made;
  for (const char c : name) {
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    made += is_letter ? c : '_';
  }
  if (made.empty() || (made[0] >= '0' && made[0] <= '9')) made.insert(0, "k_");
  if (Keywords().count(made) > 0) made += '_';
  return made;
}

std::string StringLiteral(std::string_view text) {
  std::string literal = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      literal += '\\';
      literal += c;
    } else if (byte < 0x20 || byte >= 0x7f || c == '?') {
      literal += fmt::format("\\{:03o}", byte);  // octal: three digits end it; '?' could be a trigraph's
    } else {
      literal += c;
    }
  }
  return literal + "\"";
}

std::string_view TypeName(ValueType type) {
  switch (type) {
    case ValueType::kBool:
      return "bool";
    case ValueType::kInt:
      return "std::int64_t";
    case ValueType::kFloat:
      return "double";
    case ValueType::kString:
      break;
  }
  return "std::string_view";
}

std::string Literal(const Value& value) {
  if (value.is_string()) return StringLiteral(value.string_value());
  if (value.is_int() && value.int_value() == std::numeric_limits<int64_t>::min()) {
    return "-9223372036854775807 - 1";
  }
  return value.ToText();
}

// Names with their types.
using Fields = std::vector<std::pair<std::string, ValueType>>;

Fields FieldsOf(const Config& config) {
  Fields fields;
  for (const auto& [name, value] : config) fields.emplace_back(name, value.type());
  return fields;
}

// Members in the order of the fields.
std::vector<std::string> MemberNames(const Fields& fields) {
  std::vector<std::string> names;
  for (const auto& [name, type] : fields) names.push_back(Identifier(name));
  return names;
}

std::string StructText(std::string_view name, const Fields& fields) {
  std::string text = fmt::format("struct {} {{\n", name);
  const std::vector<std::string> members = MemberNames(fields);
  for (size_t i = 0; i < fields.size(); ++i) {
    text += fmt::format("  {} {}{{}};\n", TypeName(fields[i].second), members[i]);
  }
  return text + "};\n\n";
}

std::string Initializer(const Config& config) {
  std::string text = "{";
  for (const auto& [name, value] : config) text += (text.size() > 1 ? ", " : "") + Literal(value);
  return text + "}";
}

// Negative, zero or positive, as the table is sorted.
std::string CompareText(const Fields& dims) {
  std::string text =
      "constexpr int Compare(std::string_view a_class, const Dims& a, std::string_view b_class, const Dims& b) "
      "noexcept "
      "{\n  if (a_class != b_class) return a_class < b_class ? -1 : 1;\n";
  for (const std::string& name : MemberNames(dims)) {
    text += fmt::format("  if (a.{0} != b.{0}) return a.{0} < b.{0} ? -1 : 1;\n", name);
  }
  if (dims.empty()) text += "  static_cast<void>(a);\n  static_cast<void>(b);\n";
  return text + "  return 0;\n}\n\n";
}

constexpr char kFind[] =
    R"(// The entry of exactly these dims on this device class; null if there is none. Binary search.
constexpr const Entry* Find(std::string_view device_class, const Dims& dims) noexcept {
  std::size_t low = 0, high = sizeof(kTable) / sizeof(kTable[0]);
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    const int order = Compare(kTable[middle].device_class, kTable[middle].dims, device_class, dims);
    if (order == 0) return &kTable[middle];
    if (order < 0) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return nullptr;
}
)";

using BestIterator = std::vector<ExportedBest>::const_iterator;

std::string KernelText(const std::string& name, BestIterator begin, BestIterator end) {
  const Fields dims = FieldsOf(begin->dims), parameters = FieldsOf(begin->config);
  std::string text = fmt::format("namespace {} {{\n\n", name);
  text += StructText("Dims", dims) + StructText("Config", parameters);
  text +=
      "struct Entry {\n"
      "  std::string_view device_class{};\n"
      "  Dims dims{};\n"
      "  Config config{};\n"
      "  double median_ns{};\n"
      "};\n\n"
      "// Sorted by device_class, then by dims in the order of their members.\n"
      "inline constexpr Entry kTable[] = {\n";
  for (auto at = begin; at != end; ++at) {
    text += fmt::format("    {{{}, {}, {}, {}}},\n", StringLiteral(at->best.device_class_id()), Initializer(at->dims),
                        Initializer(at->config), NumberText(at->best.measurement().median_ns()));
  }
  return text + "};\n\n" + CompareText(dims) + kFind + fmt::format("\n}}  // namespace {}\n", name);
}

absl::Status CheckNamespace(std::string_view name) {
  std::string_view rest = name;
  while (true) {
    const size_t end = rest.find("::");
    const std::string_view part = rest.substr(0, end);
    if (!definition::IsIdentifier(part) || Keywords().count(part) > 0) {
      return WithReason(InvalidArgument("'{}' is no namespace; one looks like my_project::tuned", name), kNotMappable);
    }
    if (end == std::string_view::npos) return absl::OkStatus();
    rest.remove_prefix(end + 2);
  }
}

absl::Status CheckMembers(const std::string& kernel, const Config& config) {
  std::map<std::string, std::string> taken;
  for (const auto& [name, value] : config) {
    const auto [at, is_new] = taken.emplace(Identifier(name), name);
    if (is_new) continue;
    return WithReason(InvalidArgument("{}: '{}' and '{}' would both be called {}", kernel, at->second, name, at->first),
                      kNotMappable);
  }
  return absl::OkStatus();
}

// As the table is searched: by the class's id.
void SortForSearch(std::vector<ExportedBest>* bests) {
  std::stable_sort(bests->begin(), bests->end(), [](const ExportedBest& a, const ExportedBest& b) {
    if (a.best.kernel_name() != b.best.kernel_name()) return a.best.kernel_name() < b.best.kernel_name();
    if (a.best.device_class_id() != b.best.device_class_id())
      return a.best.device_class_id() < b.best.device_class_id();
    return ConfigLess(a.dims, b.dims);
  });
}

// Leaves entries that one struct can hold: those that are like the newest of their kernel.
void KeepAlike(std::vector<ExportedBest>* bests) {
  std::map<std::string, const ExportedBest*> newest;
  for (const ExportedBest& exported : *bests) {
    const ExportedBest*& known = newest[exported.best.kernel_name()];
    if (known == nullptr || exported.best.revision() > known->best.revision()) known = &exported;
  }
  std::map<std::string, std::pair<Fields, Fields>> fields;
  for (const auto& [kernel, best] : newest) fields[kernel] = {FieldsOf(best->dims), FieldsOf(best->config)};
  bests->erase(std::remove_if(bests->begin(), bests->end(),
                              [&](const ExportedBest& exported) {
                                const auto& [dims, parameters] = fields.at(exported.best.kernel_name());
                                return FieldsOf(exported.dims) != dims || FieldsOf(exported.config) != parameters;
                              }),
               bests->end());
}

}  // namespace

absl::StatusOr<CppHeader> WriteCppHeader(std::vector<ExportedBest> bests, const CppHeaderOptions& options) {
  RETURN_IF_ERROR(CheckNamespace(options.name_space));
  const size_t given = bests.size();
  bests.erase(std::remove_if(bests.begin(), bests.end(), [](const ExportedBest& best) { return !best.is_plain(); }),
              bests.end());
  SortBests(&bests);
  KeepNewest(&bests);
  LeaveOutInputs(&bests);
  KeepAlike(&bests);
  SortForSearch(&bests);
  CppHeader header;
  header.entries = static_cast<int64_t>(bests.size());
  header.left_out = static_cast<int64_t>(given - bests.size());
  header.text = fmt::format(
      "// Best configs of tuned kernels, written by tunefarm. C++17, no dependencies.\n"
      "#pragma once\n\n#include <cstddef>\n#include <cstdint>\n#include <string_view>\n\nnamespace {} {{\n",
      options.name_space);
  std::map<std::string, std::string> taken;
  for (auto begin = bests.cbegin(); begin != bests.cend();) {
    auto end = begin;
    while (end != bests.cend() && end->best.kernel_name() == begin->best.kernel_name()) ++end;
    const std::string& kernel = begin->best.kernel_name();
    const auto [at, is_new] = taken.emplace(Identifier(kernel), kernel);
    if (!is_new) {
      return WithReason(
          InvalidArgument("the kernels '{}' and '{}' would both be called {}; export one of them with --kernel",
                          at->second, kernel, at->first),
          kNotMappable);
    }
    RETURN_IF_ERROR(CheckMembers(kernel, begin->dims));
    RETURN_IF_ERROR(CheckMembers(kernel, begin->config));
    header.text += "\n" + KernelText(at->first, begin, end);
    begin = end;
  }
  header.text += fmt::format("\n}}  // namespace {}\n", options.name_space);
  return header;
}

}  // namespace tunefarm::interchange
