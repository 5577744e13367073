#include "server/interchange/python_text.h"

#include <string>

#include "gtest/gtest.h"
#include "server/base/status.h"
#include "server/expression/expression.h"

namespace tunefarm::interchange {
namespace {

std::string Evaluated(const std::string& text, const PythonNames& names = {}) {
  const auto python = PythonText::Parse(text);
  if (!python.ok()) return "parse: " + std::string(MessageOf(python.status()));
  const auto value = python->Evaluate(names);
  return value.ok() ? value->ToLiteral() : std::string(MessageOf(value.status()));
}

TEST(PythonText, ValuesAsTuningFilesWriteThem) {
  EXPECT_EQ(Evaluated("[16, 32]"), "[16, 32]");
  EXPECT_EQ(Evaluated("[1, 2, 4] + list(range(32, 128+1, 32))"), "[1, 2, 4, 32, 64, 96, 128]");
  EXPECT_EQ(Evaluated("[2**i for i in range(0, 6)]"), "[1, 2, 4, 8, 16, 32]");
  EXPECT_EQ(Evaluated("[1] + [2*i for i in range(1,4)]"), "[1, 2, 4, 6]");
  EXPECT_EQ(Evaluated("[i for i in range(20) if i % 7 == 0]"), "[0, 7, 14]");
  EXPECT_EQ(Evaluated("[a * b for a in [1, 2] for b in (3, 5)]"), "[3, 5, 6, 10]");
  EXPECT_EQ(Evaluated("[a + b for a, b in [[1, 2], (3, 4)]]"), "[3, 7]");
  EXPECT_EQ(Evaluated("[x if x > 1 else 0 for x in [1, 2] if x]"), "[0, 2]");
  EXPECT_EQ(Evaluated("['a', \"b\"]"), "['a', 'b']");
  EXPECT_EQ(Evaluated("1, 2,"), "[1, 2]");
  EXPECT_EQ(Evaluated("(1, 2)"), "[1, 2]");
  EXPECT_EQ(Evaluated("[1 << i for i in range(3)]"), "[1, 2, 4]");
  EXPECT_EQ(Evaluated("[0] * 3"), "[0, 0, 0]");
  EXPECT_EQ(Evaluated("sorted(set([3, 1, 3]))"), "[1, 3]");
  EXPECT_EQ(Evaluated("list(range(5, 0, -2))"), "[5, 3, 1]");
  EXPECT_EQ(Evaluated("[True, False]"), "[True, False]");
  EXPECT_EQ(Evaluated("[]"), "[]");
}

TEST(PythonText, ArithmeticIsPythons) {
  EXPECT_EQ(Evaluated("-7 // 2"), "-4");
  EXPECT_EQ(Evaluated("-7 % 3"), "2");
  EXPECT_EQ(Evaluated("7 % -3"), "-2");
  EXPECT_EQ(Evaluated("7.5 // 2"), "3.0");
  EXPECT_EQ(Evaluated("-1.5 % 1"), "0.5");
  EXPECT_EQ(Evaluated("6 / 3"), "2.0");
  EXPECT_EQ(Evaluated("2 ** 10"), "1024");
  EXPECT_EQ(Evaluated("2 ** -1"), "0.5");
  EXPECT_EQ(Evaluated("-2 ** 2"), "-4");
  EXPECT_EQ(Evaluated("2 ** 3 ** 2"), "512");
  EXPECT_EQ(Evaluated("1 < 2 < 3"), "True");
  EXPECT_EQ(Evaluated("1 == 1.0"), "True");
  EXPECT_EQ(Evaluated("9007199254740993 == 9007199254740992.0"), "False");
  EXPECT_EQ(Evaluated("not 0 and 5 or 7"), "5");
  EXPECT_EQ(Evaluated("3 in [1, 2] or 3 not in (1, 2)"), "True");
  EXPECT_EQ(
      Evaluated("max(filter_width) - 1", {{"filter_width", PythonValue(PythonValue::List{PythonValue(int64_t{15})})}}),
      "14");
  EXPECT_EQ(Evaluated("math.ceil(7 / 2) + int(3.9) + round(2.5) + abs(-1)"), "10");
  EXPECT_EQ(Evaluated("len([1, 2]) + sum(range(4)) + min(3, 2) + [5, 6][-1]"), "16");
  EXPECT_EQ(Evaluated("all(x > 0 for x in [1, 2])"), "True");
  EXPECT_EQ(Evaluated("any(x > 2 for x in [1, 2])"), "False");
  EXPECT_EQ(Evaluated("0x10 + 0b11 + 0o7 + 1_000"), "1026");
}

TEST(PythonText, ErrorsNameTheColumn) {
  EXPECT_EQ(Evaluated("[1, x]"), "column 5: unknown name 'x'");
  EXPECT_EQ(Evaluated("1 / 0"), "column 3: division by zero");
  EXPECT_EQ(Evaluated("2 ** 63"), "column 3: the result does not fit in 64 bits");
  EXPECT_EQ(Evaluated("9223372036854775807 + 1"), "column 21: the result does not fit in 64 bits");
  EXPECT_EQ(Evaluated("99999999999999999999"), "parse: column 1: the number does not fit in 64 bits");
  EXPECT_EQ(Evaluated("[1, 2"), "parse: column 6: the text ends where ']' is expected");
  EXPECT_EQ(Evaluated("1 +"), "parse: column 4: the text ends where a value is expected");
  EXPECT_EQ(Evaluated("lambda x: x"), "parse: column 1: lambda is not supported; write the expression itself");
  EXPECT_EQ(Evaluated("__import__('os')"), "column 1: the function __import__() is not known");
  EXPECT_EQ(Evaluated("os.system('x')"), "parse: column 3: 'os.' is not known; only math. and np. are");
  EXPECT_EQ(Evaluated("[1, 2][0:1]"), "parse: column 9: slices are not supported");
  EXPECT_EQ(Evaluated("'a"), "parse: column 1: the string has no end");
  EXPECT_EQ(Evaluated("[1][3]"), "column 4: there is no element 3 of 1");
  EXPECT_EQ(Evaluated("1 $ 2"), "parse: column 3: '$' is not expected here");
  EXPECT_EQ(Evaluated("10.0 ** 400"), "column 6: the result is not a finite number");
}

TEST(PythonText, WorkAndMemoryAreBounded) {
  EXPECT_NE(Evaluated("list(range(100000))").find("more than 65536 values"), std::string::npos);
  EXPECT_NE(Evaluated("[0] * 100000").find("more than 65536"), std::string::npos);
  EXPECT_NE(Evaluated("[i for i in range(60000) for j in range(60000) if i < 0]").find("too many steps"),
            std::string::npos);
  EXPECT_NE(Evaluated("[sum(range(60000)) for i in range(60000)]").find("too many steps"), std::string::npos);
  EXPECT_NE(Evaluated("[[[[[1]]]]]").find("nested more than 3"), std::string::npos);
  EXPECT_NE(Evaluated(std::string(2000, '(') + "1" + std::string(2000, ')')).find("levels of nesting"),
            std::string::npos);
  EXPECT_NE(Evaluated(std::string(2000, '-') + "1").find("levels of nesting"), std::string::npos);
  std::string chain = "1";
  for (int i = 0; i < 5000; ++i) chain += "+1";
  EXPECT_NE(Evaluated(chain).find("too many operators in a row"), std::string::npos);
  EXPECT_NE(Evaluated(std::string(70'000, ' ')).find("at most 65536 are read"), std::string::npos);
}

std::string Written(const std::string& text) {
  PythonTranslation translation;
  translation.variables = {{"a", "a"}, {"b", "B"}};
  translation.constants["c"] = PythonValue(PythonValue::List{PythonValue(int64_t{3}), PythonValue(int64_t{5})});
  translation.elements["ProblemSize"] = {"px", "py"};
  const auto python = PythonText::Parse(text);
  if (!python.ok()) return std::string(MessageOf(python.status()));
  const auto written = python->ToExpression(translation);
  if (!written.ok()) return std::string(MessageOf(written.status()));
  // What is written compiles.
  SymbolTable symbols;
  for (const char* name : {"a", "B", "px", "py"}) EXPECT_TRUE(symbols.AddVariable(name).ok());
  const auto compiled = Expression::Compile(*written, symbols);
  EXPECT_TRUE(compiled.ok()) << *written << "\n" << compiled.status();
  return *written;
}

TEST(PythonText, IsWrittenInTheExpressionLanguage) {
  EXPECT_EQ(Written("a*b <= 1024"), "a * B <= 1024");
  EXPECT_EQ(Written("32 <= a*b <= 1024"), "32 <= a * B <= 1024");
  EXPECT_EQ(Written("(a+1)*(b-2)//-3 % 4"), "(a + 1) * (B - 2) // -3 % 4");
  EXPECT_EQ(Written("a-(b-1)"), "a - (B - 1)");
  EXPECT_EQ(Written("(a if b else 2) + 1"), "(a if B else 2) + 1");
  EXPECT_EQ(Written("not (a and b) or a in [1, 2] + [4]"), "not (a and B) or a in [1, 2, 4]");
  EXPECT_EQ(Written("(-a) ** 2"), "(-a) ** 2");
  EXPECT_EQ(Written("ProblemSize[0] * max(c) + ProblemSize[-1]"), "px * 5 + py");
  EXPECT_EQ(Written("all(a % x == 0 for x in c)"), "bool(a % 3 == 0 and a % 5 == 0)");
  EXPECT_EQ(Written("sum([a, b, 1])"), "a + B + 1");
  EXPECT_EQ(Written("a * sum([a, b])"), "a * (a + B)");
  EXPECT_EQ(Written("np.prod([a, b]) <= 4"), "a * B <= 4");
  EXPECT_EQ(Written("math.ceil(a / b)"), "int(ceil_div(a, B))");
  EXPECT_EQ(Written("params['b'] > p[\"a\"]"), "B > a");
  EXPECT_EQ(Written("pow(a, 2)"), "a ** 2");
  EXPECT_EQ(Written("min(a, b, c[0])"), "min(a, B, 3)");
}

TEST(PythonText, WhatHasNoCounterpartSaysSo) {
  EXPECT_EQ(Written("a & 1"), "column 3: '&' has no counterpart in the expression language");
  EXPECT_EQ(Written("a > q"), "column 5: unknown name 'q'");
  EXPECT_NE(Written("[a, b]").find("a list that is not"), std::string::npos);
  EXPECT_NE(Written("sum(range(a))").find("no counterpart"), std::string::npos);
  EXPECT_EQ(Written("ProblemSize[2]"), "column 12: there is no element 2 of 2");
  EXPECT_NE(Written("[1, 2][a]").find("an index that is not known"), std::string::npos);
  EXPECT_EQ(PythonColumn(PythonText::Parse("a +").status()), 4);
  EXPECT_EQ(PythonMessage(PythonText::Parse("a +").status()), "the text ends where a value is expected");
}

TEST(PythonText, IsWrittenInCxx) {
  PythonTranslation translation;
  translation.variables["i"] = "x";
  const auto cxx = [&](const std::string& text) {
    const auto written = PythonText::Parse(text)->ToCxx(translation);
    return written.ok() ? *written : std::string(MessageOf(written.status()));
  };
  EXPECT_EQ(cxx("1+i*0.1"), "1.0 + x * 0.1");
  EXPECT_EQ(cxx("(i%10)*0.1"), "(x - 10.0 * floor(x / 10.0)) * 0.1");
  EXPECT_EQ(cxx("i//4"), "floor(x / 4.0)");
  EXPECT_EQ(cxx("1 if i % 2 == 0 else -1"), "(((x - 2.0 * floor(x / 2.0)) == 0.0) ? (1.0) : ((-1.0)))");
  EXPECT_EQ(cxx("math.sin(i) + max(i, 2, 3)"), "sin(x) + fmax(fmax(x, 2.0), 3.0)");
  EXPECT_EQ(cxx("0 < i < 3 and i != 1"), "0.0 < x && x < 3.0 && (x != 1.0)");
  EXPECT_NE(cxx("'a'").find("no counterpart"), std::string::npos);
}

}  // namespace
}  // namespace tunefarm::interchange
