#include "client/launch/binary_load.h"

#define XXH_INLINE_ALL
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <vector>

#include "client/launch/failure.h"
#include "client/launch/load_lock.h"

namespace tunefarm::launch {
namespace {

struct Loaded {
  XXH128_hash_t hash;
  size_t size;
  void* handle;
};

// Neither list is ever freed: nothing of the library may run when the process ends.
std::vector<Loaded>& SharedObjects() {
  static auto* const list = new std::vector<Loaded>;
  return *list;
}
std::vector<Loaded>& Cubins() {
  static auto* const list = new std::vector<Loaded>;
  return *list;
}

void* Find(const std::vector<Loaded>& list, const Loaded& sought) {
  for (const Loaded& loaded : list) {
    if (loaded.size == sought.size && XXH128_isEqual(loaded.hash, sought.hash)) return loaded.handle;
  }
  return nullptr;
}

bool WriteAll(int file, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return true;
}

}  // namespace

tunefarm_status LoadSharedObject(std::span<const std::byte> bytes, void** handle, tunefarm_error* error) {
  Loaded sought{XXH3_128bits(bytes.data(), bytes.size()), bytes.size(), nullptr};
  const LoadLock lock;
  std::vector<Loaded>& list = SharedObjects();
  *handle = Find(list, sought);
  if (*handle != nullptr) return TUNEFARM_OK;
  list.reserve(list.size() + 1);
  // The file stays open: the loader of programs knows libraries by their paths, and a number that is used again would
  // be the library of before.
  const int file = memfd_create("tunefarm-kernel", MFD_CLOEXEC);
  if (file < 0 || !WriteAll(file, bytes)) {
    const int reason = errno;
    if (file >= 0) (void)close(file);
    return Fail(error, TUNEFARM_OUT_OF_MEMORY, "There is no memory for a binary of %zu bytes: %s.", bytes.size(),
                strerrordesc_np(reason));
  }
  char path[64];
  (void)std::snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
  sought.handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (sought.handle == nullptr) {
    const char* const why = dlerror();
    const tunefarm_status status = Fail(error, TUNEFARM_INCOMPATIBLE, "A binary of the package cannot be loaded: %s.",
                                        why == nullptr ? "no reason is given" : why);
    (void)close(file);
    return status;
  }
  list.push_back(sought);
  *handle = sought.handle;
  return TUNEFARM_OK;
}

tunefarm_status LoadCubin(const cuda::Driver& driver, std::span<const std::byte> bytes, cuda::Library* library,
                          tunefarm_error* error) {
  Loaded sought{XXH3_128bits(bytes.data(), bytes.size()), bytes.size(), nullptr};
  const LoadLock lock;
  std::vector<Loaded>& list = Cubins();
  *library = static_cast<cuda::Library>(Find(list, sought));
  if (*library != nullptr) return TUNEFARM_OK;
  list.reserve(list.size() + 1);
  const cuda::Result result = driver.cuLibraryLoadData(library, bytes.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  if (result == cuda::kInvalidImage || result == cuda::kNoBinaryForGpu || result == cuda::kUnsupportedPtxVersion) {
    return Fail(error, TUNEFARM_INCOMPATIBLE, "The driver (CUDA %d.%d) cannot load a binary of the package: %s.",
                driver.version / 1000, driver.version % 1000 / 10, driver.ErrorName(result));
  }
  if (result != cuda::kSuccess) return driver.Check(result, error, "A binary of the package cannot be loaded");
  sought.handle = *library;
  list.push_back(sought);
  return TUNEFARM_OK;
}

}  // namespace tunefarm::launch
