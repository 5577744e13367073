// How caches are made cold: which way is taken, that every line of all memory is meant, and in which order. How cold
// they become is measured, not tested (tests/bench/results).

#include "server/worker/host/cache_flush.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <set>

#include "tests/unit/worker/host_kernel.h"

namespace tunefarm {
namespace {

using ::testing::HasSubstr;

TEST(CacheFlushTest, EveryLineOfTheMemoryIsVisitedOnceAndNothingElse) {
  alignas(64) std::array<std::byte, 512> memory = {};
  for (size_t begin = 0; begin <= 128; ++begin) {
    for (size_t bytes = 0; bytes <= 200; ++bytes) {
      std::multiset<size_t> visited;
      ForEachLine(MemorySpan(memory).subspan(begin, bytes), 64, [&](const std::byte* address) {
        const auto offset = static_cast<size_t>(address - memory.data());
        EXPECT_GE(offset, begin);
        EXPECT_LT(offset, begin + bytes);
        visited.insert(offset / 64);
      });
      std::multiset<size_t> lines;
      for (size_t line = begin / 64; bytes > 0 && line <= (begin + bytes - 1) / 64; ++line) lines.insert(line);
      ASSERT_EQ(visited, lines) << begin << ", " << bytes;
    }
  }
}

TEST(CacheFlushTest, TheCheaperWayIsTaken) {
  constexpr size_t kWalk = size_t{210} << 20;
  using Kind = LineEviction::Kind;
  for (const Kind kind : {LineEviction::kNone, LineEviction::kClflush, LineEviction::kClflushopt}) {
    EXPECT_EQ(ChooseFlushWay(1, 0, kind), FlushWay::kNothing);
    EXPECT_EQ(ChooseFlushWay(kWalk + 1, kWalk, kind), FlushWay::kWalk);
  }
  EXPECT_EQ(ChooseFlushWay(0, kWalk, LineEviction::kNone), FlushWay::kWalk);
  EXPECT_EQ(ChooseFlushWay(kWalk, kWalk, LineEviction::kClflushopt), FlushWay::kEvict);
  EXPECT_EQ(ChooseFlushWay(kWalk / 16, kWalk, LineEviction::kClflush), FlushWay::kEvict);
  EXPECT_EQ(ChooseFlushWay(kWalk / 16 + 1, kWalk, LineEviction::kClflush), FlushWay::kWalk);
}

TEST(CacheFlushTest, NoWayChangesTheMemory) {
  std::vector<std::byte> memory(10'000);
  const std::vector<std::byte> whole(memory.size(), std::byte{7});
  LineEviction eviction = DetectLineEviction();
  std::vector<LineEviction> ways = {LineEviction{}, eviction};
  if (eviction.kind == LineEviction::kClflushopt) {
    eviction.kind = LineEviction::kClflush;
    ways.push_back(eviction);
  }
  for (const LineEviction& way : ways) {
    CacheFlush flush({MemorySpan(memory).subspan(3, 5'000), MemorySpan(memory).subspan(5'003)}, 1 << 20, way);
    EXPECT_EQ(flush.way(), way.kind == LineEviction::kNone ? FlushWay::kWalk : FlushWay::kEvict);
    for (int run = 0; run < 2; ++run) {
      std::fill(memory.begin(), memory.end(), std::byte{7});
      flush.Run();
      EXPECT_EQ(memory, whole);
    }
  }
}

TEST(CacheFlushTest, AThingThatIsNoLibraryHasNoData) { EXPECT_TRUE(StaticDataOf(nullptr).empty()); }

constexpr char kHidingDefinition[] = R"(
  display_name: "hiding"
  language: LANGUAGE_HOST_CXX
  sources { path: "hiding.cc" }
  dims { name: "N" default_value { int_value: 4096 } }
  parameters { name: "HIDES" range { first: 0 last: 5 } bind: BIND_RUN }
  arguments { name: "x" buffer { data_type: DATA_TYPE_F32 length: "N" access: ACCESS_IN } }
  arguments { name: "y" buffer { data_type: DATA_TYPE_F32 length: "N" access: ACCESS_OUT } }
  arguments { name: "w" buffer { data_type: DATA_TYPE_F32 length: "N" access: ACCESS_SCRATCH } }
  arguments { name: "z" buffer { data_type: DATA_TYPE_F32 length: "N" access: ACCESS_INOUT restore: RESTORE_PER_SAMPLE } }
  arguments { name: "hides" scalar { data_type: DATA_TYPE_I32 value: "HIDES" } }
  launches { kernel { entry: "run" arguments: ["x", "y", "w", "z", "hides"] } }
  reference { steps { kernel { entry: "run" arguments: ["x", "y", "w", "z", "hides"] } } }
)";

// Takes the last page of a buffer, or of its own data, out of reach when the first launch of the warm-up ends, and
// touches nothing any more. Who touches it then gives itself away.
constexpr char kHidingSource[] = R"(
#include <sys/mman.h>
namespace {
constexpr long kFloats = 4096, kPage = 4096;
alignas(4096) float table[kFloats];
int launches = 0;
void Hide(const void* buffer) {
  mprotect((char*)buffer + kFloats * 4 - kPage, kPage, PROT_NONE);
}
}  // namespace
extern "C" void run(const float* x, float* y, float* w, float* z, int hides) {
  if (++launches > 3) return;
  for (long i = 0; i < kFloats; ++i) {
    table[i] = x[i];
    w[i] = 2 * table[i];
    y[i] = w[i];
  }
  const void* const all[] = {nullptr, x, y, w, table, z};
  if (launches < 3 || hides == 0) return;
  Hide(all[hides]);
  if (hides == 5) Hide(x);
}
)";

class FlushedMemoryTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    kernel_ = new HostKernel(kHidingDefinition, kHidingSource);
    const worker::v1::Prepared prepared = kernel_->Prepare();
    ASSERT_TRUE(prepared.ok()) << prepared.message();
  }
  static void TearDownTestSuite() { delete kernel_; }
  void SetUp() override {
    if (DetectLineEviction().kind == LineEviction::kNone) GTEST_SKIP() << "this processor cannot evict lines";
  }

  static worker::v1::Result Run(int hides, bool warm_cache) {
    RunInput input = HostKernel::Input();
    input.config = kernel_->With("HIDES", Value(hides));
    input.policy.set_warm_cache(warm_cache);
    EXPECT_EQ(kernel_->Compile(input.config, &input.artifact).outcome(), v1::OUTCOME_OK);
    return kernel_->Run(input);
  }

  static HostKernel* kernel_;
};

