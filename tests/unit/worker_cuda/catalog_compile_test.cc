// Real compilations of a seeded sample of the catalog's spaces, for two architectures. TUNEFARM_NIGHTLY=1 takes more.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>
#include <sstream>

#include "server/base/random.h"
#include "server/device/device_class.h"
#include "tests/unit/worker_cuda/cuda_kernel.h"

namespace tunefarm {
namespace {

std::string ReadText(const std::string& path) {
  std::ifstream file(std::string(getenv("TUNEFARM_SOURCE_DIR")) + "/kernels/" + path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

struct CatalogCase {
  const char* name;
  std::vector<std::string> sources;
  const char* device;
  const char* dtype;  // null: the kernel has no such dim
};

class Catalog : public testing::TestWithParam<CatalogCase> {};

TEST_P(Catalog, ASampleOfTheSpaceCompiles) {
  absl::StatusOr<std::unique_ptr<CompileBackend>> backend = MakeCudaCompileBackend({});
  if (!backend.ok()) GTEST_SKIP() << MessageOf(backend.status());
  const CatalogCase& test = GetParam();
  std::vector<std::pair<std::string, std::string>> sources;
  for (const std::string& source : test.sources)
    sources.emplace_back(source, ReadText(std::string(test.name) + "/" + source));
  v1::Problem problem;
  if (test.dtype != nullptr) (*problem.mutable_dims())["dtype"].set_string_value(test.dtype);
  const std::string definition = ReadText(std::string(test.name) + "/kernel.pbtxt");
  const auto kernel = PrepareText(definition, sources, test.device, problem);
  ASSERT_NE(kernel, nullptr);
  const absl::StatusOr<Space> space = kernel->plan->BuildSpace(kernel->problem, kernel->device_class);
  ASSERT_TRUE(space.ok()) << MessageOf(space.status());
  PhiloxStream random(20261121);
  const char* const nightly = getenv("TUNEFARM_NIGHTLY");
  const int count = nightly != nullptr && *nightly == '1' ? 200 : 4;
  for (int i = 0; i < count; ++i) {
    const absl::StatusOr<std::vector<uint16_t>> indices = space->SampleUniform(random);
    ASSERT_TRUE(indices.ok()) << MessageOf(indices.status());
    const Config config = space->MakeConfig(*indices);
    SilentReporter reporter;
    std::string artifact;
    const auto result = (*backend)->Compile(*kernel, config, &reporter, &artifact);
    EXPECT_EQ(result.outcome(), v1::OUTCOME_OK) << config.ToText() << ": " << result.message() << "\n" << result.log();
    EXPECT_GT(result.resources().registers(), 0) << config.ToText();
    EXPECT_FALSE(artifact.empty());
  }
}

const std::vector<std::string> kMatmul = {"matmul.cu",      "element.cuh",     "tile.cuh",
                                          "matmul_f32.cuh", "matmul_bf16.cuh", "reference.cuh"};

INSTANTIATE_TEST_SUITE_P(Kernels, Catalog,
                         testing::Values(CatalogCase{"vector_add", {"vector_add.cu"}, "A100", nullptr},
                                         CatalogCase{"vector_add", {"vector_add.cu"}, "H200", nullptr},
                                         CatalogCase{"matmul", kMatmul, "A100", "f32"},
                                         CatalogCase{"matmul", kMatmul, "A100", "bf16"},
                                         CatalogCase{"matmul", kMatmul, "H200", "bf16"}));

}  // namespace
}  // namespace tunefarm
