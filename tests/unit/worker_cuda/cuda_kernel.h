// Definitions for tests of the CUDA backends, from text.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/base/status.h"
#include "server/worker/backend.h"

namespace tunefarm {

class SilentReporter final : public PhaseReporter {
 public:
  void Begin(tunefarm::v1::Phase phase) override { phases.push_back(phase); }
  void Log(std::string_view) override {}
  std::vector<tunefarm::v1::Phase> phases;
};

// The kernel on a known device class ("H200"). Null (and a test failure) if the definition is refused.
inline std::shared_ptr<PreparedKernel> PrepareKernel(const tunefarm::v1::Kernel& message, const std::string& device,
                                                     const tunefarm::v1::Problem& problem = {}) {
  auto kernel = std::make_shared<PreparedKernel>();
  absl::StatusOr<std::shared_ptr<const KernelPlan>> plan = KernelPlan::Compile(message);
  EXPECT_TRUE(plan.ok()) << MessageOf(plan.status());
  if (!plan.ok()) return nullptr;
  kernel->plan = *plan;
  absl::StatusOr<ResolvedProblem> resolved = (*plan)->ResolveProblem(problem);
  EXPECT_TRUE(resolved.ok()) << MessageOf(resolved.status());
  if (!resolved.ok()) return nullptr;
  kernel->problem = *resolved;
  absl::StatusOr<DeviceClass> device_class = FindKnownClass(device);
  EXPECT_TRUE(device_class.ok());
  kernel->device_class = *device_class;
  return kernel;
}

// The same of a definition's text, with these sources instead of those that it names.
inline std::shared_ptr<PreparedKernel> PrepareText(const std::string& definition,
                                                   const std::vector<std::pair<std::string, std::string>>& sources,
                                                   const std::string& device,
                                                   const tunefarm::v1::Problem& problem = {}) {
  absl::StatusOr<tunefarm::v1::Kernel> message = ParseKernelText(definition, "kernel.pbtxt");
  EXPECT_TRUE(message.ok()) << MessageOf(message.status());
  if (!message.ok()) return nullptr;
  message->clear_sources();
  for (const auto& [path, content] : sources) {
    tunefarm::v1::SourceFile* const source = message->add_sources();
    source->set_path(path);
    source->set_content(content);
  }
  return PrepareKernel(*message, device, problem);
}

}  // namespace tunefarm
