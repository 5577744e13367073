#include "server/base/socket_paths.h"

#include <gtest/gtest.h>

#include <map>

namespace tunefarm {
namespace {

EnvironmentGetter Environment(std::map<std::string, std::string> values) {
  return [values = std::move(values)](const char* name) -> std::optional<std::string> {
    const auto it = values.find(name);
    if (it == values.end()) return std::nullopt;
    return it->second;
  };
}

TEST(SocketPathsTest, StandardDirectoryUsesTheRuntimeDirectory) {
  const auto environment = Environment({{"HOME", "/home/u"}, {"XDG_RUNTIME_DIR", "/run/user/7"}});
  const absl::StatusOr<SocketPaths> paths = SocketPathsFor("/home/u/.local/share/tunefarm", environment);
  ASSERT_TRUE(paths.ok());
  EXPECT_EQ(paths->directory, "/run/user/7/tunefarm");
  EXPECT_EQ(paths->admin, "/run/user/7/tunefarm/admin.sock");
  EXPECT_EQ(paths->client, "/run/user/7/tunefarm/client.sock");
}

TEST(SocketPathsTest, OtherDirectoriesHoldTheirOwn) {
  const auto environment = Environment({{"HOME", "/home/u"}, {"XDG_RUNTIME_DIR", "/run/user/7"}});
  EXPECT_EQ(SocketPathsFor("/srv/tuning", environment)->admin, "/srv/tuning/run/admin.sock");
  EXPECT_EQ(SocketPathsFor("/srv/tuning", Environment({}))->admin, "/srv/tuning/run/admin.sock");
}

TEST(SocketPathsTest, RefusesWhatDoesNotFitASocketAddress) {
  // "/run/client.sock" takes 16 of the 107 bytes.
  EXPECT_EQ(SocketPathsFor("/" + std::string(90, 'd'), Environment({}))->client.size(), 107u);
  EXPECT_EQ(SocketPathsFor("/" + std::string(91, 'd'), Environment({})).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(ChosenDataDirectoryTest, FlagThenVariableThenDefault) {
  const auto both = Environment({{"HOME", "/home/u"}, {"TUNEFARM_DATA_DIR", "/from/variable/"}});
  EXPECT_EQ(*ChosenDataDirectory("/from/./flag//", both), "/from/flag");
  EXPECT_EQ(*ChosenDataDirectory("", both), "/from/variable");
  EXPECT_EQ(*ChosenDataDirectory("", Environment({{"HOME", "/home/u"}})), "/home/u/.local/share/tunefarm");
  EXPECT_EQ(*ChosenDataDirectory("/", both), "/");
  EXPECT_EQ(ChosenDataDirectory("relative", both)->front(), '/');
  EXPECT_EQ(ChosenDataDirectory("", Environment({})).status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace tunefarm
