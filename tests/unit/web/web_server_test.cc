// The public calls over HTTP, on a real socket, against a daemon without agents.
#include "server/web/web_server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/access/session_book.h"
#include "server/api/call_limits.h"
#include "server/api/router.h"
#include "server/base/unique_fd.h"
#include "tests/unit/rpc/rpc_server_test.h"

namespace tunefarm {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

struct Answered {
  int status = 0;
  std::string head;
  std::string body;
  nlohmann::json json() const { return nlohmann::json::parse(body); }
  std::string reason() const { return json()["details"][0]["reason"]; }
};

class WebServerTest : public RpcServerTest {
 protected:
  WebServerTest() {
    GateOptions gate;
    gate.tokens = tokens_.get();
    gate.sessions = sessions_.get();
    gate_.emplace(gate);
    WebServerOptions options;
    options.address = "127.0.0.1:0";
    options.files = {{"index.html", "text/html; charset=utf-8", "<!doctype html>"}};
    options.revision = "abc123";
    options.gate = &*gate_;
    options.limits = &limits_;
    options.clock = Clock::Real();
    options.services = Services();
    auto server = WebServer::Start(options);
    TUNEFARM_CHECK(server.ok());
    web_ = *std::move(server);
  }
  ~WebServerTest() override {
    if (!release_.HasBeenNotified()) release_.Notify();
    web_.reset();
  }

  UniqueFd Send(const std::string& request) const {
    UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(std::stoi(web_->address().substr(web_->address().rfind(':') + 1))));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL), static_cast<ssize_t>(request.size()));
    return fd;
  }
  static Answered Receive(const UniqueFd& fd) {
    std::string text;
    char bytes[4096];
    ssize_t got = 0;
    while ((got = recv(fd.get(), bytes, sizeof(bytes), 0)) > 0) text.append(bytes, static_cast<size_t>(got));
    Answered answered;
    const size_t end = text.find("\r\n\r\n");
    EXPECT_THAT(text, StartsWith("HTTP/1.1 "));
    if (end == std::string::npos) return answered;
    answered.status = std::stoi(text.substr(9, 3));
    answered.head = text.substr(0, end + 2);
    answered.body = text.substr(end + 4);
    return answered;
  }
  Answered Ask(const std::string& request) const { return Receive(Send(request)); }
  static std::string RequestOf(const std::string& call, const std::string& body, const std::string& secret) {
    std::string request = "POST /api/tunefarm.v1." + call + " HTTP/1.1\r\nHost: 127.0.0.1:1\r\n" +
                          "Content-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) + "\r\n";
    if (!secret.empty()) request += "Authorization: Bearer " + secret + "\r\n";
    return request + "\r\n" + body;
  }
  Answered Call(const std::string& call, const std::string& body, const std::string& secret = "") const {
    return Ask(RequestOf(call, body, secret));
  }
  std::string Session(const std::string& roles = "") {
    const std::string code = sessions_->CreateCode(AdminSocket(), roles)->code;
    return Call("AccessService/CreateSession", R"({"code": ")" + code + R"("})").json()["secret"];
  }

  std::optional<Gate> gate_;
  CallLimits limits_;
  std::unique_ptr<WebServer> web_;
};

TEST_F(WebServerTest, EveryPublicCallWithOneAnswerIsServed) {
  Router router;
  PublicCalls calls(Services(), "test");
  calls.AddTo(&router);
  const std::set<std::string_view> streams = {"tunefarm.v1.TuningService/WatchJob",
                                              "tunefarm.v1.CatalogService/WatchBestConfigs",
                                              "tunefarm.v1.PackageService/ExportPackage"};
  size_t served = 0;
  for (const CallRule& rule : AllCallRules()) {
    const bool is_public = rule.call.rfind("tunefarm.v1.", 0) == 0;
    const bool is_served = is_public && streams.count(rule.call) == 0;
    EXPECT_EQ(router.Find(rule.call) != nullptr, is_served) << rule.call;
    served += is_served ? 1 : 0;
  }
  EXPECT_EQ(router.routes().size(), served);
}

