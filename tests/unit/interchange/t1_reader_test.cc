#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <tuple>

#include "gtest/gtest.h"
#include "server/base/status.h"
#include "server/interchange/t1.h"

namespace tunefarm::interchange {
namespace {

constexpr char kMinimal[] = R"({
  "ConfigurationSpace": {
    "TuningParameters": [
      {"Name": "block_size_x", "Type": "int", "Values": "[32, 64]", "Default": 64},
      {"Name": "unroll", "Type": "uint", "Values": "[2**i for i in range(3)]"}
    ],
    "Conditions": [{"Parameters": ["unroll"], "Expression": "unroll <= 2"}]
  },
  "KernelSpecification": {
    "Language": "CUDA", "KernelName": "k", "KernelFile": "k.cu",
    "ProblemSize": [100], "GridDivX": ["block_size_x"],
    "Arguments": [{"Name": "y", "Type": "float", "MemoryType": "Vector", "Size": "ProblemSize[0]", "AccessType": "WriteOnly"}]
  }
})";

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

uint64_t CountOf(const T1& t1, const T1SpaceOptions& options = {}) {
  const auto space = Space::Build(SpaceOfT1(t1, options));
  EXPECT_TRUE(space.ok()) << space.status();
  const auto count = space.ok() ? space->CountValid() : space.status();
  EXPECT_TRUE(count.ok()) << count.status();
  return count.value_or(0);
}

TEST(T1Reader, ReadsASmallFile) {
  const auto t1 = ReadT1(kMinimal, "f");
  ASSERT_TRUE(t1.ok()) << t1.status();
  ASSERT_EQ(t1->parameters.size(), 2u);
  EXPECT_EQ(t1->parameters[0].default_value, Value(64));
  EXPECT_EQ(t1->parameters[1].values.size(), 3u);
  EXPECT_EQ(t1->parameters[1].values[2], Value(4));
  EXPECT_TRUE(t1->is_kernel_tuner);
  EXPECT_EQ(CountOf(*t1), 4u);
  EXPECT_EQ(CountOf(*t1, {.thread_limit = 32}), 2u);
}

