#include "server/expression/value.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "server/base/status.h"

namespace tunefarm {
namespace {

TEST(Value, TypesComeFromTheLiteral) {
  EXPECT_TRUE(Value(true).is_bool());
  EXPECT_TRUE(Value(1).is_int());
  EXPECT_TRUE(Value(1u).is_int());
  EXPECT_TRUE(Value(1.0).is_float());
  EXPECT_TRUE(Value("true").is_string());
  EXPECT_TRUE(Value(std::string("a")).is_string());
}

TEST(Value, EqualityIsTypeAndExactValue) {
  EXPECT_EQ(Value(1), Value(1));
  EXPECT_FALSE(Value(1) == Value(1.0));
  EXPECT_FALSE(Value(1) == Value(true));
  EXPECT_FALSE(Value("1") == Value(1));
  EXPECT_FALSE(Value(0.0) == Value(-0.0));
  EXPECT_EQ(Value(std::nan("")), Value(std::nan("1")));
}

TEST(Value, CanonicalText) {
  EXPECT_EQ(Value(true).ToText(), "true");
  EXPECT_EQ(Value(false).ToText(), "false");
  EXPECT_EQ(Value(INT64_MIN).ToText(), "-9223372036854775808");
  EXPECT_EQ(Value(1.0).ToText(), "1.0");
  EXPECT_EQ(Value(-0.0).ToText(), "-0.0");
  EXPECT_EQ(Value(0.1).ToText(), "0.1");
  EXPECT_EQ(Value(1e300).ToText(), "1e+300");
  EXPECT_EQ(Value("a b").ToText(), "a b");
  EXPECT_EQ(Value("it's").ToLiteral(), "'it\\'s'");
  EXPECT_EQ(Value(true).ToLiteral(), "True");
}

TEST(Value, TextReadsBackAsTheSameValue) {
  const Value values[] = {Value(true),
                          Value(INT64_MAX),
                          Value(INT64_MIN),
                          Value(1.0 / 3),
                          Value(std::numeric_limits<double>::denorm_min()),
                          Value(std::numeric_limits<double>::max()),
                          Value(-std::numeric_limits<double>::infinity()),
                          Value(std::nan("")),
                          Value("bf16"),
                          Value("")};
  for (const Value& value : values) {
    const auto read = Value::FromText(value.type(), value.ToText());
    ASSERT_TRUE(read.ok()) << value.ToText();
    EXPECT_EQ(*read, value) << value.ToText();
    if (!value.is_string()) {
      EXPECT_EQ(Value::Infer(value.ToText()), value) << value.ToText();
    }
  }
}

TEST(Value, RefusesTextOfAnotherType) {
  for (const char* text : {"", "1.0", "0x10", " 1", "1 ", "9223372036854775808"}) {
    const auto value = Value::FromText(ValueType::kInt, text);
    ASSERT_FALSE(value.ok()) << text;
    EXPECT_NE(MessageOf(value.status()).find("is not an int"), std::string::npos);
  }
  EXPECT_FALSE(Value::FromText(ValueType::kBool, "yes").ok());
  EXPECT_FALSE(Value::FromText(ValueType::kFloat, "1.0f").ok());
}

}  // namespace
}  // namespace tunefarm
