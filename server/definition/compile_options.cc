#include "server/definition/compile_options.h"

#include <algorithm>
#include <string>
#include <vector>

#include "server/base/status.h"
#include "server/definition/field_error.h"
#include "server/definition/value_proto.h"

namespace tunefarm::definition {
namespace {

// How the part after the prefix must look.
enum class Rest {
  kNothing,
  kDigits,  // 1 to 4 of them
  kBool,    // true or false
  kWord,    // [A-Za-z0-9_.+=-]*: no path, no comma, no quote
  kMacro,   // NAME or NAME=VALUE
  kOneOf,   // one of `choices`, separated by '|'
};

struct Rule {
  std::string_view prefix;
  Rest rest = Rest::kNothing;
  std::string_view choices = {};
};

constexpr Rule kCudaRules[] = {
    {"-use_fast_math"},
    {"--use_fast_math"},
    {"--fmad=", Rest::kBool},
    {"-fmad=", Rest::kBool},
    {"--ftz=", Rest::kBool},
    {"-ftz=", Rest::kBool},
    {"--prec-div=", Rest::kBool},
    {"-prec-div=", Rest::kBool},
    {"--prec-sqrt=", Rest::kBool},
    {"-prec-sqrt=", Rest::kBool},
    {"-lineinfo"},
    {"--generate-line-info"},
    {"--maxrregcount=", Rest::kDigits},
    {"-maxrregcount=", Rest::kDigits},
    {"--std=", Rest::kOneOf, "c++11|c++14|c++17|c++20"},
    {"-std=", Rest::kOneOf, "c++11|c++14|c++17|c++20"},
    {"--extra-device-vectorization"},
    {"-extra-device-vectorization"},
    {"-dopt"},
    {"--dopt"},
    {"-dopt=", Rest::kOneOf, "on"},
    {"--dopt=", Rest::kOneOf, "on"},
    {"-default-device"},
    {"--device-int128"},
    {"-device-int128"},
    {"-D", Rest::kMacro},
};

// -f: what changes the code of this one translation unit and nothing else. (-fplugin, -fdump-*, -fprofile-*,
// -save-temps and their like read or write files; -fsanitize and -flto need a link that the worker does not do.)
constexpr std::string_view kHostFlags =
    "fast-math|no-fast-math|math-errno|no-math-errno|trapping-math|no-trapping-math|finite-math-only|"
    "no-finite-math-only|associative-math|no-associative-math|reciprocal-math|no-reciprocal-math|signed-zeros|"
    "no-signed-zeros|rounding-math|no-rounding-math|unsafe-math-optimizations|no-unsafe-math-optimizations|"
    "fp-contract=fast|fp-contract=off|fp-contract=on|unroll-loops|no-unroll-loops|unroll-all-loops|peel-loops|"
    "no-peel-loops|tree-vectorize|no-tree-vectorize|tree-slp-vectorize|no-tree-slp-vectorize|"
    "vect-cost-model=unlimited|vect-cost-model=dynamic|vect-cost-model=cheap|vect-cost-model=very-cheap|"
    "strict-aliasing|no-strict-aliasing|omit-frame-pointer|no-omit-frame-pointer|inline|no-inline|"
    "inline-functions|no-inline-functions|prefetch-loop-arrays|no-prefetch-loop-arrays|loop-interchange|"
    "loop-unroll-and-jam|loop-nest-optimize|split-loops|ivopts|no-ivopts|schedule-insns|no-schedule-insns|"
    "schedule-insns2|no-schedule-insns2|rename-registers|no-rename-registers|no-exceptions|exceptions|no-rtti|rtti|"
    "wrapv|no-wrapv|no-semantic-interposition|align-functions=16|align-functions=32|align-functions=64|"
    "align-loops=16|align-loops=32|align-loops=64";

constexpr Rule kHostRules[] = {
    {"-O", Rest::kOneOf, "|0|1|2|3|s|z|fast|g"},
    {"-g", Rest::kOneOf, "|0|1|2|3"},
    {"-march=", Rest::kWord},
    {"-mtune=", Rest::kWord},
    {"-mprefer-vector-width=", Rest::kOneOf, "none|128|256|512"},
    {"-mavx", Rest::kWord},
    {"-mno-avx", Rest::kWord},
    {"-msse", Rest::kWord},
    {"-mno-sse", Rest::kWord},
    {"-mfma"},
    {"-mno-fma"},
    {"-mf16c"},
    {"-mbmi"},
    {"-mbmi2"},
    {"-mpopcnt"},
    {"-f", Rest::kOneOf, kHostFlags},
    {"-std=", Rest::kOneOf, "c++11|c++14|c++17|c++20|c++23|gnu++11|gnu++14|gnu++17|gnu++20|gnu++23"},
    {"-W", Rest::kWord},  // No comma: "-Wl,..." and its like hand options to other programs.
    {"-D", Rest::kMacro},
};

bool IsWord(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
           c == '+' || c == '=' || c == '-';
  });
}