TEST(T1Reader, GridDivAndProblemSizeDecideTheDialect) {
  const std::string ktt = Replaced(kMinimal, R"("ProblemSize": [100], "GridDivX": ["block_size_x"])",
                                   R"("GlobalSize": {"X": "100 // block_size_x"})");
  EXPECT_FALSE(ReadT1(ktt, "f")->is_kernel_tuner);
  const std::string both = Replaced(kMinimal, R"("GridDivX")", R"("GlobalSize": {"X": "1"}, "GridDivX")");
  EXPECT_TRUE(ReadT1(both, "f")->is_kernel_tuner);
  const std::string neither = Replaced(kMinimal, R"("ProblemSize": [100], "GridDivX": ["block_size_x"],)", "");
  EXPECT_NE(MessageOf(ReadT1(neither, "f").status()).find("neither \"ProblemSize\" nor a \"GlobalSize\""),
            std::string::npos);
}

TEST(T1Reader, DefectsOfPublishedFilesAreAccepted) {
  // A default that is no value, a value twice, values as an array, no Parameters in a condition, unknown fields.
  std::string text = Replaced(kMinimal, "\"Default\": 64", "\"Default\": 16");
  text = Replaced(text, "\"[32, 64]\"", "[32, 64, 32]");
  text = Replaced(text, "\"Parameters\": [\"unroll\"], ", "");
  text = Replaced(text, "\"Language\"", "\"Stream\": null, \"Misc\": {\"jitify\": true}, \"Language\"");
  const auto t1 = ReadT1(text, "f");
  ASSERT_TRUE(t1.ok()) << t1.status();
  EXPECT_EQ(t1->parameters[0].values.size(), 2u);
  EXPECT_FALSE(t1->parameters[0].default_value.has_value());
  ASSERT_EQ(t1->notes.size(), 2u);
  EXPECT_EQ(t1->notes[1], "Parameter block_size_x: the Default 16 is not among its values.");
  // An int that is none.
  const auto is_float =
      ReadT1(Replaced(kMinimal, "\"[32, 64]\", \"Default\": 64", "\"[0.5, 1]\", \"Default\": [1]"), "f");
  ASSERT_TRUE(is_float.ok()) << is_float.status();
  EXPECT_EQ(is_float->parameters[0].values[1], Value(1.0));
  EXPECT_EQ(is_float->notes.size(), 2u);
}

TEST(T1Reader, ConditionsKeepTheirTextOrAreWrittenAnew) {
  const auto condition = [](const std::string& text) {
    const auto t1 = ReadT1(Replaced(kMinimal, "unroll <= 2", text), "f");
    return t1.ok() ? t1->conditions[0].expression : std::string(MessageOf(t1.status()));
  };
  EXPECT_EQ(condition("unroll<=2   or block_size_x==32"), "unroll<=2   or block_size_x==32");
  EXPECT_EQ(condition("block_size_x in list(range(32, 65, 32))"), "block_size_x in [32, 64]");
  EXPECT_EQ(condition("block_size_x % ((unroll*2)/2) == 0"), "block_size_x % ((unroll*2)/2) == 0");
  EXPECT_EQ(condition("unrol <= 2"), "f:7:62: /ConfigurationSpace/Conditions/0/Expression: unknown name 'unrol'");
  EXPECT_EQ(condition("unroll <= "),
            "f:7:72: /ConfigurationSpace/Conditions/0/Expression: the text ends where a value is expected");
}

TEST(T1Reader, ErrorsNameTheFieldAndThePlace) {
  const std::tuple<const char*, const char*, const char*> cases[] = {
      {"\"[32, 64]\"", "\"[32, 64\"",
       "f:4:65: /ConfigurationSpace/TuningParameters/0/Values: the text ends where ']' is expected"},
      {"\"[32, 64]\"", "\"[32, 1/0]\"", "f:4:64: /ConfigurationSpace/TuningParameters/0/Values: division by zero"},
      {"\"[32, 64]\"", "\"[]\"", "f:4:57: /ConfigurationSpace/TuningParameters/0/Values: 'block_size_x' has no values"},
      {"\"[2**i for i in range(3)]\"", "\"[0.5]\"",
       "f:5:52: /ConfigurationSpace/TuningParameters/1/Values: 0.5 is no int"},
      {"\"Type\": \"int\"", "\"Type\": \"integer\"",
       "f:4:40: /ConfigurationSpace/TuningParameters/0/Type: 'integer' is none of bool, float, int, string, uint"},
      {"block_size_x\", \"Type", "block size\", \"Type",
       "f:4:16: /ConfigurationSpace/TuningParameters/0/Name: 'block size' cannot be a name"},
      {"[\"unroll\"]", "[\"unrol\"]",
       "f:7:36: /ConfigurationSpace/Conditions/0/Parameters/0: this is not the name of a parameter"},
      {"\"KernelName\"", "\"KernelNam\"",
       "f:9:26: /KernelSpecification: \"KernelName\" is missing (is \"KernelNam\" meant to be it?)"},
      {"\"CUDA\"", "\"Cuda\"",
       "f:10:17: /KernelSpecification/Language: 'Cuda' is none of CUDA, Hypertuner, OpenCL, Vulkan"},
      {"[100]", "[1, 2, 3, 4]", "f:11:20: /KernelSpecification/ProblemSize: a problem has 1 to 3 sizes, not 4"},
      {"\"Vector\"", "\"Local\"",
       "f:12:64: /KernelSpecification/Arguments/0/MemoryType: arguments in local memory have no counterpart"},
      {"\"float\"", "\"custom\"",
       "f:12:41: /KernelSpecification/Arguments/0/Type: arguments of type custom have no counterpart"},
      {"\"Size\": \"ProblemSize[0]\", ", "", "f:12:19: /KernelSpecification/Arguments/0: \"Size\" is missing"},
  };
  for (const auto& [from, to, message] : cases) {
    const auto t1 = ReadT1(Replaced(kMinimal, from, to), "f");
    ASSERT_FALSE(t1.ok()) << to;
    EXPECT_EQ(std::string(MessageOf(t1.status())).substr(0, std::string(message).size()), message);
    EXPECT_TRUE(absl::IsInvalidArgument(t1.status()));
    EXPECT_FALSE(ReasonOf(t1.status()).empty());
  }
  for (const char* text :
       {"", "[]", "1", "{", "{\"ConfigurationSpace\": 1}", "{\"ConfigurationSpace\": {\"TuningParameters\": {}}}"}) {
    EXPECT_EQ(MessageOf(ReadT1(text, "f").status()).substr(0, 2), "f:") << text;
  }
}

TEST(T1Reader, BudgetsBecomeOptions) {
  const std::string text =
      Replaced(kMinimal, "\"KernelSpecification\"",
               R"("Search": {"Name": "Random"}, "Budget": [{"Type": "ConfigurationCount", "BudgetValue": 10},
                                       {"Type": "TuningDuration", "BudgetValue": 1.5}], "KernelSpecification")");
  const auto t1 = ReadT1(text, "f");
  ASSERT_TRUE(t1.ok()) << t1.status();
  EXPECT_EQ(t1->budget_options, "--max-trials 10 --max-seconds 2");
  EXPECT_EQ(t1->notes.size(), 1u);
}

