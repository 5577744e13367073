#include "server/recordings/recordings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "server/base/check.h"
#include "server/base/file.h"
#include "server/base/status.h"
#include "server/recordings/recording_columns.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/gzip.h"
#include "tests/fakes/temporary_directory.h"

namespace tunefarm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string T4Row(int a, const std::string& b, const std::string& invalidity, double time) {
  return fmt::format(
      R"({{"configuration": {{"A": {}, "B": "{}"}}, "times": {{"compilation_time": 5, "runtimes": [{}]}}, "invalidity": )"
      R"("{}", "correctness": 1, "measurements": [{{"name": "time", "value": {}, "unit": "ms"}}]}})",
      a, b, time, invalidity, time);
}

std::string T4File(const std::vector<std::string>& rows) {
  std::string text = R"({"schema_version": "1.0.0", "metadata": {"timeunit": "milliseconds"}, "results": [)"
                     "\n";
  for (size_t i = 0; i < rows.size(); ++i) text += rows[i] + (i + 1 < rows.size() ? ",\n" : "\n");
  return text + "]}\n";
}

std::string SmallFile() {
  return T4File({T4Row(1, "x", "correct", 2.5), T4Row(2, "x", "compile", 0), T4Row(1, "y", "correct", 1.5)});
}

v1::CreateRecordingRequest About(const std::string& file_name) {
  v1::CreateRecordingRequest about;
  about.set_file_name(file_name);
  return about;
}

class RecordingsTest : public testing::Test {
 protected:
  RecordingsTest() {
    auto store = OpenSqliteStore({directory_.File("tunefarm.db"), directory_.File("backups")});
    TUNEFARM_CHECK(store.ok());
    store_ = *std::move(store);
    Open({});
  }
  void Open(const RecordingLimits& limits) {
    recordings_ = std::make_unique<Recordings>(
        &store_->recordings(), &clock_, [this] { return space_; }, limits);
  }
  // All results, page by page.
  v1::RecordedResults ResultsOf(const std::string& name, int page_size) {
    v1::RecordedResults all;
    v1::ListRecordedResultsRequest request;
    request.set_parent(name);
    request.set_page_size(page_size);
    do {
      const auto page = recordings_->ListResults(request);
      TUNEFARM_CHECK_OK(page.status());
      EXPECT_LE(page->results().outcomes_size(), page_size > 0 ? page_size : kResultsInPart);
      all.MergeFrom(page->results());
      request.set_page_token(page->next_page_token());
    } while (!request.page_token().empty());
    return all;
  }

  TemporaryDirectory directory_;
  FakeClock clock_;
  absl::Status space_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<Recordings> recordings_;
};

TEST_F(RecordingsTest, AFileIsKeptByColumns) {
  v1::CreateRecordingRequest about = About("/some/folder/small results.json");
  about.set_kernel_name("matmul");
  about.set_device_name("A100");
  const auto created = recordings_->Create(about, SmallFile());
  ASSERT_TRUE(created.ok()) << created.status();
  EXPECT_FALSE(created->already_stored());
  const v1::Recording& recording = created->recording();
  EXPECT_EQ(recording.name(), "recordings/1");
  EXPECT_EQ(recording.display_name(), "small_results");
  EXPECT_EQ(recording.file_name(), "small results.json");
  EXPECT_EQ(recording.format(), v1::RECORDING_FORMAT_T4);
  EXPECT_EQ(recording.kernel_name(), "matmul");
  EXPECT_EQ(recording.device_name(), "A100");
  EXPECT_EQ(recording.result_count(), 3);
  EXPECT_EQ(recording.valid_count(), 2);
  EXPECT_EQ(recording.failed_count(), 1);
  EXPECT_EQ(recording.best_objective(), 1.5);
  EXPECT_EQ(recording.content_digest().size(), 64U);
  EXPECT_EQ(recording.imported_at_ms(), clock_.WallMs());
  ASSERT_EQ(recording.parameters_size(), 2);
  EXPECT_EQ(recording.parameters(0).name(), "A");
  EXPECT_EQ(recording.parameters(0).values(1).int_value(), 2);
  EXPECT_EQ(recording.parameters(1).values(1).string_value(), "y");
  for (const int page_size : {0, 1, 2, 100}) {
    const v1::RecordedResults results = ResultsOf("recordings/1", page_size);
    EXPECT_THAT(results.value_indexes(), ElementsAre(0, 0, 1, 0, 0, 1));
    EXPECT_THAT(results.outcomes(),
                ElementsAre(v1::RECORDED_OUTCOME_CORRECT, v1::RECORDED_OUTCOME_COMPILE, v1::RECORDED_OUTCOME_CORRECT));
    EXPECT_THAT(results.objectives(), ElementsAre(2.5, 0, 1.5));
    EXPECT_THAT(results.cost_ms(), ElementsAre(7.5, 5, 6.5));
  }
  EXPECT_EQ(recordings_->Get("small_results")->name(), "recordings/1");
  EXPECT_EQ(recordings_->List({})->recordings(0).parameters_size(), 0);
}

