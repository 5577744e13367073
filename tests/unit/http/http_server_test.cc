// The pages' server and peers that are slow, many or wrong.
#include "server/http/http_server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/base/status.h"
#include "server/base/thread.h"
#include "server/base/unique_fd.h"

namespace tunefarm {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr size_t kLargeBytes = 16 << 20;  // more than the kernel's buffers take

class HttpServerTest : public testing::Test {
 protected:
  HttpServerTest() {
    HttpServerOptions options;
    options.host = "127.0.0.1";
    options.pages["/healthz"] = [] { return HttpAnswer{200, "ok\n"}; };
    options.pages["/large"] = [] { return HttpAnswer{200, std::string(kLargeBytes, 'x')}; };
    options.pages["/blocked"] = [this] {
      release_.WaitForNotification();
      return HttpAnswer{200, "released\n"};
    };
    auto server = HttpServer::Start(std::move(options));
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  ~HttpServerTest() override {
    if (!release_.HasBeenNotified()) release_.Notify();
  }

  UniqueFd Connect() const {
    UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port =
        htons(static_cast<uint16_t>(std::stoi(server_->address().substr(sizeof("http://127.0.0.1:") - 1))));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    return fd;
  }
  static void Send(const UniqueFd& fd, const std::string& text) {
    EXPECT_EQ(send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  }
  // Until the server closes.
  static std::string ReadAll(const UniqueFd& fd) {
    std::string text;
    char bytes[4096];
    ssize_t got = 0;
    while ((got = recv(fd.get(), bytes, sizeof(bytes), 0)) > 0) text.append(bytes, static_cast<size_t>(got));
    return text;
  }
  static std::string RequestOf(const std::string& path, const std::string& method = "GET",
                               const std::string& host = "localhost:1") {
    return method + " " + path + " HTTP/1.1\r\nAccept: */*\r\nHOST:  " + host + " \r\n\r\n";
  }
  std::string Get(const std::string& path) const {
    const UniqueFd fd = Connect();
    Send(fd, RequestOf(path));
    return ReadAll(fd);
  }

  Notification release_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, PagesAreServedAndNothingElse) {
  EXPECT_EQ(Get("/healthz"),
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 3\r\nConnection: "
            "close\r\n\r\nok\n");
  EXPECT_THAT(Get("/healthz?verbose=1"), HasSubstr("\r\n\r\nok\n"));
  EXPECT_THAT(Get("/"), StartsWith("HTTP/1.1 404 "));
  const auto answer = [this](const std::string& request) {
    const UniqueFd fd = Connect();
    Send(fd, request);
    return ReadAll(fd);
  };
  EXPECT_THAT(answer(RequestOf("/healthz", "HEAD")), testing::EndsWith("\r\n\r\n"));
  EXPECT_THAT(answer(RequestOf("/healthz", "POST") + "body"), HasSubstr("405 "));
  EXPECT_THAT(answer(RequestOf("/healthz", "GET", "evil.example:80")), HasSubstr("403 "));
  EXPECT_THAT(answer("GET /healthz HTTP/1.0\r\n\r\n"), HasSubstr("403 "));
  EXPECT_THAT(answer("GET /healthz HTTP/1.0\nhost: [::1]:7\n\n"), HasSubstr("200 OK"));
  for (const char* const wrong : {"\r\n\r\n", "GET\r\n\r\n", "GET /healthz\r\n\r\n", "GET /healthz HTTP/2\r\n\r\n",
                                  "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"}) {
    EXPECT_THAT(answer(wrong), HasSubstr("400 ")) << wrong;
  }
  EXPECT_THAT(answer(std::string(9000, 'x')), HasSubstr("431 "));
  EXPECT_THAT(answer("GET /healthz HTTP/1.1\r\nX: " + std::string(9000, 'x')), HasSubstr("431 "));
}

TEST_F(HttpServerTest, SlowPeersHoldUpNoOther) {
  std::vector<UniqueFd> slow;
  for (int i = 0; i < 200; ++i) {
    slow.push_back(Connect());
    // Some send nothing, some half a request, some ask and do not read.
    if (i % 3 == 1) Send(slow.back(), "GET /healthz HTTP/1.1\r\nHost: loc");
    if (i % 30 == 2) Send(slow.back(), RequestOf("/large"));
    if (i % 20 == 0) {
      EXPECT_THAT(Get("/healthz"), HasSubstr("\r\n\r\nok\n")) << i;
    }
  }
  EXPECT_THAT(Get("/healthz"), HasSubstr("\r\n\r\nok\n"));
  // All of them are closed: those that have had most time when others came, the last ones by themselves. What was sent
  // to those that did not read may be cut off.
  for (const UniqueFd& fd : slow) ReadAll(fd);
  EXPECT_THAT(Get("/healthz"), HasSubstr("\r\n\r\nok\n"));
}

TEST_F(HttpServerTest, ALargePageArrivesWhole) {
  const std::string answer = Get("/large");
  EXPECT_EQ(answer.size() - answer.find("\r\n\r\n") - 4, kLargeBytes);
}

TEST_F(HttpServerTest, PagesThatTakeLongAreBounded) {
  std::vector<UniqueFd> asking;
  std::vector<pollfd> polled;
  for (int i = 0; i < 33; ++i) {
    asking.push_back(Connect());
    Send(asking.back(), RequestOf("/blocked"));
    polled.push_back({asking.back().get(), POLLIN, 0});
  }
  // The one that was read last is refused; the others wait.
  ASSERT_EQ(poll(polled.data(), polled.size(), -1), 1);
  release_.Notify();
  for (size_t i = 0; i < asking.size(); ++i) {
    EXPECT_THAT(ReadAll(asking[i]), HasSubstr(polled[i].revents != 0 ? "503 " : "released"));
  }
}

TEST_F(HttpServerTest, AnswersThatWaitForTheirPeersAreBounded) {
  HttpServerOptions options;
  options.host = "127.0.0.1";
  options.pages["/healthz"] = [] { return HttpAnswer{200, "ok\n"}; };
  options.pages["/large"] = [] { return HttpAnswer{200, std::string(kLargeBytes, 'x')}; };
  options.unsent_bytes_max = kLargeBytes;
  auto server = HttpServer::Start(std::move(options));
  ASSERT_TRUE(server.ok()) << server.status();
  server_ = *std::move(server);
  const UniqueFd slow = Connect();
  Send(slow, RequestOf("/large"));
  char first = 0;
  ASSERT_EQ(recv(slow.get(), &first, 1, 0), 1);
  EXPECT_THAT(Get("/large"), StartsWith("HTTP/1.1 503 "));
  EXPECT_THAT(Get("/healthz"), HasSubstr("\r\n\r\nok\n"));
  EXPECT_GT(ReadAll(slow).size(), kLargeBytes);
  EXPECT_THAT(Get("/large"), StartsWith("HTTP/1.1 200 "));
}

TEST_F(HttpServerTest, AHandlerGetsTheWholeRequestAndMayAnswerLater) {
  HttpServerOptions options;
  options.host = "127.0.0.1";
  options.body_bytes_max = 10;
  HttpRequest taken;
  HttpReply answer_later;
  Notification is_taken;
  options.handle = [&](HttpRequest request, HttpReply reply) {
    taken = std::move(request);
    answer_later = std::move(reply);
    is_taken.Notify();
  };
  auto server = HttpServer::Start(std::move(options));
  ASSERT_TRUE(server.ok()) << server.status();
  server_ = *std::move(server);
  const UniqueFd fd = Connect();
  Send(fd, "POST /x?y HTTP/1.1\r\nHost: a\r\nX-One: 1\r\nx-one: 2\r\nContent-Length: 7\r\n\r\nbo");
  Send(fd, "dy\r\n!more");
  is_taken.WaitForNotification();
  EXPECT_EQ(taken.method, "POST");
  EXPECT_EQ(taken.path, "/x");
  EXPECT_EQ(taken.body, "body\r\n!");
  EXPECT_EQ(taken.Header("x-one"), "1, 2");
  EXPECT_EQ(taken.Header("x-two"), "");
  EXPECT_THAT(taken.peer, StartsWith("ipv4:127.0.0.1:"));
  answer_later({.status = 201, .body = "later", .headers = {{"X-Two", "2"}}});
  EXPECT_THAT(ReadAll(fd), testing::AllOf(StartsWith("HTTP/1.1 201 "), HasSubstr("\r\nX-Two: 2\r\n\r\nlater")));
  const UniqueFd large = Connect();
  Send(large, "POST / HTTP/1.1\r\nContent-Length: 11\r\n\r\nhello world");
  EXPECT_THAT(ReadAll(large), StartsWith("HTTP/1.1 413 "));
  // An answer that comes after the server's end goes nowhere.
  server_.reset();
  answer_later({});
}

TEST_F(HttpServerTest, AHandlerSeesThatItsPeerIsGone) {
  HttpServerOptions options;
  options.host = "127.0.0.1";
  HttpRequest taken;
  HttpReply answer_later;
  Notification is_taken;
  options.handle = [&](HttpRequest request, HttpReply reply) {
    taken = std::move(request);
    answer_later = std::move(reply);
    is_taken.Notify();
  };
  auto server = HttpServer::Start(std::move(options));
  ASSERT_TRUE(server.ok()) << server.status();
  server_ = *std::move(server);
  const UniqueFd fd = Connect();
  Send(fd, RequestOf("/"));
  is_taken.WaitForNotification();
  EXPECT_FALSE(taken.is_gone->load());
  ASSERT_EQ(shutdown(fd.get(), SHUT_WR), 0);
  EXPECT_EQ(ReadAll(fd), "");
  EXPECT_TRUE(taken.is_gone->load());
  answer_later({});  // goes nowhere
}

TEST_F(HttpServerTest, APageReachesAPeerThatSendsNoMore) {
  const UniqueFd fd = Connect();
  Send(fd, RequestOf("/blocked"));
  ASSERT_EQ(shutdown(fd.get(), SHUT_WR), 0);
  release_.Notify();
  EXPECT_THAT(ReadAll(fd), HasSubstr("released"));
}

TEST_F(HttpServerTest, StatusesHaveTheirPhrases) {
  HttpServerOptions options;
  options.host = "127.0.0.1";
  options.handle = [](HttpRequest request, HttpReply reply) {
    reply({.status = std::stoi(request.path.substr(1)), .body = ""});
  };
  auto server = HttpServer::Start(std::move(options));
  ASSERT_TRUE(server.ok()) << server.status();
  server_ = *std::move(server);
  for (const char* const line :
       {"200 OK", "304 Not Modified", "400 Bad Request", "401 Unauthorized", "403 Forbidden", "404 Not Found",
        "405 Method Not Allowed", "409 Conflict", "411 Length Required", "413 Content Too Large",
        "415 Unsupported Media Type", "429 Too Many Requests", "431 Request Header Fields Too Large",
        "499 Client Closed Request", "500 Internal Server Error", "501 Not Implemented", "503 Service Unavailable",
        "504 Gateway Timeout", "299 "}) {
    EXPECT_THAT(Get("/" + std::string(line, 3)), StartsWith("HTTP/1.1 " + std::string(line) + "\r\n"));
  }
}

TEST(HttpHeadTest, LinesThatAreNoHeadersAreRefused) {
  EXPECT_TRUE(ParseHttpHead("GET / HTTP/1.1\r\nHost: a").has_value());
  for (const char* const line : {"Host", ": a", "Host : a", " Host: a", "Ho st: a"}) {
    EXPECT_FALSE(ParseHttpHead(std::string("GET / HTTP/1.1\r\nHost: a\r\n") + line).has_value()) << line;
  }
  std::string many = "GET / HTTP/1.1\r\n";
  for (int i = 0; i < 101; ++i) many += "x" + std::to_string(i) + ": 1\r\n";
  EXPECT_FALSE(ParseHttpHead(many).has_value());
}

TEST_F(HttpServerTest, TheEndClosesWhatIsOpen) {
  const UniqueFd idle = Connect();
  EXPECT_THAT(Get("/healthz"), HasSubstr("200 OK"));
  server_.reset();
  EXPECT_EQ(ReadAll(idle), "");
}

TEST_F(HttpServerTest, AnAddressInUseIsNamed) {
  HttpServerOptions options;
  options.host = "127.0.0.1";
  options.port = std::stoi(server_->address().substr(server_->address().rfind(':') + 1));
  const auto second = HttpServer::Start(std::move(options));
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(MessageOf(second.status())), HasSubstr(server_->address().substr(sizeof("http://") - 1)));
}

}  // namespace
}  // namespace tunefarm