std::string TestData(const std::string& name) {
  const char* folder = std::getenv("TUNEFARM_TEST_DATA");
  if (folder == nullptr) return "";
  std::ifstream file(std::string(folder) + "/" + name);
  EXPECT_TRUE(file.good()) << name;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(T1Reader, PublishedSpacesHaveTheirPublishedCounts) {
  if (std::getenv("TUNEFARM_TEST_DATA") == nullptr) {
    ASSERT_EQ(std::getenv("TUNEFARM_REQUIRE_TEST_DATA"), nullptr) << "TUNEFARM_TEST_DATA is not set";
    GTEST_SKIP() << "TUNEFARM_TEST_DATA is not set";
  }
  for (const auto& [name, expected] : {std::pair{"convolution_milo", 4362u}, std::pair{"dedispersion_milo", 11130u},
                                       std::pair{"hotspot_milo", 82984u}, std::pair{"CoulombSum3d", 210u}}) {
    const auto t1 = ReadT1(TestData(std::string("t1/") + name + ".json"), name);
    ASSERT_TRUE(t1.ok()) << t1.status();
    EXPECT_EQ(CountOf(*t1), expected) << name;
    // Their conditions bound the threads already.
    EXPECT_EQ(CountOf(*t1, {.thread_limit = 1024}), expected) << name;
  }
  // The paper's space has one parameter and one condition more (registers and shared memory of resident blocks).
  std::string hotspot = TestData("t1/hotspot_milo.json");
  hotspot =
      Replaced(hotspot, "\"TuningParameters\": [",
               R"("TuningParameters": [ {"Name": "blocks_per_sm", "Type": "int", "Values": "[i for i in range(5)]"},)");
  const std::string tile_bytes =
      "(block_size_x*tile_size_x + temporal_tiling_factor*2) * (block_size_y*tile_size_y + temporal_tiling_factor*2)"
      " * (2+sh_power) * 4";
  hotspot = Replaced(hotspot, "\"Conditions\": [",
                     "\"Conditions\": [ {\"Parameters\": [], \"Expression\": \"blocks_per_sm == 0 or " + tile_bytes +
                         " * blocks_per_sm <= 102400\"},");
  const auto t1 = ReadT1(hotspot, "hotspot");
  ASSERT_TRUE(t1.ok()) << t1.status();
  EXPECT_EQ(CountOf(*t1), 349853u);
}

}  // namespace
}  // namespace tunefarm::interchange
