// Connections that are taken, and descriptors that are left.
#include "server/rpc/acceptor.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "server/base/mutex.h"
#include "server/base/status.h"
#include "tests/fakes/temporary_directory.h"

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

UniqueFd ConnectTo(const std::string& path) {
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  EXPECT_EQ(connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  return fd;
}

// The number that the next descriptor of this process gets.
int NextDescriptor() {
  const int free = dup(STDERR_FILENO);
  close(free);
  return free;
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
  auto acceptor = Acceptor::Open("127.0.0.1:0", Acceptor::DescriptorsMax(Peers::kNetwork));
  ASSERT_TRUE(acceptor.ok()) << acceptor.status();
  (*acceptor)->Start(taken.Take());
  const UniqueFd first = ConnectTo((*acceptor)->port());
  const UniqueFd second = ConnectTo((*acceptor)->port());
  EXPECT_TRUE(IsGreeted(first));
  EXPECT_TRUE(IsGreeted(second));
  const int port = (*acceptor)->port();
  acceptor->reset();
  // The port is free again, and what was taken is still open.
  const auto again = Acceptor::Open("127.0.0.1:" + std::to_string(port), Acceptor::DescriptorsMax(Peers::kNetwork));
  EXPECT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(send(first.get(), "x", 1, MSG_NOSIGNAL), 1);
}

TEST(AcceptorTest, SomeDescriptorsAreLeftForOthers) {
  Taken taken;
  auto acceptor = Acceptor::Open("127.0.0.1:0", NextDescriptor() + 20);
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

TEST(AcceptorTest, AUnixSocketIsBoundedToo) {
  const TemporaryDirectory directory;
  const std::string path = directory.File("s.sock");
  Taken taken;
  auto acceptor = Acceptor::OpenUnix(path, 0660, NextDescriptor() + 20);
  ASSERT_TRUE(acceptor.ok()) << acceptor.status();
  struct stat info = {};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_TRUE(S_ISSOCK(info.st_mode));
  EXPECT_EQ(info.st_mode & 0777, 0660u);
  (*acceptor)->Start(taken.Take());
  int greeted = 0;
  {
    std::vector<UniqueFd> clients;
    for (int i = 0; i < 30; ++i) {
      clients.push_back(ConnectTo(path));
      greeted += IsGreeted(clients.back()) ? 1 : 0;
    }
  }
  EXPECT_GT(greeted, 0);
  EXPECT_LT(greeted, 20);
  taken.Close();
  EXPECT_TRUE(IsGreeted(ConnectTo(path))) << "there is room again";
  acceptor->reset();
  EXPECT_NE(stat(path.c_str(), &info), 0) << "the socket's file is removed";
}

TEST(AcceptorTest, WhoIsCloserToTheDaemonMayUseMoreDescriptors) {
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit limit = {800, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(Acceptor::DescriptorsMax(Peers::kNetwork), 400);
  EXPECT_EQ(Acceptor::DescriptorsMax(Peers::kClientSocket), 500);
  EXPECT_EQ(Acceptor::DescriptorsMax(Peers::kAdminSocket), 600);
  setrlimit(RLIMIT_NOFILE, &before);
}

TEST(AcceptorTest, WhatCannotBeBoundIsRefused) {
  const auto acceptor = Acceptor::Open("127.0.0.1:0", 1000);
  ASSERT_TRUE(acceptor.ok()) << acceptor.status();
  EXPECT_FALSE(Acceptor::Open("127.0.0.1:" + std::to_string((*acceptor)->port()), 1000).ok()) << "in use";
  EXPECT_EQ(Acceptor::Open("127.0.0.1", 1000).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(Acceptor::Open("192.0.2.1:0", 1000).ok()) << "no address of this machine";
  EXPECT_TRUE(Acceptor::Open("localhost:0", 1000).ok());
  const TemporaryDirectory directory;
  EXPECT_FALSE(Acceptor::OpenUnix(directory.File("no/such/folder.sock"), 0600, 1000).ok());
  EXPECT_EQ(Acceptor::OpenUnix("/" + std::string(107, 'x'), 0600, 1000).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tunefarm
