// The store of data files on a real disk.
#include "server/data_files/data_file_store.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "server/base/file.h"
#include "server/base/hash.h"
#include "server/base/status.h"
#include "server/base/thread.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/permitted.h"
#include "tests/fakes/temporary_directory.h"

namespace tunefarm {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr size_t kPart = DataFileStore::kPartBytesMax;

std::string Content(size_t bytes, char seed) {
  std::string content(bytes, seed);
  for (size_t i = 0; i < bytes; i += 97) content[i] = static_cast<char>(seed + static_cast<char>(i % 13));
  return content;
}

std::string Message(const absl::Status& status) { return std::string(MessageOf(status)); }

class DataFileStoreTest : public testing::Test {
 protected:
  DataFileStoreTest() {
    options_.path = directory_.File("data_files");
    options_.clock = &clock_;
  }

  std::unique_ptr<DataFileStore> Open() {
    auto store = DataFileStore::Open(options_);
    EXPECT_TRUE(store.ok()) << Message(store.status());
    return store.ok() ? *std::move(store) : nullptr;
  }

  static absl::StatusOr<DataFileProgress> WritePart(DataFileStore* store, const std::string& content, size_t offset,
                                                    size_t bytes = kPart, const std::string& owner = "") {
    DataFilePart part;
    part.owner = owner;
    part.digest = Sha256(content).Hex();
    part.total_bytes = static_cast<int64_t>(content.size());
    part.offset = static_cast<int64_t>(offset);
    part.bytes = std::string_view(content).substr(offset, bytes);
    return store->Write(part);
  }

  // As a client does.
  static absl::Status Upload(DataFileStore* store, const std::string& content, const std::string& owner = "") {
    DataFileProgress progress = store->Find(Sha256(content).Hex());
    while (!progress.is_whole) {
      const auto written = WritePart(store, content, static_cast<size_t>(progress.received_bytes), kPart, owner);
      if (!written.ok()) return written.status();
      progress = *written;
    }
    return absl::OkStatus();
  }

  static std::string ContentOf(DataFileStore* store, const std::string& digest) {
    std::string content;
    while (true) {
      const auto piece = store->Read(digest, static_cast<int64_t>(content.size()));
      if (!piece.ok()) return Message(piece.status());
      if (piece->bytes.empty()) return content;
      content += piece->bytes;
    }
  }

  static bool Has(DataFileStore* store, const std::string& content) {
    return store->Find(Sha256(content).Hex()).is_whole;
  }

  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(options_.path)) names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }

  TemporaryDirectory directory_;
  FakeClock clock_;
  DataFileStoreOptions options_;
};

