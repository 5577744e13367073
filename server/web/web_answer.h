// WebAnswer: the one answer to a request of the dashboard's listener, with the headers that all of them have.
//
// Threads: any, one at a time.
#pragma once

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "server/http/http_server.h"

namespace tunefarm {

class WebAnswer {
 public:
  // `revision`: of the program.
  WebAnswer(const HttpRequest& request, HttpReply reply, std::string revision);

  // Once, one of these. `json` is compressed where the client takes that.
  void Json(std::string json);
  void Error(int http_status, const absl::Status& error);
  void Page(HttpAnswer answer);

 private:
  void Send(HttpAnswer answer, const char* caching);

  HttpReply reply_;
  std::string revision_;
  bool takes_gzip_;
};

// Whether the client takes answers in gzip.
bool TakesGzip(const HttpRequest& request);
// An error before there is a request.
HttpAnswer WebError(int http_status, const absl::Status& error, const std::string& revision);

}  // namespace tunefarm
