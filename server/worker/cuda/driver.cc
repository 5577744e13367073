#include "server/worker/cuda/driver.h"

#include <dlfcn.h>
#include <fmt/core.h>

#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm::cuda {
namespace {

// The last two are where containers and WSL mount the driver without telling ldconfig.
constexpr const char* kLibraryNames[] = {"libcuda.so.1", "/usr/local/nvidia/lib64/libcuda.so.1",
                                         "/usr/lib/wsl/lib/libcuda.so.1"};

using GetProcAddress = CUresult (*)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);

void* OpenLibrary(std::string* error) {
  for (const char* name : kLibraryNames) {
    void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) return library;
    const char* const text = dlerror();
    if (error->empty() && text != nullptr) *error = text;
  }
  return nullptr;
}

absl::Status Resolve(GetProcAddress get, const char* name, void** function) {
  CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  const CUresult error = get(name, function, kApiVersion, CU_GET_PROC_ADDRESS_DEFAULT, &found);
  if (error == CUDA_SUCCESS && found == CU_GET_PROC_ADDRESS_SUCCESS && *function != nullptr) return absl::OkStatus();
  return FailedPrecondition("the NVIDIA driver is too old: it has no {} of CUDA {}.{}; install driver 550 or newer",
                            name, kApiVersion / 1000, kApiVersion % 1000 / 10);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Driver>> Driver::Open() {
  std::string error;
  void* const library = OpenLibrary(&error);
  if (library == nullptr) return FailedPrecondition("there is no NVIDIA driver: {}", error);
  const auto get = reinterpret_cast<GetProcAddress>(dlsym(library, "cuGetProcAddress_v2"));
  if (get == nullptr) {
    return FailedPrecondition(
        "the NVIDIA driver is too old: it has no cuGetProcAddress_v2; install driver 550 or newer");
  }
  std::unique_ptr<Driver> driver(new Driver);
#define TUNEFARM_RESOLVE(function, parameters) \
  RETURN_IF_ERROR(Resolve(get, #function, reinterpret_cast<void**>(&driver->function)));
  TUNEFARM_CUDA_FUNCTIONS(TUNEFARM_RESOLVE)
#undef TUNEFARM_RESOLVE
  return driver;
}

std::string Driver::ErrorName(CUresult error) const {
  const char* name = nullptr;
  if (cuGetErrorName(error, &name) == CUDA_SUCCESS && name != nullptr) return name;
  return fmt::format("CUDA error {}", static_cast<int>(error));
}

Failure Driver::Check(CUresult error, CallKind kind, std::string_view what) const {
  if (error == CUDA_SUCCESS) return {};
  const ErrorMeaning meaning = MeaningOf(static_cast<int>(error), kind);
  return {meaning.outcome, fmt::format("{}: {}.", what, ErrorName(error)), meaning.sticky};
}

std::string UuidText(const CUuuid& uuid, bool is_mig) {
  std::string text = is_mig ? "MIG-" : "GPU-";
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(uuid.bytes[i]));
  }
  return text;
}

}  // namespace tunefarm::cuda
