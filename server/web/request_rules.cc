#include "server/web/request_rules.h"

#include <algorithm>
#include <cctype>

#include "server/base/status.h"

namespace tunefarm {
namespace {

constexpr size_t kQuotedMax = 100;

std::string Quoted(const std::string& value) { return value.substr(0, kQuotedMax); }

// "farm-1" of "Farm-1:7072", "::1" of "[::1]:7072"; empty: none.
std::string NameOf(const std::string& host_header) {
  const bool has_bracket = !host_header.empty() && host_header[0] == '[';
  const size_t end = has_bracket ? host_header.find(']') : std::min(host_header.find(':'), host_header.size());
  if (end == std::string::npos) return "";
  const std::string port = host_header.substr(end + (has_bracket ? 1 : 0));
  if (!port.empty() && (port[0] != ':' || port.find_first_not_of("0123456789", 1) != std::string::npos)) return "";
  std::string name = has_bracket ? host_header.substr(1, end - 1) : host_header.substr(0, end);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return name;
}

bool IsListed(const std::string& name, const WebHosts& hosts) {
  return std::find(hosts.names.begin(), hosts.names.end(), name) != hosts.names.end();
}

RequestRefusal Refused(int http_status, const absl::Status& error, const char* reason) {
  return {http_status, WithReason(error, reason)};
}

}  // namespace

std::optional<RequestRefusal> CheckHost(const HttpRequest& request, const WebHosts& hosts) {
  const std::string name = NameOf(request.Header("host"));
  if (IsListed(name, hosts)) return std::nullopt;
  if (hosts.is_certified) {
    if (!name.empty() && hosts.is_certified(name)) return std::nullopt;
    return Refused(403,
                   PermissionDenied("the name '{}' is none of the certificate's; if it is one of this daemon's, add it "
                                    "to dashboard_hosts",
                                    Quoted(name)),
                   "HOST_REFUSED");
  }
  if (name == "127.0.0.1" || name == "localhost" || name == "::1") return std::nullopt;
  return Refused(403,
                 PermissionDenied("the name '{}' is not loopback; if a proxy uses it for this daemon, add it to "
                                  "dashboard_hosts",
                                  Quoted(name)),
                 "HOST_REFUSED");
}

std::optional<RequestRefusal> CheckCall(const HttpRequest& request, const WebHosts& hosts) {
  if (request.method != "POST") {
    return Refused(405, InvalidArgument("calls are made with POST, not with {}", Quoted(request.method)),
                   "METHOD_REFUSED");
  }
  const std::string& type = request.Header("content-type");
  std::string bare = type.substr(0, type.find(';'));
  while (!bare.empty() && bare.back() == ' ') bare.pop_back();
  if (bare != "application/json") {
    return Refused(
        415,
        InvalidArgument("the content type is '{}'; calls are made with Content-Type: application/json", Quoted(type)),
        "CONTENT_TYPE_REFUSED");
  }
  const std::string& host = request.Header("host");
  const std::string& origin = request.Header("origin");
  // Behind a proxy that has the certificate, pages are https and the request is not.
  const bool may_be_https = hosts.is_certified || IsListed(NameOf(host), hosts);
  const bool may_be_http = !hosts.is_certified;
  const bool is_own = (may_be_http && origin == "http://" + host) || (may_be_https && origin == "https://" + host);
  if (!origin.empty() && !is_own) {
    return Refused(403, PermissionDenied("the page of {} may not call this daemon", Quoted(origin)), "ORIGIN_REFUSED");
  }
  const std::string& site = request.Header("sec-fetch-site");
  if (!site.empty() && site != "same-origin") {
    return Refused(
        403, PermissionDenied("a page of another origin (Sec-Fetch-Site: {}) may not call this daemon", Quoted(site)),
        "SITE_REFUSED");
  }
  return std::nullopt;
}

}  // namespace tunefarm
