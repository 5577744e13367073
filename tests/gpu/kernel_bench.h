// Runs definitions through the CUDA backends of the workers in this process: compile, prepare, run.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/worker/backend.h"

namespace tunefarm {

class QuietReporter final : public PhaseReporter {
 public:
  void Begin(tunefarm::v1::Phase phase) override { phases.push_back(phase); }
  void Log(std::string_view) override {}
  std::vector<tunefarm::v1::Phase> phases;
};

// The first GPU; its backends live as long as the process. Null with a sentence in *why when there is none.
struct Gpu {
  DeviceClass device_class;
  tunefarm::v1::Device device;
  std::unique_ptr<CompileBackend> compile;
  std::unique_ptr<RunBackend> run;
};
Gpu* TheGpu(std::string* why);

// A measuring policy with every field set, quick.
tunefarm::v1::MeasurementPolicy QuickPolicy();

// One definition and problem on the GPU. Failures to build it are test failures and leave ok() false.
class KernelBench {
 public:
  using DataFiles = std::map<std::string, std::string>;

  // `sources` are path and content, the first the translation unit. `data_files` are digest and content.
  KernelBench(const std::string& definition, const std::vector<std::pair<std::string, std::string>>& sources,
              const tunefarm::v1::Problem& problem = {}, const DataFiles& data_files = {});
  // The definition with its sources.
  explicit KernelBench(const tunefarm::v1::Kernel& definition, const tunefarm::v1::Problem& problem = {},
                       const DataFiles& data_files = {});

  // Runs the default config with some parameters set ("MODE=good,BLOCK=128"; empty: the default).
  tunefarm::worker::v1::Result Run(const std::string& parameters = "");
  tunefarm::worker::v1::Result RunBaseline();

  const tunefarm::worker::v1::Prepared& prepared() const { return prepared_; }
  bool ok() const { return prepared_.ok(); }
  const PreparedKernel& kernel() const { return *kernel_; }
  RunInput input;  // policy and flags of the runs

 private:
  void Open(const tunefarm::v1::Kernel& definition, const tunefarm::v1::Problem& problem, const DataFiles& data_files);
  tunefarm::worker::v1::Result Compile(const Config& config, std::string* artifact);

  std::shared_ptr<PreparedKernel> kernel_;
  tunefarm::worker::v1::Prepared prepared_;
};

}  // namespace tunefarm
