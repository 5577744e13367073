// Data files that an agent's kernels name, fetched from control and kept.
#include "server/agent/agent_data_files.h"

#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "server/base/file.h"
#include "server/base/hash.h"
#include "tests/unit/agent/remote_link_farm.h"

namespace tunefarm {
namespace {

using testing::HasSubstr;

class AgentDataFilesTest : public RemoteLinkTest {
 protected:
  AgentDataFilesTest() {
    store_ = OpenStore();
    Ask({"a:1"});
  }

  void Ask(std::vector<std::string> controls) {
    files_ = std::make_unique<AgentDataFiles>(store_.get(), NewList(std::move(controls)), &fetches_);
  }

  std::unique_ptr<DataFileStore> OpenStore() {
    auto store = DataFileStore::Open({.path = directory_.File("data_files"), .clock = &clock_});
    TUNEFARM_CHECK_OK(store);
    return *std::move(store);
  }

  // A kernel that names the content, in a file of the name.
  static void Name(const std::string& content, const std::string& path, tunefarm::v1::Kernel* kernel) {
    auto* const file = kernel->add_arguments()->mutable_buffer()->mutable_fill()->mutable_file();
    file->set_path(path);
    file->set_digest(Sha256(content).Hex());
    file->set_bytes(static_cast<int64_t>(content.size()));
  }

  absl::StatusOr<std::vector<DataFileHandle>> Open(const tunefarm::v1::Kernel& kernel) {
    std::optional<absl::StatusOr<std::vector<DataFileHandle>>> answer;
    files_->Open(kernel, [&](absl::StatusOr<std::vector<DataFileHandle>> opened) { answer = std::move(opened); });
    fetches_.RunUntilIdle();
    TUNEFARM_CHECK(answer.has_value());
    return *std::move(answer);
  }

  std::string WhyNot(const tunefarm::v1::Kernel& kernel) { return std::string(MessageOf(Open(kernel).status())); }

  int64_t Fetches() const { return std::count(farm_.calls.begin(), farm_.calls.end(), "a:1 FetchDataFile"); }

  static std::string ContentOf(const DataFileHandle& handle) {
    std::string content(static_cast<size_t>(handle.bytes), '\0');
    const ssize_t got = pread(handle.file->get(), content.data(), content.size(), 0);
    return content.substr(0, static_cast<size_t>(std::max<ssize_t>(got, 0)));
  }

