#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <string>

#include "server/base/status.h"
#include "server/worker/backend.h"
#include "server/worker/cuda/driver.h"
#include "server/worker/cuda/library_search.h"
#include "server/worker/cuda/nvrtc.h"
#include "server/worker/cuda/peak_rates.h"
#include "server/worker/cuda/shared_library.h"
#include "server/worker/nvml/nvml.h"

namespace tunefarm::cuda {
namespace {

// Reads the attributes of one device; one that the driver does not know reads as 0.
class DeviceReader {
 public:
  DeviceReader(const Driver& driver, CUdevice device) : driver_(driver), device_(device) {}

  int Attribute(CUdevice_attribute which) const {
    int value = 0;
    return driver_.cuDeviceGetAttribute(&value, which, device_) == CUDA_SUCCESS ? value : 0;
  }

  DeviceClass Class() const {
    DeviceClass result;
    result.kind = DeviceKind::kCuda;
    char name[257] = {};
    (void)driver_.cuDeviceGetName(name, sizeof(name) - 1, device_);
    result.display_name = name;
    // "NVIDIA A100-SXM4-40GB MIG 1g.5gb".
    const size_t mig = result.display_name.find(" MIG ");
    if (mig != std::string::npos) {
      result.mig_profile = result.display_name.substr(mig + 5);
      result.display_name.resize(mig);
    }
    result.compute_capability = 10 * Attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
                                Attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    result.sm_count = Attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    result.registers_per_sm = Attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
    result.registers_per_block = Attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
    result.shared_bytes_per_sm = Attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
    result.shared_bytes_per_block = Attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
    result.shared_bytes_per_block_optin = Attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
    result.reserved_shared_bytes_per_block = Attribute(CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK);
    result.threads_per_sm = Attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
    result.threads_per_block = Attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    result.warp_size = Attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE);
    result.blocks_per_sm = Attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR);
    result.l2_bytes = Attribute(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
    result.memory_gib = static_cast<int>((TotalBytes() + (uint64_t{1} << 29)) >> 30);
    result.grid_max = {Attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X), Attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y),
                       Attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z)};
    result.block_max = {Attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X), Attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y),
                        Attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z)};
    return result;
  }

  uint64_t TotalBytes() const {
    size_t bytes = 0;
    return driver_.cuDeviceTotalMem(&bytes, device_) == CUDA_SUCCESS ? bytes : 0;
  }

  // Needs a context, the one thing here that takes device memory, for as long as it is looked at.
  uint64_t FreeBytes() const {
    CUcontext context = nullptr;
    if (driver_.cuDevicePrimaryCtxRetain(&context, device_) != CUDA_SUCCESS) return 0;
    size_t free = 0, total = 0;
    const bool known =
        driver_.cuCtxSetCurrent(context) == CUDA_SUCCESS && driver_.cuMemGetInfo(&free, &total) == CUDA_SUCCESS;
    (void)driver_.cuCtxSetCurrent(nullptr);
    (void)driver_.cuDevicePrimaryCtxRelease(device_);
    return known ? free : 0;
  }

 private:
  const Driver& driver_;
  const CUdevice device_;
};

class CudaProbeBackend final : public ProbeBackend {
 public:
  explicit CudaProbeBackend(const WorkerOptions& options) : places_(ProcessSearchPlaces(options.cuda_path)) {}

  void Probe(tunefarm::worker::v1::ProbeReport* report) override {
    std::string toolkit_version;
    NoteLibraries(report, &toolkit_version);
    absl::StatusOr<std::unique_ptr<Driver>> opened = Driver::Open();
    if (!opened.ok()) return report->add_notes(fmt::format("No CUDA device: {}.", MessageOf(opened.status())));
    const Driver& driver = **opened;
    int count = 0;
    if (const CUresult error = driver.cuInit(0); error != CUDA_SUCCESS) {
      return report->add_notes(
          fmt::format("No CUDA device: the NVIDIA driver does not start: {}.", driver.ErrorName(error)));
    }
    if (const CUresult error = driver.cuDeviceGetCount(&count); error != CUDA_SUCCESS || count == 0) {
      return report->add_notes("No CUDA device: the NVIDIA driver shows none.");
    }
    const std::unique_ptr<Nvml> nvml = Nvml::Open();
    if (nvml == nullptr) report->add_notes("NVML was not found or does not start: clocks and throttling are unknown.");
    for (int i = 0; i < count; ++i) {
      CUdevice device = 0;
      if (driver.cuDeviceGet(&device, i) != CUDA_SUCCESS) continue;
      Describe(driver, device, i, nvml.get(), toolkit_version, report->add_devices());
    }
  }

