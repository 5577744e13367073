// A look-up's answer lends the best of the catalog, which may replace it meanwhile.
#include <memory>
#include <utility>

#include "gtest/gtest.h"
#include "server/lookup/lookups.h"

namespace tunefarm {
namespace {

TEST(LookupAnswerTest, KeepsWhatItLendsUntilItsEnd) {
  auto best = std::make_shared<tunefarm::v1::BestConfig>();
  best->set_kernel_name("scale");
  const std::weak_ptr<const tunefarm::v1::BestConfig> kept = best;
  tunefarm::v1::LookupConfigResponse response;
  response.set_match(tunefarm::v1::MATCH_EXACT);
  {
    LookupAnswer first(std::move(response), std::exchange(best, nullptr));
    ASSERT_FALSE(kept.expired());
    const LookupAnswer answer(std::move(first));
    EXPECT_EQ(answer.response().match(), tunefarm::v1::MATCH_EXACT);
    EXPECT_EQ(answer.response().best().kernel_name(), "scale");
    tunefarm::v1::LookupConfigResponse sent;
    ASSERT_TRUE(sent.ParseFromString(answer.response().SerializeAsString()));
    EXPECT_EQ(sent.best().kernel_name(), "scale");
  }
  EXPECT_TRUE(kept.expired());
}

TEST(LookupAnswerTest, MayHaveNoBest) {
  LookupAnswer first(tunefarm::v1::LookupConfigResponse(), nullptr);
  const LookupAnswer answer(std::move(first));
  EXPECT_FALSE(answer.response().has_best());
}

}  // namespace
}  // namespace tunefarm
