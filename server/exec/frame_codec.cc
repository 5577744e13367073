#include "server/exec/frame_codec.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>

#include "server/base/status.h"
#include "server/exec/captured_output.h"

namespace tunefarm {
namespace {

namespace json = google::protobuf::util;

constexpr size_t kReasonBytesMax = 200;

// protobuf's reason without the lines that quote the text.
std::string FirstLine(std::string_view message) {
  return PrintableText(message.substr(0, std::min(message.find('\n'), kReasonBytesMax)));
}

}  // namespace

absl::StatusOr<std::string> EncodeMessage(FrameCodec codec, const google::protobuf::Message& message) {
  if (codec == FrameCodec::kProtobuf) return message.SerializeAsString();
  json::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.always_print_enums_as_ints = true;
  std::string text;
  const auto written = json::MessageToJsonString(message, &text, options);
  if (!written.ok()) {
    return Internal("a {} cannot be written as JSON: {}", message.GetTypeName(), FirstLine(written.ToString()));
  }
  return text;
}

absl::Status DecodeMessage(FrameCodec codec, std::string_view bytes, google::protobuf::Message* message) {
  message->Clear();
  if (codec == FrameCodec::kProtobuf) {
    if (message->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return absl::OkStatus();
    return InvalidArgument("it cannot be parsed");
  }
  json::JsonParseOptions options;
  options.ignore_unknown_fields = false;
  const auto read = json::JsonStringToMessage({bytes.data(), bytes.size()}, message, options);
  if (!read.ok()) return InvalidArgument("{}", FirstLine({read.message().data(), read.message().size()}));
  return absl::OkStatus();
}

}  // namespace tunefarm
