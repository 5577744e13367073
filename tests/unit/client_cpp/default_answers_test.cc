#include "client/cpp/default_answers.h"

#include <gtest/gtest.h>

namespace tunefarm::client {
namespace {

constexpr DefaultValue kBig[] = {{"M", 4096}, {"N", 4096}};
constexpr DefaultValue kWide[] = {{"N", 4096}};
constexpr DefaultValue kFloat[] = {{"dtype", "f32"}};
constexpr DefaultValue kOne[] = {{"TILE", 1}};
constexpr DefaultValue kTwo[] = {{"TILE", 2}, {"PACK", true}, {"SCALE", 0.5}, {"ORDER", "nkm"}};
constexpr DefaultValue kThree[] = {{"TILE", 3}};
constexpr DefaultValue kFour[] = {{"TILE", 4}};
constexpr DefaultConfig kTable[] = {{"matmul", "", {}, kOne},      {"matmul", "", kBig, kTwo},
                                    {"matmul", "", kWide, kThree}, {"matmul", "a100", kBig, kFour},
                                    {"matmul", "", kFloat, kFour}, {"other", "", {}, kFour}};

int64_t TileOf(const DefaultAnswers& answers, int64_t m, int64_t n) {
  const int64_t key[] = {m, n};
  const StoredAnswer* const found = answers.Find(key);
  return found == nullptr ? -1 : found->answer.config.Int("TILE");
}

QuestionSpec Spec() {
  QuestionSpec spec;
  spec.kernel = "matmul";
  spec.varying_dims = {"M", "N"};
  spec.fixed_dims = {{"dtype", "bf16"}};
  return spec;
}

TEST(DefaultAnswersTest, TheOneWithTheMostDimsAnswers) {
  const auto own = CopyDefaults({kTable});
  ASSERT_TRUE(own.ok());
  const DefaultAnswers answers(*own, Spec(), "matmul", {""});
  EXPECT_EQ(TileOf(answers, 4096, 4096), 2);
  EXPECT_EQ(TileOf(answers, 1, 4096), 3);
  EXPECT_EQ(TileOf(answers, 1, 1), 1);
  const int64_t key[] = {4096, 4096};
  const Answer& answer = answers.Find(key)->answer;
  EXPECT_EQ(answer.match, Match::kDefault);
  EXPECT_EQ(answer.source, Source::kCompiledIn);
  EXPECT_EQ(answer.config.ToText(), "ORDER=nkm PACK=true SCALE=0.5 TILE=2");
}

TEST(DefaultAnswersTest, DevicesKernelsAndFixedDimsMustFit) {
  const auto own = CopyDefaults({kTable});
  // Of two with equally many dims the first; and the device's own is there beside it.
  EXPECT_EQ(TileOf(DefaultAnswers(*own, Spec(), "matmul", {"A100"}), 4096, 4096), 2);
  constexpr DefaultConfig kOfDevice[] = {{"matmul", "a100", kBig, kFour}};
  const auto of_device = CopyDefaults({kOfDevice});
  EXPECT_EQ(TileOf(DefaultAnswers(*of_device, Spec(), "matmul", {"A100"}), 4096, 4096), 4);
  EXPECT_EQ(TileOf(DefaultAnswers(*of_device, Spec(), "matmul", {"H100"}), 4096, 4096), -1);
  EXPECT_EQ(TileOf(DefaultAnswers(*of_device, Spec(), "matmul", {""}), 4096, 4096), -1);
  QuestionSpec spec = Spec();
  spec.fixed_dims["dtype"] = "f32";
  EXPECT_EQ(TileOf(DefaultAnswers(*own, spec, "matmul", {""}), 1, 1), 4);
  spec.kernel = "kernels/abc";
  EXPECT_EQ(TileOf(DefaultAnswers(*own, spec, "kernels/abc", {""}), 1, 1), -1);
  EXPECT_EQ(TileOf(DefaultAnswers(*own, spec, "other", {""}), 1, 1), 4);
  spec.worst_match = Match::kExact;
  EXPECT_EQ(TileOf(DefaultAnswers(*own, spec, "other", {""}), 1, 1), -1);
}

TEST(DefaultAnswersTest, TablesAreChecked) {
  constexpr DefaultConfig kNameless[] = {{"", "", {}, kOne}};
  EXPECT_EQ(CopyDefaults({kNameless}).status().reason, "DEFAULTS_INVALID");
  static constexpr DefaultValue kTwice[] = {{"TILE", 1}, {"TILE", 2}};
  static constexpr DefaultConfig kDouble[] = {{"matmul", "", {}, kTwice}};
  EXPECT_EQ(CopyDefaults({kDouble}).status().reason, "DEFAULTS_INVALID");
}

}  // namespace
}  // namespace tunefarm::client
