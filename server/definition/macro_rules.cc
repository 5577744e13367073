#include "server/definition/macro_rules.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>

#include "server/base/status_macros.h"
#include "server/definition/field_error.h"

namespace tunefarm::definition {
namespace {

// Evaluations of derived texts in one check.
constexpr int kTextsEvaluatedMax = 1000;

// Names that the sources and the headers that they include may use.
constexpr std::string_view kWordsOfCxx[] = {"alignas",      "alignof",   "and",           "and_eq",
                                            "asm",          "auto",      "bitand",        "bitor",
                                            "bool",         "break",     "case",          "catch",
                                            "char",         "char16_t",  "char32_t",      "char8_t",
                                            "class",        "co_await",  "co_return",     "co_yield",
                                            "compl",        "concept",   "const",         "const_cast",
                                            "consteval",    "constexpr", "constinit",     "continue",
                                            "decltype",     "default",   "defined",       "delete",
                                            "do",           "double",    "dynamic_cast",  "else",
                                            "enum",         "explicit",  "export",        "extern",
                                            "false",        "float",     "for",           "friend",
                                            "goto",         "if",        "inline",        "int",
                                            "long",         "mutable",   "namespace",     "new",
                                            "noexcept",     "not",       "not_eq",        "nullptr",
                                            "operator",     "or",        "or_eq",         "private",
                                            "protected",    "public",    "register",      "reinterpret_cast",
                                            "requires",     "return",    "short",         "signed",
                                            "sizeof",       "static",    "static_assert", "static_cast",
                                            "struct",       "switch",    "template",      "this",
                                            "thread_local", "throw",     "true",          "try",
                                            "typedef",      "typeid",    "typename",      "union",
                                            "unsigned",     "using",     "virtual",       "void",
                                            "volatile",     "wchar_t",   "while",         "xor",
                                            "xor_eq"};
constexpr std::string_view kLibraryNames[] = {"std",      "NDEBUG",  "NULL",     "EOF",     "assert",   "errno",
                                              "offsetof", "va_list", "va_start", "va_arg",  "va_end",   "va_copy",
                                              "INFINITY", "NAN",     "CHAR_BIT", "INT_MIN", "INT_MAX",  "UINT_MAX",
                                              "SIZE_MAX", "FLT_MAX", "DBL_MAX",  "size_t",  "ptrdiff_t"};
constexpr std::string_view kCudaNames[] = {"threadIdx", "blockIdx", "blockDim", "gridDim", "warpSize", "dim3"};

// [A-Za-z0-9_], whatever the locale.
bool IsMacroCharacter(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

// `left` counts down over all formulas of a definition.
absl::Status CheckDerivedText(const KernelPlanAccess::Impl& plan, const Formula& formula, int* left) {
  // What a config lacks has its default. The default config is compiled whether it keeps the constraints or not.
  const auto check = [&](const Config& config, bool is_default) {
    const auto value = Evaluate(formula, plan.Slots(ResolvedProblem(), &config, nullptr, nullptr));
    if (!value.ok() || !value->is_string()) return absl::OkStatus();
    const std::string why = WhyNoMacroValue(value->string_value());
    if (why.empty() || (!is_default && !plan.KeepsConstraints(ResolvedProblem(), config))) return absl::OkStatus();
    return FieldError(formula.path, kInvalidField, "{}", why);
  };
  RETURN_IF_ERROR(check(Config(), true));
  for (const int slot : formula.expression.Variables()) {
    const auto index = static_cast<size_t>(slot);
    if (index < plan.parameters_begin() || index >= plan.device_begin()) continue;
    const Parameter& parameter = plan.parameters[index - plan.parameters_begin()].parameter;
    for (const Value& value : parameter.values) {
      if (--*left < 0) return absl::OkStatus();
      Config config;
      config.Set(parameter.name, value);
      RETURN_IF_ERROR(check(config, false));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::string_view WhyNoMacroName(std::string_view name, bool is_cuda) {
  const auto is_among = [name](const auto& names) {
    return std::find(std::begin(names), std::end(names), name) != std::end(names);
  };
  if (name.size() >= 2 && name[0] == '_' && (name[1] == '_' || (name[1] >= 'A' && name[1] <= 'Z'))) {
    return "reserved for the compiler and its libraries";
  }
  if (is_among(kWordsOfCxx)) return "a word of C++";
  if (is_among(kLibraryNames)) return "a name of the C and C++ libraries";
  if (is_cuda && is_among(kCudaNames)) return "a built-in name of CUDA";
  return {};
}

bool IsToken(std::string_view text) {
  return !text.empty() && text.size() <= 64 && std::all_of(text.begin(), text.end(), [](char c) {
    return IsMacroCharacter(c) || c == '.' || c == '+' || c == '-';
  });
}

std::string WhyNoMacroValue(std::string_view token) {
  if (!IsToken(token)) {
    return fmt::format("'{}' is not 1 to 64 characters of [A-Za-z0-9_.+-], which a macro needs", token.substr(0, 64));
  }
  if (std::all_of(token.begin(), token.end(), IsMacroCharacter)) return {};
  // A decimal number: sign, digits with at most one point, exponent, suffix.
  std::string_view rest = token;
  const auto take = [&rest](std::string_view any_of, size_t most) {
    const size_t taken = std::min({most, rest.size(), rest.find_first_not_of(any_of)});
    rest.remove_prefix(taken);
    return taken;
  };
  constexpr std::string_view kDigits = "0123456789";
  (void)take("+-", 1);
  size_t digits = take(kDigits, token.size());
  if (take(".", 1) > 0) digits += take(kDigits, token.size());
  bool is_number = digits > 0;
  if (take("eE", 1) > 0) {
    (void)take("+-", 1);
    is_number = is_number && take(kDigits, token.size()) > 0;
  }
  (void)take("fFlLuU", 3);
  if (is_number && rest.empty()) return {};
  std::string word(token);
  std::replace_if(
      word.begin(), word.end(), [](char c) { return !IsMacroCharacter(c); }, '_');
  return fmt::format("'{}' cannot be the value of a macro, which is a word of [A-Za-z0-9_] or a number; write '{}'",
                     token, word);
}

std::string TokenMacro(std::string_view name, std::string_view token) {
  std::string macro(name);
  macro += '_';
  for (const char c : token) macro += IsMacroCharacter(c) ? c : '_';
  return macro;
}

absl::Status CheckStringValue(const std::string& path, std::string_view text, Baked baked) {
  const bool is_token = IsToken(text);
  if (is_token && baked == Baked::kNo) return absl::OkStatus();
  const std::string why = WhyNoMacroValue(text);
  if (why.empty()) return absl::OkStatus();
  return FieldError(path, kInvalidField, "{}{}", why,
                    is_token && baked == Baked::kUnlessRun ? ", or bind: RUN where no source needs it" : "");
}

void CheckDerivedTexts(PlanDraft* draft) {
  const KernelPlanAccess::Impl& plan = *draft->plan;
  const auto has_default = [](const DimPlan& dim) { return dim.default_value.has_value(); };
  if (!std::all_of(plan.dims.begin(), plan.dims.end(), has_default)) return;
  int left = kTextsEvaluatedMax;
  for (const DerivedPlan& derived : plan.derived) {
    const auto type = derived.formula.expression.result_type();
    const bool may_be_text = !type.has_value() || *type == ValueType::kString;
    if (!derived.compile || !may_be_text || (derived.formula.uses & kUsesDevice) != 0) continue;
    draft->Note(CheckDerivedText(plan, derived.formula, &left));
  }
}

}  // namespace tunefarm::definition
