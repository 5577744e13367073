#include "client/cli/options/expressions_help.h"

#include <gtest/gtest.h>

#include <set>
#include <sstream>
#include <string>

#include "server/base/format.h"
#include "server/base/status.h"
#include "server/expression/expression.h"
#include "server/expression/expression_internal.h"

namespace tunefarm::cli {
namespace {

TEST(ExpressionsHelp, SamplesCompileAndNameEveryOperatorAndFunction) {
  SymbolTable symbols;
  ASSERT_TRUE(symbols.AddVariable("N", ValueType::kInt).ok());
  ASSERT_TRUE(symbols.AddVariable("dtype", ValueType::kString).ok());
  ASSERT_TRUE(symbols.AddVariable("BLOCK", ValueType::kInt).ok());
  ASSERT_TRUE(symbols.AddVariable("ORDER", ValueType::kString).ok());
  const Value values[] = {Value(int64_t{1000}), Value(std::string("bf16")), Value(int64_t{64}),
                          Value(std::string("row"))};
  std::set<std::string> words;
  for (const ExpressionSample& sample : ExpressionSamples()) {
    SCOPED_TRACE(std::string(sample.text));
    const auto expression = Expression::Compile(sample.text, symbols);
    ASSERT_TRUE(expression.ok()) << MessageOf(expression.status());
    EXPECT_TRUE(expression->Evaluate(values).ok());
    const auto tokens = expression::Tokenize(sample.text);
    ASSERT_TRUE(tokens.ok());
    for (const expression::Token& token : *tokens) words.insert(token.text);
  }
  ASSERT_GE(ExpressionFunctions().size(), 10U);
  for (const std::string& name : ExpressionFunctions()) EXPECT_EQ(words.count(name), 1U) << name;
  for (const std::string& name : ExpressionOperators()) EXPECT_EQ(words.count(name), 1U) << name;
}

TEST(ExpressionsHelp, FitsOneScreen) {
  const std::string help = ExpressionsHelp(kHelpColumns);
  std::istringstream lines(help);
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) EXPECT_LE(line.size(), 100U) << line;
  EXPECT_LE(count, 45);
  for (const ExpressionSample& sample : ExpressionSamples()) {
    EXPECT_NE(help.find(std::string(sample.text) + "  "), std::string::npos) << sample.text;
  }
  EXPECT_NE(help.find("device.shared_bytes_per_block"), std::string::npos);
}

}  // namespace
}  // namespace tunefarm::cli
