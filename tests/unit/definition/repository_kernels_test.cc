// Every kernel that comes with the project loads, and its space can be built for the devices of its kind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <vector>

#include "server/base/file.h"
#include "tests/unit/definition/sample_kernel.h"

namespace tunefarm {
namespace {

std::vector<std::filesystem::path> FilesOfKernels(const char* ending) {
  const char* source = std::getenv("TUNEFARM_SOURCE_DIR");
  std::vector<std::filesystem::path> files;
  if (source == nullptr) return files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(std::filesystem::path(source) / "kernels")) {
    if (entry.path().extension() == ending) files.push_back(entry.path());
  }
  return files;
}

DeviceClass HostOfFourCores() {
  DeviceClass host;
  host.kind = DeviceKind::kHost;
  host.display_name = "a CPU";
  host.sm_count = 4;
  host.l1_bytes = 32 * 1024;
  host.l2_bytes = 32 << 20;
  host.memory_gib = 16;
  return host;
}

// Every dim at its default, or else at 1024.
v1::Problem DefaultProblem(const KernelPlan& plan) {
  v1::Problem problem;
  for (const v1::Dim& dim : plan.kernel().dims()) {
    if (dim.has_default_value()) continue;
    v1::Value& value = (*problem.mutable_dims())[dim.name()];
    if (dim.values_size() > 0) {
      value = dim.values(0);
    } else if (dim.type() == v1::VALUE_TYPE_BOOL) {
      value.set_bool_value(false);
    } else {
      value.set_int_value(std::min<int64_t>(std::max<int64_t>(dim.min(), 1024), dim.max()));
    }
  }
  return problem;
}

TEST(RepositoryKernelsTest, LoadAndHaveSpaces) {
  if (std::getenv("TUNEFARM_SOURCE_DIR") == nullptr) GTEST_SKIP() << "TUNEFARM_SOURCE_DIR is not set";
  const auto definitions = FilesOfKernels(".pbtxt");
  EXPECT_FALSE(definitions.empty());
  std::set<std::filesystem::path> read;
  for (const auto& path : definitions) {
    SCOPED_TRACE(path.string());
    const auto text = ReadFile(path.string(), 1 << 20);
    ASSERT_TRUE(text.ok()) << Message(text.status());
    const auto kernel = LoadKernelText(*text, path.filename().string(), [&](const std::string& name) {
      read.insert(path.parent_path() / name);
      return ReadFile((path.parent_path() / name).string(), 4 << 20);
    });
    if (!kernel.ok()) {
      ADD_FAILURE() << Message(kernel.status());
      continue;
    }
    const auto plan = KernelPlan::Compile(*kernel);
    ASSERT_TRUE(plan.ok()) << Message(plan.status());
    const auto problem = (*plan)->ResolveProblem(DefaultProblem(**plan));
    if (!problem.ok()) {
      ADD_FAILURE() << Message(problem.status());
      continue;
    }
    std::vector<DeviceClass> devices = {HostOfFourCores()};
    if ((*plan)->device_kind() == DeviceKind::kCuda) {
      devices = {FindKnownClass("A100").value(), FindKnownClass("H200").value()};
    }
    for (const DeviceClass& device : devices) {
      const auto space = (*plan)->BuildSpace(*problem, device);
      ASSERT_TRUE(space.ok()) << Message(space.status());
      const auto valid = space->CountValid();
      ASSERT_TRUE(valid.ok()) << Message(valid.status());
      const int exact = kernel->resources().exact_compute_capability();
      if (exact != 0 && exact != device.compute_capability) {
        EXPECT_EQ(*valid, 0U);
        continue;
      }
      EXPECT_GT(*valid, 0U) << space->ExplainEmpty();
      EXPECT_TRUE((*plan)->Buffers(*problem, (*plan)->DefaultConfig(*problem), device).ok());
      // What a module of Python takes only it knows.
      if (kernel->language() != v1::LANGUAGE_PYTHON) {
        EXPECT_GT(*(*plan)->FootprintBytes(*problem, (*plan)->DefaultConfig(*problem), device), 0);
      }
      EXPECT_TRUE((*plan)->Constants(*problem, (*plan)->DefaultConfig(*problem), device).ok());
      std::map<std::string, LoadedEntry> loaded;
      for (const Sequence sequence : {Sequence::kLaunches, Sequence::kReference, Sequence::kBaseline}) {
        for (const std::string& entry : (*plan)->Entries(sequence)) loaded[entry] = {1, 32, 0};
        const auto steps = (*plan)->Steps(sequence, *problem, (*plan)->DefaultConfig(*problem), device, &loaded);
        EXPECT_TRUE(steps.ok()) << Message(steps.status());
      }
    }
  }
  const auto included = FilesOfKernels(".inc");
  EXPECT_FALSE(included.empty());
  for (const auto& file : included) EXPECT_TRUE(read.contains(file)) << file << " is included by no definition";
}

}  // namespace
}  // namespace tunefarm
