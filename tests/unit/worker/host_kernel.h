#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/base/check.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/worker/backend.h"
#include "tests/fakes/temporary_directory.h"

namespace tunefarm {

// Notes the phases that a backend announces.
class RecordingReporter final : public PhaseReporter {
 public:
  void Begin(v1::Phase phase) override { phases.push_back(phase); }
  void Log(std::string_view) override {}

  std::vector<v1::Phase> phases;
};

// A kernel definition with its source, the default config's binary, and both host backends, as a worker would use them.
class HostKernel {
 public:
  HostKernel(const std::string& definition, const std::string& source, const WorkerOptions& options = {}) {
    TUNEFARM_CHECK_OK(Open(definition, source, options));
  }

  Config DefaultConfig() const { return prepared_.plan->DefaultConfig(prepared_.problem); }

  Config With(const std::string& parameter, Value value) const {
    Config config = DefaultConfig();
    config.Set(parameter, std::move(value));
    return config;
  }

  worker::v1::Result Compile(const Config& config, std::string* artifact) {
    RecordingReporter ignored;
    return compiler_->Compile(prepared_, config, &ignored, artifact);
  }

  // Compiles the reference's binary and prepares the problem.
  worker::v1::Prepared Prepare() {
    const worker::v1::Result result = Compile(DefaultConfig(), &prepared_.reference_artifact);
    EXPECT_EQ(result.outcome(), v1::OUTCOME_OK) << result.message();
    prepared_.reference_lowered_names = {result.lowered_names().begin(), result.lowered_names().end()};
    return runner_->Prepare(std::make_shared<PreparedKernel>(prepared_), &reporter);
  }

  // Compiles (each config once) and runs; Prepare must have succeeded.
  worker::v1::Result Run(const Config& config) {
    RunInput input = Input();
    input.config = config;
    std::string& artifact = artifacts_[config.ToText()];
    if (artifact.empty()) {
      const worker::v1::Result compiled = Compile(config, &artifact);
      EXPECT_EQ(compiled.outcome(), v1::OUTCOME_OK) << compiled.message();
    }
    input.artifact = artifact;
    reporter.phases.clear();
    return Run(input);
  }

  // As the worker does it: by the end of the clean-up nothing of the trial is left.
  worker::v1::Result Run(const RunInput& input) {
    worker::v1::Result result = runner_->Run(input, &reporter);
    runner_->CleanUp();
    return result;
  }

  // A short measurement without the cost of flushing caches.
  static RunInput Input() {
    RunInput input;
    input.policy.set_warmup_launches(2);
    input.policy.set_min_samples(5);
    input.policy.set_max_samples(12);
    input.policy.set_target_relative_half_width(0.01);
    input.policy.set_time_budget_ms(1000);
    input.policy.set_warm_cache(true);
    return input;
  }

  PreparedKernel& prepared() { return prepared_; }
  const std::string& scratch() const { return scratch_.path(); }
  CompileBackend& compiler() { return *compiler_; }

  RecordingReporter reporter;

 private:
  absl::Status Open(const std::string& definition, const std::string& source, WorkerOptions options) {
    ASSIGN_OR_RETURN(v1::Kernel kernel, ParseKernelText(definition, "kernel.pbtxt"));
    kernel.mutable_sources(0)->set_content(source);
    ASSIGN_OR_RETURN(prepared_.plan, KernelPlan::Compile(kernel));
    ASSIGN_OR_RETURN(prepared_.problem, prepared_.plan->ResolveProblem(v1::Problem()));
    prepared_.device_class.kind = DeviceKind::kHost;
    options.scratch_directory = scratch_.path();
    ASSIGN_OR_RETURN(compiler_, MakeHostCompileBackend(options));
    ASSIGN_OR_RETURN(runner_, MakeHostRunBackend(options));
    return absl::OkStatus();
  }

  TemporaryDirectory scratch_;
  PreparedKernel prepared_;
  std::map<std::string, std::string> artifacts_;  // by config
  std::unique_ptr<CompileBackend> compiler_;
  std::unique_ptr<RunBackend> runner_;
};

// A prepared kernel with the one binary that all trials of a test suite run.
class CompiledHostKernel final : public HostKernel {
 public:
  CompiledHostKernel(const std::string& definition, const std::string& source, const WorkerOptions& options = {})
      : HostKernel(definition, source, options) {
    EXPECT_TRUE(Prepare().ok());
    EXPECT_EQ(Compile(DefaultConfig(), &artifact_).outcome(), v1::OUTCOME_OK);
  }

  // To be run with the default config, until the test says otherwise.
  RunInput TrialInput() const {
    RunInput input = Input();
    input.config = DefaultConfig();
    input.artifact = artifact_;
    return input;
  }

 private:
  std::string artifact_;
};

}  // namespace tunefarm
