#include "server/worker/verify/data_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "server/base/check.h"

namespace tunefarm {
namespace {

using ::testing::HasSubstr;

BufferPlan PlanOf(v1::DataType type, int64_t length) {
  BufferPlan plan;
  plan.name = "x";
  plan.type = type;
  plan.length = length;
  plan.access = v1::ACCESS_IN;
  return plan;
}

class DataFileReaderTest : public testing::Test {
 protected:
  DataFileReaderTest() {
    file_.set_path("x.npy");
    file_.set_digest(std::string(64, 'a'));
    file_.set_bytes(16);
  }

  // The worker gets this as what the digest names.
  void Hand(std::string_view content) {
    UniqueFd fd(memfd_create("data", MFD_CLOEXEC));
    TUNEFARM_CHECK(write(fd.get(), content.data(), content.size()) == static_cast<ssize_t>(content.size()));
    fd_ = fd.get();
    kernel_.data_files[file_.digest()] = std::make_shared<const UniqueFd>(std::move(fd));
  }

  Failure Open() { return DataFileReader::Open(kernel_, file_, PlanOf(v1::DATA_TYPE_F32, 4), &reader_); }

  PreparedKernel kernel_;
  v1::DataFile file_;
  DataFileReader reader_;
  int fd_ = -1;
};

TEST_F(DataFileReaderTest, ReadsAnyPart) {
  Hand("0123456789abcdef");
  ASSERT_FALSE(Open()) << Open().message;
  std::string part(8, '\0');
  EXPECT_FALSE(reader_.Read(4, std::as_writable_bytes(std::span(part))));
  EXPECT_EQ(part, "456789ab");
}

TEST_F(DataFileReaderTest, MustBeAsLongAsTheBuffer) {
  Hand("0123456789abcdef0123");
  file_.set_bytes(20);
  const Failure failure = Open();
  EXPECT_EQ(failure.outcome, v1::OUTCOME_INFEASIBLE_LAUNCH);
  EXPECT_EQ(failure.message, "Buffer x has 16 bytes, but its file x.npy has 20.");
}

TEST_F(DataFileReaderTest, WhatTheDaemonDidNotHandOverIsLost) {
  const Failure failure = Open();
  EXPECT_EQ(failure.outcome, v1::OUTCOME_LOST);
  EXPECT_EQ(failure.message, "The file x.npy of buffer x was not handed to the worker.");
}

TEST_F(DataFileReaderTest, AFileThatIsTooShortIsDamaged) {
  Hand("0123456789ab");
  Failure failure = Open();
  EXPECT_EQ(failure.outcome, v1::OUTCOME_LOST);
  EXPECT_THAT(failure.message, HasSubstr("is damaged: its copy on this machine has 12 of 16 bytes"));
  // Or becomes so while it is read.
  Hand("0123456789abcdef");
  ASSERT_FALSE(Open());
  ASSERT_EQ(ftruncate(fd_, 6), 0);
  std::vector<std::byte> all(16);
  failure = reader_.Read(0, all);
  EXPECT_EQ(failure.outcome, v1::OUTCOME_LOST);
  EXPECT_THAT(failure.message, HasSubstr("ends after 6 of 16 bytes"));
}

// What is wrong with these as the elements from number 100 on of a buffer of indices; empty: nothing.
template <typename Integer>
std::string WrongIndex(v1::DataType type, const std::vector<Integer>& elements, std::optional<int64_t> limit) {
  BufferPlan plan = PlanOf(type, 1000);
  plan.index_limit = limit;
  const Failure failure = CheckIndices(plan, 100, std::as_bytes(std::span(elements)));
  EXPECT_EQ(failure.outcome, failure ? v1::OUTCOME_INFEASIBLE_LAUNCH : v1::OUTCOME_UNSPECIFIED);
  return failure.message;
}

TEST(IndexLimitTest, EveryElementIsBelowIt) {
  EXPECT_EQ(WrongIndex<int32_t>(v1::DATA_TYPE_I32, {0, 3, 1}, 4), "");
  EXPECT_EQ(WrongIndex<int32_t>(v1::DATA_TYPE_I32, {0, 3, 4}, 4),
            "x[102] is 4, but the kernel indexes memory with it and its index_limit allows 0 to 3.");
  EXPECT_THAT(WrongIndex<int32_t>(v1::DATA_TYPE_I32, {-1}, 4), HasSubstr("x[100] is -1,"));
  EXPECT_EQ(WrongIndex<int32_t>(v1::DATA_TYPE_I32, {-1}, std::nullopt), "") << "without a limit";
}

TEST(IndexLimitTest, OfEveryIntegerType) {
  EXPECT_EQ(WrongIndex<int8_t>(v1::DATA_TYPE_I8, {127, 0}, 1000), "");
  EXPECT_THAT(WrongIndex<int8_t>(v1::DATA_TYPE_I8, {127, -128}, 1000), HasSubstr("x[101] is -128,"));
  EXPECT_THAT(WrongIndex<uint8_t>(v1::DATA_TYPE_U8, {199, 200}, 200), HasSubstr("x[101] is 200,"));
  EXPECT_THAT(WrongIndex<int16_t>(v1::DATA_TYPE_I16, {7, 8}, 8), HasSubstr("x[101] is 8,"));
  EXPECT_THAT(WrongIndex<uint16_t>(v1::DATA_TYPE_U16, {0, 65535}, 65535), HasSubstr("x[101] is 65535,"));
  EXPECT_THAT(WrongIndex<uint32_t>(v1::DATA_TYPE_U32, {0, 0xFFFFFFFFu}, 4), HasSubstr("x[101] is 4294967295,"));
  EXPECT_THAT(WrongIndex<int64_t>(v1::DATA_TYPE_I64, {0, std::numeric_limits<int64_t>::min()}, 4),
              HasSubstr("x[101] is -9223372036854775808,"));
  EXPECT_THAT(WrongIndex<uint64_t>(v1::DATA_TYPE_U64, {0, ~uint64_t{0}}, std::numeric_limits<int64_t>::max()),
              HasSubstr("x[101] is 18446744073709551615,"));
}

// Whether elements of these bits may be expected.
template <typename Word>
bool MayBeExpected(v1::DataType type, const std::vector<Word>& words) {
  return !CheckExpected(PlanOf(type, 1000), 0, std::as_bytes(std::span(words)));
}

TEST(ExpectedDataTest, NanCannotBeExpected) {
  EXPECT_TRUE(MayBeExpected<uint16_t>(v1::DATA_TYPE_F16, {0x7C00, 0xFC00, 0x8000}));
  EXPECT_FALSE(MayBeExpected<uint16_t>(v1::DATA_TYPE_F16, {0, 0x7C01}));
  EXPECT_TRUE(MayBeExpected<uint16_t>(v1::DATA_TYPE_BF16, {0x7F80, 0xFF80}));
  EXPECT_FALSE(MayBeExpected<uint16_t>(v1::DATA_TYPE_BF16, {0xFFC0}));
  EXPECT_TRUE(MayBeExpected<uint8_t>(v1::DATA_TYPE_F8E4M3, {0, 0x7E, 0xFE, 0x80}));
  EXPECT_FALSE(MayBeExpected<uint8_t>(v1::DATA_TYPE_F8E4M3, {0, 0x7F}));
  EXPECT_FALSE(MayBeExpected<uint8_t>(v1::DATA_TYPE_F8E4M3, {0xFF}));
  EXPECT_TRUE(MayBeExpected<uint32_t>(v1::DATA_TYPE_F32, {0x7F800000, 0xFF800000}));
  EXPECT_FALSE(MayBeExpected<uint32_t>(v1::DATA_TYPE_F32, {0xFF800001}));
  EXPECT_TRUE(MayBeExpected<uint64_t>(v1::DATA_TYPE_F64, {0x7FF0000000000000, 0xFFF0000000000000}));
  EXPECT_FALSE(MayBeExpected<uint64_t>(v1::DATA_TYPE_F64, {0x7FF8000000000000}));
  EXPECT_TRUE(MayBeExpected<uint32_t>(v1::DATA_TYPE_I32, {0x7FFFFFFF, 0xFFFFFFFF}));
  const std::vector<uint32_t> words = {0, 0x7FC00000};
  EXPECT_EQ(CheckExpected(PlanOf(v1::DATA_TYPE_F32, 1000), 40, std::as_bytes(std::span(words))).message,
            "The file of what x must hold has NaN at x[41], which no output can equal.");
}

}  // namespace
}  // namespace tunefarm
