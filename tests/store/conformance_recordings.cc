// What recordings need of a store: whole or not there, once, bounded, and apart from all that was measured.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/base/status.h"
#include "server/store/recording_store.h"
#include "tests/store/conformance.h"

namespace tunefarm {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

PutRecordingRequest MakeRecording(const std::string& name, int parts = 2, int results_in_part = 3) {
  PutRecordingRequest request;
  RecordingRow& row = request.recording;
  row.display_name = name;
  row.content_digest = "digest of " + name;
  row.kernel_name = "matmul";
  row.problem = "m=1";
  row.device_name = "gpu";
  row.file_name = name + ".json";
  row.detail = std::string("detail\0of it", 12);
  row.parameters = "parameters";
  row.imported_at_ms = kNow;
  for (int i = 0; i < parts; ++i) {
    request.parts.push_back({i * results_in_part, results_in_part, "part " + std::to_string(i)});
  }
  row.result_count = parts * results_in_part;
  row.valid_count = 1;
  request.recordings_max = 100;
  request.bytes_max = 1 << 20;
  return request;
}

TEST_P(StoreConformance, ARecordingIsReadBackAsItWasStored) {
  const auto put = store_->recordings().PutRecording(MakeRecording("first"));
  ASSERT_TRUE(put.ok()) << put.status();
  EXPECT_FALSE(put->was_duplicate);
  Reopen();
  RecordingStore& recordings = store_->recordings();
  const auto row = recordings.GetRecording(put->recording_id);
  ASSERT_TRUE(row.ok()) << row.status();
  EXPECT_EQ(row->display_name, "first");
  EXPECT_EQ(row->content_digest, "digest of first");
  EXPECT_EQ(row->kernel_name, "matmul");
  EXPECT_EQ(row->problem, "m=1");
  EXPECT_EQ(row->device_name, "gpu");
  EXPECT_EQ(row->file_name, "first.json");
  EXPECT_EQ(row->result_count, 6);
  EXPECT_EQ(row->valid_count, 1);
  EXPECT_EQ(row->detail, std::string("detail\0of it", 12));
  EXPECT_EQ(row->parameters, "parameters");
  EXPECT_EQ(row->imported_at_ms, kNow);
  EXPECT_EQ(row->stored_bytes, 12 + 10 + 6 + 6);
  EXPECT_EQ(recordings.FindRecording("first")->recording_id, put->recording_id);
  for (const int64_t result : {0, 2})
    EXPECT_EQ(recordings.GetRecordingPart(row->recording_id, result)->results, "part 0");
  for (const int64_t result : {3, 5}) {
    const auto part = recordings.GetRecordingPart(row->recording_id, result);
    EXPECT_EQ(part->results, "part 1");
    EXPECT_EQ(part->first_result, 3);
    EXPECT_EQ(part->result_count, 3);
  }
  EXPECT_TRUE(absl::IsOutOfRange(recordings.GetRecordingPart(row->recording_id, 6).status()));
  EXPECT_TRUE(absl::IsOutOfRange(recordings.GetRecordingPart(row->recording_id, -1).status()));
  EXPECT_TRUE(absl::IsNotFound(recordings.GetRecordingPart(row->recording_id + 1, 0).status()));
  EXPECT_TRUE(absl::IsNotFound(recordings.GetRecording(row->recording_id + 1).status()));
  EXPECT_TRUE(absl::IsNotFound(recordings.FindRecording("second").status()));
}

TEST_P(StoreConformance, TheSameContentIsStoredOnceAndANameIsOneRecordings) {
  RecordingStore& recordings = store_->recordings();
  const int64_t first = recordings.PutRecording(MakeRecording("first"))->recording_id;
  PutRecordingRequest again = MakeRecording("other name");
  again.recording.content_digest = "digest of first";
  const auto repeated = recordings.PutRecording(again);
  ASSERT_TRUE(repeated.ok()) << repeated.status();
  EXPECT_TRUE(repeated->was_duplicate);
  EXPECT_EQ(repeated->recording_id, first);
  EXPECT_EQ(recordings.GetRecording(first)->display_name, "first");
  PutRecordingRequest taken = MakeRecording("first");
  taken.recording.content_digest = "another";
  const absl::Status refused = recordings.PutRecording(taken).status();
  EXPECT_TRUE(absl::IsAlreadyExists(refused)) << refused;
  EXPECT_EQ(ReasonOf(refused), "RECORDING_NAME_TAKEN");
  EXPECT_THAT(recordings.ListRecordings({})->rows, SizeIs(1));
}

TEST_P(StoreConformance, RecordingsAreListedNewestFirstInPages) {
  RecordingStore& recordings = store_->recordings();
  for (const char* name : {"a", "b", "c", "d", "e"}) ASSERT_TRUE(recordings.PutRecording(MakeRecording(name)).ok());
  std::vector<std::string> names;
  PageRequest page{2, ""};
  do {
    const auto rows = recordings.ListRecordings(page);
    ASSERT_TRUE(rows.ok()) << rows.status();
    for (const RecordingRow& row : rows->rows) {
      names.push_back(row.display_name);
      EXPECT_EQ(row.parameters, "");
    }
    // One that comes meanwhile is newer than all that is still to come.
    if (names.size() == 2) {
      ASSERT_TRUE(recordings.PutRecording(MakeRecording("f")).ok());
    }
    page.page_token = rows->next_page_token;
  } while (!page.page_token.empty());
  EXPECT_THAT(names, ElementsAre("e", "d", "c", "b", "a"));
  EXPECT_EQ(ReasonOf(recordings.ListRecordings({2, "x"}).status()), "PAGE_TOKEN_INVALID");
}

TEST_P(StoreConformance, RecordingsAreBoundedInNumberAndBytes) {
  RecordingStore& recordings = store_->recordings();
  PutRecordingRequest request = MakeRecording("a");
  request.recordings_max = 1;
  ASSERT_TRUE(recordings.PutRecording(request).ok());
  request = MakeRecording("b");
  request.recordings_max = 1;
  EXPECT_EQ(ReasonOf(recordings.PutRecording(request).status()), "RECORDINGS_FULL");
  request.recordings_max = 2;
  request.bytes_max = 2 * (12 + 10 + 6 + 6) - 1;
  EXPECT_EQ(ReasonOf(recordings.PutRecording(request).status()), "RECORDINGS_FULL");
  request.bytes_max += 1;
  EXPECT_TRUE(recordings.PutRecording(request).ok());
  // What is stored already needs no room.
  request = MakeRecording("a");
  request.recordings_max = 1;
  EXPECT_TRUE(recordings.PutRecording(request)->was_duplicate);
}

TEST_P(StoreConformance, ARecordingThatDoesNotAddUpIsRefused) {
  RecordingStore& recordings = store_->recordings();
  PutRecordingRequest gap = MakeRecording("gap");
  gap.parts[1].first_result = 4;
  EXPECT_TRUE(absl::IsInvalidArgument(recordings.PutRecording(gap).status()));
  PutRecordingRequest fewer = MakeRecording("fewer");
  fewer.recording.result_count = 7;
  EXPECT_TRUE(absl::IsInvalidArgument(recordings.PutRecording(fewer).status()));
  PutRecordingRequest none = MakeRecording("none", 0);
  EXPECT_FALSE(recordings.PutRecording(none).ok());
  EXPECT_THAT(recordings.ListRecordings({})->rows, IsEmpty());
}

TEST_P(StoreConformance, WhatIsLeftOfAnInterruptedRecordingIsNeverSeenAndGoes) {
  RecordingStore& recordings = store_->recordings();
  // The second part is larger than one may be.
  PutRecordingRequest broken = MakeRecording("broken");
  broken.parts[1].results.assign(5 << 20, 'x');
  broken.bytes_max = int64_t{1} << 30;
  EXPECT_FALSE(recordings.PutRecording(broken).ok());
  EXPECT_THAT(recordings.ListRecordings({})->rows, IsEmpty());
  EXPECT_TRUE(absl::IsNotFound(recordings.FindRecording("broken").status()));
  Reopen();
  // The name and the content are free again.
  const auto put = store_->recordings().PutRecording(MakeRecording("broken"));
  ASSERT_TRUE(put.ok()) << put.status();
  EXPECT_FALSE(put->was_duplicate);
  EXPECT_EQ(store_->recordings().GetRecordingPart(put->recording_id, 5)->results, "part 1");
}

TEST_P(StoreConformance, ADeletedRecordingIsGoneAndItsNumberIsNotUsedAgain) {
  RecordingStore& recordings = store_->recordings();
  const int64_t id = recordings.PutRecording(MakeRecording("a"))->recording_id;
  ASSERT_TRUE(recordings.DeleteRecording(id).ok());
  EXPECT_TRUE(absl::IsNotFound(recordings.DeleteRecording(id)));
  EXPECT_TRUE(absl::IsNotFound(recordings.GetRecording(id).status()));
  EXPECT_TRUE(absl::IsNotFound(recordings.GetRecordingPart(id, 0).status()));
  const auto again = recordings.PutRecording(MakeRecording("a"));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_GT(again->recording_id, id);
}

TEST_P(StoreConformance, ARecordingIsNoMeasurement) {
  ASSERT_TRUE(store_->recordings().PutRecording(MakeRecording("matmul")).ok());
  EXPECT_EQ(store_->Status()->stored_trials, 0);
  EXPECT_EQ(store_->Status()->active_jobs, 0);
  EXPECT_THAT(store_->LoadBests().value(), IsEmpty());
  EXPECT_THAT(store_->ListJobs({}, {})->rows, IsEmpty());
  EXPECT_THAT(store_->ListKernels({})->rows, IsEmpty());
  EXPECT_THAT(store_->StudiesOfProgram("matmul", 10).value(), IsEmpty());
}

}  // namespace
}  // namespace tunefarm
