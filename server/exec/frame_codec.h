#pragma once

// How the messages between the daemon and one worker are written: the frames of its channel and the kernel beside them.

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "google/protobuf/message.h"
#include "server/exec/frame_limits.h"

namespace tunefarm {

enum class FrameCodec {
  kProtobuf,
  // protobuf's JSON mapping with the field names of the definitions and enumerators as numbers. 64-bit integers are
  // strings, bytes are base64, and a double that is no finite number is "NaN", "Infinity" or "-Infinity".
  kJson,
};

// An interpreter may have no protobuf package, or any version of it; JSON is in every standard library.
constexpr FrameCodec FrameCodecOf(std::string_view backend) {
  return IsPythonBackend(backend) ? FrameCodec::kJson : FrameCodec::kProtobuf;
}

// Internal when the message cannot be written.
absl::StatusOr<std::string> EncodeMessage(FrameCodec codec, const google::protobuf::Message& message);

// Fills *message from bytes that a hostile worker may have sent. InvalidArgument with one printable line of at most 200
// bytes that says why; *message is then of no use. JSON with unknown fields, values of another type, repeated map keys
// or more than 100 levels is refused.
absl::Status DecodeMessage(FrameCodec codec, std::string_view bytes, google::protobuf::Message* message);

}  // namespace tunefarm
