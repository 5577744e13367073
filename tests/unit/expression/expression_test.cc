#include "server/expression/expression.h"

#include <gtest/gtest.h>

#include "server/base/status.h"

namespace tunefarm {
namespace {

SymbolTable Table() {
  SymbolTable table;
  EXPECT_TRUE(table.AddVariable("BLOCK_M", ValueType::kInt).ok());
  EXPECT_TRUE(table.AddVariable("BLOCK_N", ValueType::kInt).ok());
  EXPECT_TRUE(table.AddVariable("use_tma", ValueType::kBool).ok());
  EXPECT_TRUE(table.AddVariable("dtype", ValueType::kString).ok());
  EXPECT_TRUE(table.AddVariable("any").ok());
  EXPECT_TRUE(table.AddConstant("device.sm_count", 132).ok());
  EXPECT_TRUE(table.AddConstant("flag", false).ok());
  return table;
}

const std::vector<Value>& Slots() {
  static const std::vector<Value> slots = {64, 128, true, "bf16", 2.5};
  return slots;
}

// The value's type and literal, or the whole error text.
std::string Eval(std::string_view text) {
  const auto expression = Expression::Compile(text, Table());
  if (!expression.ok()) return std::string(MessageOf(expression.status()));
  const auto value = expression->Evaluate(Slots().data());
  if (!value.ok()) return std::string(MessageOf(value.status()));
  if (expression->result_type().has_value()) {
    EXPECT_EQ(*expression->result_type(), value->type()) << text;
  }
  return value->ToLiteral();
}

TEST(Expression, EvaluatesAsPythonDoes) {
  const std::pair<const char*, const char*> cases[] = {
      {"1 + 2 * 3", "7"},
      {"-7 // 2", "-4"},
      {"-7 % 3", "2"},
      {"7 % -3", "-2"},
      {"-2 ** 2", "-4"},
      {"2 ** 3 ** 2", "512"},
      {"2 ** -1", "0.5"},
      {"6 / 3", "2.0"},
      {"7.5 // 2", "3.0"},
      {"-0.5 % 2", "1.5"},
      {"True + True", "2"},
      {"1 < 2 < 3", "True"},
      {"1 < 2 > 3", "False"},
      {"3 > 2 == True", "False"},
      {"0 or 5", "5"},
      {"3 and 0", "0"},
      {"'' or 'x'", "'x'"},
      {"not 0", "True"},
      {"not 1 == 2", "True"},
      {"1 if 0 else 2 if 0 else 3", "3"},
      {"4 in (1, 2, 4)", "True"},
      {"4 not in [1, 2]", "True"},
      {"1.0 in (1,)", "True"},
      {"1 in ()", "False"},
      {"'f1' in dtype", "True"},
      {"'f32' not in 'bf16'", "True"},
      {"'x' in ('xyz')", "True"},
      {"dtype == 'bf16' and use_tma", "True"},
      {"dtype == 1", "False"},
      {"dtype < 'c'", "True"},
      {"min(3, 1, 2)", "1"},
      {"min(True, 2)", "True"},
      {"max(1, 1.0)", "1"},
      {"abs(-3)", "3"},
      {"ceil_div(7, 2)", "4"},
      {"ceil_div(-7, 2)", "-3"},
      {"round_up(130, 64)", "192"},
      {"int(-2.7)", "-2"},
      {"float(3)", "3.0"},
      {"bool('')", "False"},
      {"log2(1024)", "10.0"},
      {"log2(2 ** 61)", "61.0"},
      {"is_pow2(96)", "False"},
      {"is_pow2(BLOCK_M)", "True"},
      {"9007199254740993 == 9007199254740992.0", "False"},
      {"-9223372036854775808", "-9223372036854775808"},
      {"0x1F + 0b11 + 0o17 + 1_000", "1049"},
      {".5 + 1. + 1e1", "11.5"},
      {"device.sm_count * 2", "264"},
      {"BLOCK_M*BLOCK_N<=1024*8", "True"},
      {"use_tma + BLOCK_M", "65"},
      {"any * 2", "5.0"},
      {"flag and 1 // 0", "False"},
      {"1 if use_tma else 1 // 0", "1"},
      {"(BLOCK_M\n * 2)", "128"},
      {"BLOCK_M if not use_tma else BLOCK_N // (BLOCK_M if use_tma else 1)", "2"},
      {"32 < BLOCK_M < BLOCK_N <= 128 != 5", "True"},
      {"BLOCK_M in (32, BLOCK_N, 64)", "True"},
      {"2 ** BLOCK_M", "overflow"},
      {"6 & 3", "2"},
      {"6 | 3 ^ 1", "6"},
      {"~BLOCK_M", "-65"},
      {"-~5", "6"},
      {"~2 ** 2", "-5"},
      {"1 << 3 + 1", "16"},
      {"-9 >> 1", "-5"},
      {"-1 >> 200", "-1"},
      {"0 << 200", "0"},
      {"-1 << 63", "-9223372036854775808"},
      {"1 | 2 == 2", "False"},
      {"BLOCK_M & BLOCK_M - 1 == 0", "True"},
      {"use_tma & True", "True"},
      {"use_tma ^ 1", "0"},
      {"use_tma << 1", "2"},
      {"~use_tma", "-2"},
      {"round(0.5)", "0"},
      {"round(1.5)", "2"},
      {"round(-2.5)", "-2"},
      {"round(any)", "2"},
      {"round(BLOCK_M)", "64"},
      {"round(True)", "1"},
      {"round(2.675, 2)", "2.67"},
      {"round(0.05, 1)", "0.1"},
      {"round(0.5, 0)", "0.0"},
      {"round(25, -1)", "20"},
      {"round(-35, -1)", "-40"},
      {"round(1250.0, -2)", "1200.0"},
      {"round(6e2, -3)", "1000.0"},
      {"round(-0.4, 0)", "-0.0"},
      {"round(BLOCK_M, 2)", "64"},
      {"all(x % 2 == 0 for x in (BLOCK_M, BLOCK_N))", "True"},
      {"all(x > 64 for x in [BLOCK_M, BLOCK_N])", "False"},
      {"all([BLOCK_M, 2])", "True"},
      {"all(())", "True"},
      {"any([])", "False"},
      {"any(1 // x for x in (1, 0))", "True"},
      {"any(x == BLOCK_M for x in range(0, 128, 32))", "True"},
      {"any(BLOCK_M % x == 0 for x in range(2, 5) if x != 2 and x != 4)", "False"},
      {"all(x < y for x in (1, 2) for y in (x + 1, 4))", "True"},
      {"sum(x * y for x in (1, 2, 3) for y in range(x))", "11"},
      {"sum(x for x in (BLOCK_M, 1.5))", "65.5"},
      {"sum(x > 1 for x in (1, 2, 3)) >= 2", "True"},
      {"sum(())", "0"},
      {"sum(x for x in () if x)", "0"},
      {"min([BLOCK_M, 3])", "3"},
      {"max(x - 1 for x in range(BLOCK_M if False else 4, 1, -1))", "range takes int literals here"},
      {"max(-x for x in range(4, 1, -1))", "-2"},
      {"max((use_tma, 0, 7))", "7"},
      {"min((1,))", "1"},
      {"min((3) + 1, 9)", "4"},
      {"BLOCK_M in [x * 32 for x in (1, 2)]", "True"},
      {"BLOCK_M not in range(0, 65, 16)", "False"},
      {"all((x + 1) * 2 > 3 for x in (1, 2))", "True"},
      {"sum(sum(y for y in range(x)) for x in (2, 3))", "4"},
      {"any + sum(any for any in (1, 2))", "5.5"},
  };
  for (const auto& [text, expected] : cases) {
    const std::string result = Eval(text);
    if (std::string_view(expected) == "overflow") {
      EXPECT_NE(result.find("overflow: 2 ** 64 does not fit in 64 bits"), std::string::npos) << result;
    } else if (std::string_view(expected).substr(0, 6) == "range ") {
      EXPECT_NE(result.find(expected), std::string::npos) << result;
    } else {
      EXPECT_EQ(result, expected) << text;
    }
  }
}

TEST(Expression, ErrorsShowThePlace) {
  EXPECT_EQ(Eval("BLOCK_N*BLOCK_X <= 1024"),
            "expression error at column 9: unknown name 'BLOCK_X' (did you mean 'BLOCK_M'?)\n"
            "  BLOCK_N*BLOCK_X <= 1024\n"
            "          ^");
  EXPECT_EQ(Eval("1 + BLOCK_M // (BLOCK_N - 128)"),
            "expression error at column 13: division by zero in 64 // 0\n"
            "  1 + BLOCK_M // (BLOCK_N - 128)\n"
            "              ^");
  EXPECT_EQ(Eval("'é' == dtype and dtype + 1"), "False") << "a short circuit hides the type error";
  EXPECT_EQ(Eval("'é' != dtype and dtype + 1"),
            "expression error at column 25: + cannot be applied to string and int\n"
            "  'é' != dtype and dtype + 1\n"
            "                         ^");
}

TEST(Expression, ErrorMessages) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "column 1: the expression is empty"},
      {"1 +", "column 4: the expression ends too early"},
      {"1 2", "column 3: unexpected number"},
      {"(1", "column 1: this bracket is never closed by ')'"},
      {"1)", "column 2: unexpected ')'"},
      {"a = 1", "column 3: unexpected '=': write '=='"},
      {"use_tma && 1", "column 9: unexpected '&&': write 'and'"},
      {"!use_tma", "column 1: unexpected '!': write 'not'"},
      {"min", "column 1: 'min' is a function"},
      {"min(1)", "column 1: min takes at least 2 arguments, not 1"},
      {"abs(1, 2)", "column 1: abs takes 1 argument, not 2"},
      {"sqrt(2)", "column 1: unknown function 'sqrt'; known are min max"},
      {"(1, 2)", "a list can stand only after 'in'"},
      {"1 in (1, 2) == True", "column 13: a list can only end a comparison"},
      {"9223372036854775808", "column 1: int literal does not fit in 64 bits"},
      {"99999999999999999999", "column 1: int literal does not fit in 64 bits"},
      {"0123", "an int must not start with 0"},
      {"1__0", "malformed number"},
      {"1e", "malformed number"},
      {"1x", "malformed number"},
      {"'abc", "column 1: string is not closed"},
      {"'a\\q'", "column 3: unknown escape"},
      {"'a' 'b'", "adjacent strings"},
      {"true", "unknown name 'true' (did you mean 'True'?)"},
      {"None", "'None' is not part of the expression language"},
      {"1 if 2", "'else' is missing"},
      {"1 == not 2", "'not' must stand in parentheses here"},
      {"device.", "a name must follow '.'"},
      {"9223372036854775807 + 1", "column 21: overflow: 9223372036854775807 + 1 does not fit in 64 bits"},
      {"-(-9223372036854775808)", "overflow"},
      {"1 / 0", "division by zero in 1 / 0"},
      {"0 ** -1", "division by zero in 0 ** -1"},
      {"(-8) ** 0.5", "has no real value"},
      {"log2(0)", "log2(0) has no real value"},
      {"int(1e300)", "does not fit in 64 bits"},
      {"'a' < 1", "< cannot be applied to string and int"},
      {"1 in 2", "in cannot be applied to int and int"},
      {"-'a'", "- cannot be applied to string"},
      {"is_pow2(2.0)", "is_pow2 cannot be applied to float"},
      {"\x01", "unexpected byte 0x01"},
      {"1 $ 2", "unexpected '$'"},
      {"1 << -1", "column 3: negative shift count in 1 << -1"},
      {"1 << 63", "column 3: overflow: 1 << 63 does not fit in 64 bits"},
      {"2.0 & 1", "& cannot be applied to float and int"},
      {"~2.5", "~ cannot be applied to float"},
      {"'a' | 'b'", "| cannot be applied to string and string"},
      {"round(9223372036854775807, -1)", "overflow"},
      {"round(1e300)", "overflow"},
      {"round(1.5, 1.0)", "round cannot be applied to float and float"},
      {"round('a')", "round cannot be applied to string"},
      {"round(1, 2, 3)", "round takes 1 to 2 arguments, not 3"},
      {"all(1 // x > 0 for x in (1, 0))", "division by zero in 1 // 0"},
      {"all([False, 1 // 0])", "division by zero"},
      {"all(BLOCK_M)", "column 1: all takes one list, such as all((a, b))"},
      {"sum(1, 2)", "sum takes one list"},
      {"max([])", "max of an empty list"},
      {"min(x for x in ())", "min of an empty list"},
      {"max(x for x in (1, 2) if x > 1)", "can stand only in all, any and sum"},
      {"x for x in (1, 2)", "unexpected 'for'"},
      {"all(x for (x, y) in (1, 2))", "must be one name"},
      {"all(x for x of (1, 2))", "'in' is missing"},
      {"all(x for x in BLOCK_M)", "a list is needed here"},
      {"all(x for x in (BLOCK_M))", "one of one element is written (x,) or [x]"},
      {"all(x > for x in (1, 2))", "column 9: unexpected 'for'"},
      {"all(x y for x in (1, 2))", "column 7: unexpected 'y'"},
      {"all(z for x in (1, 2))", "unknown name 'z'"},
      {"sum(x for x in range(1, 10, 0))", "the step of range is 0"},
      {"sum(x for x in range(1000000000))", "range has more than 4096 values"},
      {"sum(x for x in range(3000))", "operators and operands"},
      {"1 in [1, 2", "column 6: this bracket is never closed by ']'"},
  };
  for (const auto& [text, expected] : cases) EXPECT_NE(Eval(text).find(expected), std::string::npos) << Eval(text);
}

