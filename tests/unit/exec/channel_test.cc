#include "server/exec/channel.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <vector>

#include "absl/status/status.h"
#include "server/base/check.h"
#include "server/base/memfd.h"
#include "server/exec/frame_limits.h"

namespace tunefarm {
namespace {

using tunefarm::worker::v1::Frame;

class ChannelTest : public testing::Test {
 protected:
  ChannelTest() {
    auto ends = Channel::CreatePair(FrameCodec::kProtobuf);
    TUNEFARM_CHECK_OK(ends);
    daemon_ = std::move(ends->first);
    worker_ = Channel(std::move(ends->second), FrameCodec::kProtobuf);
  }
  ReceiveResult Receive() { return daemon_.Receive(&received_, &error_); }

  Channel daemon_, worker_;
  ReceivedFrame received_;
  std::string error_;
};

TEST_F(ChannelTest, CarriesFramesAndDescriptors) {
  EXPECT_EQ(Receive(), ReceiveResult::kEmpty);
  const auto memfd = CreateSealedMemfd("test", "payload");
  ASSERT_TRUE(memfd.ok());
  Frame frame;
  frame.mutable_log()->set_text("hello");
  ASSERT_TRUE(worker_.Send(frame, {memfd->get(), memfd->get()}).ok());
  ASSERT_EQ(Receive(), ReceiveResult::kFrame);
  EXPECT_EQ(received_.frame.log().text(), "hello");
  ASSERT_EQ(received_.fds.size(), 2u);
  EXPECT_EQ(*ReadSealedMemfd(received_.fds[1].get(), 100), "payload");
}

TEST_F(ChannelTest, ClosedOnlyAfterEverythingWasRead) {
  Frame frame;
  frame.mutable_shutdown();
  ASSERT_TRUE(worker_.Send(frame).ok());
  worker_.Close();
  EXPECT_EQ(Receive(), ReceiveResult::kFrame);
  EXPECT_EQ(Receive(), ReceiveResult::kClosed);
  EXPECT_TRUE(absl::IsUnavailable(daemon_.Send(frame)));
}

TEST_F(ChannelTest, LongestFramePassesAndALongerOneIsNotSent) {
  Frame frame;
  frame.mutable_log()->set_text(std::string(kFrameBytesMax - 8, 'x'));
  while (frame.ByteSizeLong() < kFrameBytesMax) frame.mutable_log()->mutable_text()->push_back('x');
  ASSERT_EQ(frame.ByteSizeLong(), kFrameBytesMax);
  ASSERT_TRUE(worker_.Send(frame).ok());
  EXPECT_EQ(Receive(), ReceiveResult::kFrame);
  frame.mutable_log()->mutable_text()->push_back('x');
  EXPECT_TRUE(absl::IsResourceExhausted(worker_.Send(frame)));
}

TEST_F(ChannelTest, RefusesGarbage) {
  const std::string packets[] = {"\xff\xff\xff", std::string(kFrameBytesMax + 1, 'x'), "",
                                 std::string("\xfa\x01\x00", 3)};
  for (const std::string& packet : packets) {
    ASSERT_EQ(send(worker_.fd(), packet.data(), packet.size(), 0), static_cast<ssize_t>(packet.size()));
    EXPECT_EQ(Receive(), ReceiveResult::kGarbage) << packet.size();
    EXPECT_FALSE(error_.empty());
  }
}

TEST(JsonChannelTest, CarriesFramesAndRefusesSerializedOnes) {
  auto ends = Channel::CreatePair(FrameCodec::kJson);
  ASSERT_TRUE(ends.ok());
  Channel& daemon = ends->first;
  Channel worker(std::move(ends->second), FrameCodec::kJson);
  Frame frame;
  frame.mutable_log()->set_text("a \"b\"\n");
  ASSERT_TRUE(worker.Send(frame).ok());
  ReceivedFrame received;
  std::string error;
  ASSERT_EQ(daemon.Receive(&received, &error), ReceiveResult::kFrame) << error;
  EXPECT_EQ(received.frame.log().text(), "a \"b\"\n");
  for (const std::string& packet : {frame.SerializeAsString(), std::string("{}"), std::string("{\"log\": null}"),
                                    std::string(kFrameBytesMax, '['), std::string(kFrameBytesMax + 1, ' ')}) {
    ASSERT_EQ(send(worker.fd(), packet.data(), packet.size(), 0), static_cast<ssize_t>(packet.size()));
    EXPECT_EQ(daemon.Receive(&received, &error), ReceiveResult::kGarbage) << packet.size();
    EXPECT_FALSE(error.empty());
  }
  frame.mutable_log()->set_text(std::string(kFrameBytesMax / 2, '"'));  // Each becomes two bytes.
  EXPECT_TRUE(absl::IsResourceExhausted(worker.Send(frame)));
}

TEST_F(ChannelTest, RefusesTooManyDescriptorsWithoutLeakingThem) {
  Frame frame;
  frame.mutable_log()->set_text("x");
  EXPECT_TRUE(
      absl::IsResourceExhausted(worker_.Send(frame, std::vector<int>(kFrameFdsMax + kFrameDataFilesMax + 1, 0))));
  const UniqueFd probe_before(dup(0));
  const std::string bytes = frame.SerializeAsString();
  iovec part = {const_cast<char*>(bytes.data()), bytes.size()};
  constexpr size_t kSent = 2 * (kFrameFdsMax + kFrameDataFilesMax);
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kSent)] = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int) * kSent);
  ASSERT_GT(sendmsg(worker_.fd(), &message, 0), 0);  // So many times descriptor 0.
  EXPECT_EQ(Receive(), ReceiveResult::kGarbage);
  received_.fds.clear();
  const UniqueFd probe_after(dup(0));
  EXPECT_EQ(probe_after.get(), probe_before.get() + 1);
}

TEST_F(ChannelTest, FullSocketDoesNotBlockTheDaemon) {
  Frame frame;
  frame.mutable_log()->set_text(std::string(120'000, 'x'));
  absl::Status sent;
  for (int i = 0; i < 1000 && sent.ok(); ++i) sent = daemon_.Send(frame);
  EXPECT_TRUE(absl::IsAborted(sent));
}

}  // namespace
}  // namespace tunefarm