TEST_F(RecordingsTest, MoreThanOnePartIsReadBackWhole) {
  std::vector<std::string> rows;
  constexpr int kRows = kResultsInPart + 100;
  for (int i = 0; i < kRows; ++i) rows.push_back(T4Row(i, "x", "correct", 1 + i));
  const auto created = recordings_->Create(About("large.json"), T4File(rows));
  ASSERT_TRUE(created.ok()) << created.status();
  const v1::RecordedResults results = ResultsOf(created->recording().name(), 3000);
  ASSERT_EQ(results.objectives_size(), kRows);
  for (int i = 0; i < kRows; ++i) {
    ASSERT_EQ(results.objectives(i), 1 + i);
    ASSERT_EQ(results.value_indexes(2 * i), static_cast<uint32_t>(i));
  }
}

TEST_F(RecordingsTest, TheSameContentUnderAnotherNameIsTheSameRecording) {
  ASSERT_TRUE(recordings_->Create(About("a.json"), SmallFile()).ok());
  const auto again = recordings_->Create(About("b.json"), SmallFile());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(again->already_stored());
  EXPECT_EQ(again->recording().display_name(), "a");
  const absl::Status taken = recordings_->Create(About("a.json"), T4File({T4Row(1, "x", "correct", 1)})).status();
  EXPECT_EQ(ReasonOf(taken), "RECORDING_NAME_TAKEN");
  ASSERT_TRUE(recordings_->Delete("recordings/1").ok());
  EXPECT_EQ(ReasonOf(recordings_->Delete("recordings/1")), "RECORDING_NOT_FOUND");
  EXPECT_EQ(ReasonOf(recordings_->Get("a").status()), "RECORDING_NOT_FOUND");
}

TEST_F(RecordingsTest, WhatCannotBeReadIsRefusedWithItsPlace) {
  const std::string whole = SmallFile();
  const auto refusal = [&](const std::string& text) {
    const absl::Status status = recordings_->Create(About("dir/bad.json"), text).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(MessageOf(status));
  };
  std::string text = whole;
  text.replace(text.find("\"compile\""), 9, "\"broken\"");
  EXPECT_THAT(refusal(text), HasSubstr("bad.json:3:"));
  EXPECT_THAT(refusal(text), HasSubstr("/results/1/invalidity"));
  EXPECT_THAT(refusal("{"), HasSubstr("bad.json:1:"));
  EXPECT_THAT(refusal(""), HasSubstr("bad.json:1:"));
  EXPECT_THAT(refusal("\x1f\x8b not gzip"), HasSubstr("bad.json"));
  EXPECT_THAT(refusal(T4File({})), HasSubstr("no results"));
  EXPECT_THAT(refusal(T4File({T4Row(1, "x", "correct", 1), T4Row(1, "x", "correct", 1)})), HasSubstr("twice"));
  v1::CreateRecordingRequest cache = About("t4.json");
  cache.set_format(v1::RECORDING_FORMAT_KERNEL_TUNER_CACHE);
  EXPECT_THAT(MessageOf(recordings_->Create(cache, whole).status()), HasSubstr("t4.json:1:1: this is a T4 file"));
  EXPECT_THAT(recordings_->List({})->recordings(), IsEmpty());
}