TEST(Expression, LimitsHold) {
  EXPECT_NE(Eval(std::string(5000, ' ')).find("at most 4096"), std::string::npos);
  const auto nested = [](int depth) { return std::string(depth, '(') + "1" + std::string(depth, ')'); };
  EXPECT_EQ(Eval(nested(60)), "1");
  EXPECT_NE(Eval(nested(70)).find("levels of nesting"), std::string::npos);
  EXPECT_NE(Eval(std::string(2000, '-') + "1").find("levels of nesting"), std::string::npos);
  std::string sum = "1";
  for (int i = 0; i < 2000; ++i) sum += "+1";
  EXPECT_EQ(Eval(sum), "2001");
  // Derived names that double at each step must stop at the limit on nodes, not at the memory's.
  SymbolTable table = Table();
  ASSERT_TRUE(table.AddDerived("d0", "BLOCK_M + 1").ok());
  absl::Status status;
  for (int i = 1; i < 40 && status.ok(); ++i) {
    status = table.AddDerived("d" + std::to_string(i), "d" + std::to_string(i - 1) + " + d" + std::to_string(i - 1));
  }
  EXPECT_NE(MessageOf(status).find("with the derived names put in"), std::string::npos) << status;
}

TEST(Expression, NestedComprehensionsAreBounded) {
  // Each of these would take more steps than an hour has, were they not counted.
  std::string empty = "1";
  std::string full = "1";
  for (const char* name : {"c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7"}) {
    empty = std::string("any(") + empty + " for " + name + " in " + (empty == "1" ? "())" : "range(50))");
    full = std::string("sum(") + full + " for " + name + " in range(50))";
  }
  EXPECT_NE(Eval(empty).find("operators and operands"), std::string::npos) << Eval(empty);
  EXPECT_NE(Eval(full).find("operators and operands"), std::string::npos) << Eval(full);
}

