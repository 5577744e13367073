// Random expressions give the same value, type and kind of error here and in python3.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "server/base/random.h"
#include "server/base/status.h"
#include "server/expression/expression.h"

namespace tunefarm {
namespace {

constexpr int kExpressions = 8000;

// Writes expressions that are mostly meaningful: operands of fitting types more often than not.
class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed) {}

  std::string Any(int depth) {
    switch (random_.UniformInt(12)) {
      case 0:
        return Truth(depth);
      case 1:
        return Text(depth);
      default:
        return Number(depth);
    }
  }

  std::string Number(int depth) {
    if (depth <= 0) return NumberLeaf();
    switch (random_.UniformInt(18)) {
      case 14:
        return fmt::format("{} {} {}", Maybe(Number(depth - 1)), Pick({"&", "|", "^", "<<", ">>"}),
                           Maybe(Number(depth - 1)));
      case 15:
        return random_.UniformInt(2) == 0 ? fmt::format("round({})", Number(depth - 1))
                                          : fmt::format("round({}, {})", Number(depth - 1),
                                                        Pick({"0", "1", "2", "-1", "-2", "5", "x", "-18", "-19"}));
      case 16:
        return fmt::format("sum({} for i in ({}, {}) if {})", OfLoop(depth - 1), Number(0), Number(0),
                           Truth(depth - 1));
      case 17:
        return fmt::format("{}({} for i in {})", Pick({"min", "max", "sum"}), OfLoop(0),
                           Pick({"range(3)", "[x, y]", "(x, 2, z)", "range(5, -5, -3)"}));
      case 0:
        return Pick({"-", "+", "~"}) + Maybe(Number(depth - 1));
      case 1:
        return fmt::format("{}({}, {})", Pick({"min", "max", "ceil_div", "round_up"}), Any(depth - 1), Any(depth - 1));
      case 2:
        return fmt::format("min({}, {}, {})", Number(depth - 1), Number(depth - 1), Number(depth - 1));
      case 3:
        return fmt::format("{}({})", Pick({"abs", "int", "float", "bool", "log2", "is_pow2"}), Number(depth - 1));
      case 4:
        return fmt::format("({} if {} else {})", Any(depth - 1), Truth(depth - 1), Any(depth - 1));
      case 5:
        return fmt::format("{} ** {}", Maybe(Number(depth - 1)), Pick({"2", "3", "0", "-1", "0.5", "x", "(-2)", "7"}));
      case 6:
        return Truth(depth - 1);
      default:
        return fmt::format("{} {} {}", Maybe(Number(depth - 1)), Pick({"+", "-", "*", "/", "//", "%", "*", "//"}),
                           Maybe(Number(depth - 1)));
    }
  }

  std::string Truth(int depth) {
    if (depth <= 0) return Pick({"True", "False", "flag"});
    switch (random_.UniformInt(9)) {
      case 7:
        return fmt::format("{}({} {} i {}for i in ({}, {}))", Pick({"all", "any"}), Maybe(Number(depth - 1)), Compare(),
                           Pick({"", "+ 1 ", "% 3 "}), Number(0), Number(0));
      case 8:
        return fmt::format("{}([i {} j for i in ({}, 2) for j in (i, {})])", Pick({"all", "any"}),
                           Pick({"<", "&", "==", "//"}), Number(0), Number(0));
      case 0:
        return fmt::format("(not {})", Maybe(Any(depth - 1)));
      case 1:
        return fmt::format("({} {} {})", Any(depth - 1), Pick({"and", "or"}), Any(depth - 1));
      case 2:
        return fmt::format("({} {} {} {} {})", Maybe(Number(depth - 1)), Compare(), Maybe(Number(depth - 1)), Compare(),
                           Maybe(Number(depth - 1)));
      case 3:
        return fmt::format("({} {} ({}, {}, 16))", Maybe(Any(depth - 1)), Pick({"in", "not in"}), Any(depth - 1),
                           Any(depth - 1));
      case 4:
        return fmt::format("({} {} {})", Text(depth - 1), Pick({"in", "not in", "==", "!=", "<", ">="}),
                           Text(depth - 1));
      default:
        return fmt::format("({} {} {})", Maybe(Number(depth - 1)), Compare(), Maybe(Any(depth - 1)));
    }
  }

  std::string Text(int depth) {
    if (depth > 0 && random_.UniformInt(4) == 0) {
      return fmt::format("({} if {} else {})", Text(depth - 1), Truth(depth - 1), Text(depth - 1));
    }
    return Pick({"'bf16'", "'fp32'", "''", "\"f\"", "s", "'é'", "'it\\'s'"});
  }

 private:
  // A number that the variable of a loop, i, is part of.
  std::string OfLoop(int depth) {
    return fmt::format("{} {} {}", Pick({"i", "-i", "(i + 1)"}), Pick({"*", "+", "-", "%", "&"}), Maybe(Number(depth)));
  }
  std::string Pick(const std::vector<const char*>& choices) { return choices[random_.UniformInt(choices.size())]; }
  std::string Compare() { return Pick({"<", "<=", ">", ">=", "==", "!="}); }
  // Parentheses now and then, so that precedence is tested too. A minus after an operator needs none.
  std::string Maybe(const std::string& text) { return random_.UniformInt(2) == 0 ? "(" + text + ")" : text; }