TEST_F(RecordingsTest, NamesAndLabelsHaveLimits) {
  for (const char* name : {"17", "with blank", "a/b", "\xc3\xa4"}) {
    v1::CreateRecordingRequest about = About("a.json");
    about.set_display_name(name);
    EXPECT_EQ(ReasonOf(recordings_->Create(about, SmallFile()).status()), "RECORDING_INVALID") << name;
  }
  v1::CreateRecordingRequest about = About("a.json");
  about.set_kernel_name(std::string(257, 'x'));
  EXPECT_EQ(ReasonOf(recordings_->Create(about, SmallFile()).status()), "RECORDING_INVALID");
  EXPECT_EQ(ReasonOf(recordings_->Create(About(""), SmallFile()).status()), "RECORDING_INVALID");
  EXPECT_EQ(ReasonOf(recordings_->Create(About("folder/"), SmallFile()).status()), "RECORDING_INVALID");
  EXPECT_EQ(recordings_->Create(About("17.json"), SmallFile())->recording().display_name(), "_17");
  for (const char* name : {"recordings/", "recordings/x", "recordings/0", "recordings/-1", "recordings/1/2"}) {
    EXPECT_EQ(ReasonOf(recordings_->Get(name).status()), "NAME_INVALID") << name;
  }
}

