// Fuzz target of requests of the HTTP API: whatever the bytes, a body is refused with a reason or is a message that can
// be scanned, written and read again, and headers that pass the rules name loopback and JSON.
#include <google/protobuf/io/coded_stream.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "server/api/wire_scan.h"
#include "server/base/status.h"
#include "server/web/connect_json.h"
#include "server/web/request_rules.h"
#include "tunefarm/v1/tuning_service.pb.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tunefarm;  // NOLINT(google-build-using-namespace)
  const auto require = [](bool condition) {
    if (!condition) std::abort();
  };
  const std::string text(reinterpret_cast<const char*>(data), size);
  const absl::StatusOr<std::string> wire = JsonToWire(*v1::CreateJobRequest::descriptor(), text);
  v1::CreateJobRequest message;
  // Half a surrogate pair in an escape becomes text that is no UTF-8, which the message refuses.
  if (wire.ok() && message.ParseFromString(*wire)) {
    const int wire_size = static_cast<int>(wire->size());
    google::protobuf::io::CodedInputStream input(reinterpret_cast<const uint8_t*>(wire->data()), wire_size);
    const absl::StatusOr<size_t> bytes = ScanMessage(*WireShape::Of(v1::CreateJobRequest::descriptor()), &input,
                                                     wire_size, {.parsed_bytes_max = 64 << 20});
    require(bytes.ok() || !ReasonOf(bytes.status()).empty());
    const absl::StatusOr<std::string> json = ToJson(message);
    require(json.ok() && JsonToWire(*v1::CreateJobRequest::descriptor(), *json).ok());
  } else if (!wire.ok()) {
    require(ReasonOf(wire.status()) == "MESSAGE_INVALID" && !ErrorJson(wire.status()).empty());
  }
  const std::optional<HttpRequest> request = ParseHttpHead("POST /api/x HTTP/1.1\r\n" + text);
  if (!request || CheckHost(*request, {}) || CheckCall(*request, {})) return 0;
  const std::string& host = request->Header("host");
  require(host.find("127.0.0.1") == 0 || host.find("[::1]") == 0 || host.size() >= sizeof("localhost") - 1);
  require(request->Header("content-type").find("application/json") == 0);
  require(request->Header("sec-fetch-site").empty() || request->Header("sec-fetch-site") == "same-origin");
  return 0;
}
