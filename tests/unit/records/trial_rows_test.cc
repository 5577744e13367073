// What is read of trials and units, also from rows that a damaged database holds.
#include "server/records/trial_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/store/job_rows.h"

namespace tunefarm {
namespace {

UnitRow UnitOf(const std::vector<int64_t>& ordinals) {
  agent::v1::Assignment payload;
  for (const int64_t ordinal : ordinals) {
    auto* const spec = payload.add_trials();
    spec->set_ordinal(ordinal);
    spec->set_config("T=" + std::to_string(ordinal));
  }
  UnitRow row;
  row.first_ordinal = ordinals.empty() ? 0 : ordinals.front();
  row.trial_count = static_cast<int>(ordinals.size());
  row.payload = payload.SerializeAsString();
  return row;
}

TEST(SpecsOfUnit, AreThoseOfItsRange) {
  const auto specs = SpecsOfUnit(UnitOf({7, 8, 9}));
  ASSERT_TRUE(specs.ok()) << specs.status();
  ASSERT_EQ(specs->size(), 3u);
  EXPECT_EQ((*specs)[2].ordinal(), 9);
  EXPECT_EQ((*specs)[2].config(), "T=9");
}

TEST(SpecsOfUnit, AnythingElseIsDamage) {
  UnitRow fewer = UnitOf({7, 8}), moved = UnitOf({7, 8}), unreadable = UnitOf({7, 8});
  fewer.trial_count = 3;
  moved.first_ordinal = 6;
  unreadable.payload = "\xff";
  for (const UnitRow& row : {fewer, moved, unreadable, UnitOf({}), UnitOf({7, 9}), UnitOf({8, 7}), UnitOf({7, 7})}) {
    EXPECT_TRUE(absl::IsDataLoss(SpecsOfUnit(row).status())) << row.payload;
  }
}

TEST(TrialOfRow, KeepsWhatTheRowHas) {
  v1::Trial trial;
  trial.set_ordinal(4);
  trial.set_purpose(v1::TRIAL_PURPOSE_FINALIST);
  trial.set_log("line");
  trial.mutable_measurement()->set_median_ns(12);
  trial.mutable_measurement()->add_sample_ns(12);
  trial.mutable_measurement()->add_yardstick_ns(13);
  trial.mutable_measurement()->add_blocks()->set_clock_mhz(1710);
  const auto read = TrialOfRow(RowOfTrial(1, "T=4", trial));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->SerializeAsString(), trial.SerializeAsString());
}

TEST(TrialOfRow, TheDetailOfAnotherTrialIsDamage) {
  v1::Trial trial;
  trial.set_ordinal(4);
  TrialRow row = RowOfTrial(1, "T=4", trial);
  row.ordinal = 5;
  EXPECT_TRUE(absl::IsDataLoss(TrialOfRow(row).status()));
  row.detail = "\xff";
  EXPECT_TRUE(absl::IsDataLoss(TrialOfRow(row).status()));
}

}  // namespace
}  // namespace tunefarm
