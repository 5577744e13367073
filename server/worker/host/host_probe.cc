#include <fmt/core.h>
#include <sys/utsname.h>

#include <charconv>
#include <memory>
#include <string>
#include <utility>

#include "server/base/file.h"
#include "server/base/status.h"
#include "server/worker/backend.h"
#include "server/worker/host/host_memory.h"
#include "server/worker/host/host_toolchain.h"
#include "server/worker/host/host_topology.h"

namespace tunefarm {
namespace {

int HighestClockMhz() {
  const absl::StatusOr<std::string> text = ReadFile("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", 64);
  int kilohertz = 0;
  if (text.ok()) std::from_chars(text->data(), text->data() + text->size(), kilohertz);
  return kilohertz / 1000;
}

class HostProbeBackend final : public ProbeBackend {
 public:
  explicit HostProbeBackend(std::string compiler) : compiler_(std::move(compiler)) {}

  void Probe(tunefarm::worker::v1::ProbeReport* report) override {
    v1::Device* const device = report->add_devices();
    v1::DeviceClass* const device_class = device->mutable_device_class();
    const absl::StatusOr<std::string> cpuinfo = ReadFile("/proc/cpuinfo", 16 << 20);
    device_class->set_kind(v1::DEVICE_KIND_HOST);
    device_class->set_display_name(CpuModelName(cpuinfo.ok() ? *cpuinfo : ""));
    device_class->set_sm_count(UsableCores());
    const CpuCaches caches = ReadCpuCaches();
    device_class->set_l2_bytes(caches.last_level_bytes);
    device_class->set_l1_bytes(caches.l1_data_bytes);
    constexpr uint64_t kGib = uint64_t{1} << 30;
    device_class->set_memory_gib(static_cast<int>((PhysicalMemoryBytes() + kGib / 2) / kGib));
    device->set_memory_bytes(static_cast<int64_t>(PhysicalMemoryBytes()));
    device->set_memory_free_bytes(static_cast<int64_t>(AvailableMemoryBytes()));
    device->set_clock_mhz(HighestClockMhz());
    if (struct utsname system = {}; uname(&system) == 0) device->set_driver_version(system.release);
    device->set_state(v1::DEVICE_STATE_READY);
    const absl::StatusOr<HostToolchain> toolchain = FindHostToolchain(compiler_);
    if (toolchain.ok()) {
      device_class->set_compiler(toolchain->version);
      device->set_toolkit_version(toolchain->version);
      report->add_notes(fmt::format("host compiler: {}", toolchain->Description()));
      return;
    }
    device->set_state(v1::DEVICE_STATE_QUARANTINED);
    device->set_state_reason(std::string(MessageOf(toolchain.status())));
    report->add_notes(device->state_reason());
  }

 private:
  const std::string compiler_;
};

}  // namespace

std::unique_ptr<ProbeBackend> MakeHostProbeBackend(const WorkerOptions& options) {
  return std::make_unique<HostProbeBackend>(options.host_compiler);
}

}  // namespace tunefarm
