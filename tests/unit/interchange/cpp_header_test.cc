#include "server/interchange/cpp_header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>
#include <memory>

#include "server/base/file.h"
#include "server/base/status.h"
#include "tests/fakes/temporary_directory.h"
#include "tests/unit/interchange/sample_bests.h"

namespace tunefarm::interchange {
namespace {

using testing::HasSubstr;

ExportedBest Matmul(int64_t m, const char* dtype, int64_t tile, const char* device_class = "h200") {
  ExportedBest best = SampleBest(
      "matmul", {{"M", Value(m)}, {"dtype", Value(dtype)}, {"long", Value(true)}},
      {{"TILE", Value(tile)}, {"RATIO", Value(0.5)}, {"FAST", Value(tile > 64)}, {"mode", Value("a\"b\\?\?/\n")}},
      41200);
  best.best.set_device_class_id(device_class);
  return best;
}

// Compiles a program with the header in front as a user would, runs it, and gives its exit status.
int CompileAndRun(const std::string& header, const std::string& body) {
  const TemporaryDirectory directory;
  EXPECT_TRUE(WriteFileAtomically(directory.File("bests.h"), header).ok());
  EXPECT_TRUE(
      WriteFileAtomically(directory.File("main.cc"), "#include \"bests.h\"\n#include \"bests.h\"\n" + body).ok());
  // Two translation units: whatever is defined in the header must be allowed in both.
  EXPECT_TRUE(WriteFileAtomically(directory.File("other.cc"), "#include \"bests.h\"\n").ok());
  const std::string build =
      std::string(TUNEFARM_TEST_COMPILER) + " -std=c++17 -Wall -Wextra -Wshadow -Wconversion -pedantic -Werror -o " +
      directory.File("program") + " " + directory.File("main.cc") + " " + directory.File("other.cc");
  EXPECT_EQ(std::system(build.c_str()), 0) << header;
  return std::system(directory.File("program").c_str());
}

TEST(CppHeaderTest, CompilesAndFinds) {
  std::vector<ExportedBest> bests = {Matmul(4096, "bf16", 128), Matmul(64, "bf16", 32), Matmul(64, "f32", 64),
                                     Matmul(512, "bf16", 256), Matmul(64, "bf16", 96, "a100")};
  bests.push_back(SampleBest("grouped-gemm", {}, {{"int", Value(std::numeric_limits<int64_t>::min())}}, 10));
  bests.push_back(SampleBest("9lives", {{"N", Value(int64_t{-3})}}, {{"A", Value(1e300)}}, 0.125));
  const auto header = WriteCppHeader(bests, {"my_project::tuned"});
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->entries, 7);
  EXPECT_EQ(header->left_out, 0);
  EXPECT_EQ(CompileAndRun(header->text, R"(
namespace tuned = my_project::tuned;
constexpr const tuned::matmul::Entry* kEntry = tuned::matmul::Find("h200", {512, "bf16", true});
static_assert(kEntry->config.TILE == 256 && kEntry->median_ns == 41200);
static_assert(tuned::matmul::Find("h200", {511, "bf16", true}) == nullptr);
static_assert(tuned::matmul::Find("h200", {512, "bf16", false}) == nullptr);
static_assert(tuned::matmul::Find("b200", {512, "bf16", true}) == nullptr);
int main() {
  for (const tuned::matmul::Entry& entry : tuned::matmul::kTable) {
    if (tuned::matmul::Find(entry.device_class, entry.dims) != &entry) return 1;
  }
  const auto* f32 = tuned::matmul::Find("h200", {64, "f32", true});
  if (f32 == nullptr || f32->config.TILE != 64 || f32->config.FAST || f32->config.RATIO != 0.5) return 2;
  if (f32->config.mode != "a\"b\\?\?/\n" || !f32->dims.long_) return 3;
  if (tuned::matmul::Find("a100", {64, "bf16", true})->config.TILE != 96) return 4;
  const auto* grouped = tuned::grouped_gemm::Find("h200", {});
  if (grouped == nullptr || grouped->config.int_ != INT64_MIN) return 5;
  return tuned::k_9lives::Find("h200", {-3})->config.A == 1e300 ? 0 : 6;
}
)"),
            0);
}

TEST(CppHeaderTest, TheSameBestsAreTheSameBytes) {
  const std::vector<ExportedBest> one = {Matmul(64, "bf16", 32), Matmul(128, "bf16", 64)};
  const std::vector<ExportedBest> other = {one[1], one[0]};
  EXPECT_EQ(WriteCppHeader(one, {})->text, WriteCppHeader(other, {})->text);
}

TEST(CppHeaderTest, WhatOneStructCannotHoldIsLeftOut) {
  std::vector<ExportedBest> bests = {Matmul(64, "bf16", 32), Matmul(128, "bf16", 64), Matmul(64, "bf16", 96)};
  bests[1].config.Set("NEW", Value(1));
  bests[1].best.set_revision(9);
  bests[2].best.mutable_problem()->add_input_seeds(7);
  const auto header = WriteCppHeader(bests, {});
  EXPECT_EQ(header->entries, 1);
  EXPECT_EQ(header->left_out, 2);
  EXPECT_THAT(header->text, HasSubstr("NEW{};"));
}

// Of bests that differ in their inputs alone there is the one that a look-up chooses.
TEST(CppHeaderTest, InputsAreNoDims) {
  const auto drawn = [](int64_t m, const char* draw, int64_t tile, int64_t revision) {
    ExportedBest best = SampleBest("moe", {{"M", Value(m)}, {"draw", Value(draw)}}, {{"TILE", Value(tile)}}, 10);
    best.best.set_revision(revision);
    best.inputs = std::make_shared<const Config>(Config({{"draw", Value("even")}}));
    return best;
  };
  std::vector<ExportedBest> bests = {drawn(1, "even", 1, 3), drawn(1, "skew", 2, 4), drawn(2, "skew", 3, 6),
                                     drawn(2, "none", 4, 5), drawn(2, "even", 5, 2)};
  bests.back().match = v1::MATCH_STALE_SOURCE;
  const auto header = WriteCppHeader(bests, {});
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->entries, 2);
  EXPECT_EQ(header->left_out, 3);
  EXPECT_EQ(CompileAndRun(header->text, R"(
namespace moe = tunefarm_bests::moe;
static_assert(moe::Find("h200", {1})->config.TILE == 1 && moe::Find("h200", {2})->config.TILE == 3);
int main() { return 0; }
)"),
            0);
}

TEST(CppHeaderTest, Errors) {
  const auto error = [](const std::vector<ExportedBest>& bests, const std::string& name_space) {
    return std::string(MessageOf(WriteCppHeader(bests, {name_space}).status()));
  };
  for (const char* const bad : {"", "1a", "a:b", "a::", "::a", "a::class", "a b"}) {
    EXPECT_THAT(error({Matmul(1, "x", 1)}, bad), HasSubstr("is no namespace")) << bad;
  }
  const auto named = [](const char* name) { return SampleBest(name, {}, {{"A", Value(1)}}, 1); };
  EXPECT_THAT(error({named("a-b"), named("a.b")}, "n"), HasSubstr("'a-b' and 'a.b' would both be called a_b"));
  EXPECT_THAT(error({SampleBest("k", {}, {{"int", Value(1)}, {"int_", Value(1)}}, 1)}, "n"),
              HasSubstr("'int' and 'int_' would both be called int_"));
}

}  // namespace
}  // namespace tunefarm::interchange
