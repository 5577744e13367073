// The fuzz target of expressions without libFuzzer: seeded texts of the language's own tokens, whole and damaged. For
// how long: fuzz_run.h.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <iterator>
#include <string>

#include "server/base/random.h"
#include "tests/fuzz/fuzz_run.h"

namespace tunefarm {
namespace {

class TextMaker {
 public:
  explicit TextMaker(uint64_t seed) : random_(seed) {}

  std::string Next() {
    std::string text;
    switch (random_.UniformInt(8)) {
      case 0:
        for (uint64_t tokens = random_.UniformInt(30); tokens-- > 0;) text += Token() + (Chance(2) ? " " : "");
        return text;
      case 1:
        return Deep();
      default:
        text = Expression(static_cast<int>(random_.UniformInt(5)));
    }
    for (uint64_t damages = Chance(2) ? random_.UniformInt(4) : 0; damages-- > 0;) Damage(&text);
    return text;
  }

 private:
  bool Chance(uint64_t one_in) { return random_.UniformInt(one_in) == 0; }

  std::string Token() {
    static constexpr const char* kTokens[] = {"x",
                                              "b",
                                              "f",
                                              "s",
                                              "a",
                                              "d",
                                              "device.n",
                                              "0",
                                              "1",
                                              "2",
                                              "-1",
                                              "7",
                                              "0.5",
                                              "1e308",
                                              "9223372036854775807",
                                              "9223372036854775808",
                                              "0x1f",
                                              "1_000",
                                              "'bf16'",
                                              "\"x\"",
                                              "''",
                                              "True",
                                              "False",
                                              "+",
                                              "-",
                                              "*",
                                              "/",
                                              "//",
                                              "%",
                                              "**",
                                              "<",
                                              "<=",
                                              ">",
                                              ">=",
                                              "==",
                                              "!=",
                                              "in",
                                              "not in",
                                              "not",
                                              "and",
                                              "or",
                                              "if",
                                              "else",
                                              "(",
                                              ")",
                                              "[",
                                              "]",
                                              ",",
                                              "min(",
                                              "max(",
                                              "abs(",
                                              "ceil_div(",
                                              "round_up(",
                                              "int(",
                                              "float(",
                                              "bool(",
                                              "log2(",
                                              "is_pow2(",
                                              "round(",
                                              "all(",
                                              "any(",
                                              "sum(",
                                              "range(",
                                              "for",
                                              "i",
                                              "&",
                                              "|",
                                              "^",
                                              "~",
                                              "<<",
                                              ">>",
                                              "=",
                                              "!",
                                              "lambda",
                                              "import",
                                              ".",
                                              ":",
                                              ";",
                                              "\n",
                                              "\t",
                                              "\xff",
                                              "#",
                                              "e",
                                              "_"};
    return kTokens[random_.UniformInt(std::size(kTokens))];
  }

  std::string Leaf() {
    static constexpr const char* kLeaves[] = {"x",        "x",   "b",     "f",      "s",   "a",  "d",
                                              "device.n", "0",   "1",     "2",      "3",   "-1", "4611686018427387904",
                                              "0.5",      "2.5", "1e200", "'bf16'", "True"};
    return kLeaves[random_.UniformInt(std::size(kLeaves))];
  }

  std::string Expression(int depth) {
    static constexpr const char* kBinary[] = {"+",  "-",  "*",   "/",  "//",  "%",  "**", "<", "<=", ">",  ">=",
                                              "==", "!=", "and", "or", "and", "or", "&",  "|", "^",  "<<", ">>"};
    static constexpr const char* kUnary[] = {"abs",  "int", "float", "bool", "log2", "is_pow2",
                                             "not ", "-",   "+",     "~",    "round"};
    static constexpr const char* kTwo[] = {"min", "max", "ceil_div", "round_up", "round"};
    static constexpr const char* kOfList[] = {"all", "any", "sum"};
    if (depth <= 0) return Leaf();
    const auto part = [&] { return Expression(depth - 1); };
    switch (random_.UniformInt(14)) {
      case 12:
        return fmt::format("{}(i == {} for i in ({}, {}){})", kOfList[random_.UniformInt(std::size(kOfList))], part(),
                           part(), part(), Chance(2) ? " if i != 2" : "");
      case 13:
        return fmt::format("{}([{}, {}])", kOfList[random_.UniformInt(std::size(kOfList))], part(), part());
      case 0:
        return fmt::format("{}({})", kUnary[random_.UniformInt(std::size(kUnary))], part());
      case 1:
        return fmt::format("{}({}, {})", kTwo[random_.UniformInt(std::size(kTwo))], part(), part());
      case 2:
        return fmt::format("({} if {} else {})", part(), part(), part());
      case 3:
        return fmt::format("({}{} in ({}, {}))", part(), Chance(2) ? " not" : "", part(), part());
      case 4:
        return fmt::format("({} <= {} < {})", part(), part(), part());
      case 5:
        return fmt::format("max({}, {}, {})", part(), part(), part());
      default:
        return fmt::format("({} {} {})", part(), kBinary[random_.UniformInt(std::size(kBinary))], part());
    }
  }

  // Too deep, too long, too many operands.
  std::string Deep() {
    const size_t times = 1 + random_.UniformInt(200);
    std::string text;
    const std::string open = Chance(2) ? "(" : Token();
    for (size_t i = 0; i < times; ++i) text += open;
    text += Leaf();
    for (size_t i = 0; i < times; ++i) text += Chance(50) ? Token() : ")";
    if (Chance(4)) text += std::string(random_.UniformInt(5000), ' ') + "+ 1";
    return text;
  }

  void Damage(std::string* text) {
    const size_t at = random_.UniformInt(text->size() + 1);
    switch (random_.UniformInt(4)) {
      case 0:
        text->insert(at, Token());
        break;
      case 1:
        text->erase(at, 1 + random_.UniformInt(3));
        break;
      case 2:
        if (at < text->size()) (*text)[at] = static_cast<char>(random_.UniformInt(256));
        break;
      default:
        text->insert(at, text->substr(random_.UniformInt(text->size() + 1), random_.UniformInt(12)));
        break;
    }
  }

  PhiloxStream random_;
};

TEST(ExpressionFuzz, FindsNothing) {
  FuzzRun run(4000);
  TextMaker texts(run.seed());
  while (run.GoesOn()) run.Try(texts.Next());
}

}  // namespace
}  // namespace tunefarm
