#include "server/web/connect_json.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/util/json_util.h>
#include <google/protobuf/util/type_resolver_util.h>
#include <zlib.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/escaping.h"
#include "server/base/status.h"
#include "tunefarm/v1/error.pb.h"

namespace tunefarm {
namespace {

constexpr std::string_view kTypes = "type.googleapis.com";
constexpr size_t kShownMax = 300;
constexpr int kGzipWindow = 15 + 16;

const char* CodeName(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kCancelled:
      return "canceled";
    case absl::StatusCode::kInvalidArgument:
      return "invalid_argument";
    case absl::StatusCode::kDeadlineExceeded:
      return "deadline_exceeded";
    case absl::StatusCode::kNotFound:
      return "not_found";
    case absl::StatusCode::kAlreadyExists:
      return "already_exists";
    case absl::StatusCode::kPermissionDenied:
      return "permission_denied";
    case absl::StatusCode::kResourceExhausted:
      return "resource_exhausted";
    case absl::StatusCode::kFailedPrecondition:
      return "failed_precondition";
    case absl::StatusCode::kAborted:
      return "aborted";
    case absl::StatusCode::kOutOfRange:
      return "out_of_range";
    case absl::StatusCode::kUnimplemented:
      return "unimplemented";
    case absl::StatusCode::kInternal:
      return "internal";
    case absl::StatusCode::kUnavailable:
      return "unavailable";
    case absl::StatusCode::kDataLoss:
      return "data_loss";
    case absl::StatusCode::kUnauthenticated:
      return "unauthenticated";
    default:
      return "unknown";
  }
}

// One line.
std::string Shown(std::string_view text) {
  std::string shown(text.substr(0, kShownMax));
  std::replace(shown.begin(), shown.end(), '\n', ' ');
  return shown;
}

}  // namespace

int HttpStatusOf(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kOk:
      return 200;
    case absl::StatusCode::kCancelled:
      return 499;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kOutOfRange:
      return 400;
    case absl::StatusCode::kUnauthenticated:
      return 401;
    case absl::StatusCode::kPermissionDenied:
      return 403;
    case absl::StatusCode::kNotFound:
      return 404;
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kAborted:
      return 409;
    case absl::StatusCode::kResourceExhausted:
      return 429;
    case absl::StatusCode::kUnimplemented:
      return 501;
    case absl::StatusCode::kUnavailable:
      return 503;
    case absl::StatusCode::kDeadlineExceeded:
      return 504;
    default:
      return 500;
  }
}

std::string ErrorJson(const absl::Status& error) {
  nlohmann::json json = {{"code", CodeName(error.code())}, {"message", std::string(MessageOf(error))}};
  v1::ErrorDetail detail;
  detail.set_reason(ReasonOf(error));
  nlohmann::json metadata = nlohmann::json::object();
  for (const auto& [name, value] : MetadataOf(error)) {
    (*detail.mutable_metadata())[name] = value;
    metadata[name] = value;
  }
  if (!detail.reason().empty()) {
    std::string value;
    absl::Base64Escape(detail.SerializeAsString(), &value);
    nlohmann::json one = {{"type", detail.GetDescriptor()->full_name()}, {"value", value}, {"reason", detail.reason()}};
    one["metadata"] = metadata;
    json["details"].push_back(std::move(one));
  }
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

absl::StatusOr<std::string> JsonToWire(const google::protobuf::Descriptor& type, std::string_view json) {
  static google::protobuf::util::TypeResolver* const types = google::protobuf::util::NewTypeResolverForDescriptorPool(
      std::string(kTypes), google::protobuf::DescriptorPool::generated_pool());
  std::string wire;
  const auto read = google::protobuf::util::JsonToBinaryString(types, std::string(kTypes) + "/" + type.full_name(),
                                                               google::protobuf::StringPiece(json.data(), json.size()),
                                                               &wire, google::protobuf::util::JsonParseOptions());
  if (read.ok()) return wire;
  const std::string why(read.message().data(), read.message().size());
  return WithReason(InvalidArgument("the body is no {} in JSON: {}", type.name(), Shown(why)), "MESSAGE_INVALID");
}

absl::StatusOr<std::string> ToJson(const google::protobuf::Message& message) {
  const size_t bytes = message.ByteSizeLong();
  if (bytes > kAnswerBytesMax) {
    return WithReason(ResourceExhausted("the answer has {} bytes, at most {} are sent over HTTP; ask for less, or use "
                                        "gRPC",
                                        bytes, kAnswerBytesMax),
                      "ANSWER_TOO_LARGE");
  }
  std::string json;
  const auto written = google::protobuf::util::MessageToJsonString(message, &json);
  if (written.ok()) return json;
  return Internal("the answer cannot be written as JSON: {}",
                  std::string(written.message().data(), written.message().size()));
}

std::string Gzip(std::string_view bytes, int level) {
  z_stream stream = {};
  if (deflateInit2(&stream, level, Z_DEFLATED, kGzipWindow, 8, Z_DEFAULT_STRATEGY) != Z_OK) return "";
  std::string packed(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  const int ended = deflate(&stream, Z_FINISH);
  packed.resize(ended == Z_STREAM_END ? stream.total_out : 0);
  deflateEnd(&stream);
  return packed;
}

}  // namespace tunefarm
