#include "server/web/web_answer.h"

#include <fmt/core.h>

#include "server/web/connect_json.h"

namespace tunefarm {
namespace {

constexpr size_t kPlainBytesMax = 1 << 10;  // smaller ones are not worth compressing
constexpr int kFastLevel = 1;

// Scripts and styles of the page's own files alone, no request to another host, no frame around it.
constexpr const char* kContentPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
    "trusted-types 'none'";

void AddHeaders(const std::string& revision, const char* caching, HttpAnswer* answer) {
  answer->headers.insert(answer->headers.end(), {{"Content-Security-Policy", kContentPolicy},
                                                 {"X-Content-Type-Options", "nosniff"},
                                                 {"Referrer-Policy", "no-referrer"},
                                                 {"Cross-Origin-Opener-Policy", "same-origin"},
                                                 {"Cross-Origin-Resource-Policy", "same-origin"},
                                                 {"Cache-Control", caching},
                                                 {"Tunefarm-Revision", revision}});
}

HttpAnswer ErrorAnswer(int http_status, const absl::Status& error) {
  HttpAnswer answer{http_status, ErrorJson(error), "application/json"};
  if (http_status == 405) answer.headers.emplace_back("Allow", "POST");
  return answer;
}

}  // namespace

bool TakesGzip(const HttpRequest& request) {
  return request.Header("accept-encoding").find("gzip") != std::string::npos;
}

HttpAnswer WebError(int http_status, const absl::Status& error, const std::string& revision) {
  HttpAnswer answer = ErrorAnswer(http_status, error);
  AddHeaders(revision, "no-store", &answer);
  return answer;
}

WebAnswer::WebAnswer(const HttpRequest& request, HttpReply reply, std::string revision)
    : reply_(std::move(reply)), revision_(std::move(revision)), takes_gzip_(TakesGzip(request)) {}

void WebAnswer::Json(std::string json) {
  HttpAnswer answer{200, std::move(json), "application/json"};
  if (takes_gzip_ && answer.body.size() > kPlainBytesMax) {
    if (std::string packed = Gzip(answer.body, kFastLevel); !packed.empty()) {
      answer.body = std::move(packed);
      answer.headers.emplace_back("Content-Encoding", "gzip");
    }
  }
  Send(std::move(answer), "no-store");
}

void WebAnswer::Error(int http_status, const absl::Status& error) { Send(ErrorAnswer(http_status, error), "no-store"); }

void WebAnswer::Page(HttpAnswer answer) { Send(std::move(answer), "no-cache"); }

void WebAnswer::Send(HttpAnswer answer, const char* caching) {
  AddHeaders(revision_, caching, &answer);
  reply_(std::move(answer));
}

}  // namespace tunefarm
