#include "server/http/http_message.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>

namespace tunefarm {
namespace {

constexpr size_t kHeadersMax = 100;

std::string_view ReasonPhrase(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 304:
      return "Not Modified";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 409:
      return "Conflict";
    case 411:
      return "Length Required";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 499:
      return "Client Closed Request";  // of no RFC; what Connect has for a cancelled call
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    default:
      return "";  // RFC 9112, section 4: a phrase may be empty
  }
}

std::string_view WithoutBlanks(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

}  // namespace

const std::string& HttpRequest::Header(const std::string& name) const {
  static const std::string& none = *new std::string;
  const auto header = headers.find(name);
  return header == headers.end() ? none : header->second;
}

std::optional<HttpRequest> ParseHttpHead(std::string_view text) {
  HttpRequest request;
  bool is_first = true;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (is_first) {
      const size_t space = line.find(' ');
      const size_t second = space == std::string_view::npos ? space : line.find(' ', space + 1);
      if (second == std::string_view::npos || line.substr(second + 1).rfind("HTTP/1.", 0) != 0) return std::nullopt;
      request.method = std::string(line.substr(0, space));
      request.path = std::string(line.substr(space + 1, second - space - 1));
      request.path = request.path.substr(0, request.path.find('?'));
      is_first = false;
      continue;
    }
    if (line.empty()) continue;
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos || colon == 0) return std::nullopt;
    std::string name(line.substr(0, colon));
    // No name has blanks: neither before the colon, nor in front, where old servers took the line for a part of the
    // one above.
    if (name.find_first_of(" \t") != std::string::npos) return std::nullopt;
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    const std::string value(WithoutBlanks(line.substr(colon + 1)));
    const auto [header, is_new] = request.headers.emplace(std::move(name), value);
    if (!is_new) header->second += ", " + value;
    if (request.headers.size() > kHeadersMax) return std::nullopt;
  }
  if (is_first) return std::nullopt;
  return request;
}

std::string ResponseOf(const HttpAnswer& answer, bool with_body) {
  std::string response = fmt::format("HTTP/1.1 {} {}\r\n", answer.status, ReasonPhrase(answer.status));
  if (!answer.content_type.empty()) response += fmt::format("Content-Type: {}\r\n", answer.content_type);
  response += fmt::format("Content-Length: {}\r\nConnection: close\r\n", answer.body.size());
  for (const auto& [name, value] : answer.headers) response += fmt::format("{}: {}\r\n", name, value);
  response += "\r\n";
  if (with_body) response += answer.body;
  return response;
}

}  // namespace tunefarm