TEST_F(WebServerTest, ACodeLogsInAndTheSessionEnds) {
  const std::string secret = Session();
  const Answered caller = Call("AccessService/GetCaller", "{}", secret);
  EXPECT_EQ(caller.status, 200);
  EXPECT_EQ(caller.json()["caller"]["kind"], "session");
  EXPECT_EQ(caller.json()["caller"]["roles"], nlohmann::json({"lookup", "submit"}));
  EXPECT_TRUE(caller.json()["caller"]["expiresAtMs"].is_string());
  EXPECT_THAT(caller.head, HasSubstr("Tunefarm-Revision: abc123\r\n"));
  EXPECT_THAT(caller.head, HasSubstr("Cache-Control: no-store\r\n"));
  EXPECT_EQ(Call("AccessService/CreateSession", "{}").reason(), "IDENTITY_MISSING");
  EXPECT_EQ(Call("AccessService/CreateSession", R"({"code": "x"})").reason(), "LOGIN_CODE_INVALID");
  EXPECT_EQ(Call("AccessService/CreateSession", "{}", secret).reason(), "SESSION_CANNOT_GRANT");
  EXPECT_EQ(Call("AccessService/CreateLoginCode", "{}", secret).reason(), "SESSION_CANNOT_GRANT");
  EXPECT_EQ(Call("AccessService/EndSession", "{}", secret).status, 200);
  const Answered ended = Call("AccessService/GetCaller", "{}", secret);
  EXPECT_EQ(ended.status, 401);
  EXPECT_EQ(ended.reason(), "SESSION_INVALID");
}

TEST_F(WebServerTest, ATokenIsTakenAndBuysASessionThatEndsWithIt) {
  const std::string token = tokens_->Create("ci", "lookup", 0)->token;
  EXPECT_EQ(Call("AccessService/GetCaller", "{}", token).json()["caller"]["name"], "ci");
  EXPECT_EQ(Call("AccessService/EndSession", "{}", token).reason(), "NO_SESSION");
  const std::string secret = Call("AccessService/CreateSession", "{}", token).json()["secret"];
  EXPECT_EQ(Call("DeviceService/ListDevices", "{}", secret).status, 200);
  ASSERT_TRUE(tokens_->Revoke("ci").ok());
  EXPECT_EQ(Call("DeviceService/ListDevices", "{}", secret).reason(), "TOKEN_REVOKED");
  EXPECT_EQ(Call("DeviceService/ListDevices", "{}", token).reason(), "TOKEN_REVOKED");
}

TEST_F(WebServerTest, AnAdministratorsSessionBringsNoCodeAndMakesNoTokens) {
  const std::string secret = Session("admin");
  EXPECT_EQ(Call("ServerService/CreateBackup", R"({"fileName": "x.db"})", secret).json()["path"], "/data/backups/x.db");
  EXPECT_EQ(Call("AccessService/CreateToken", R"({"name": "x", "roles": ["kernels"]})", secret).reason(),
            "SESSION_CANNOT_GRANT");
  EXPECT_EQ(Call("KernelService/CreateKernel", "{}", secret).reason(), "RIGHT_MISSING");
  EXPECT_EQ(Call("TuningService/CreateJob", R"({"kernelDefinition": {"displayName": "x"}})", secret).reason(),
            "RIGHT_MISSING");
  EXPECT_EQ(Call("ServerService/CreateBackup", "{}", Session()).reason(), "ADMIN_ONLY");
}

TEST_F(WebServerTest, SocketsAndAdministratorsAloneOpenTheDashboard) {
  EXPECT_EQ(Call("ServerService/OpenDashboard", "{}", Session()).json()["address"], "http://127.0.0.1:7072");
  const std::string admin = tokens_->Create("root", "admin", 0)->token;
  EXPECT_EQ(Call("ServerService/OpenDashboard", "{}", admin).json()["address"], "http://127.0.0.1:7072");
  const std::string token = tokens_->Create("ci", "submit", 0)->token;
  EXPECT_EQ(Call("ServerService/OpenDashboard", "{}", token).reason(), "DASHBOARD_CLOSED");
}

TEST_F(WebServerTest, JobsOfStoredKernelsAreSubmittedAndPolled) {
  CreateJob();  // stores the kernel
  const std::string secret = Session();
  const std::string wanted = R"({"requestId": "one", "job": {"kernel": "tiny", "problems": [{}]}})";
  const Answered made = Call("TuningService/CreateJob", wanted, secret);
  ASSERT_EQ(made.status, 200) << made.body;
  const std::string name = made.json()["job"]["name"];
  EXPECT_EQ(Call("TuningService/CreateJob", wanted, secret).json()["job"]["name"], name);
  const Answered polled = Call("TuningService/GetJob", R"({"name": ")" + name + R"("})", secret);
  EXPECT_EQ(polled.json()["job"]["kernelName"], "tiny");
  EXPECT_TRUE(polled.json()["job"]["createdAtMs"].is_string());
  EXPECT_EQ(Call("TuningService/ListJobs", "{}", secret).json()["jobs"].size(), 2u);
  const Answered looked = Call("LookupService/LookupConfig", R"({"kernel": "tiny"})", secret);
  EXPECT_EQ(looked.json()["match"], "MATCH_DEFAULT");
  const Answered missing = Call("TuningService/GetJob", R"({"name": "jobs/99"})", secret);
  EXPECT_EQ(missing.status, 404);
  EXPECT_EQ(missing.json()["code"], "not_found");
}