TEST_F(RecordingsTest, SpaceNumberAndSizeAreBounded) {
  space_ = WithReason(ResourceExhausted("low"), "LOW_SPACE");
  EXPECT_EQ(ReasonOf(recordings_->Create(About("a.json"), SmallFile()).status()), "LOW_SPACE");
  space_ = absl::OkStatus();
  RecordingLimits limits;
  limits.recordings_max = 1;
  limits.unpacked_bytes_max = 10'000;
  Open(limits);
  ASSERT_TRUE(recordings_->Create(About("a.json"), SmallFile()).ok());
  EXPECT_EQ(ReasonOf(recordings_->Create(About("b.json"), T4File({T4Row(1, "x", "correct", 1)})).status()),
            "RECORDINGS_FULL");
  // What a small file may be unpacked into.
  const absl::Status large =
      recordings_->Create(About("a.json.gz"), Gzip(SmallFile() + std::string(10'000, ' '))).status();
  EXPECT_TRUE(absl::IsInvalidArgument(large)) << large;
  EXPECT_THAT(MessageOf(large), HasSubstr("a.json.gz"));
  EXPECT_THAT(MessageOf(large), HasSubstr("unpacked"));
}

TEST_F(RecordingsTest, ManyValuesAreTooMany) {
  std::vector<std::string> rows;
  for (int i = 0; i <= kRecordedValuesMax; ++i) rows.push_back(T4Row(i, "x", "correct", 1));
  const absl::Status status = recordings_->Create(About("wide.json"), T4File(rows)).status();
  EXPECT_EQ(ReasonOf(status), "RECORDING_TOO_LARGE");
  EXPECT_TRUE(absl::IsInvalidArgument(status));
}

// A plain file that just ends is that of a killed tuner, or what came of a whole one.
TEST_F(RecordingsTest, NothingIsStoredOfAClientThatIsGone) {
  const std::string part = SmallFile().substr(0, SmallFile().rfind("{\"configuration\""));
  const auto gone = recordings_->Create(About("part.json"), part, [] { return true; });
  EXPECT_TRUE(absl::IsCancelled(gone.status())) << gone.status();
  EXPECT_THAT(recordings_->List({})->recordings(), IsEmpty());
  EXPECT_TRUE(recordings_->Create(About("part.json"), part, [] { return false; }).ok());
}

// Fewer values than are too many, but long ones.
TEST_F(RecordingsTest, LongValuesAreTooLarge) {
  std::vector<std::string> rows;
  for (int i = 0; i < 40'000; ++i) rows.push_back(T4Row(0, fmt::format("{:0>240}", i), "correct", 1));
  const absl::Status status = recordings_->Create(About("long.json"), T4File(rows)).status();
  EXPECT_EQ(ReasonOf(status), "RECORDING_TOO_LARGE");
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(MessageOf(status), HasSubstr("long.json: the different values"));
  EXPECT_THAT(recordings_->List({})->recordings(), IsEmpty());
}

// What is inside would be measured by no limit, and be another recording than the same results packed once.
TEST_F(RecordingsTest, AFileThatIsPackedTwiceIsRefused) {
  const std::string once = Gzip(SmallFile());
  EXPECT_TRUE(recordings_->Create(About("once.json.gz"), once).ok());
  const absl::Status twice = recordings_->Create(About("twice.json.gz"), Gzip(once)).status();
  EXPECT_TRUE(absl::IsInvalidArgument(twice)) << twice;
  EXPECT_THAT(MessageOf(twice), HasSubstr("twice.json.gz:1:1"));
}

TEST(RecordingLimitsTest, RecordingsLeaveADatabaseItsRoom) {
  EXPECT_EQ(LimitsOfDatabase(0).stored_bytes_max, RecordingLimits().stored_bytes_max);
  EXPECT_EQ(LimitsOfDatabase(int64_t{1} << 30).stored_bytes_max, int64_t{1} << 27);
  EXPECT_EQ(LimitsOfDatabase(int64_t{1} << 40).stored_bytes_max, RecordingLimits().stored_bytes_max);
}

TEST_F(RecordingsTest, AnUploadComesInParts) {
  const std::string whole = SmallFile();
  RecordingLimits limits;
  limits.content_bytes_max = whole.size();
  limits.upload_bytes_max = whole.size() + 10;
  Open(limits);
  const auto add = [&](RecordingUpload* upload, const std::string& name, std::string_view content) {
    v1::CreateRecordingRequest message = About(name);
    message.set_content(std::string(content));
    return upload->Add(&message);
  };
  {
    RecordingUpload upload(recordings_.get());
    EXPECT_EQ(ReasonOf(upload.Finish().status()), "RECORDING_INVALID");
    EXPECT_EQ(ReasonOf(add(&upload, "", whole)), "RECORDING_INVALID");
  }
  RecordingUpload upload(recordings_.get());
  ASSERT_TRUE(add(&upload, "a.json", whole.substr(0, 100)).ok());
  {
    // Another one finds no room while this one is on its way.
    RecordingUpload other(recordings_.get());
    EXPECT_EQ(ReasonOf(add(&other, "b.json", whole)), "UPLOADS_FULL");
  }
  ASSERT_TRUE(add(&upload, "", whole.substr(100)).ok());
  {
    RecordingUpload larger(recordings_.get());
    EXPECT_EQ(ReasonOf(add(&larger, "b.json", whole + " ")), "RECORDING_TOO_LARGE");
  }
  const auto created = upload.Finish();
  ASSERT_TRUE(created.ok()) << created.status();
  EXPECT_EQ(created->recording().display_name(), "a");
  EXPECT_EQ(created->recording().result_count(), 3);
}

TEST_F(RecordingsTest, PublishedFilesKeepTheirGoldenFacts) {
  const char* const data = std::getenv("TUNEFARM_TEST_DATA");
  if (data == nullptr) {
    ASSERT_EQ(std::getenv("TUNEFARM_REQUIRE_TEST_DATA"), nullptr);
    GTEST_SKIP() << "TUNEFARM_TEST_DATA is not set";
  }
  const std::string name = "convolution_milo_A100_T4.json.gz";
  const auto bytes = ReadFile(std::string(data) + "/t4/" + name, 1 << 24);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  const auto created = recordings_->Create(About(name), *bytes);
  ASSERT_TRUE(created.ok()) << created.status();
  EXPECT_EQ(created->recording().display_name(), "convolution_milo_A100_T4");
  EXPECT_EQ(created->recording().result_count(), 4362);
  EXPECT_EQ(created->recording().valid_count(), 4201);
  EXPECT_NEAR(created->recording().best_objective(), 0.5536, 0.0001);
  EXPECT_LT(created->recording().stored_bytes(), 300'000);
  EXPECT_EQ(ResultsOf(created->recording().name(), 0).outcomes_size(), 4362);
}

}  // namespace
}  // namespace tunefarm
