// Messages and errors as the Connect protocol writes them in JSON: protobuf's JSON mapping, and
// {"code", "message", "details"}.
//
// Pure functions.
#pragma once

#include <google/protobuf/message.h>

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tunefarm {

// The status of HTTP that goes with a code.
int HttpStatusOf(absl::StatusCode code);
// Not of OK. The one detail has the reason and its metadata in words, and as ErrorDetail for libraries of Connect.
std::string ErrorJson(const absl::Status& error);

// The serialized message of this type. InvalidArgument (MESSAGE_INVALID) with what is wrong and where.
absl::StatusOr<std::string> JsonToWire(const google::protobuf::Descriptor& type, std::string_view json);
// ResourceExhausted (ANSWER_TOO_LARGE) above kAnswerBytesMax.
absl::StatusOr<std::string> ToJson(const google::protobuf::Message& message);

// Of an answer before it is JSON. gRPC is there for more.
inline constexpr size_t kAnswerBytesMax = size_t{16} << 20;

// As RFC 1952 says, by a level of zlib. Empty where there is no memory.
std::string Gzip(std::string_view bytes, int level);

}  // namespace tunefarm
