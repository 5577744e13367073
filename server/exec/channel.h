#pragma once

// One end of the socket between the daemon and a worker: a Frame per SOCK_SEQPACKET packet, descriptors beside it. Used
// by both ends. Whatever comes out of Receive has been parsed but not judged: its meaning is the caller's to check.

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/base/unique_fd.h"
#include "server/exec/frame_codec.h"
#include "tunefarm/worker/v1/worker.pb.h"

namespace tunefarm {

struct ReceivedFrame {
  tunefarm::worker::v1::Frame frame;
  std::vector<UniqueFd> fds;  // close-on-exec
};

enum class ReceiveResult {
  kFrame,    // *received holds one
  kEmpty,    // nothing there now (only on a non-blocking socket)
  kClosed,   // the other end is closed and everything it sent has been read
  kGarbage,  // *error says what came instead of a frame; nothing after it can be trusted
};

// Move-only, not thread-safe. Blocks or not as the descriptor does.
class Channel {
 public:
  Channel() = default;
  Channel(UniqueFd fd, FrameCodec codec) : fd_(std::move(fd)), codec_(codec) {}

  // The daemon's end, which does not block, and the worker's, which does. Both close-on-exec. ResourceExhausted without
  // descriptors.
  static absl::StatusOr<std::pair<Channel, UniqueFd>> CreatePair(FrameCodec codec);

  // Sends one frame with copies of the descriptors. ResourceExhausted for more than kFrameBytesMax or more descriptors
  // than kFrameFdsMax and kFrameDataFilesMax; Internal when it cannot be written; Unavailable when the other end is
  // closed; Aborted when it does not read and the socket does not block.
  absl::Status Send(const tunefarm::worker::v1::Frame& frame, const std::vector<int>& fds = {});

  ReceiveResult Receive(ReceivedFrame* received, std::string* error);

  FrameCodec codec() const { return codec_; }
  int fd() const { return fd_.get(); }
  bool valid() const { return fd_.valid(); }
  void Close() { fd_.Reset(); }

 private:
  UniqueFd fd_;
  FrameCodec codec_ = FrameCodec::kProtobuf;
};

}  // namespace tunefarm
