#include "tests/gpu/kernel_bench.h"

#include <gtest/gtest.h>

#include "server/base/memfd.h"
#include "server/base/status.h"

namespace tunefarm {
namespace {

using tunefarm::worker::v1::Prepared;
using tunefarm::worker::v1::Result;

std::unique_ptr<Gpu> OpenGpu(std::string* why) {
  const WorkerOptions options;
  tunefarm::worker::v1::ProbeReport report;
  MakeCudaProbeBackend(options)->Probe(&report);
  for (const std::string& note : report.notes()) *why += note + "\n";
  if (report.devices().empty()) return nullptr;
  auto gpu = std::make_unique<Gpu>();
  gpu->device = report.devices(0);
  absl::StatusOr<DeviceClass> device_class = DeviceClass::FromProto(gpu->device.device_class());
  EXPECT_TRUE(device_class.ok()) << MessageOf(device_class.status());
  gpu->device_class = *device_class;
  absl::StatusOr<std::unique_ptr<CompileBackend>> compile = MakeCudaCompileBackend(options);
  EXPECT_TRUE(compile.ok()) << MessageOf(compile.status());
  WorkerOptions run_options;
  run_options.device_uuid = gpu->device.uuid();
  absl::StatusOr<std::unique_ptr<RunBackend>> run = MakeCudaRunBackend(run_options);
  EXPECT_TRUE(run.ok()) << MessageOf(run.status());
  if (!compile.ok() || !run.ok()) return nullptr;
  gpu->compile = *std::move(compile);
  gpu->run = *std::move(run);
  return gpu;
}

// An empty one where the text cannot be parsed, which is a test failure.
v1::Kernel WithSources(const std::string& definition, const std::vector<std::pair<std::string, std::string>>& sources) {
  absl::StatusOr<v1::Kernel> message = ParseKernelText(definition, "kernel.pbtxt");
  EXPECT_TRUE(message.ok()) << MessageOf(message.status());
  v1::Kernel kernel = message.value_or(v1::Kernel());
  kernel.clear_sources();
  for (const auto& [path, content] : sources) {
    v1::SourceFile* const source = kernel.add_sources();
    source->set_path(path);
    source->set_content(content);
  }
  return kernel;
}

}  // namespace

Gpu* TheGpu(std::string* why) {
  static std::string notes;
  // Never destroyed: the driver ends with the process.
  static Gpu* const gpu = OpenGpu(&notes).release();
  if (why != nullptr) *why = notes;
  return gpu;
}

v1::MeasurementPolicy QuickPolicy() {
  v1::MeasurementPolicy policy;
  policy.set_preset(v1::MEASUREMENT_PRESET_DEFAULT);
  policy.set_warmup_launches(3);
  policy.set_min_samples(10);
  policy.set_max_samples(100);
  policy.set_target_relative_half_width(0.01);
  policy.set_time_budget_ms(500);
  policy.set_finalists(5);
  policy.set_final_rounds(5);
  policy.set_first_look_samples(6);
  policy.set_input_copies(1);
  policy.set_min_clock_share(-1);
  return policy;
}

KernelBench::KernelBench(const std::string& definition, const std::vector<std::pair<std::string, std::string>>& sources,
                         const v1::Problem& problem, const DataFiles& data_files)
    : KernelBench(WithSources(definition, sources), problem, data_files) {}

KernelBench::KernelBench(const v1::Kernel& definition, const v1::Problem& problem, const DataFiles& data_files)
    : kernel_(std::make_shared<PreparedKernel>()) {
  input.policy = QuickPolicy();
  Open(definition, problem, data_files);
}

void KernelBench::Open(const v1::Kernel& definition, const v1::Problem& problem, const DataFiles& data_files) {
  Gpu* const gpu = TheGpu(nullptr);
  absl::StatusOr<std::shared_ptr<const KernelPlan>> plan = KernelPlan::Compile(definition);
  ASSERT_TRUE(plan.ok()) << MessageOf(plan.status());
  kernel_->plan = *plan;
  absl::StatusOr<ResolvedProblem> resolved = (*plan)->ResolveProblem(problem);
  ASSERT_TRUE(resolved.ok()) << MessageOf(resolved.status());
  kernel_->problem = *resolved;
  kernel_->device_class = gpu->device_class;
  for (const auto& [digest, content] : data_files) {
    absl::StatusOr<UniqueFd> file = CreateSealedMemfd("data", content);
    ASSERT_TRUE(file.ok()) << MessageOf(file.status());
    kernel_->data_files[digest] = std::make_shared<const UniqueFd>(*std::move(file));
  }
  const Result compiled = Compile((*plan)->DefaultConfig(*resolved), &kernel_->reference_artifact);
  ASSERT_EQ(compiled.outcome(), v1::OUTCOME_OK) << compiled.message() << "\n" << compiled.log();
  kernel_->reference_lowered_names.insert(compiled.lowered_names().begin(), compiled.lowered_names().end());
  QuietReporter reporter;
  prepared_ = gpu->run->Prepare(kernel_, &reporter);
}

Result KernelBench::Compile(const Config& config, std::string* artifact) {
  QuietReporter reporter;
  return TheGpu(nullptr)->compile->Compile(*kernel_, config, &reporter, artifact);
}

Result KernelBench::Run(const std::string& parameters) {
  absl::StatusOr<Config> config = Config::FromText(parameters);
  EXPECT_TRUE(config.ok()) << parameters;
  input.config = kernel_->plan->DefaultConfig(kernel_->problem);
  for (const auto& [name, value] : *config) input.config.Set(name, value);
  input.baseline = false;
  input.artifact.clear();
  Result compiled = Compile(input.config, &input.artifact);
  if (compiled.outcome() != v1::OUTCOME_OK) return compiled;
  input.lowered_names = {compiled.lowered_names().begin(), compiled.lowered_names().end()};
  QuietReporter reporter;
  return TheGpu(nullptr)->run->Run(input, &reporter);
}

Result KernelBench::RunBaseline() {
  input.baseline = true;
  input.artifact.clear();
  input.lowered_names.clear();
  QuietReporter reporter;
  return TheGpu(nullptr)->run->Run(input, &reporter);
}

}  // namespace tunefarm
