#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "client/cpp/snapshot/snapshot_file.h"
#include "client/cpp/snapshot/snapshot_writer.h"
#include "server/base/file.h"
#include "server/base/hash.h"
#include "server/base/random.h"
#include "server/base/status.h"
#include "tests/fakes/temporary_directory.h"

namespace tunefarm::snapshot {
namespace {

Contents SmallContents() {
  Best best;
  best.class_id = "class-1";
  best.class_name = "Test GPU";
  best.problem = "M=64,dtype=bf16";
  best.job = "jobs/3";
  best.driver = "580";
  best.toolkit = "13.0";
  best.dims = {{"M", int64_t{-64}}, {"dtype", std::string("bf16")}};
  best.config = {{"PACK", true}, {"SCALE", 0.5}, {"TILE", int64_t{1} << 60}, {"ORDER", std::string("nkm")}};
  best.pinned = true;
  best.median_ns = 1234.5;
  best.baseline_ns = 2000;
  best.revision = 7;
  best.promoted_at_ms = 1700000000000;
  Contents contents;
  contents.revision = 9;
  contents.made_at_ms = 1800000000000;
  contents.kernels = {{"matmul", "id-1", "program-1", {{"M", {}}, {"dtype", std::string("bf16")}}, {best, best}, 0b10},
                      {"empty", "id-2", "program-2", {}, {}},
                      {"vector_add", "id-3", "program-3", {}, {best}}};
  return contents;
}

// Everything that a reader may ask for.
void ReadAll(const SnapshotFile& file) {
  for (size_t k = 0; k < file.kernels(); ++k) {
    file.KernelAt(k);
    for (size_t i = 0; i < file.BestsOf(k); ++i) file.BestAt(k, i);
  }
}

void SetChecksum(std::string* bytes) {
  const uint64_t checksum = Xxh3(std::string_view(*bytes).substr(kChecksumFrom));
  std::memcpy(bytes->data() + offsetof(Header, checksum), &checksum, sizeof(checksum));
}

TEST(SnapshotTest, WhatIsWrittenIsRead) {
  const Contents contents = SmallContents();
  const TemporaryDirectory directory;
  const std::string path = directory.File("snapshot");
  ASSERT_TRUE(WriteFileAtomically(path, *Encode(contents)).ok());
  const auto file = SnapshotFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->revision(), 9);
  EXPECT_EQ(file->made_at_ms(), 1800000000000);
  ASSERT_EQ(file->kernels(), 3u);
  EXPECT_EQ(file->KernelAt(0).name, "matmul");
  EXPECT_EQ(file->KernelAt(0).dims, contents.kernels[0].dims);
  EXPECT_EQ(file->KernelAt(0).inputs_only, 0b10u);
  EXPECT_EQ(file->KernelAt(1).inputs_only, 0u);
  EXPECT_EQ(file->KernelAt(2).program_digest, "program-3");
  EXPECT_EQ(file->BestsOf(0), 2u);
  EXPECT_EQ(file->BestsOf(1), 0u);
  const Best best = file->BestAt(2, 0);
  const Best& wanted = contents.kernels[0].bests[0];
  EXPECT_EQ(best.class_name, wanted.class_name);
  EXPECT_EQ(best.problem, wanted.problem);
  EXPECT_EQ(best.dims, wanted.dims);
  EXPECT_EQ(best.config, wanted.config);
  EXPECT_TRUE(best.pinned);
  EXPECT_EQ(best.median_ns, 1234.5);
  EXPECT_EQ(best.baseline_ns, 2000);
  EXPECT_EQ(best.revision, 7);
  EXPECT_EQ(best.promoted_at_ms, 1700000000000);
  EXPECT_EQ(*Encode(contents), *Encode(contents));
}

TEST(SnapshotTest, WhatAFormatCannotHoldIsRefused) {
  Contents contents = SmallContents();
  contents.kernels[0].bests[0].median_ns = std::nan("");
  EXPECT_THAT(MessageOf(Encode(contents).status()), testing::HasSubstr("the best of matmul for M=64,dtype=bf16"));
  contents = SmallContents();
  contents.kernels[0].bests[0].job.assign(kStringBytesMax + 1, 'x');
  EXPECT_FALSE(Encode(contents).ok());
  contents = SmallContents();
  contents.kernels[0].dims.resize(kDimsMax + 1);
  EXPECT_FALSE(Encode(contents).ok());
}

TEST(SnapshotTest, OtherFilesAreRefusedWithASentence) {
  const TemporaryDirectory directory;
  const auto message = [&](const std::string& bytes) {
    EXPECT_TRUE(WriteFileAtomically(directory.File("f"), bytes).ok());
    const absl::Status status = SnapshotFile::Open(directory.File("f")).status();
    return std::string(MessageOf(status)) + " " + ReasonOf(status);
  };
  const std::string good = *Encode(SmallContents());
  EXPECT_THAT(message(""), testing::HasSubstr("SNAPSHOT_DAMAGED"));
  EXPECT_THAT(message(std::string(500, 'x')), testing::HasSubstr("does not begin like one"));
  std::string other = good;
  other[8] = 2;
  EXPECT_THAT(message(other), testing::AllOf(testing::HasSubstr("version 2"), testing::HasSubstr("SNAPSHOT_VERSION")));
  EXPECT_THAT(message(good + "x"), testing::HasSubstr("do not belong"));
  EXPECT_THAT(message(good.substr(0, good.size() - 1)), testing::HasSubstr("cut off"));
  EXPECT_TRUE(absl::IsNotFound(SnapshotFile::Open(directory.File("none")).status()));
  EXPECT_FALSE(SnapshotFile::Open(directory.path()).ok());
}

TEST(SnapshotTest, EveryFlippedByteAndEveryTruncationIsNoticed) {
  const std::string good = *Encode(SmallContents());
  for (size_t size = 0; size < good.size(); ++size) {
    // A copy of its own, so that the sanitizers see a read beyond its end.
    const std::string cut(good.data(), size);
    EXPECT_FALSE(SnapshotFile::Read(cut, "cut").ok()) << size;
  }
  for (size_t i = 0; i < good.size(); ++i) {
    for (const int flip : {1, 128, 255}) {
      std::string flipped = good;
      flipped[i] = static_cast<char>(flipped[i] ^ flip);
      EXPECT_FALSE(SnapshotFile::Read(flipped, "flipped").ok()) << i;
    }
  }
}

TEST(SnapshotTest, OnlyDimsThatThereAreDescribeInputs) {
  Contents contents = SmallContents();
  contents.kernels[0].inputs_only = 0b100;
  EXPECT_FALSE(SnapshotFile::Read(*Encode(contents), "odd").ok());
}

// Whoever makes the checksum right again may choose what the file says, and cannot make a reader stray.
TEST(SnapshotTest, HostileFilesAreRefusedOrReadWithinTheirBounds) {
  const std::string good = *Encode(SmallContents());
  PhiloxStream random(5, 1);
  int accepted = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string hostile = good;
    for (uint64_t flips = 1 + random.UniformInt(4); flips > 0; --flips) {
      const size_t at = 16 + random.UniformInt(hostile.size() - 16);
      // Numbers that lie just beyond something are the interesting ones.
      const uint64_t kind = random.UniformInt(3);
      hostile[at] = static_cast<char>(kind == 0 ? 0xFF : kind == 1 ? hostile[at] + 1 : random.UniformInt(256));
    }
    if (random.UniformInt(4) == 0) hostile.resize(sizeof(Header) + random.UniformInt(hostile.size() - sizeof(Header)));
    const uint64_t bytes = hostile.size();
    std::memcpy(hostile.data() + offsetof(Header, file_bytes), &bytes, sizeof(bytes));
    SetChecksum(&hostile);
    const std::string exact(hostile.data(), hostile.size());
    const auto file = SnapshotFile::Read(exact, "hostile");
    if (!file.ok()) continue;
    ++accepted;
    ReadAll(*file);
  }
  EXPECT_GT(accepted, 100);  // else nothing was read
}

}  // namespace
}  // namespace tunefarm::snapshot