TEST(Expression, DeepDerivedNamesDoNotOverflowTheStack) {
  SymbolTable table;
  ASSERT_TRUE(table.AddDerived("d0", "1 // 0").ok());
  absl::Status status;
  for (int i = 1; i < 1000 && status.ok(); ++i) {
    status = table.AddDerived("d" + std::to_string(i), "0 + (0 + d" + std::to_string(i - 1) + ")");
  }
  EXPECT_NE(MessageOf(status).find("operands at once"), std::string::npos) << status;
}

TEST(Expression, DerivedNamesArePutInPlace) {
  SymbolTable table = Table();
  ASSERT_TRUE(table.AddDerived("tile", "BLOCK_M * BLOCK_N").ok());
  ASSERT_TRUE(table.AddDerived("per_tile", "1000 // (tile - 64*128)").ok());
  const auto expression = Expression::Compile("2 * tile", table);
  ASSERT_TRUE(expression.ok()) << expression.status();
  EXPECT_EQ(*expression->EvaluateInt(Slots().data()), 2 * 64 * 128);
  EXPECT_EQ(expression->Variables(), (std::vector<int>{0, 1}));
  const auto failing = Expression::Compile("1 + per_tile", table);
  ASSERT_TRUE(failing.ok());
  EXPECT_EQ(MessageOf(failing->Evaluate(Slots().data()).status()),
            "expression error at column 5: division by zero in 1000 // 0 (in the derived name 'per_tile')\n"
            "  1 + per_tile\n"
            "      ^");
}