TEST_F(DataFileStoreTest, AFileOfSeveralPartsBecomesWhole) {
  const auto store = Open();
  const std::string content = Content(2 * kPart + 5, 'a');
  const std::string digest = Sha256(content).Hex();
  EXPECT_FALSE(store->Find(digest).is_whole);
  EXPECT_EQ(store->OpenFile(digest).status().code(), absl::StatusCode::kNotFound);
  const auto first = WritePart(store.get(), content, 0);
  ASSERT_TRUE(first.ok()) << Message(first.status());
  EXPECT_FALSE(first->is_whole);
  EXPECT_EQ(first->received_bytes, static_cast<int64_t>(kPart));
  EXPECT_EQ(store->OpenFile(digest).status().code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(Upload(store.get(), content).ok());
  EXPECT_EQ(ContentOf(store.get(), digest), content);
  EXPECT_EQ(Names(), std::vector<std::string>{digest});
  struct stat info;
  ASSERT_EQ(stat((options_.path + "/" + digest).c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0400u);
  const auto open = store->OpenFile(digest);
  ASSERT_TRUE(open.ok()) << Message(open.status());
  EXPECT_EQ(open->bytes, static_cast<int64_t>(content.size()));
  EXPECT_EQ(fcntl(open->file->get(), F_GETFL) & O_ACCMODE, O_RDONLY);
  EXPECT_NE(fcntl(open->file->get(), F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_EQ(store->counts().files, 1);
  EXPECT_EQ(store->counts().uploads, 0);
}

TEST_F(DataFileStoreTest, PartsMayBeRepeatedAndNoneIsLeftOut) {
  const auto store = Open();
  const std::string content = Content(3 * kPart, 'a');
  const auto received = [&](size_t offset, size_t bytes) {
    const auto written = WritePart(store.get(), content, offset, bytes);
    EXPECT_TRUE(written.ok()) << Message(written.status());
    return written.ok() ? written->received_bytes : -1;
  };
  // Not from the middle on.
  EXPECT_EQ(received(kPart, kPart), 0);
  EXPECT_EQ(received(0, kPart), int64_t{kPart});
  EXPECT_EQ(received(0, kPart), int64_t{kPart});
  EXPECT_EQ(received(2 * kPart, kPart), int64_t{kPart});
  // One that begins in what is known and goes beyond it.
  EXPECT_EQ(received(kPart - 10, 20), int64_t{kPart} + 10);
  ASSERT_TRUE(Upload(store.get(), content).ok());
  EXPECT_EQ(ContentOf(store.get(), Sha256(content).Hex()), content);
  const auto again = WritePart(store.get(), content, 0);
  ASSERT_TRUE(again.ok());
  EXPECT_TRUE(again->is_whole);
}

TEST_F(DataFileStoreTest, WhatIsNoPartIsRefused) {
  const auto store = Open();
  const std::string content = Content(100, 'a');
  const DataFilePart good{"", Sha256(content).Hex(), 100, 0, content};
  const auto refused = [&](DataFilePart part) {
    const absl::Status status = store->Write(part).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << Message(status);
    EXPECT_EQ(ReasonOf(status), "DATA_FILE_INVALID");
    return Message(status);
  };
  DataFilePart part = good;
  part.digest = "../../etc/passwd";
  EXPECT_THAT(refused(part), HasSubstr("is no SHA-256"));
  part = good;
  part.digest.back() = 'A';
  EXPECT_THAT(refused(part), HasSubstr("is no SHA-256"));
  part = good;
  part.total_bytes = 0;
  EXPECT_EQ(refused(part), "the data file has 0 bytes; 1 to 2147483648 are taken");
  part.total_bytes = (int64_t{2} << 30) + 1;
  EXPECT_EQ(refused(part), "the data file has 2147483649 bytes; 1 to 2147483648 are taken");
  part = good;
  part.offset = 1;
  EXPECT_EQ(refused(part), "a part of 100 bytes at 1 does not fit into a data file of 100 bytes");
  part.offset = -1;
  EXPECT_THAT(refused(part), HasSubstr("does not fit"));
  const std::string large = Content(kPart + 1, 'a');
  part = good;
  part.total_bytes = int64_t{kPart} * 2;
  part.bytes = large;
  EXPECT_EQ(refused(part), "the part has 1048577 bytes; at most 1048576 are taken");
  EXPECT_TRUE(Names().empty());
}

TEST_F(DataFileStoreTest, AWrongDigestBeginsTheUploadAnew) {
  const auto store = Open();
  const std::string content = Content(kPart + 10, 'a');
  std::string changed = content;
  changed[3] = static_cast<char>(changed[3] + 1);
  const std::string digest = Sha256(content).Hex();
  DataFilePart part{"", digest, static_cast<int64_t>(content.size()), 0, std::string_view(changed).substr(0, kPart)};
  ASSERT_TRUE(store->Write(part).ok());
  part.offset = kPart;
  part.bytes = std::string_view(changed).substr(kPart);
  const absl::Status refused = store->Write(part).status();
  EXPECT_EQ(ReasonOf(refused), "DATA_FILE_INVALID");
  EXPECT_THAT(Message(refused), HasSubstr("has the digest " + Sha256(changed).Hex()));
  EXPECT_EQ(store->Find(digest).received_bytes, 0);
  EXPECT_TRUE(Names().empty());
  EXPECT_TRUE(Upload(store.get(), content).ok());
  EXPECT_TRUE(Has(store.get(), content));
}

TEST_F(DataFileStoreTest, AnotherTotalBeginsTheUploadAnew) {
  const auto store = Open();
  const std::string content = Content(kPart + 10, 'a');
  DataFilePart wrong{"", Sha256(content).Hex(), 2 * kPart, 0, std::string_view(content).substr(0, kPart)};
  ASSERT_TRUE(store->Write(wrong).ok());
  EXPECT_TRUE(Upload(store.get(), content).ok());
  EXPECT_EQ(ContentOf(store.get(), Sha256(content).Hex()), content);
}

TEST_F(DataFileStoreTest, AllIsAsBeforeAfterARestart) {
  const std::string whole = Content(100, 'a'), begun = Content(3 * kPart, 'b');
  const std::string digest = Sha256(begun).Hex();
  {
    const auto store = Open();
    ASSERT_TRUE(Upload(store.get(), whole).ok());
    ASSERT_TRUE(WritePart(store.get(), begun, 0).ok());
    ASSERT_TRUE(WritePart(store.get(), begun, kPart).ok());
  }
  clock_.Advance(std::chrono::hours(23));
  const auto store = Open();
  EXPECT_EQ(ContentOf(store.get(), Sha256(whole).Hex()), whole);
  EXPECT_EQ(store->Find(digest).received_bytes, 2 * int64_t{kPart});
  ASSERT_TRUE(Upload(store.get(), begun).ok());
  EXPECT_EQ(ContentOf(store.get(), digest), begun);
}

TEST_F(DataFileStoreTest, AnUploadCountsInFullAfterARestart) {
  options_.bytes_max = 3 * kPart;
  const std::string begun = Content(3 * kPart, 'a'), other = Content(kPart, 'b');
  {
    const auto store = Open();
    ASSERT_TRUE(WritePart(store.get(), begun, 0).ok());
    EXPECT_EQ(ReasonOf(Upload(store.get(), other)), "DATA_FILE_QUOTA");
  }
  const auto store = Open();
  // Without attributes the store does not know how large it will be.
  const bool has_attributes = setxattr(options_.path.c_str(), "user.tunefarm.test", "x", 1, 0) == 0;
  EXPECT_EQ(ReasonOf(Upload(store.get(), other)), has_attributes ? "DATA_FILE_QUOTA" : "");
  EXPECT_TRUE(Upload(store.get(), begun).ok());
}

TEST_F(DataFileStoreTest, WhatWasNotCheckedBeforeARestartIsCheckedAfterIt) {
  const std::string content = Content(2 * kPart, 'a');
  const std::string digest = Sha256(content).Hex();
  ASSERT_TRUE(MakeDirectories(options_.path, 0700).ok());
  for (const bool is_good : {true, false}) {
    std::string written = content;
    written.back() = is_good ? written.back() : '?';
    ASSERT_TRUE(WriteFileAtomically(options_.path + "/" + digest + ".part", written, 0400).ok());
    const auto store = Open();
    EXPECT_EQ(store->Find(digest).received_bytes, 2 * int64_t{kPart});
    EXPECT_FALSE(store->Find(digest).is_whole);
    const auto last = WritePart(store.get(), content, kPart);
    EXPECT_EQ(last.ok(), is_good) << Message(last.status());
    EXPECT_EQ(store->Find(digest).is_whole, is_good);
    EXPECT_EQ(unlink((options_.path + "/" + digest).c_str()), is_good ? 0 : -1);
  }
}

TEST_F(DataFileStoreTest, AnUploadThatNobodyGoesOnWithEnds) {
  const std::string begun = Content(2 * kPart, 'b');
  {
    const auto store = Open();
    ASSERT_TRUE(WritePart(store.get(), begun, 0).ok());
  }
  clock_.Advance(std::chrono::hours(25));
  const auto store = Open();
  EXPECT_EQ(store->Find(Sha256(begun).Hex()).received_bytes, 0);
  EXPECT_TRUE(Names().empty());
}

TEST_F(DataFileStoreTest, WhatIsNoFileOfOursIsLeftAlone) {
  ASSERT_TRUE(MakeDirectories(options_.path, 0700).ok());
  const std::string digest = Sha256("x").Hex();
  ASSERT_EQ(symlink("/etc/passwd", (options_.path + "/" + digest).c_str()), 0);
  ASSERT_TRUE(WriteFileAtomically(options_.path + "/README", "text").ok());
  const auto store = Open();
  EXPECT_FALSE(store->Find(digest).is_whole);
  EXPECT_EQ(store->counts().files, 0);
  EXPECT_EQ(Names().size(), 2u);
}

TEST_F(DataFileStoreTest, AFileThatWasCutIsNoneAnyMore) {
  const auto store = Open();
  const std::string content = Content(100, 'a');
  const std::string digest = Sha256(content).Hex();
  ASSERT_TRUE(Upload(store.get(), content).ok());
  ASSERT_EQ(chmod((options_.path + "/" + digest).c_str(), 0600), 0);
  ASSERT_EQ(truncate((options_.path + "/" + digest).c_str(), 50), 0);
  EXPECT_EQ(ReasonOf(store->OpenFile(digest).status()), "DATA_FILE_NOT_FOUND");
  EXPECT_FALSE(store->Find(digest).is_whole);
  ASSERT_TRUE(Upload(store.get(), content).ok());
  EXPECT_EQ(ContentOf(store.get(), digest), content);
}

TEST_F(DataFileStoreTest, AFileThatWasCutWhileTheDaemonWasDownIsUploadedAgain) {
  const std::string content = Content(100, 'a');
  const std::string path = options_.path + "/" + Sha256(content).Hex();
  ASSERT_TRUE(Upload(Open().get(), content).ok());
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  ASSERT_EQ(truncate(path.c_str(), 50), 0);
  // Without attributes nothing says how long it was.
  const bool has_attributes = getxattr(path.c_str(), "user.tunefarm.bytes", nullptr, 0) > 0;
  const auto store = Open();
  EXPECT_EQ(Has(store.get(), content), !has_attributes);
  EXPECT_EQ(Names().empty(), has_attributes);
}

TEST_F(DataFileStoreTest, FilesThatNothingNamesMakeRoomTheOldestFirst) {
  options_.bytes_max = 3000;
  std::unordered_set<std::string> named;
  int asked = 0;
  options_.named = [&] {
    ++asked;
    return absl::StatusOr<std::unordered_set<std::string>>(named);
  };
  auto store = Open();
  const std::string a = Content(1000, 'a'), b = Content(1000, 'b'), c = Content(1000, 'c'), d = Content(1000, 'd');
  for (const std::string* content : {&a, &b, &c}) {
    ASSERT_TRUE(Upload(store.get(), *content).ok());
    clock_.Advance(std::chrono::minutes(2));
  }
  EXPECT_EQ(asked, 0);
  named.insert(Sha256(a).Hex());
  ASSERT_TRUE(store->OpenFile(Sha256(b).Hex()).ok());  // a use
  // The order survives a restart.
  store.reset();
  store = Open();
  ASSERT_TRUE(Upload(store.get(), d).ok());
  EXPECT_EQ(asked, 1);
  EXPECT_TRUE(Has(store.get(), a));
  EXPECT_TRUE(Has(store.get(), b));
  EXPECT_FALSE(Has(store.get(), c));
  EXPECT_EQ(store->counts().removed, 1);
  EXPECT_EQ(Names().size(), 3u);
}

TEST_F(DataFileStoreTest, WhatIsNamedOrAboutToBeStays) {
  options_.bytes_max = 2000;
  std::unordered_set<std::string> named;
  options_.named = [&] { return absl::StatusOr<std::unordered_set<std::string>>(named); };
  const auto store = Open();
  const std::string a = Content(1000, 'a'), b = Content(1000, 'b'), c = Content(1000, 'c');
  ASSERT_TRUE(Upload(store.get(), a).ok());
  ASSERT_TRUE(Upload(store.get(), b).ok());
  named.insert(Sha256(a).Hex());
  EXPECT_EQ(store->Keep(Sha256(b).Hex()), 1000);
  EXPECT_EQ(store->Keep(Sha256(c).Hex()), std::nullopt);
  const absl::Status full = Upload(store.get(), c);
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonOf(full), "DATA_FILE_QUOTA");
  EXPECT_THAT(Message(full), HasSubstr("there is no room for a data file of 1000 B: 1.95 KiB of 1.95 KiB are used"));
  EXPECT_TRUE(Has(store.get(), a));
  EXPECT_TRUE(Has(store.get(), b));
  clock_.Advance(std::chrono::minutes(3));
  EXPECT_TRUE(Upload(store.get(), c).ok());
  EXPECT_FALSE(Has(store.get(), b));
}

TEST_F(DataFileStoreTest, WhatIsAskedForIsUsed) {
  options_.bytes_max = 2000;
  const auto store = Open();
  const std::string a = Content(1000, 'a'), b = Content(1000, 'b'), c = Content(1000, 'c');
  for (const std::string* content : {&a, &b}) {
    ASSERT_TRUE(Upload(store.get(), *content).ok());
    clock_.Advance(std::chrono::minutes(1));
  }
  // Its client goes on with another file of the same kernel.
  EXPECT_TRUE(store->Find(Sha256(a).Hex()).is_whole);
  ASSERT_TRUE(Upload(store.get(), c).ok());
  EXPECT_TRUE(Has(store.get(), a));
  EXPECT_FALSE(Has(store.get(), b));
}

TEST_F(DataFileStoreTest, ManySmallFilesTakeTheirShareOfTheirNumber) {
  options_.bytes_max = 100 * DataFileStore::kFilesMax;
  options_.owner_bytes_max = 3 * 101;
  const auto store = Open();
  for (const char of : {'a', 'b', 'c', 'd'}) {
    ASSERT_TRUE(Upload(store.get(), Content(1, of), "alice").ok());
    clock_.Advance(std::chrono::minutes(1));
  }
  EXPECT_EQ(store->counts().files, 3);
  EXPECT_EQ(store->counts().bytes, 3);
  EXPECT_FALSE(Has(store.get(), Content(1, 'a')));
  EXPECT_TRUE(Has(store.get(), Content(1, 'b')));
}

TEST_F(DataFileStoreTest, NothingIsRemovedWhileItIsNotKnownWhatIsNamed) {
  options_.bytes_max = 1000;
  options_.named = [] {
    return absl::StatusOr<std::unordered_set<std::string>>(Unavailable("the database does not answer"));
  };
  const auto store = Open();
  const std::string a = Content(1000, 'a');
  ASSERT_TRUE(Upload(store.get(), a).ok());
  clock_.Advance(std::chrono::hours(1));
  EXPECT_EQ(Upload(store.get(), Content(1000, 'b')).code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(Has(store.get(), a));
}

TEST_F(DataFileStoreTest, OneOwnerCannotTakeTheSpaceOfOthers) {
  options_.bytes_max = 4000;
  options_.owner_bytes_max = 2000;
  std::unordered_set<std::string> named;
  options_.named = [&] { return absl::StatusOr<std::unordered_set<std::string>>(named); };
  const auto store = Open();
  const std::string other = Content(1000, 'o');
  ASSERT_TRUE(Upload(store.get(), other, "bob").ok());
  clock_.Advance(std::chrono::minutes(2));
  const std::string a = Content(1000, 'a'), b = Content(1000, 'b'), c = Content(1000, 'c');
  for (const std::string* content : {&a, &b}) {
    ASSERT_TRUE(Upload(store.get(), *content, "alice").ok());
    clock_.Advance(std::chrono::minutes(2));
  }
  // The oldest of her own goes, although another's is older.
  ASSERT_TRUE(Upload(store.get(), c, "alice").ok());
  EXPECT_FALSE(Has(store.get(), a));
  EXPECT_TRUE(Has(store.get(), other));
  // What a kernel names stays, and counts.
  named.insert(Sha256(b).Hex());
  clock_.Advance(std::chrono::minutes(2));
  ASSERT_TRUE(Upload(store.get(), a, "alice").ok());
  EXPECT_TRUE(Has(store.get(), b));
  EXPECT_FALSE(Has(store.get(), c));
  named.insert(Sha256(a).Hex());
  EXPECT_EQ(ReasonOf(Upload(store.get(), c, "alice")), "DATA_FILE_QUOTA");
  named.clear();
  // Uploads under way count in full.
  const std::string large = Content(2000, 'l');
  ASSERT_TRUE(WritePart(store.get(), large, 0, 10, "alice").ok());
  const absl::Status full = Upload(store.get(), Content(500, 'm'), "alice");
  EXPECT_EQ(ReasonOf(full), "DATA_FILE_QUOTA");
  EXPECT_THAT(Message(full), HasSubstr("this caller's have 1.95 KiB"));
  EXPECT_THAT(
      Message(Upload(store.get(), Content(2001, 'n'), "alice")),
      HasSubstr(
          "the data file has 1.95 KiB, and the data files of one caller may have 1.95 KiB here (max_data_file_bytes)"));
}

TEST_F(DataFileStoreTest, TheDiskKeepsTheSpaceThatOthersNeed) {
  options_.free_bytes_min = int64_t{1} << 60;
  const auto store = Open();
  const absl::Status full = Upload(store.get(), Content(100, 'a'));
  EXPECT_EQ(ReasonOf(full), "DATA_FILE_QUOTA");
  EXPECT_THAT(Message(full), HasSubstr("are free on the disk of"));
  EXPECT_TRUE(Names().empty());
}

TEST_F(DataFileStoreTest, AFullDiskRefusesAndKeepsWhatIsThere) {
  ASSERT_TRUE(MakeDirectories(options_.path, 0700).ok());
  if (mount("tmpfs", options_.path.c_str(), "tmpfs", 0, "size=4m,mode=0700") != 0) {
    SKIP_NOT_PERMITTED("mounts are not permitted here");
  }
  {
    const auto store = Open();
    const std::string small = Content(100, 'a'), begun = Content(3 * kPart, 'b');
    EXPECT_TRUE(Upload(store.get(), small).ok());
    EXPECT_NE(store->Keep(Sha256(small).Hex()), std::nullopt);
    EXPECT_TRUE(WritePart(store.get(), begun, 0).ok());
    // Others take what was free.
    EXPECT_TRUE(WriteFileAtomically(options_.path + "/others", std::string(5 * kPart / 2, 'x')).ok());
    const auto full = WritePart(store.get(), begun, kPart);
    EXPECT_EQ(ReasonOf(full.status()), "DATA_FILE_QUOTA") << Message(full.status());
    EXPECT_EQ(ReasonOf(Upload(store.get(), Content(2 * kPart, 'c'))), "DATA_FILE_QUOTA");
    EXPECT_TRUE(Has(store.get(), small));
    EXPECT_EQ(unlink((options_.path + "/others").c_str()), 0);
    EXPECT_EQ(store->Find(Sha256(begun).Hex()).received_bytes, int64_t{kPart});
    EXPECT_TRUE(Upload(store.get(), begun).ok());
    EXPECT_EQ(ContentOf(store.get(), Sha256(begun).Hex()), begun);
  }
  EXPECT_EQ(umount(options_.path.c_str()), 0);
}

TEST_F(DataFileStoreTest, AFileThatIsOpenKeepsItsContentWhenItGoes) {
  options_.bytes_max = 1000;
  const auto store = Open();
  const std::string a = Content(1000, 'a');
  ASSERT_TRUE(Upload(store.get(), a).ok());
  const auto open = store->OpenFile(Sha256(a).Hex());
  ASSERT_TRUE(open.ok());
  clock_.Advance(std::chrono::minutes(3));
  ASSERT_TRUE(Upload(store.get(), Content(1000, 'b')).ok());
  EXPECT_FALSE(Has(store.get(), a));
  std::string read(1000, '\0');
  EXPECT_EQ(pread(open->file->get(), read.data(), read.size(), 0), 1000);
  EXPECT_EQ(read, a);
}

TEST_F(DataFileStoreTest, ManyMayUploadOneFileAtOnce) {
  const auto store = Open();
  const std::string content = Content(4 * kPart + 7, 'a');
  std::atomic<int> failed{0};
  {
    std::vector<std::unique_ptr<Thread>> threads;
    for (int i = 0; i < 4; ++i) {
      threads.push_back(std::make_unique<Thread>("upload", [&] { failed += !Upload(store.get(), content).ok(); }));
    }
  }
  EXPECT_EQ(failed.load(), 0);
  EXPECT_EQ(ContentOf(store.get(), Sha256(content).Hex()), content);
  EXPECT_EQ(Names().size(), 1u);
}

}  // namespace
}  // namespace tunefarm
