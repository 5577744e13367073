#include <google/protobuf/text_format.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "gtest/gtest.h"
#include "server/base/file.h"
#include "server/base/status.h"
#include "server/definition/kernel_plan.h"
#include "server/interchange/t1.h"
#ifdef TUNEFARM_TEST_NVRTC
#include "server/worker/backend.h"
#endif

namespace tunefarm::interchange {
namespace {

std::string DataFolder() { return std::string(std::getenv("TUNEFARM_SOURCE_DIR")) + "/tests/data/t1/"; }

absl::StatusOr<std::string> ReadData(const std::string& path) { return ReadFile(DataFolder() + path, 1 << 20); }

absl::StatusOr<ImportedKernel> Import(const std::string& file, const T1KernelOptions& options = {}) {
  auto text = ReadData(file);
  if (!text.ok()) return text.status();
  auto t1 = ReadT1(*std::move(text), file);
  if (!t1.ok()) return t1.status();
  return KernelOfT1(*t1, options, ReadData);
}

// A definition's argument as text, for comparison at a glance.
std::string ArgumentText(const v1::Kernel& kernel, const std::string& name) {
  for (const v1::Argument& argument : kernel.arguments()) {
    if (argument.name() == name) return argument.ShortDebugString();
  }
  return "";
}

TEST(T1Kernel, KernelTunersDialect) {
  const auto made = Import("stencil.json");
  ASSERT_TRUE(made.ok()) << made.status();
  const v1::Kernel& kernel = made->kernel;
  EXPECT_EQ(kernel.display_name(), "stencil");
  EXPECT_EQ(kernel.language(), v1::LANGUAGE_CUDA);
  ASSERT_EQ(kernel.sources_size(), 3);
  EXPECT_EQ(kernel.sources(0).path(), "imported.cu");
  EXPECT_EQ(kernel.sources(1).path(), "stencil.cu");
  EXPECT_EQ(kernel.sources(2).path(), "stencil_bias.h");
  ASSERT_EQ(kernel.compile_options_size(), 1);
  EXPECT_EQ(kernel.compile_options(0), "-std=c++17");
  ASSERT_EQ(kernel.dims_size(), 2);
  EXPECT_EQ(
      kernel.dims(1).ShortDebugString(),
      "name: \"problem_size_y\" default_value { int_value: 300 } min: 300 max: 300 description: \"ProblemSize[1].\"");
  EXPECT_EQ(kernel.constraints(1).expression(), "bool(block_size_x * tile_size_x <= 512 and block_size_x * 2 <= 512)");
  std::map<std::string, std::string> macros;
  for (const v1::Derived& derived : kernel.derived()) {
    EXPECT_EQ(derived.bind(), v1::BIND_COMPILE);
    macros[derived.name()] = derived.expression();
  }
  const std::map<std::string, std::string> expected = {
      {"block_size_z", "1"},
      {"grid_size_x", "ceil_div(problem_size_x, block_size_x * tile_size_x)"},
      {"grid_size_y", "ceil_div(problem_size_y, block_size_y)"},
      {"grid_size_z", "1"},
      {"kernel_tuner", "1"}};
  EXPECT_EQ(macros, expected);
  EXPECT_EQ(ArgumentText(kernel, "out"),
            "name: \"out\" buffer { data_type: DATA_TYPE_F32 length: \"problem_size_x * problem_size_y\" access: "
            "ACCESS_OUT init: INIT_ZERO }");
  EXPECT_EQ(ArgumentText(kernel, "in"),
            "name: \"in\" buffer { data_type: DATA_TYPE_F32 length: \"(problem_size_x + 4) * problem_size_y\" access: "
            "ACCESS_IN fill { normal { } } }");
  EXPECT_EQ(ArgumentText(kernel, "weights_symbol"),
            "name: \"weights_symbol\" constant_symbol { symbol: \"weights\" data_type: DATA_TYPE_F32 length: \"5\" "
            "fill { normal { } } }");
  EXPECT_EQ(ArgumentText(kernel, "bias"),
            "name: \"bias\" buffer { data_type: DATA_TYPE_F32 length: \"(4) * 2\" access: ACCESS_IN fill { constant { "
            "value: 0.5 } } }");
  EXPECT_EQ(ArgumentText(kernel, "scale"), "name: \"scale\" scalar { data_type: DATA_TYPE_F32 value: \"0.25\" }");
  const v1::KernelLaunch& launch = kernel.launches(0).kernel();
  EXPECT_EQ(launch.entry(), "stencil<float>");
  EXPECT_EQ(launch.arguments_size(), 6);
  EXPECT_EQ(launch.grid(0), "grid_size_x");
  EXPECT_EQ(launch.block(2), "block_size_z");
  EXPECT_EQ(kernel.reference().steps(0).kernel().entry(), "stencil<float>");
  // The Default of block_size_y is no value, and 32 x 1 is valid.
  EXPECT_EQ(kernel.parameters(1).default_value().int_value(), 1);
  // Options, GlobalSize, defaults, the symbol and the missing reference are spoken of.
  EXPECT_EQ(made->notes.size(), 5u) << made->text;
}

TEST(T1Kernel, KttsDialectForTheHost) {
  const auto made = Import("running_sum.json", {.language = v1::LANGUAGE_HOST_CXX});
  ASSERT_TRUE(made.ok()) << made.status();
  const v1::Kernel& kernel = made->kernel;
  EXPECT_EQ(kernel.display_name(), "running_sum");
  EXPECT_EQ(made->budget_options, "--max-trials 6");
  EXPECT_EQ(kernel.dims_size(), 0);
  EXPECT_EQ(kernel.derived_size(), 0);
  EXPECT_EQ(kernel.sources(0).path(), "imported.cc");
  EXPECT_EQ(kernel.prepare(0).step().kernel().entry(), "tunefarm_fill_x");
  EXPECT_EQ(kernel.reference().steps(0).kernel().entry(), "tunefarm_expect_y");
  EXPECT_EQ(kernel.tolerance().atol(), 0.001);
  EXPECT_EQ(kernel.tolerance().rtol(), 0);
  // Nothing is known of what it should hold.
  EXPECT_EQ(ArgumentText(kernel, "log"),
            "name: \"log\" buffer { data_type: DATA_TYPE_I32 length: \"1\" access: ACCESS_SCRATCH init: INIT_ZERO }");
}

TEST(T1Kernel, KttsDialectForCuda) {
  const auto text = ReadData("running_sum.json");
  ASSERT_TRUE(text.ok());
  auto t1 = ReadT1(*text, "f");
  const auto launch = [&](T1::GlobalSizeType type) {
    t1->global_size_type = type;
    const auto made = KernelOfT1(*t1, {}, ReadData);
    EXPECT_TRUE(made.ok()) << made.status();
    return made->kernel.launches(0).kernel().grid(0);
  };
  EXPECT_EQ(launch(T1::GlobalSizeType::kBlocks), "int(4096 / CHUNK)");
  EXPECT_EQ(launch(T1::GlobalSizeType::kThreads), "(int(4096 / CHUNK)) // (1)");
}

TEST(T1Kernel, TheWrittenTextIsTheSameDefinition) {
  for (const auto& [file, language] :
       {std::pair{"stencil.json", v1::LANGUAGE_CUDA}, std::pair{"running_sum.json", v1::LANGUAGE_HOST_CXX}}) {
    const auto made = Import(file, {.language = language});
    ASSERT_TRUE(made.ok()) << made.status();
    const auto loaded =
        LoadKernelText(made->text, "kernel.pbtxt", [&](const std::string& path) -> absl::StatusOr<std::string> {
          for (const v1::SourceFile& source : made->kernel.sources()) {
            if (source.path() == path) return source.content();
          }
          return NotFound("no {}", path);
        });
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    const auto plan = KernelPlan::Compile(made->kernel);
    ASSERT_TRUE(plan.ok());
    EXPECT_EQ(loaded->name(), "kernels/" + (*plan)->kernel_id());
  }
}

TEST(T1Kernel, OptionsDecide) {
  const auto limited =
      Import("stencil.json", {.display_name = "My Stencil", .space = {.thread_limit = 64}, .is_unverified = true});
  ASSERT_TRUE(limited.ok()) << limited.status();
  EXPECT_EQ(limited->kernel.display_name(), "my_stencil");
  EXPECT_EQ(limited->kernel.constraints(3).expression(), "block_size_x * block_size_y <= 64");
  EXPECT_FALSE(limited->kernel.has_reference());
  EXPECT_EQ(limited->kernel.unverified_reason(), "imported without a reference");
  T1KernelOptions options;
  options.reference_kernel = {"stencil.cu", "stencil_reference", {"1200"}, {"256"}, {}};
  options.atol = 1e-6;
  const auto compared = Import("stencil.json", options);
  ASSERT_TRUE(compared.ok()) << compared.status();
  EXPECT_EQ(compared->kernel.reference().steps(0).kernel().entry(), "stencil_reference");
  EXPECT_EQ(compared->kernel.tolerance().atol(), 1e-6);
  options.reference_kernel->arguments = {"out", "scale"};
  EXPECT_EQ(Import("stencil.json", options)->kernel.reference().steps(0).kernel().arguments_size(), 2);
  options.reference_kernel->arguments = {"out", "other"};
  EXPECT_NE(MessageOf(Import("stencil.json", options).status()).find("'other'"), std::string::npos);
  options.reference_kernel->grid.clear();
  EXPECT_NE(MessageOf(Import("stencil.json", options).status()).find("--reference-grid"), std::string::npos);
}

TEST(T1Kernel, WhatCannotBeMappedIsNamedWithItsPlace) {
  const auto text = ReadData("running_sum.json");
  ASSERT_TRUE(text.ok());
  const auto error = [&](const std::string& from, const std::string& to) {
    std::string changed = *text;
    changed.replace(changed.find(from), from.size(), to);
    auto t1 = ReadT1(changed, "f");
    if (!t1.ok()) return std::string(MessageOf(t1.status()));
    const auto made = KernelOfT1(*t1, {.language = v1::LANGUAGE_HOST_CXX}, ReadData);
    return made.ok() ? "accepted" : std::string(MessageOf(made.status()));
  };
  EXPECT_EQ(
      error("\"Size\": \"16 * 256\"", "\"Size\": \"16 * CHUNK\""),
      "f:25:101: /KernelSpecification/Arguments/1/Size: a list here has no counterpart in the expression language");
  EXPECT_EQ(error("\"Size\": \"16 * 256\"", "\"Size\": \"0\""),
            "f:25:97: /KernelSpecification/Arguments/1/Size: a vector has at least one element, not 0");
  EXPECT_NE(
      error("\"DataSource\": \"i % 8", "\"DataSource\": \"j % 8").find("/Arguments/0/DataSource: unknown name 'j'"),
      std::string::npos);
  EXPECT_NE(
      error("\"FillType\": \"Generator\"", "\"FillType\": \"Script\"").find("data from scripts and files is not read"),
      std::string::npos);
  EXPECT_NE(error("\"4096 / CHUNK\"", "\"4096 / CHNK\"").find("/GlobalSize/X: unknown name 'CHNK'"), std::string::npos);
  EXPECT_NE(error("running_sum.cc", "missing.cc").find("--source names the kernel's source"), std::string::npos);
  EXPECT_NE(error("CHUNK // UNROLL >= 16", "CHUNK // UNROLL >= 16000").find("no config satisfies the conditions"),
            std::string::npos);
  EXPECT_EQ(error("\"FUSED\", \"Type\"", "\"while\", \"Type\"").substr(0, 99),
            "f:6:7: /ConfigurationSpace/TuningParameters/2: the definition made of this is refused: parameters[2");
  // An expected value from a file is left out, with a note.
  EXPECT_EQ(
      error("\"TargetName\": \"y\", \"FillType\": \"Generator\"", "\"TargetName\": \"y\", \"FillType\": \"BinaryRaw\""),
      "accepted");
}

TEST(T1Kernel, OpenClIsRefused) {
  auto text = ReadData("stencil.json");
  text->replace(text->find("\"CUDA\""), 6, "\"OpenCL\"");
  const auto t1 = ReadT1(*text, "f");
  ASSERT_TRUE(t1.ok()) << t1.status();
  const auto made = KernelOfT1(*t1, {}, ReadData);
  EXPECT_EQ(std::string(MessageOf(made.status())).substr(0, 73),
            "f:20:17: /KernelSpecification/Language: kernels in OpenCL cannot be impor");
}

TEST(T1Kernel, PublishedFilesBecomeDefinitions) {
  const char* folder = std::getenv("TUNEFARM_TEST_DATA");
  if (folder == nullptr) {
    ASSERT_EQ(std::getenv("TUNEFARM_REQUIRE_TEST_DATA"), nullptr) << "TUNEFARM_TEST_DATA is not set";
    GTEST_SKIP() << "TUNEFARM_TEST_DATA is not set";
  }
  for (const char* name : {"convolution_milo", "dedispersion_milo", "hotspot_milo", "CoulombSum3d"}) {
    const auto text = ReadFile(std::string(folder) + "/t1/" + name + ".json", 1 << 20);
    ASSERT_TRUE(text.ok());
    const auto t1 = ReadT1(*text, name);
    ASSERT_TRUE(t1.ok()) << t1.status();
    // Their sources are not at hand: any text will do, nothing is compiled.
    const auto made = KernelOfT1(*t1, {}, [](const std::string&) { return absl::StatusOr<std::string>("// source"); });
    ASSERT_TRUE(made.ok()) << made.status();
    const auto plan = KernelPlan::Compile(made->kernel);
    const auto problem = (*plan)->ResolveProblem(v1::Problem());
    ASSERT_TRUE(problem.ok()) << problem.status();
    const DeviceClass device = *FindKnownClass("A100");
    const auto steps = (*plan)->Steps(Sequence::kLaunches, *problem, (*plan)->DefaultConfig(*problem), device);
    ASSERT_TRUE(steps.ok()) << steps.status();
    EXPECT_GT((*steps)[0].grid[0], 1) << name;
  }
}

#ifdef TUNEFARM_TEST_NVRTC
TEST(T1Kernel, TheCudaExampleCompiles) {
  const auto backend = MakeCudaCompileBackend(WorkerOptions());
  if (!backend.ok()) GTEST_SKIP() << MessageOf(backend.status());
  for (const bool has_reference : {false, true}) {
    T1KernelOptions options;
    if (has_reference) options.reference_kernel = {"stencil.cu", "stencil_reference", {"1200"}, {"256"}, {}};
    const auto made = Import("stencil.json", options);
    ASSERT_TRUE(made.ok()) << made.status();
    PreparedKernel kernel;
    kernel.plan = *KernelPlan::Compile(made->kernel);
    kernel.problem = *kernel.plan->ResolveProblem(v1::Problem());
    kernel.device_class = *FindKnownClass("H200");
    const auto space = kernel.plan->BuildSpace(kernel.problem, kernel.device_class);
    ASSERT_TRUE(space.ok()) << space.status();
    const auto configs = space->Enumerate();
    ASSERT_TRUE(configs.ok());
    struct : PhaseReporter {
      void Begin(v1::Phase /*phase*/) override {}
      void Log(std::string_view /*text*/) override {}
    } reporter;
    for (const uint64_t row : {uint64_t{0}, configs->size() - 1}) {
      std::string artifact;
      const auto result = (*backend)->Compile(kernel, space->ConfigAt(*configs, row), &reporter, &artifact);
      EXPECT_EQ(result.outcome(), v1::OUTCOME_OK) << result.message() << "\n" << result.log();
      // The names that the loader needs: the template's, and the constant's by its own name.
      EXPECT_EQ(result.lowered_names().count("stencil<float>"), 1u);
    }
  }
}
#endif

}  // namespace
}  // namespace tunefarm::interchange