TEST_F(WebServerTest, OnePrincipalLeavesRoomForOthers) {
  const std::string busy = Session("admin");
  const std::string other = tokens_->Create("ci", "lookup", 0)->token;
  std::vector<UniqueFd> asking;
  std::vector<pollfd> polled;
  for (int i = 0; i < 49; ++i) {
    asking.push_back(Send(RequestOf("ServerService/CreateBackup", R"({"fileName": "block"})", busy)));
    polled.push_back({asking.back().get(), POLLIN, 0});
  }
  // One is refused; the others wait.
  ASSERT_EQ(poll(polled.data(), polled.size(), -1), 1);
  EXPECT_EQ(Call("DeviceService/ListDevices", "{}", other).status, 200);
  release_.Notify();
  for (size_t i = 0; i < asking.size(); ++i) {
    const Answered answered = Receive(asking[i]);
    EXPECT_EQ(answered.status, polled[i].revents != 0 ? 429 : 200);
    if (polled[i].revents != 0) {
      EXPECT_EQ(answered.reason(), "TOO_MANY_CALLS");
    }
  }
}

TEST_F(WebServerTest, WhatIsNoCallIsRefusedWithItsReason) {
  const std::string secret = Session("admin");
  const Answered nobody = Call("TuningService/ListJobs", "{}");
  EXPECT_EQ(nobody.status, 401);
  EXPECT_EQ(nobody.reason(), "IDENTITY_MISSING");
  EXPECT_EQ(Call("TuningService/ListJobs", "{}", "tft_x").reason(), "TOKEN_INVALID");
  EXPECT_EQ(Call("TuningService/Nothing", "{}", secret).reason(), "CALL_UNKNOWN");
  const Answered stream = Call("TuningService/WatchJob", "{}", secret);
  EXPECT_EQ(stream.status, 501);
  EXPECT_EQ(stream.json()["code"], "unimplemented");
  EXPECT_EQ(stream.reason(), "NOT_SERVED_OVER_HTTP");
  EXPECT_EQ(Call("TuningService/ListJobs", R"({"pageSise": 1})", secret).reason(), "MESSAGE_INVALID");
  EXPECT_EQ(Call("TuningService/CreateJob", R"({"job": {"budget": {"maxDeviceSeconds": "NaN"}}})", secret).reason(),
            "NUMBER_INVALID");
  const Answered large = Call("TuningService/ListJobs", std::string((64 << 10) + 1, ' '), secret);
  EXPECT_EQ(large.status, 413);
  EXPECT_EQ(large.reason(), "BODY_TOO_LARGE");
  EXPECT_EQ(Ask("POST /api/x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n").status, 411);
  EXPECT_EQ(Ask("POST /api/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx").status,
            400);
  EXPECT_EQ(Ask("POST /api/x HTTP/1.1\r\nHost: evil.example\r\n\r\n").reason(), "HOST_REFUSED");
}

TEST_F(WebServerTest, ThePageIsServedWithWhatProtectsIt) {
  const Answered page = Ask("GET / HTTP/1.1\r\nHost: localhost:7\r\n\r\n");
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(page.body, "<!doctype html>");
  for (const char* const header :
       {"Content-Security-Policy: default-src 'none'; script-src 'self';", "trusted-types 'none'\r\n",
        "X-Content-Type-Options: nosniff\r\n", "Referrer-Policy: no-referrer\r\n",
        "Cross-Origin-Opener-Policy: same-origin\r\n", "Cross-Origin-Resource-Policy: same-origin\r\n",
        "Cache-Control: no-cache\r\n", "Content-Type: text/html; charset=utf-8\r\n"}) {
    EXPECT_THAT(page.head, HasSubstr(header));
  }
  EXPECT_THAT(page.head, testing::Not(HasSubstr("Access-Control")));
  EXPECT_EQ(Ask("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n").reason(), "HOST_REFUSED");
  EXPECT_EQ(Ask("OPTIONS /api/tunefarm.v1.TuningService/ListJobs HTTP/1.1\r\nHost: localhost\r\n\r\n").status, 405);
}

}  // namespace
}  // namespace tunefarm