 private:
  void NoteLibraries(tunefarm::worker::v1::ProbeReport* report, std::string* toolkit_version) const {
    const absl::StatusOr<std::unique_ptr<Nvrtc>> nvrtc = Nvrtc::Open(places_);
    if (nvrtc.ok()) {
      *toolkit_version = (*nvrtc)->version();
      report->add_notes(fmt::format("NVRTC {}: {}.", (*nvrtc)->version(), (*nvrtc)->path()));
      const auto& includes = (*nvrtc)->include_directories();
      report->add_notes(includes.empty() ? "CUDA headers were not found: kernels that include them do not compile."
                                         : fmt::format("CUDA headers: {}.", includes.front()));
    } else {
      report->add_notes(fmt::format("No NVRTC: {}.", MessageOf(nvrtc.status())));
    }
    // Only where it lies: opening cuBLAS takes hundreds of megabytes of address space.
    const absl::StatusOr<FoundLibrary> cublas = FindLibrary(places_, {"libcublas.so.13", "libcublas.so.12"},
                                                            [](const std::string& path) { return path[0] == '/'; });
    report->add_notes(cublas.ok() ? fmt::format("cuBLAS: {}.", cublas->path)
                                  : std::string("cuBLAS was not found beside a toolkit or in pip's packages."));
  }

  static void Describe(const Driver& driver, CUdevice device, int ordinal, const Nvml* nvml,
                       const std::string& toolkit_version, v1::Device* out) {
    const DeviceReader reader(driver, device);
    const DeviceClass device_class = reader.Class();
    *out->mutable_device_class() = device_class.ToProto();
    CUuuid uuid = {};
    (void)driver.cuDeviceGetUuid(&uuid, device);
    out->set_uuid(UuidText(uuid, !device_class.mig_profile.empty()));
    out->set_ordinal(ordinal);
    out->set_memory_bytes(static_cast<int64_t>(reader.TotalBytes()));
    out->set_memory_free_bytes(static_cast<int64_t>(reader.FreeBytes()));
    if (nvml != nullptr) out->set_driver_version(nvml->DriverVersion());
    if (out->driver_version().empty()) {
      int version = 0;
      (void)driver.cuDriverGetVersion(&version);
      out->set_driver_version(fmt::format("CUDA {}.{}", version / 1000, version % 1000 / 10));
    }
    out->set_toolkit_version(toolkit_version);
    int clock_mhz = reader.Attribute(CU_DEVICE_ATTRIBUTE_CLOCK_RATE) / 1000;
    if (clock_mhz == 0 && nvml != nullptr) clock_mhz = nvml->MaxClockMhz(out->uuid());
    out->set_clock_mhz(clock_mhz);
    out->set_memory_clock_mhz(reader.Attribute(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE) / 1000);
    out->set_peak_bytes_per_second(
        PeakBytesPerSecond(out->memory_clock_mhz(), reader.Attribute(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH)));
    for (const auto& [unit, peak] :
         PeakFlopsByUnit(device_class.compute_capability, device_class.sm_count, clock_mhz)) {
      (*out->mutable_peak_flops_by_unit())[unit] = peak;
    }
    out->set_state(v1::DEVICE_STATE_READY);
  }

  const std::vector<SearchPlace> places_;
};

}  // namespace
}  // namespace tunefarm::cuda

namespace tunefarm {

std::unique_ptr<ProbeBackend> MakeCudaProbeBackend(const WorkerOptions& options) {
  return std::make_unique<cuda::CudaProbeBackend>(options);
}

}  // namespace tunefarm
