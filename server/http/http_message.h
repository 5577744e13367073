// The messages of an HttpServer: a request, and its answer.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tunefarm {

struct HttpRequest {
  std::string method;                          // "POST"
  std::string path;                            // without the query
  std::map<std::string, std::string> headers;  // names in lower case; values of one name are joined by ", "
  std::string body;
  std::string peer;  // "ipv4:127.0.0.1:51234"
  // With TLS: what the peer has proven to have the key of, and what it sent along; PEM, empty: none.
  std::string certificate, certificate_chain;
  // Becomes true when the peer has closed its side of the connection before the answer came: none is sent any more.
  // Null: the request did not come through a server with `handle`.
  std::shared_ptr<const std::atomic<bool>> is_gone;

  // Empty: there is none.
  const std::string& Header(const std::string& name) const;
};

// Of a whole head; none for what is no HTTP/1.
std::optional<HttpRequest> ParseHttpHead(std::string_view text);

struct HttpAnswer {
  int status = 200;
  std::string body;
  std::string content_type = "text/plain; charset=utf-8";
  std::vector<std::pair<std::string, std::string>> headers = {};  // others
};

// As it is sent. Without its body it answers HEAD.
std::string ResponseOf(const HttpAnswer& answer, bool with_body);

}  // namespace tunefarm