  std::string NumberLeaf() {
    return Pick({"0",
                 "1",
                 "2",
                 "3",
                 "7",
                 "16",
                 "-5",
                 "64",
                 "1024",
                 "x",
                 "y",
                 "z",
                 "x",
                 "y",
                 "0.5",
                 "-2.25",
                 "1e3",
                 "3.0",
                 "1e-9",
                 "f",
                 "True",
                 "flag",
                 "9223372036854775807",
                 "(-9223372036854775808)",
                 "4611686018427387904",
                 "9007199254740993",
                 "9007199254740992.0",
                 "1e19",
                 "-0.0",
                 "1e308",
                 "0x10",
                 "1_000"});
  }

  PhiloxStream random_;
};

std::string Describe(const absl::StatusOr<Value>& value) {
  if (!value.ok()) {
    const std::string_view message = MessageOf(value.status());
    if (message.find("division by zero") != std::string_view::npos) return "error zero";
    if (message.find("overflow: ") != std::string_view::npos) return "error overflow";
    return "error other";
  }
  switch (value->type()) {
    case ValueType::kBool:
      return "bool " + value->ToLiteral();
    case ValueType::kInt:
      return "int " + value->ToLiteral();
    case ValueType::kFloat:
      return std::isnan(value->float_value()) ? "float nan" : fmt::format("float {}", value->float_value());
    case ValueType::kString:
      break;
  }
  return "str " + value->string_value();
}

// Python's line in the form of Describe.
std::string Normalise(const std::string& line) {
  if (line.rfind("float ", 0) == 0) return fmt::format("float {}", std::strtod(line.c_str() + 6, nullptr));
  if (line.rfind("str ", 0) != 0) return line;
  // repr(): 'text' or "it's".
  return "str " + line.substr(5, line.size() - 6);
}

std::string JsonString(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

TEST(ExpressionDifferential, AgreesWithPython) {
  if (std::system("python3 -c 'import ast' >/dev/null 2>&1") != 0) GTEST_SKIP() << "python3 is not installed";
  const char* source = std::getenv("TUNEFARM_SOURCE_DIR");
  ASSERT_NE(source, nullptr) << "run through ctest";
  SymbolTable table;
  // Typed names take the fast paths, the untyped one the general path.
  ASSERT_TRUE(table.AddVariable("x", ValueType::kInt).ok());
  ASSERT_TRUE(table.AddVariable("y", ValueType::kInt).ok());
  ASSERT_TRUE(table.AddVariable("z").ok());
  ASSERT_TRUE(table.AddVariable("f", ValueType::kFloat).ok());
  ASSERT_TRUE(table.AddVariable("flag", ValueType::kBool).ok());
  ASSERT_TRUE(table.AddVariable("s", ValueType::kString).ok());

  const std::string input = testing::TempDir() + "tunefarm_expressions.json";
  std::vector<std::string> texts;
  std::vector<std::vector<Value>> values;
  {
    std::ofstream file(input);
    PhiloxStream random(7);
    Generator generator(11);
    for (int i = 0; i < kExpressions; ++i) {
      texts.push_back(generator.Any(1 + static_cast<int>(random.UniformInt(4))));
      const int64_t x = static_cast<int64_t>(random.UniformInt(17)) - 8;
      const int64_t y = static_cast<int64_t>(random.NextU64() >> random.UniformInt(64));
      const bool flag = random.UniformInt(2) == 0;
      values.push_back({x, y, x * 3, static_cast<double>(x) / 4, flag, flag ? "bf16" : "f"});
      file << fmt::format(R"({{"text": {}, "names": {{"x": {}, "y": {}, "z": {}, "f": {}, "flag": {}, "s": "{}"}}}})",
                          JsonString(texts.back()), x, y, x * 3, values.back()[3].ToText(), flag, flag ? "bf16" : "f")
           << "\n";
    }
  }
  const std::string command =
      fmt::format("python3 '{}/tests/unit/expression/expression_oracle.py' < '{}'", source, input);
  FILE* pipe = popen(command.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  int compared = 0;
  int errors = 0;
  char buffer[4096];
  while (std::fgets(buffer, sizeof(buffer), pipe) != nullptr) {
    std::string line(buffer);
    while (!line.empty() && line.back() == '\n') line.pop_back();
    ASSERT_LT(static_cast<size_t>(compared), texts.size());
    const std::string& text = texts[compared];
    const std::vector<Value>& slots = values[compared];
    ++compared;
    const auto expression = Expression::Compile(text, table);
    ASSERT_TRUE(expression.ok()) << expression.status();
    const auto value = expression->Evaluate(slots.data());
    ASSERT_EQ(Describe(value), Normalise(line))
        << text << "\n x=" << slots[0].ToText() << " y=" << slots[1].ToText() << " " << value.status();
    if (!value.ok()) ++errors;
    if (value.ok() && expression->result_type().has_value()) {
      ASSERT_EQ(value->type(), *expression->result_type()) << text;
    }
  }
  EXPECT_EQ(pclose(pipe), 0);
  EXPECT_EQ(compared, kExpressions);
  // The generator must keep making all kinds.
  EXPECT_GT(errors, kExpressions / 50);
  EXPECT_LT(errors, kExpressions / 2);
  std::remove(input.c_str());
}

}  // namespace
}  // namespace tunefarm