TEST(Expression, FoldingKeepsOnlyWhatIsRead) {
  const auto variables = [](std::string_view text) {
    const auto expression = Expression::Compile(text, Table());
    EXPECT_TRUE(expression.ok()) << expression.status();
    return expression->Variables();
  };
  EXPECT_EQ(variables("BLOCK_N + BLOCK_M + BLOCK_N"), (std::vector<int>{0, 1}));
  EXPECT_EQ(variables("flag and BLOCK_M > 1"), std::vector<int>());
  EXPECT_EQ(variables("flag or BLOCK_M > 1"), (std::vector<int>{0}));
  EXPECT_EQ(variables("BLOCK_M if flag else BLOCK_N"), (std::vector<int>{1}));
  // A name that folding would drop is checked all the same.
  EXPECT_FALSE(Expression::Compile("flag and nonsense", Table()).ok());
  EXPECT_FALSE(Expression::Compile("nonsense if flag else 1", Table()).ok());
}

TEST(Expression, EvaluatesToTheTypeAskedFor) {
  const auto compile = [](std::string_view text) { return *Expression::Compile(text, SymbolTable()); };
  EXPECT_EQ(*compile("True").EvaluateInt(nullptr), 1);
  EXPECT_EQ(*compile("3").EvaluateFloat(nullptr), 3.0);
  EXPECT_EQ(*compile("0.0").EvaluateBool(static_cast<const Value*>(nullptr)), false);
  EXPECT_EQ(*compile("'x'").EvaluateString(nullptr), "x");
  EXPECT_EQ(MessageOf(compile("4 / 2").EvaluateInt(nullptr).status()),
            "expression error at column 1: the result must be an int, but is the float 2.0; use // or int()\n"
            "  4 / 2\n"
            "  ^");
  EXPECT_FALSE(compile("'x'").EvaluateBool(static_cast<const Value*>(nullptr)).ok());
  EXPECT_FALSE(compile("1").EvaluateString(nullptr).ok());
  EXPECT_FALSE(compile("'1'").EvaluateFloat(nullptr).ok());
}