bool IsOneOf(std::string_view text, std::string_view choices) {
  while (true) {
    const size_t bar = choices.find('|');
    if (text == choices.substr(0, bar)) return true;
    if (bar == std::string_view::npos) return false;
    choices.remove_prefix(bar + 1);
  }
}

// Printable ASCII without what a shell or an option file would read: the worker passes no shell, but a log is copied.
bool IsMacro(std::string_view text) {
  const size_t equals = text.find('=');
  if (!IsIdentifier(text.substr(0, equals))) return false;
  if (equals == std::string_view::npos) return true;
  const std::string_view value = text.substr(equals + 1);
  return std::all_of(value.begin(), value.end(), [](char c) {
    return c > ' ' && c < 0x7f && std::string_view("\\\"'`$;|@#").find(c) == std::string_view::npos;
  });
}

bool Matches(const Rule& rule, std::string_view option) {
  if (option.substr(0, rule.prefix.size()) != rule.prefix) return false;
  const std::string_view rest = option.substr(rule.prefix.size());
  switch (rule.rest) {
    case Rest::kNothing:
      return rest.empty();
    case Rest::kDigits:
      return !rest.empty() && rest.size() <= 4 && rest.find_first_not_of("0123456789") == std::string_view::npos;
    case Rest::kBool:
      return rest == "true" || rest == "false";
    case Rest::kWord:
      return IsWord(rest);
    case Rest::kMacro:
      return IsMacro(rest);
    case Rest::kOneOf:
      return IsOneOf(rest, rule.choices);
  }
  return false;
}

template <size_t size>
bool MatchesAny(const Rule (&rules)[size], std::string_view option) {
  return std::any_of(std::begin(rules), std::end(rules), [&](const Rule& rule) { return Matches(rule, option); });
}

template <size_t size>
std::string Closest(const Rule (&rules)[size], std::string_view option) {
  std::vector<std::string> candidates;
  for (const Rule& rule : rules) {
    if (rule.prefix.size() > 2) candidates.emplace_back(rule.prefix);
  }
  return DidYouMean(option, candidates);
}

}  // namespace

absl::Status CheckCompileOption(v1::Language language, std::string_view option) {
  const bool is_cuda = language == v1::LANGUAGE_CUDA;
  const bool allowed = is_cuda ? MatchesAny(kCudaRules, option) : MatchesAny(kHostRules, option);
  if (allowed) return absl::OkStatus();
  const std::string hint = is_cuda ? Closest(kCudaRules, option) : Closest(kHostRules, option);
  return InvalidArgument(
      "compiler option '{}' is not allowed{}; allowed are {}", option, hint,
      is_cuda
          ? "-use_fast_math, --fmad=, --ftz=, --prec-div=, --prec-sqrt=, -lineinfo, --maxrregcount=N, "
            "--std=c++NN, --extra-device-vectorization, -dopt=on, --device-int128, -default-device and -DNAME[=VALUE]"
          : "-O*, -g, -march=, -mtune=, -mprefer-vector-width=, -mavx*, -msse*, -mfma, code generation flags (-f*), "
            "-std=, -W* and -DNAME[=VALUE]");
}

}  // namespace tunefarm::definition
