// The cheating kernels of tests/fault/cheats/cuda compile, in both of their forms: the catalogue itself needs a GPU.
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>

#include "server/base/file.h"
#include "tests/unit/worker_cuda/cuda_kernel.h"

namespace tunefarm {
namespace {

constexpr char kDefinition[] = R"pb(
  display_name: "cheat"
  language: LANGUAGE_CUDA
  sources { path: "cheat.cu" }
  dims {
    name: "N"
    default_value { int_value: 1024 }
  }
  parameters {
    name: "CHEAT"
    values { ints: [ 0, 1 ] }
  }
  arguments {
    name: "a"
    buffer { data_type: DATA_TYPE_F32 length: "N * N" access: ACCESS_IN }
  }
  arguments {
    name: "b"
    buffer { data_type: DATA_TYPE_F32 length: "N * N" access: ACCESS_IN }
  }
  arguments {
    name: "c"
    buffer { data_type: DATA_TYPE_F32 length: "N * N" access: ACCESS_OUT }
  }
  arguments {
    name: "n"
    scalar { data_type: DATA_TYPE_I32 value: "N" }
  }
  launches {
    kernel {
      entry: "k"
      grid: [ "N // 16", "N // 16" ]
      block: [ "16", "16" ]
      arguments: [ "a", "b", "c", "n" ]
    }
  }
  reference {
    steps {
      kernel {
        entry: "reference"
        grid: [ "N // 16", "N // 16" ]
        block: [ "16", "16" ]
        arguments: [ "a", "b", "c", "n" ]
      }
    }
  }
)pb";

TEST(CheatsCompileTest, EachFamilyBothWays) {
  absl::StatusOr<std::unique_ptr<CompileBackend>> backend = MakeCudaCompileBackend({});
  if (!backend.ok()) GTEST_SKIP() << MessageOf(backend.status());
  const char* const sources = getenv("TUNEFARM_SOURCE_DIR");
  ASSERT_NE(sources, nullptr);
  const std::filesystem::path folder = std::filesystem::path(sources) / "tests/fault/cheats/cuda";
  const absl::StatusOr<std::string> work = ReadFile((folder / "work.cuh").string(), 1 << 20);
  ASSERT_TRUE(work.ok()) << MessageOf(work.status());
  int families = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".cu") continue;
    ++families;
    const std::string name = entry.path().filename().string();
    const absl::StatusOr<std::string> source = ReadFile(entry.path().string(), 1 << 20);
    ASSERT_TRUE(source.ok()) << MessageOf(source.status());
    const auto kernel = PrepareText(kDefinition, {{name, *source}, {"work.cuh", *work}}, "H200");
    ASSERT_NE(kernel, nullptr);
    for (const int64_t cheat : {0, 1}) {
      Config config = kernel->plan->DefaultConfig(kernel->problem);
      config.Set("CHEAT", Value(cheat));
      SilentReporter reporter;
      std::string artifact;
      const auto result = (*backend)->Compile(*kernel, config, &reporter, &artifact);
      EXPECT_EQ(result.outcome(), v1::OUTCOME_OK) << name << ", CHEAT=" << cheat << ": " << result.message() << "\n"
                                                  << result.log();
      EXPECT_EQ(result.log(), "") << name << ", CHEAT=" << cheat;
    }
  }
  EXPECT_GE(families, 10);
}

}  // namespace
}  // namespace tunefarm