TEST(SymbolTable, RefusesBadNames) {
  SymbolTable table = Table();
  for (const char* name : {"", "1a", "a b", "and", "min", "True", ".a", "a.", "a..b", "a.1", "é"}) {
    EXPECT_FALSE(table.AddVariable(name).ok()) << name;
    EXPECT_FALSE(IsValidName(name)) << name;
  }
  EXPECT_EQ(MessageOf(table.AddConstant("BLOCK_M", 1)), "the name 'BLOCK_M' is defined twice");
  EXPECT_TRUE(IsValidName("kernel.registers"));
  for (const char* name : {"sum", "all", "round", "range"}) EXPECT_TRUE(IsValidName(name)) << name;
}

// Package files hold these numbers: one that changes breaks files that are in use.
TEST(Expression, IsExportedAsTheProgramThatItRuns) {
  const auto expression = Expression::Compile("BLOCK_M * 3 + 1 if dtype in ('bf16', 'f16') else 0", Table());
  ASSERT_TRUE(expression.ok());
  const ExportedProgram exported = expression->Export();
  std::string code;
  for (const ExportedProgram::Instruction& instruction : exported.code) {
    code += std::to_string(instruction.operation) + "/" + std::to_string(instruction.sub) + "/" +
            std::to_string(instruction.argument) + " ";
  }
  EXPECT_EQ(
      code,
      "40/0/3 47/0/0 39/0/0 48/0/0 39/0/1 48/0/0 49/18/0 44/0/14 40/0/0 39/0/2 2/0/0 39/0/3 0/0/0 41/0/15 39/0/4 ");
  ASSERT_EQ(exported.constants.size(), 5U);
  EXPECT_EQ(exported.constants[0], Value("bf16"));
  EXPECT_EQ(exported.constants[2], Value(3));
}

}  // namespace
}  // namespace tunefarm
