// Stands in for the CUDA backends in a build without a CUDA Toolkit.
#include <fmt/format.h>

#include "server/base/status.h"
#include "server/worker/backend.h"

namespace tunefarm {
namespace {

constexpr const char* kWhy =
    "this tunefarm-worker was built without a CUDA Toolkit; build it with CUDA Toolkit 12.4 or newer";

class NoProbeBackend final : public ProbeBackend {
 public:
  void Probe(tunefarm::worker::v1::ProbeReport* report) override { report->add_notes(fmt::format("{}.", kWhy)); }
};

}  // namespace

absl::StatusOr<std::unique_ptr<CompileBackend>> MakeCudaCompileBackend(const WorkerOptions&) {
  return FailedPrecondition("{}", kWhy);
}

absl::StatusOr<std::unique_ptr<RunBackend>> MakeCudaRunBackend(const WorkerOptions&) {
  return FailedPrecondition("{}", kWhy);
}

std::unique_ptr<ProbeBackend> MakeCudaProbeBackend(const WorkerOptions&) { return std::make_unique<NoProbeBackend>(); }

}  // namespace tunefarm
