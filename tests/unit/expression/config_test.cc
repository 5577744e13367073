#include "server/expression/config.h"

#include <gtest/gtest.h>

#include "server/base/status.h"

namespace tunefarm {
namespace {

TEST(Config, TextIsSortedByName) {
  const Config config{{"dtype", "bf16"}, {"B", true}, {"A", 1}};
  EXPECT_EQ(config.ToText(), "A=1,B=true,dtype=bf16");
  EXPECT_EQ(Config().ToText(), "");
}

TEST(Config, EscapedTextReadsBack) {
  const Config config{{"s", "a=b,c\\d\ne"}, {"t", ""}, {"x", 0.5}};
  EXPECT_EQ(config.ToText(), "s=a\\=b\\,c\\\\d\\ne,t=,x=0.5");
  const auto read = Config::FromText(config.ToText());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, config);
}

TEST(Config, TypesDecideHowTextIsRead) {
  const ValueTypeMap types = {{"mode", ValueType::kString}, {"n", ValueType::kInt}};
  const auto read = Config::FromText("mode=1,n=1", types);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read->Find("mode"), Value("1"));
  EXPECT_EQ(*read->Find("n"), Value(1));
  EXPECT_EQ(MessageOf(Config::FromText("m=1", types).status()), "config text has the unknown name 'm'");
  EXPECT_EQ(MessageOf(Config::FromText("n=x", types).status()),
            "value of 'n': 'x' is not an int; write decimal digits of a 64-bit integer");
}

TEST(Config, RefusesMalformedText) {
  for (const char* text : {"A", "=1", "A=1,", ",A=1", "A=1,A=2", "A=1=2", "A=\\", "A=\\x", "A=1,,B=2"}) {
    EXPECT_FALSE(Config::FromText(text).ok()) << text;
  }
  EXPECT_FALSE(Config::FromText("A=" + std::string(70'000, 'x')).ok());
}

TEST(Config, HashFollowsTheTextAndNeverChanges) {
  const Config a{{"A", 1}, {"B", true}};
  Config b;
  b.Set("B", true);
  b.Set("A", 1);
  EXPECT_EQ(a.Hash(), b.Hash());
  b.Set("A", 2);
  EXPECT_NE(a.Hash(), b.Hash());
}

}  // namespace
}  // namespace tunefarm
