#include "server/catalog/best_summary.h"

#include <string>
#include <string_view>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/catalog/catalog_case.h"

namespace tunefarm {
namespace {

using testing::ElementsAre;
using tunefarm::v1::BestConfigSummary;

class BestSummaryTest : public CatalogCase {
 protected:
  struct Times {
    double best_ns = 0, baseline_ns = 0, floor_ns = 0;
  };

  void FileBest(const KernelPlan& plan, int64_t n, const DeviceClass& device_class, const Times& times,
                int64_t promoted_at_ms, bool pinned = false) {
    tunefarm::v1::BestConfig best;
    *best.mutable_problem() = Problem(plan, n).ToProto();
    best.set_device_class_name(device_class.display_name);
    best.mutable_measurement()->set_median_ns(times.best_ns);
    best.set_baseline_ns(times.baseline_ns);
    best.set_floor_ns(times.floor_ns);
    best.set_promoted_at_ms(promoted_at_ms);
    BestRow row;
    row.kernel_name = plan.display_name();
    row.program_digest = plan.program_digest();
    row.problem_key = Problem(plan, n).key;
    row.class_id = device_class.Id();
    row.detail = best.SerializeAsString();
    row.pinned = pinned;
    row.revision = ++revision_;
    TUNEFARM_CHECK_OK(catalog_.Update(row));
  }
  // "kernel on class: bests/pinned/stale".
  std::vector<std::string> Counts(std::string_view kernel = "") {
    std::vector<std::string> lines;
    const auto summarized = summaries_.Of(kernel, newest_);
    for (const BestConfigSummary& one : summarized.summaries()) {
      lines.push_back(one.kernel_name() + " on " + one.device_class_name() + ": " + std::to_string(one.bests()) + "/" +
                      std::to_string(one.pinned()) + "/" + std::to_string(one.stale_source()));
    }
    return lines;
  }

  BestSummaries::NewestPrograms newest_;
  BestSummaries summaries_{&catalog_};
};

TEST_F(BestSummaryTest, OfAnEmptyCatalogThereIsNone) { EXPECT_THAT(Counts(), ElementsAre()); }

TEST_F(BestSummaryTest, BestsAreCountedByKernelAndClass) {
  // Another program: a best belongs to one, whatever its kernel's name.
  const auto scale = Plan(), other = Plan("compile_options: \"-use_fast_math\"", "another");
  ASSERT_NE(scale->program_digest(), other->program_digest());
  FileBest(*scale, 1024, h200_, {}, 10);
  FileBest(*scale, 2048, h200_, {}, 30, true);
  FileBest(*scale, 1024, h100_, {}, 20);
  FileBest(*other, 1024, h200_, {}, 40);
  const std::string h100 = h100_.display_name, h200 = h200_.display_name;
  ASSERT_LT(h100, h200);
  EXPECT_THAT(Counts(), ElementsAre("another on " + h200 + ": 1/0/0", "scale on " + h100 + ": 1/0/0",
                                    "scale on " + h200 + ": 2/1/0"));
  EXPECT_THAT(Counts("scale"), ElementsAre("scale on " + h100 + ": 1/0/0", "scale on " + h200 + ": 2/1/0"));
  EXPECT_THAT(Counts("nobody"), ElementsAre());
  const auto summary = summaries_.Of("scale", newest_).summaries(1);
  EXPECT_EQ(summary.device_class_id(), h200_.Id());
  EXPECT_EQ(summary.promoted_at_ms(), 30);
}

TEST_F(BestSummaryTest, BestsOfAnotherProgramThanTheNewestAreStale) {
  const auto plan = Plan();
  FileBest(*plan, 1024, h200_, {}, 10);
  FileBest(*plan, 2048, h200_, {}, 10);
  newest_["scale"] = plan->program_digest();
  newest_["another"] = "of no matter here";
  EXPECT_THAT(Counts(), ElementsAre("scale on " + h200_.display_name + ": 2/0/0"));
  newest_["scale"] = "a later one";
  EXPECT_THAT(Counts(), ElementsAre("scale on " + h200_.display_name + ": 2/0/2"));
}

TEST_F(BestSummaryTest, TheyAreCountedAgainOnlyAfterAChange) {
  const auto plan = Plan();
  FileBest(*plan, 1024, h200_, {}, 10);
  const auto first = summaries_.All(newest_);
  EXPECT_EQ(summaries_.All(newest_), first);
  EXPECT_THAT(Counts(), ElementsAre("scale on " + h200_.display_name + ": 1/0/0"));
  EXPECT_EQ(summaries_.All(newest_), first);
  newest_["scale"] = "a later one";
  EXPECT_NE(summaries_.All(newest_), first);
  EXPECT_THAT(Counts(), ElementsAre("scale on " + h200_.display_name + ": 1/0/1"));
  FileBest(*plan, 2048, h200_, {}, 10);
  EXPECT_THAT(Counts(), ElementsAre("scale on " + h200_.display_name + ": 2/0/2"));
  catalog_.Remove(Key(*plan, Problem(*plan, 2048), h200_), ++revision_);
  EXPECT_THAT(Counts(), ElementsAre("scale on " + h200_.display_name + ": 1/0/1"));
}

TEST_F(BestSummaryTest, MeansAreGeometricAndOfThoseThatHaveBothNumbers) {
  const auto plan = Plan();
  FileBest(*plan, 1024, h200_, {100, 200, 90}, 10);
  FileBest(*plan, 2048, h200_, {100, 800, 10}, 10);
  FileBest(*plan, 4096, h200_, {100, 0, 0}, 10);
  FileBest(*plan, 8192, h200_, {0, 500, 500}, 10);
  FileBest(*plan, 1024, h100_, {100, 0, 0}, 10);
  const auto summaries = summaries_.Of("", newest_).summaries();
  ASSERT_EQ(summaries.size(), 2);
  EXPECT_EQ(summaries[0].gain(), 0);
  EXPECT_EQ(summaries[0].floor_share(), 0);
  EXPECT_EQ(summaries[0].floor_share_min(), 0);
  EXPECT_NEAR(summaries[1].gain(), 4, 1e-9);
  EXPECT_NEAR(summaries[1].floor_share(), 0.3, 1e-9);
  EXPECT_NEAR(summaries[1].floor_share_min(), 0.1, 1e-9);
}

}  // namespace
}  // namespace tunefarm
