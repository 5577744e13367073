// Connections that are taken, and descriptors that are left.
#include "server/rpc/acceptor.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "server/base/mutex.h"
#include "server/base/status.h"

namespace tunefarm {
namespace {

UniqueFd ConnectTo(int port) {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  return fd;
}

// Whether the other side took the connection: it greets those that it takes, and closes the others.
bool IsGreeted(const UniqueFd& fd) {
  char byte = 0;
  return recv(fd.get(), &byte, 1, 0) == 1;
}

// What an acceptor took.
class Taken {
 public:
  std::function<void(int, UniqueFd)> Take() {
    return [this](int listener, UniqueFd connection) {
      EXPECT_GE(listener, 0);
      EXPECT_EQ(send(connection.get(), "x", 1, MSG_NOSIGNAL), 1);
      MutexLock lock(&mutex_);
      connections_.push_back(std::move(connection));
    };
  }
  void Close() {
    MutexLock lock(&mutex_);
    connections_.clear();
  }

 private:
  Mutex mutex_;
  std::vector<UniqueFd> connections_ GUARDED_BY(mutex_);
};

TEST(AcceptorTest, ConnectionsAreTakenUntilItEnds) {
  Taken taken;
  auto acceptor = Acceptor::Open("127.0.0.1:0", Acceptor::DescriptorsMax());
  ASSERT_TRUE(acceptor.ok()) << acceptor.status();
  (*acceptor)->Start(taken.Take());
  const UniqueFd first = ConnectTo((*acceptor)->port());
  const UniqueFd second = ConnectTo((*acceptor)->port());
  EXPECT_TRUE(IsGreeted(first));
  EXPECT_TRUE(IsGreeted(second));
  const int port = (*acceptor)->port();
  acceptor->reset();
  // The port is free again, and what was taken is still open.
  const auto again = Acceptor::Open("127.0.0.1:" + std::to_string(port), Acceptor::DescriptorsMax());
  EXPECT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(send(first.get(), "x", 1, MSG_NOSIGNAL), 1);
}

TEST(AcceptorTest, SomeDescriptorsAreLeftForOthers) {
  Taken taken;
  const int free = dup(STDERR_FILENO);
  ASSERT_GE(free, 0);
  close(free);
  auto acceptor = Acceptor::Open("127.0.0.1:0", free + 20);
  ASSERT_TRUE(acceptor.ok()) << acceptor.status();
  (*acceptor)->Start(taken.Take());
  int greeted = 0;
  {
    // Each takes a descriptor here too.
    std::vector<UniqueFd> clients;
    for (int i = 0; i < 30; ++i) {
      clients.push_back(ConnectTo((*acceptor)->port()));
      greeted += IsGreeted(clients.back()) ? 1 : 0;
    }
    EXPECT_GT(greeted, 0);
    EXPECT_LT(greeted, 20);
  }
  taken.Close();
  EXPECT_TRUE(IsGreeted(ConnectTo((*acceptor)->port()))) << "there is room again";
}

TEST(AcceptorTest, WhatCannotBeBoundIsRefused) {
  const auto acceptor = Acceptor::Open("127.0.0.1:0", 1000);
  ASSERT_TRUE(acceptor.ok()) << acceptor.status();
  EXPECT_FALSE(Acceptor::Open("127.0.0.1:" + std::to_string((*acceptor)->port()), 1000).ok()) << "in use";
  EXPECT_EQ(Acceptor::Open("127.0.0.1", 1000).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(Acceptor::Open("192.0.2.1:0", 1000).ok()) << "no address of this machine";
  EXPECT_TRUE(Acceptor::Open("localhost:0", 1000).ok());
}

}  // namespace
}  // namespace tunefarm
