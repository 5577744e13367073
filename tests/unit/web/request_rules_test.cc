#include "server/web/request_rules.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "server/base/status.h"

namespace tunefarm {
namespace {

// What the page itself sends.
HttpRequest PageCall() {
  HttpRequest request;
  request.method = "POST";
  request.path = "/api/tunefarm.v1.TuningService/ListJobs";
  request.headers = {{"host", "127.0.0.1:7072"},
                     {"content-type", "application/json"},
                     {"origin", "http://127.0.0.1:7072"},
                     {"sec-fetch-site", "same-origin"}};
  return request;
}

// "403 HOST_REFUSED", or nothing.
std::string RefusalOf(const HttpRequest& request, const WebHosts& hosts) {
  std::optional<RequestRefusal> refused = CheckHost(request, hosts);
  if (!refused) refused = CheckCall(request, hosts);
  return refused ? std::to_string(refused->http_status) + " " + ReasonOf(refused->error) : "";
}

std::string RefusalWith(const std::string& name, const std::string& value, const WebHosts& hosts = {}) {
  HttpRequest request = PageCall();
  if (value.empty()) {
    request.headers.erase(name);
  } else {
    request.headers[name] = value;
  }
  return RefusalOf(request, hosts);
}

TEST(RequestRulesTest, ThePageAndScriptsPass) {
  EXPECT_EQ(RefusalOf(PageCall(), {}), "");
  HttpRequest script = PageCall();
  script.headers = {{"host", "localhost:7072"}, {"content-type", "application/json; charset=utf-8"}};
  EXPECT_EQ(RefusalOf(script, {}), "");
  for (const char* const host : {"127.0.0.1", "localhost", "LOCALHOST:1", "[::1]:7072", "[::1]"}) {
    script.headers["host"] = host;
    EXPECT_EQ(RefusalOf(script, {}), "") << host;
  }
}

TEST(RequestRulesTest, OtherNamesAreRefused) {
  for (const char* const host : {"", "evil.example", "evil.example:7072", "127.0.0.1.evil.example", "[::1", "[",
                                 "[::1]evil.example", "127.0.0.1:1, evil.example", "localhost:x", "::1", "127.0.0.2",
                                 "localhost.", "127.0.0.1, evil.example", "0.0.0.0"}) {
    EXPECT_EQ(RefusalWith("host", host), "403 HOST_REFUSED") << host;
  }
}

TEST(RequestRulesTest, MethodsAndTypesThatFormsCanSendAreRefused) {
  HttpRequest request = PageCall();
  for (const char* const method : {"GET", "HEAD", "OPTIONS", "PUT", "post", ""}) {
    request.method = method;
    EXPECT_EQ(RefusalOf(request, {}), "405 METHOD_REFUSED") << method;
  }
  for (const char* const type : {"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data",
                                 "application/json, text/plain", "application/jsonp", "text/plain; application/json"}) {
    EXPECT_EQ(RefusalWith("content-type", type), "415 CONTENT_TYPE_REFUSED") << type;
  }
}

TEST(RequestRulesTest, PagesOfOtherOriginsAreRefused) {
  for (const char* const origin :
       {"http://evil.example", "http://127.0.0.1:7073", "http://127.0.0.1", "https://127.0.0.1:7072",
        "http://localhost:7072", "null", "http://127.0.0.1:7072, http://evil.example"}) {
    EXPECT_EQ(RefusalWith("origin", origin), "403 ORIGIN_REFUSED") << origin;
  }
  for (const char* const site : {"cross-site", "same-site", "none", "same-origin, cross-site"}) {
    EXPECT_EQ(RefusalWith("sec-fetch-site", site), "403 SITE_REFUSED") << site;
  }
}

TEST(RequestRulesTest, TheFirstRuleThatIsBrokenIsTold) {
  HttpRequest request = PageCall();
  request.method = "GET";
  request.headers = {{"host", "evil.example"}, {"origin", "http://evil.example"}, {"sec-fetch-site", "cross-site"}};
  EXPECT_EQ(RefusalOf(request, {}), "403 HOST_REFUSED");
  request.headers["host"] = "127.0.0.1:7072";
  EXPECT_EQ(RefusalOf(request, {}), "405 METHOD_REFUSED");
  request.method = "POST";
  EXPECT_EQ(RefusalOf(request, {}), "415 CONTENT_TYPE_REFUSED");
  request.headers["content-type"] = "application/json";
  EXPECT_EQ(RefusalOf(request, {}), "403 ORIGIN_REFUSED");
  request.headers.erase("origin");
  EXPECT_EQ(RefusalOf(request, {}), "403 SITE_REFUSED");
}

TEST(RequestRulesTest, AProxysNameMayHaveItsCertificate) {
  const WebHosts hosts = {.names = {"tune.example"}, .is_certified = nullptr};
  HttpRequest request = PageCall();
  request.headers["host"] = "Tune.example";
  for (const char* const origin : {"https://Tune.example", "http://Tune.example"}) {
    request.headers["origin"] = origin;
    EXPECT_EQ(RefusalOf(request, hosts), "") << origin;
  }
  request.headers["origin"] = "https://evil.example";
  EXPECT_EQ(RefusalOf(request, hosts), "403 ORIGIN_REFUSED");
  request.headers["host"] = "evil.example";
  EXPECT_EQ(RefusalOf(request, hosts), "403 HOST_REFUSED");
}

TEST(RequestRulesTest, WithTlsTheCertificateSaysTheNames) {
  const WebHosts hosts = {.names = {}, .is_certified = [](const std::string& host) { return host == "farm-1"; }};
  HttpRequest request = PageCall();
  request.headers["host"] = "farm-1:7072";
  request.headers["origin"] = "https://farm-1:7072";
  EXPECT_EQ(RefusalOf(request, hosts), "");
  request.headers["origin"] = "http://farm-1:7072";
  EXPECT_EQ(RefusalOf(request, hosts), "403 ORIGIN_REFUSED");
  request.headers["host"] = "localhost:7072";
  EXPECT_EQ(RefusalOf(request, hosts), "403 HOST_REFUSED");
}

}  // namespace
}  // namespace tunefarm
