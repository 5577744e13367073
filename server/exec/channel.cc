#include "server/exec/channel.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/exec/frame_limits.h"

namespace tunefarm {
namespace {

constexpr size_t kFdsMax = kFrameFdsMax + kFrameDataFilesMax;

// Takes every descriptor that came with a packet, so that none leaks whatever else is wrong with it.
std::vector<UniqueFd> TakeFds(msghdr* message) {
  std::vector<UniqueFd> fds;
  for (cmsghdr* header = CMSG_FIRSTHDR(message); header != nullptr; header = CMSG_NXTHDR(message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(fd));
      fds.emplace_back(fd);
    }
  }
  return fds;
}

// A packet of no bytes and the end of the stream both read as 0.
bool PeerHasHungUp(int fd) {
  pollfd entry = {fd, POLLIN | POLLRDHUP, 0};
  return poll(&entry, 1, 0) > 0 && (entry.revents & (POLLHUP | POLLRDHUP)) != 0;
}

}  // namespace

absl::StatusOr<std::pair<Channel, UniqueFd>> Channel::CreatePair(FrameCodec codec) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return ErrnoStatus(errno, "cannot create the channel of a worker");
  }
  UniqueFd ours(ends[0]), theirs(ends[1]);
  if (fcntl(ours.get(), F_SETFL, O_NONBLOCK) != 0) return ErrnoStatus(errno, "cannot make a channel non-blocking");
  return std::make_pair(Channel(std::move(ours), codec), std::move(theirs));
}

absl::Status Channel::Send(const tunefarm::worker::v1::Frame& frame, const std::vector<int>& fds) {
  ASSIGN_OR_RETURN(const std::string bytes, EncodeMessage(codec_, frame));
  if (bytes.size() > kFrameBytesMax) {
    return ResourceExhausted("a frame of {} bytes exceeds the limit of {}", bytes.size(), kFrameBytesMax);
  }
  if (fds.size() > kFdsMax) {
    return ResourceExhausted("{} descriptors for one frame, the limit is {}", fds.size(), kFdsMax);
  }
  iovec part = {const_cast<char*>(bytes.data()), bytes.size()};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kFdsMax)> control = {};
  if (!fds.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(sizeof(int) * fds.size());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
    std::memcpy(CMSG_DATA(header), fds.data(), sizeof(int) * fds.size());
  }
  ssize_t sent;
  do {
    sent = sendmsg(fd_.get(), &message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent >= 0) return absl::OkStatus();
  if (errno == EPIPE || errno == ECONNRESET) return Unavailable("the other end of the channel is closed");
  if (errno == EAGAIN || errno == EWOULDBLOCK) return Aborted("the other end does not read its channel");
  return ErrnoStatus(errno, "cannot send a frame of {} bytes", bytes.size());
}

ReceiveResult Channel::Receive(ReceivedFrame* received, std::string* error) {
  received->frame.Clear();
  received->fds.clear();
  // One byte more than allowed tells too long from just long enough. On the heap, since a thread-local array is zeroed
  // when a thread starts and so takes memory in every thread of the process.
  constexpr size_t kBufferBytes = kFrameBytesMax + 1;
  static thread_local const auto buffer = std::make_unique_for_overwrite<char[]>(kBufferBytes);
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kFdsMax)> control;
  iovec part = {buffer.get(), kBufferBytes};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t got;
  do {
    got = recvmsg(fd_.get(), &message, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got < 0) {
    if (errno == EAGAIN || errno == EWOULDBLOCK) return ReceiveResult::kEmpty;
    if (errno == ECONNRESET) return ReceiveResult::kClosed;
    *error = fmt::format("reading the channel failed: {}", strerrordesc_np(errno));
    return ReceiveResult::kGarbage;
  }
  received->fds = TakeFds(&message);
  if (got == 0) {
    if (PeerHasHungUp(fd_.get())) return ReceiveResult::kClosed;
    *error = "it sent an empty packet";
    return ReceiveResult::kGarbage;
  }
  if ((message.msg_flags & MSG_TRUNC) != 0 || static_cast<size_t>(got) > kFrameBytesMax) {
    *error = fmt::format("it sent a packet of more than {} bytes", kFrameBytesMax);
    return ReceiveResult::kGarbage;
  }
  if ((message.msg_flags & MSG_CTRUNC) != 0) {
    *error = fmt::format("it sent more than {} descriptors in one packet", kFdsMax);
    return ReceiveResult::kGarbage;
  }
  const std::string_view bytes(buffer.get(), static_cast<size_t>(got));
  if (const absl::Status decoded = DecodeMessage(codec_, bytes, &received->frame); !decoded.ok()) {
    *error = fmt::format("it sent a packet of {} bytes that is no frame: {}", got, MessageOf(decoded));
    return ReceiveResult::kGarbage;
  }
  if (received->frame.body_case() == tunefarm::worker::v1::Frame::BODY_NOT_SET) {
    *error = fmt::format("it sent a packet of {} bytes without a known body", got);
    return ReceiveResult::kGarbage;
  }
  return ReceiveResult::kFrame;
}

}  // namespace tunefarm