HostKernel* FlushedMemoryTest::kernel_ = nullptr;

TEST_F(FlushedMemoryTest, EveryBufferIsEvictedToItsEnd) {
  const char* const buffers[] = {"x", "y", "w"};
  for (int hides = 1; hides <= 3; ++hides) {
    const worker::v1::Result cold = Run(hides, false);
    EXPECT_EQ(cold.outcome(), v1::OUTCOME_RUN_CRASH) << hides;
    EXPECT_THAT(cold.message(), HasSubstr(std::string("at byte 12288 of buffer ") + buffers[hides - 1]));
  }
}

TEST_F(FlushedMemoryTest, SoIsTheKernelsStaticData) { EXPECT_EQ(Run(4, false).outcome(), v1::OUTCOME_RUN_CRASH); }

TEST_F(FlushedMemoryTest, NothingIsTouchedWhereCachesStayWarm) {
  // It is timed to the end; the check after that sees that it does nothing any more.
  for (int hides = 0; hides <= 4; ++hides) {
    EXPECT_THAT(Run(hides, true).message(), HasSubstr("right before the timing")) << hides;
  }
  EXPECT_THAT(Run(0, false).message(), HasSubstr("right before the timing"));
}

TEST_F(FlushedMemoryTest, WhatIsRestoredIsEvictedAfterIt) {
  // Both x and z are out of reach: whoever comes first fails on its own.
  const worker::v1::Result result = Run(5, false);
  EXPECT_EQ(result.outcome(), v1::OUTCOME_RUN_CRASH);
  EXPECT_THAT(result.message(), HasSubstr("of buffer z"));
}

}  // namespace
}  // namespace tunefarm
