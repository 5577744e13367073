#include "tests/store/conformance_sql.h"

#include <gmock/gmock.h>

#include <limits>

namespace tunefarm {

using testing::ElementsAre;
using testing::Optional;
using testing::Pair;

void SqlConformance::SetUp() {
  absl::StatusOr<std::unique_ptr<Sql>> connected = GetParam().connect(directory_.path());
  ASSERT_TRUE(connected.ok()) << connected.status();
  sql_ = *std::move(connected);
  ASSERT_EQ(sql_->Run("CREATE TEMP TABLE part (number INTEGER PRIMARY KEY, label TEXT)"), absl::OkStatus());
}

namespace {

std::pair<int64_t, std::string> ReadPart(const SqlRow& row) { return {row.Int(0), row.Bytes(1)}; }

// SQLite numbers parameters by their first appearance.
TEST_P(SqlConformance, AParameterIsTheValueOfItsNumberWhereverItStands) {
  const auto read = [](const SqlRow& row) { return row.Bytes(0) + "/" + row.Bytes(1) + "/" + row.Bytes(2); };
  EXPECT_THAT(sql_->ReadAll(read, "SELECT $2, $1, $1", "first", "second").value(), ElementsAre("second/first/first"));
  ASSERT_EQ(sql_->Run("INSERT INTO part (label, number) VALUES ($3, $1), ($2, $1 + 1)", 7, "second", "third"),
            absl::OkStatus());
  EXPECT_THAT(sql_->ReadAll(ReadPart, "SELECT number, label FROM part ORDER BY number").value(),
              ElementsAre(Pair(7, "third"), Pair(8, "second")));
  EXPECT_THAT(
      sql_->ReadAll(ReadPart, "SELECT number, label FROM part WHERE label = $2 AND number > $1 AND $1 = 7", 7, "second")
          .value(),
      ElementsAre(Pair(8, "second")));
}

TEST_P(SqlConformance, AParameterWithoutAValueIsRefused) {
  EXPECT_FALSE(sql_->Run("INSERT INTO part (number, label) VALUES ($1, $2)", 1).ok());
}

TEST_P(SqlConformance, ValuesAreReadBackAsTheyWereGiven) {
  const std::string bytes("a\0\xff", 3);
  constexpr int64_t kLowest = std::numeric_limits<int64_t>::min();
  const auto read = [&](const SqlRow& row) {
    EXPECT_EQ(row.Int(0), kLowest);
    EXPECT_EQ(row.Int(1), 1);
    EXPECT_EQ(row.Real(2), 0.1);
    EXPECT_EQ(row.Bytes(3), "text");
    EXPECT_EQ(row.Bytes(4), bytes);
    return 0;
  };
  EXPECT_THAT(sql_->ReadOne(read, "SELECT $1, $2, $3, $4, $5", kLowest, true, 0.1, "text", Blob{bytes}).value(),
              Optional(0));
}

TEST_P(SqlConformance, OnlyWhatSaysSoIsNull) {
  const auto read = [](const SqlRow& row) {
    std::string nulls;
    for (int column = 0; column < 6; ++column) nulls += row.IsNull(column) ? '1' : '0';
    return nulls;
  };
  EXPECT_THAT(sql_->ReadOne(read, "SELECT $1, $2, $3, $4, $5, $6", std::string_view(), Blob{}, BlobOrNull{},
                            ZeroAsNull{0}, ZeroAsNull{1}, BlobOrNull{"b"})
                  .value(),
              Optional(std::string("001100")));
}

TEST_P(SqlConformance, ChangesAreCounted) {
  EXPECT_EQ(sql_->Change("INSERT INTO part (number, label) VALUES (1, $1), (2, $1), (3, $1)", "old").value(), 3);
  EXPECT_EQ(sql_->Change("UPDATE part SET label = $2 WHERE number > $1", 1, "new").value(), 2);
  EXPECT_EQ(sql_->Change("DELETE FROM part WHERE label = $1", "none").value(), 0);
}

TEST_P(SqlConformance, AStatementThatChangesAnswersItsRowsAndIsDone) {
  EXPECT_EQ(sql_->QueryInt("INSERT INTO part (number, label) VALUES (5, '') RETURNING number").value(), 5);
  EXPECT_EQ(sql_->QueryInt("UPDATE part SET number = number + 1 RETURNING number").value(), 6);
  EXPECT_EQ(sql_->QueryInt("SELECT number FROM part").value(), 6);
}

TEST_P(SqlConformance, NoRowIsNoneOrAnError) {
  EXPECT_EQ(sql_->ReadOne(Sql::ReadInt, "SELECT number FROM part").value(), std::nullopt);
  EXPECT_FALSE(sql_->Exists("SELECT 1 FROM part").value());
  EXPECT_TRUE(absl::IsInternal(sql_->QueryInt("SELECT number FROM part").status()));
}

TEST_P(SqlConformance, OfSeveralRowsTheFirstIsRead) {
  ASSERT_EQ(sql_->Run("INSERT INTO part (number, label) VALUES (1, ''), (2, '')"), absl::OkStatus());
  EXPECT_EQ(sql_->QueryInt("SELECT number FROM part ORDER BY number DESC").value(), 2);
  EXPECT_TRUE(sql_->Exists("SELECT 1 FROM part").value());
}

}  // namespace
}  // namespace tunefarm
