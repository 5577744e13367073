#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "server/base/edit_distance.h"
#include "server/base/embedded_file.h"
#include "server/base/format.h"
#include "server/base/random.h"
#include "server/base/xdg.h"

namespace tunefarm {

extern const EmbeddedFile kUnitBaseFiles[];
extern const size_t kUnitBaseFilesCount;

namespace {

TEST(EditDistanceTest, Values) {
  EXPECT_EQ(EditDistance("", "", 5), 0);
  EXPECT_EQ(EditDistance("kitten", "sitting", 5), 3);
  EXPECT_EQ(EditDistance("abc", "", 5), 3);
  EXPECT_EQ(EditDistance("flaw", "lawn", 5), 2);
}

TEST(EditDistanceTest, SwappedNeighboursAreOneEdit) {
  EXPECT_EQ(EditDistance("tuen", "tune", 5), 1);
  EXPECT_EQ(EditDistance("ba", "ab", 1), 1);
  EXPECT_EQ(EditDistance("badc", "abcd", 5), 2);
  EXPECT_EQ(EditDistance("ca", "abc", 5), 3);  // Not 2: nothing is put between what was swapped.
}

TEST(EditDistanceTest, StopsAtTheLimit) {
  EXPECT_EQ(EditDistance("kitten", "sitting", 3), 3);
  EXPECT_EQ(EditDistance("kitten", "sitting", 2), 3);
  EXPECT_EQ(EditDistance("kitten", "sitting", 0), 1);
  EXPECT_EQ(EditDistance("a", "aaaaaaaaaa", 3), 4);
}

// The textbook recursion.
int SlowDistance(std::string_view a, std::string_view b) {
  if (a.empty() || b.empty()) return static_cast<int>(a.size() + b.size());
  const int replaced = SlowDistance(a.substr(1), b.substr(1)) + (a[0] == b[0] ? 0 : 1);
  int least = std::min({replaced, SlowDistance(a.substr(1), b) + 1, SlowDistance(a, b.substr(1)) + 1});
  if (a.size() > 1 && b.size() > 1 && a[0] == b[1] && a[1] == b[0]) {
    least = std::min(least, SlowDistance(a.substr(2), b.substr(2)) + 1);
  }
  return least;
}

TEST(EditDistanceTest, AgreesWithTheDefinition) {
  PhiloxStream random(1);
  for (int i = 0; i < 300; ++i) {
    std::string a(random.UniformInt(6), ' '), b(random.UniformInt(6), ' ');
    for (char& c : a) c = static_cast<char>('a' + random.UniformInt(3));
    for (char& c : b) c = static_cast<char>('a' + random.UniformInt(3));
    const int expected = SlowDistance(a, b);
    for (int limit = 0; limit < 6; ++limit) {
      EXPECT_EQ(EditDistance(a, b, limit), std::min(expected, limit + 1)) << a << " " << b << " " << limit;
    }
  }
}

TEST(ClosestMatchTest, SuggestsLikelyTypingErrorsOnly) {
  const std::vector<std::string> names = {"BLOCK_M", "BLOCK_N", "STAGES", "WARPS"};
  EXPECT_EQ(ClosestMatch("STAGE", names), "STAGES");
  EXPECT_EQ(ClosestMatch("stages", names), "STAGES");
  EXPECT_EQ(ClosestMatch("BLOCK_X", names), "BLOCK_M");  // The first of equals.
  EXPECT_EQ(ClosestMatch("block_n", names), "BLOCK_N");
  EXPECT_EQ(ClosestMatch("WRAPS", names), "WARPS");
  EXPECT_EQ(ClosestMatch("VECTOR", names), std::nullopt);
  EXPECT_EQ(ClosestMatch("", names), std::nullopt);
  EXPECT_EQ(ClosestMatch("x", {}), std::nullopt);
  EXPECT_EQ(ClosestMatch("k", {"m"}), std::nullopt);
  EXPECT_EQ(ClosestMatch(std::string(129, 'a'), {std::string(129, 'a')}), std::nullopt);
}

TEST(FormatTest, Duration) {
  const std::pair<double, const char*> cases[] = {
      {0, "0 ns"},
      {1, "1 ns"},
      {870, "870 ns"},
      {0.5, "0.50 ns"},
      {12.34, "12.3 ns"},
      {999.4, "999 ns"},
      {999.6, "1.00 µs"},
      {1000, "1.00 µs"},
      {9994, "9.99 µs"},
      {9996, "10.0 µs"},
      {41234, "41.2 µs"},
      {999600, "1.00 ms"},
      {1.5e6, "1.50 ms"},
      {123e6, "123 ms"},
      {12.34e9, "12.3 s"},
      {59.94e9, "59.9 s"},
      {59.96e9, "1 min 00 s"},
      {125e9, "2 min 05 s"},
      {3599.4e9, "59 min 59 s"},
      {3599.6e9, "1 h 00 min"},
      {12000e9, "3 h 20 min"},
      {-41234, "-41.2 µs"},
  };
  for (const auto& [ns, text] : cases) EXPECT_EQ(FormatDuration(ns), text) << ns;
  EXPECT_EQ(FormatDuration(std::nan("")), "n/a");
  EXPECT_EQ(FormatDuration(std::numeric_limits<double>::infinity()), "n/a");
  EXPECT_EQ(FormatDuration(std::numeric_limits<double>::max()), "1.8e+299 s");
}

TEST(FormatTest, Bytes) {
  const std::pair<uint64_t, const char*> cases[] = {
      {0, "0 B"},
      {1023, "1023 B"},
      {1024, "1 KiB"},
      {1536, "1.50 KiB"},
      {227 * 1024, "227 KiB"},
      {1048575, "1.00 MiB"},
      {1048576, "1 MiB"},
      {uint64_t{150754820096}, "140 GiB"},
      {std::numeric_limits<uint64_t>::max(), "16.0 EiB"},
  };
  for (const auto& [bytes, text] : cases) EXPECT_EQ(FormatBytes(bytes), text) << bytes;
}

TEST(FormatTest, Count) {
  EXPECT_EQ(FormatCount(0), "0");
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatCount(1248), "1,248");
  EXPECT_EQ(FormatCount(-100), "-100");
  EXPECT_EQ(FormatCount(-1234567), "-1,234,567");
  EXPECT_EQ(FormatCount(std::numeric_limits<int64_t>::min()), "-9,223,372,036,854,775,808");
  EXPECT_EQ(FormatCount(1, "trial"), "1 trial");
  EXPECT_EQ(FormatCount(0, "trial"), "0 trials");
  EXPECT_EQ(FormatCount(1248, "trial"), "1,248 trials");
  EXPECT_EQ(FormatCount(1, "process is", "processes are"), "1 process is");
  EXPECT_EQ(FormatCount(2, "process is", "processes are"), "2 processes are");
}

EnvironmentGetter XdgEnvironment(const std::map<std::string, std::string>& values) {
  return [values](const char* name) -> std::optional<std::string> {
    const auto it = values.find(name);
    if (it == values.end()) return std::nullopt;
    return it->second;
  };
}

TEST(XdgTest, FollowsTheVariables) {
  const auto environment = XdgEnvironment({{"HOME", "/home/u"},
                                           {"XDG_DATA_HOME", "/data/"},
                                           {"XDG_CONFIG_HOME", "/config"},
                                           {"XDG_RUNTIME_DIR", "/run/user/7"}});
  EXPECT_EQ(*DataDir(environment), "/data/tunefarm");
  EXPECT_EQ(*ConfigDir(environment), "/config/tunefarm");
  EXPECT_EQ(RuntimeDir(environment), "/run/user/7/tunefarm");
}

TEST(XdgTest, IgnoresRelativeAndEmptyValues) {
  const auto environment = XdgEnvironment(
      {{"HOME", "/home/u"}, {"XDG_DATA_HOME", "data"}, {"XDG_CONFIG_HOME", ""}, {"XDG_RUNTIME_DIR", "."}});
  EXPECT_EQ(*DataDir(environment), "/home/u/.local/share/tunefarm");
  EXPECT_EQ(*ConfigDir(environment), "/home/u/.config/tunefarm");
  EXPECT_EQ(RuntimeDir(environment).rfind("/tmp/tunefarm-", 0), 0u);
}

TEST(XdgTest, NeedsSomeVariable) {
  EXPECT_EQ(DataDir(XdgEnvironment({})).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ConfigDir(XdgEnvironment({{"HOME", "relative"}})).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(XdgTest, RealEnvironment) {
  EXPECT_EQ(RealEnvironment()("TUNEFARM_NO_SUCH_VARIABLE"), std::nullopt);
  EXPECT_TRUE(RealEnvironment()("PATH").has_value());
}

TEST(EmbeddedFileTest, HoldsEveryByte) {
  ASSERT_EQ(kUnitBaseFilesCount, 2u);
  EXPECT_EQ(kUnitBaseFiles[0].name, "embedded_sample.bin");
  EXPECT_EQ(kUnitBaseFiles[0].bytes, std::string_view("a\0\xff\"\n\\;]", 8));
  EXPECT_EQ(kUnitBaseFiles[1].name, "embedded_empty.bin");
  EXPECT_EQ(kUnitBaseFiles[1].bytes, "");
}

}  // namespace
}  // namespace tunefarm
