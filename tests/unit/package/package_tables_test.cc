// Equal texts, values, formulas and runs of records are stored once in a package.
#include "server/package/package_tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/base/status.h"

namespace tunefarm {
namespace {

using package::InstructionRecord;
using package::PairRecord;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<uint32_t> Names(const RecordTable<PairRecord>& table) {
  std::vector<uint32_t> names;
  for (const PairRecord& record : table.records()) names.push_back(record.name);
  return names;
}

TEST(RecordTableTest, EqualRunsAreStoredOnce) {
  RecordTable<PairRecord> table;
  EXPECT_EQ(table.Add({{1, 10}, {2, 20}}), 0U);
  EXPECT_EQ(table.Add({{3, 30}}), 2U);
  EXPECT_EQ(table.Add({{1, 10}, {2, 20}}), 0U);
  EXPECT_EQ(table.Add({{3, 30}}), 2U);
  EXPECT_THAT(Names(table), ElementsAre(1, 2, 3));
}

TEST(RecordTableTest, RunsThatDifferInLengthOrInOneFieldAreStoredApart) {
  RecordTable<PairRecord> table;
  EXPECT_EQ(table.Add({{1, 10}, {2, 20}}), 0U);
  EXPECT_EQ(table.Add({{1, 10}}), 2U);
  EXPECT_EQ(table.Add({{1, 11}}), 3U);
  EXPECT_EQ(table.Add({{2, 20}, {1, 10}}), 4U);
  EXPECT_THAT(Names(table), ElementsAre(1, 2, 1, 1, 2, 1));
}

TEST(RecordTableTest, AnEmptyRunTakesNoRecord) {
  RecordTable<PairRecord> table;
  EXPECT_EQ(table.Add({{1, 10}}), 0U);
  EXPECT_LE(table.Add({}), 1U);
  EXPECT_EQ(table.Add({{2, 20}}), 1U);
  EXPECT_EQ(table.records().size(), 2U);
}

TEST(RecordTableTest, WhatIsAppendedIsStoredAgainAndOfferedToNone) {
  RecordTable<PairRecord> table;
  EXPECT_EQ(table.Append({{1, 10}}), 0U);
  EXPECT_EQ(table.Append({{1, 10}}), 1U);
  EXPECT_EQ(table.Add({{1, 10}}), 2U);
  EXPECT_EQ(table.Add({{1, 10}}), 2U);
}

TEST(PackageTablesTest, EqualTextsAndValuesAreStoredOnce) {
  PackageTables tables;
  EXPECT_EQ(tables.AddString("grid").value(), 0U);
  EXPECT_EQ(tables.AddString("").value(), 1U);
  EXPECT_EQ(tables.AddString("grid").value(), 0U);
  EXPECT_EQ(tables.text(), std::string("grid\0\0", 6));
  EXPECT_EQ(tables.AddValues({Value(1), Value("grid")}).value(), 0U);
  // The same number of another type is another value.
  EXPECT_EQ(tables.AddValues({Value(1.0)}).value(), 2U);
  EXPECT_EQ(tables.AddValues({Value(1), Value("grid")}).value(), 0U);
  EXPECT_EQ(tables.values().size(), 3U);
  EXPECT_EQ(tables.strings().size(), 2U);
}

TEST(PackageTablesTest, LongTextsAreRefused) {
  PackageTables tables;
  EXPECT_TRUE(tables.AddString(std::string(package::kStringBytesMax, 'x')).ok());
  const absl::Status refused = tables.AddString(std::string(package::kStringBytesMax + 1, 'x')).status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused));
  EXPECT_THAT(std::string(MessageOf(refused)), HasSubstr("a text of 65537 bytes is too long"));
  EXPECT_EQ(tables.strings().size(), 1U);
}

TEST(PackageTablesTest, FormulasShareInstructionsAndListsHaveTheirOwn) {
  PackageTables tables;
  const std::vector<InstructionRecord> code = {{1, 0, 0}, {2, 0, 1}};
  EXPECT_EQ(tables.AddFormula({code, 0}), 0U);
  // Another text with the same code.
  EXPECT_EQ(tables.AddFormula({code, 1}), 1U);
  EXPECT_EQ(tables.AddFormula({code, 0}), 0U);
  EXPECT_EQ(tables.instructions().size(), 2U);
  EXPECT_EQ(tables.AddFormulaList({{code, 0}, {code, 1}}), 2U);
  EXPECT_EQ(tables.AddFormulaList({{code, 0}}), 4U);
  EXPECT_EQ(tables.AddFormulaList({{code, 0}, {code, 1}}), 2U);
  ASSERT_EQ(tables.formulas().size(), 5U);
  EXPECT_EQ(tables.formulas()[2].first_instruction, 2U);
  EXPECT_EQ(tables.formulas()[3].first_instruction, 4U);
  EXPECT_EQ(tables.formulas()[4].first_instruction, 6U);
  EXPECT_EQ(tables.instructions().size(), 8U);
}

}  // namespace
}  // namespace tunefarm
