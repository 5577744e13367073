#include "server/exec/artifact_cache.h"

#include <gtest/gtest.h>

#include <chrono>

#include "tests/fakes/fake_clock.h"

namespace tunefarm {
namespace {

CompileResult Binary(size_t bytes) {
  CompileResult result;
  result.outcome = tunefarm::v1::OUTCOME_OK;
  result.artifact = std::make_shared<Artifact>(Artifact{std::string(bytes, 'x'), {}});
  return result;
}

TEST(ArtifactCache, ForgetsTheLeastRecentlyUsed) {
  ArtifactCache cache(250'000);
  const Digest a = Sha256("a"), b = Sha256("b"), c = Sha256("c");
  cache.Insert(a, Binary(100'000));
  cache.Insert(b, Binary(100'000));
  ASSERT_TRUE(cache.Find(a).has_value());
  cache.Insert(c, Binary(100'000));
  EXPECT_TRUE(cache.Find(a).has_value());
  EXPECT_FALSE(cache.Find(b).has_value());
  EXPECT_TRUE(cache.Find(c)->from_cache);
  EXPECT_LE(cache.bytes(), 250'000u);
}

TEST(ArtifactCache, IgnoresWhatIsTooLargeOrMayDifferNextTime) {
  ArtifactCache cache(10'000);
  cache.Insert(Sha256("large"), Binary(20'000));
  CompileResult timeout;
  timeout.outcome = tunefarm::v1::OUTCOME_COMPILE_TIMEOUT;
  cache.Insert(Sha256("timeout"), timeout);
  EXPECT_EQ(cache.size(), 0u);
  CompileResult error;
  error.outcome = tunefarm::v1::OUTCOME_COMPILE_ERROR;
  cache.Insert(Sha256("error"), error);
  EXPECT_EQ(cache.size(), 1u);
  cache.Clear();
  EXPECT_EQ(cache.size(), 0u);
  EXPECT_EQ(cache.bytes(), 0u);
}

// What was missing may be there by then.
TEST(ArtifactCache, ForgetsErrorsAfterAWhile) {
  FakeClock clock;
  ArtifactCache cache(10'000, &clock);
  CompileResult error;
  error.outcome = tunefarm::v1::OUTCOME_COMPILE_ERROR;
  cache.Insert(Sha256("error"), error);
  cache.Insert(Sha256("binary"), Binary(100));
  clock.Advance(ArtifactCache::kErrorsKept - std::chrono::milliseconds(1));
  EXPECT_TRUE(cache.Find(Sha256("error")).has_value());
  clock.Advance(std::chrono::milliseconds(1));
  EXPECT_FALSE(cache.Find(Sha256("error")).has_value());
  EXPECT_EQ(cache.size(), 1u);
  EXPECT_TRUE(cache.Find(Sha256("binary")).has_value());
  cache.Remove(Sha256("binary"));
  cache.Remove(Sha256("binary"));
  EXPECT_EQ(cache.bytes(), 0u);
}

}  // namespace
}  // namespace tunefarm