  ManualExecutor fetches_{&clock_};
  std::unique_ptr<DataFileStore> store_;
  std::unique_ptr<AgentDataFiles> files_;
};

TEST_F(AgentDataFilesTest, WhatTheStoreLacksIsFetchedOnceInParts) {
  const std::string rows(2500, 'r'), values(1000, 'v');
  for (const std::string& content : {rows, values}) farm_.data_files[Sha256(content).Hex()] = content;
  farm_.data_file_part_bytes = 1000;
  tunefarm::v1::Kernel kernel;
  Name(rows, "rows.npy", &kernel);
  Name(values, "values.npy", &kernel);
  Name(rows, "copy.npy", &kernel);
  const auto opened = Open(kernel);
  ASSERT_TRUE(opened.ok()) << opened.status();
  ASSERT_EQ(opened->size(), 2u);
  EXPECT_EQ(ContentOf((*opened)[0]), rows);
  EXPECT_EQ(ContentOf((*opened)[1]), values);
  EXPECT_EQ(Fetches(), 4);
  EXPECT_TRUE(Open(kernel).ok());
  EXPECT_EQ(Fetches(), 4);
  // Also after a restart of the agent.
  files_ = nullptr;
  store_ = OpenStore();
  Ask({"a:1"});
  EXPECT_TRUE(Open(kernel).ok());
  EXPECT_EQ(Fetches(), 4);
}

// The process died between the last part and the check of the whole.
TEST_F(AgentDataFilesTest, AFileThatIsThereAndNotCheckedIsMadeWhole) {
  const std::string content(2500, 'r'), digest = Sha256(content).Hex();
  farm_.data_files[digest] = content;
  tunefarm::v1::Kernel kernel;
  Name(content, "rows.npy", &kernel);
  files_ = nullptr;
  store_ = nullptr;
  ASSERT_TRUE(WriteFileAtomically(directory_.File("data_files") + "/" + digest + ".part", content, 0600).ok());
  store_ = OpenStore();
  Ask({"a:1"});
  ASSERT_EQ(store_->Find(digest).received_bytes, 2500);
  const auto opened = Open(kernel);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(ContentOf((*opened)[0]), content);
}

TEST_F(AgentDataFilesTest, WhatControlLacksIsSaidWithItsAddress) {
  tunefarm::v1::Kernel kernel;
  Name("abc", "rows.npy", &kernel);
  EXPECT_EQ(Open(kernel).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(WhyNot(kernel),
            fmt::format("the data file 'rows.npy' ({}) is not on the control daemon at a:1: upload it there, by "
                        "submitting the kernel to it",
                        Sha256("abc").Hex()));
}

TEST_F(AgentDataFilesTest, WhicheverControlDaemonHasAFileGivesIt) {
  const std::vector<std::string> all = {"a:1", "b:1", "c:1"};
  farm_.data_file_part_bytes = 1000;
  for (const std::string& owner : all) {
    SCOPED_TRACE(owner);
    const std::string content = std::string(2500, 'r') + owner;
    farm_.data_files[Sha256(content).Hex()] = content;
    for (const std::string& address : all) farm_.lacks_data_files[address] = address != owner;
    tunefarm::v1::Kernel kernel;
    Name(content, "rows.npy", &kernel);
    Ask(all);
    farm_.calls.clear();
    EXPECT_TRUE(Open(kernel).ok());
    EXPECT_LE(farm_.calls.size(), 5u) << "later parts are asked where the first was";
    // One that is away may have it; the others answer for themselves.
    farm_.away[owner] = true;
    tunefarm::v1::Kernel other;
    Name("abc", "abc.npy", &other);
    EXPECT_THAT(WhyNot(other),
                testing::ContainsRegex("is not on the control daemon at .:1 or at .:1: upload it there"));
    farm_.away[owner] = false;
  }
}

TEST_F(AgentDataFilesTest, WhileControlIsAwayItIsAskedLater) {
  const std::string content(2500, 'r');
  farm_.data_files[Sha256(content).Hex()] = content;
  tunefarm::v1::Kernel kernel;
  Name(content, "rows.npy", &kernel);
  farm_.away["a:1"] = true;
  EXPECT_EQ(Open(kernel).status().code(), absl::StatusCode::kUnavailable);
  farm_.away["a:1"] = false;
  clock_.Advance(ControlList::kBackOffMax);
  EXPECT_TRUE(Open(kernel).ok());
}

TEST_F(AgentDataFilesTest, OtherContentIsNotTaken) {
  const std::string content(2500, 'r');
  tunefarm::v1::Kernel kernel;
  Name(content, "rows.npy", &kernel);
  farm_.data_files[Sha256(content).Hex()] = std::string(2500, 'x');
  EXPECT_THAT(WhyNot(kernel), HasSubstr(fmt::format("the data file 'rows.npy' ({}) is damaged on the control daemon at "
                                                    "a:1: its content has another digest; delete it",
                                                    Sha256(content).Hex())));
  farm_.data_files[Sha256(content).Hex()] = std::string(10, 'r');
  EXPECT_THAT(WhyNot(kernel), HasSubstr("control answers with 10 of 10 bytes at 0 of the data file 'rows.npy'"));
  farm_.data_files[Sha256(content).Hex()] = content;
  EXPECT_EQ(WhyNot(kernel), "");
}

TEST_F(AgentDataFilesTest, NothingIsAskedAfterTheEnd) {
  tunefarm::v1::Kernel kernel;
  Name("abc", "rows.npy", &kernel);
  files_->End();
  files_->Open(kernel, [](const auto&) { FAIL() << "the agent has ended"; });
  EXPECT_EQ(fetches_.RunUntilIdle(), 0u);
}

TEST_F(AgentDataFilesTest, InControlsProcessTheStoreIsAll) {
  AgentDataFiles own(store_.get());
  tunefarm::v1::Kernel kernel;
  Name("abc", "rows.npy", &kernel);
  absl::Status status;
  own.Open(kernel, [&](const absl::StatusOr<std::vector<DataFileHandle>>& opened) { status = opened.status(); });
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  DataFilePart part;
  part.digest = Sha256("abc").Hex();
  part.total_bytes = 3;
  part.bytes = "abc";
  ASSERT_TRUE(store_->Write(part).ok());
  own.Open(kernel, [&](const absl::StatusOr<std::vector<DataFileHandle>>& opened) { status = opened.status(); });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(Fetches(), 0);
}

}  // namespace
}  // namespace tunefarm
