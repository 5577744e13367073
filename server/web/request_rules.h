// What a request of the dashboard's listener must be before anything else of it is looked at: no web page of another
// site may make one, nor one that points a name of its own at this listener.
//
// Pure functions.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/http/http_server.h"

namespace tunefarm {

// How the listener is reached.
struct WebHosts {
  // Other names, in lower case and without a port, under which a proxy or a resolver lets it be reached.
  std::vector<std::string> names;
  // With TLS: whether the certificate is for a name or an address. Empty: plain text, and loopback's names are its own.
  std::function<bool(const std::string& host)> is_certified;
};

struct RequestRefusal {
  int http_status = 0;
  absl::Status error;  // PermissionDenied or InvalidArgument, with a reason
};

// 403 HOST_REFUSED.
std::optional<RequestRefusal> CheckHost(const HttpRequest& request, const WebHosts& hosts);

// Of a call, after CheckHost; in this order: 405 METHOD_REFUSED, 415 CONTENT_TYPE_REFUSED, 403 ORIGIN_REFUSED, 403
// SITE_REFUSED.
std::optional<RequestRefusal> CheckCall(const HttpRequest& request, const WebHosts& hosts);

}  // namespace tunefarm
