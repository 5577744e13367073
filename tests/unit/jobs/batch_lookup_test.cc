// Look-ups by columns: the answers are those of single look-ups, in whichever form.
#include "server/lookup/batch_lookup.h"

#include <google/protobuf/util/message_differencer.h>

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/base/random.h"
#include "server/lookup/batch_keys.h"
#include "tests/unit/jobs/farm.h"

namespace tunefarm {
namespace {

using tunefarm::v1::BatchLookupConfigsRequest;

class BatchLookup : public testing::Test {
 protected:
  static BatchLookupConfigsRequest Of(const std::vector<int64_t>& sizes) {
    BatchLookupConfigsRequest batch;
    batch.set_kernel("scale");
    auto* const column = batch.add_columns();
    column->set_dim("N");
    for (const int64_t n : sizes) column->add_ints(n);
    return batch;
  }

  tunefarm::v1::LookupConfigResponse Single(int64_t n) {
    tunefarm::v1::LookupConfigRequest request;
    request.set_kernel("scale");
    *request.mutable_problem() = TestProblem(n);
    auto answer = farm_.service().lookup_api().LookupConfig(request);
    TUNEFARM_CHECK_OK(answer);
    return *answer;
  }

  TemporaryDirectory directory_;
  Farm farm_{directory_.path()};
};

TEST_F(BatchLookup, AnswersAsSingleLookUpsDo) {
  ASSERT_TRUE(farm_.Finish(farm_.SubmitJob({1024, 4096})));
  // There, near, there again, there under another shape, and too far from all.
  const std::vector<int64_t> sizes = {1024, 2048, 1024, 4096, int64_t{1} << 20};
  BatchLookupConfigsRequest batch = Of(sizes);
  for (const bool configs_only : {false, true}) {
    batch.set_configs_only(configs_only);
    const auto answers = farm_.service().lookup_api().BatchLookupConfigs(batch);
    ASSERT_TRUE(answers.ok()) << answers.status();
    EXPECT_EQ(answers->bests_size() == 0, configs_only);
    EXPECT_EQ(answers->configs_size() == 0, !configs_only);
    ASSERT_EQ(answers->best_indexes_size(), static_cast<int>(sizes.size()));
    EXPECT_EQ(answers->medians_ns_size(), configs_only ? static_cast<int>(sizes.size()) : 0);
    for (int row = 0; row < answers->best_indexes_size(); ++row) {
      SCOPED_TRACE(testing::Message() << "row " << row << ", configs only " << configs_only);
      const auto single = Single(sizes[static_cast<size_t>(row)]);
      EXPECT_EQ(answers->matches(row), single.match());
      EXPECT_FLOAT_EQ(answers->distances(row), static_cast<float>(single.distance()));
      const int index = answers->best_indexes(row);
      ASSERT_GE(index, 0);
      const auto& config = configs_only ? answers->configs(index) : answers->bests(index).config();
      EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(config, single.best().config()));
      if (configs_only) {
        EXPECT_EQ(answers->medians_ns(row), single.best().measurement().median_ns());
      }
    }
    EXPECT_EQ(answers->matches(0), tunefarm::v1::MATCH_EXACT);
    EXPECT_EQ(answers->matches(1), tunefarm::v1::MATCH_NEAREST_SHAPE);
    EXPECT_EQ(answers->matches(4), tunefarm::v1::MATCH_DEFAULT);
    EXPECT_EQ(answers->best_indexes(0), answers->best_indexes(2));
    // Of whole bests those of two shapes are two; the one that is near is the one that is there.
    if (!configs_only) {
      EXPECT_EQ(answers->bests_size(), 3);
    }
  }
}

TEST_F(BatchLookup, StaleRowsAndOthersTakeTurns) {
  ASSERT_TRUE(farm_.Finish(farm_.SubmitJob({1024})));
  tunefarm::v1::Device newer = HostDevice();
  newer.set_toolkit_version("13.1.0");
  ASSERT_TRUE(farm_.service().SetDevices({newer}).ok());
  ASSERT_TRUE(farm_.Finish(farm_.SubmitJob({4096})));
  const auto answers = farm_.service().lookup_api().BatchLookupConfigs(Of({1024, 4096, 4096, 1024, 1024, 4096}));
  ASSERT_TRUE(answers.ok()) << answers.status();
  constexpr auto kStale = tunefarm::v1::MATCH_STALE, kExact = tunefarm::v1::MATCH_EXACT;
  EXPECT_THAT(answers->matches(), testing::ElementsAre(kStale, kExact, kExact, kStale, kStale, kExact));
}

TEST_F(BatchLookup, AnInvalidRowIsNamedEvenAfterOnesThatNeedNoLook) {
  ASSERT_TRUE(farm_.Finish(farm_.SubmitJob({1024})));
  const auto answers = farm_.service().lookup_api().BatchLookupConfigs(Of({1024, 1024, -5}));
  ASSERT_FALSE(answers.ok());
  EXPECT_THAT(std::string(answers.status().message()), testing::HasSubstr("problem 2 of the batch"));
}

const std::vector<const char*> kLayouts = {"row", "column", "a_b", "1.5"};

// Dims of all types around the columns.
std::shared_ptr<const KernelPlan> KeyPlan() {
  auto kernel = TestKernel();
  const auto add = [&](const std::string& name, tunefarm::v1::ValueType type, const std::vector<const char*>& values) {
    auto* const dim = kernel.add_dims();
    dim->set_name(name);
    dim->set_type(type);
    for (const char* const value : values) dim->add_values()->set_string_value(value);
    return dim->mutable_default_value();
  };
  add("a_flag", tunefarm::v1::VALUE_TYPE_BOOL, {})->set_bool_value(true);
  add("layout", tunefarm::v1::VALUE_TYPE_STRING, kLayouts)->set_string_value(kLayouts[0]);
  add("E", tunefarm::v1::VALUE_TYPE_INT, {})->set_int_value(4);
  add("last", tunefarm::v1::VALUE_TYPE_STRING, {"x"})->set_string_value("x");
  auto plan = KernelPlan::Compile(kernel);
  TUNEFARM_CHECK_OK(plan);
  return *plan;
}

TEST(BatchKeys, AreThoseOfResolvedProblems) {
  const auto plan = KeyPlan();
  BatchLookupConfigsRequest batch;
  (*batch.mutable_common_dims())["E"].set_int_value(8);
  auto* const n = batch.add_columns();
  n->set_dim("N");
  auto* const layout = batch.add_columns();
  layout->set_dim("layout");
  for (const char* const text : kLayouts) layout->add_strings(text);
  PhiloxStream random(1, 1);
  constexpr int kRows = 50;
  for (int row = 0; row < kRows; ++row) {
    n->add_ints(static_cast<int64_t>(1 + random.UniformInt(1'000'000)));
    layout->add_string_indexes(static_cast<uint32_t>(random.UniformInt(4)));
  }
  const auto resolve = [&](int row) {
    tunefarm::v1::Problem problem;
    *problem.mutable_dims() = batch.common_dims();
    (*problem.mutable_dims())["N"].set_int_value(n->ints(row));
    (*problem.mutable_dims())["layout"].set_string_value(
        layout->strings(static_cast<int>(layout->string_indexes(row))));
    auto resolved = plan->ResolveProblem(problem);
    TUNEFARM_CHECK_OK(resolved);
    return *resolved;
  };
  BatchKeys keys(batch, resolve(0));
  ASSERT_TRUE(keys.works());
  for (int row = kRows - 1; row >= 0; --row) EXPECT_EQ(keys.Key(row), resolve(row).key);
}

TEST(BatchKeys, RefuseColumnsThatAreNotOfTheirDims) {
  const auto plan = KeyPlan();
  const auto first = plan->ResolveProblem({});
  ASSERT_TRUE(first.ok());
  for (const std::vector<std::string>& dims :
       {std::vector<std::string>{"layout"}, {"nothing"}, {"N", "N"}, {"a_flag"}}) {
    BatchLookupConfigsRequest batch;
    for (const std::string& dim : dims) {
      auto* const column = batch.add_columns();
      column->set_dim(dim);
      column->add_ints(1024);
    }
    EXPECT_FALSE(BatchKeys(batch, *first).works()) << testing::PrintToString(dims);
  }
}

}  // namespace
}  // namespace tunefarm
