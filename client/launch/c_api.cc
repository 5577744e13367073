// The functions of launch.h. Exceptions, of which only those of memory are possible, end here.
#include <memory>
#include <new>
#include <utility>

#include "client/launch/failure.h"
#include "client/launch/include/tunefarm/launch.h"
#include "client/launch/kernel.h"
#include "client/launch/launch_call.h"
#include "client/launch/package.h"
#include "client/launch/updatable_kernel.h"
#include "server/driver_step/data_type.h"

using tunefarm::launch::Fail;
using tunefarm::launch::Kernel;
using tunefarm::launch::Package;
using tunefarm::launch::Selection;
using tunefarm::launch::Succeed;
using tunefarm::launch::UpdatableKernel;

struct tunefarm_package {
  std::shared_ptr<const Package> package;
};
struct tunefarm_kernel {
  explicit tunefarm_kernel(std::unique_ptr<Kernel> loaded) : kernel(std::move(loaded)) {}
  UpdatableKernel kernel;
};

namespace {

// 10000 * major + 100 * minor + patch.
constexpr uint32_t kVersion = TUNEFARM_LAUNCH_VERSION;

tunefarm_status Missing(tunefarm_error* error, const char* what) {
  return Fail(error, TUNEFARM_INVALID_ARGUMENT, "The argument '%s' of the call is NULL.", what);
}

// `work` returns a status.
template <typename Work>
tunefarm_status Guarded(tunefarm_error* error, const Work& work) {
  try {
    const tunefarm_status status = work();
    return status == TUNEFARM_OK ? Succeed(error) : status;
  } catch (const std::bad_alloc&) {
    return Fail(error, TUNEFARM_OUT_OF_MEMORY, "There is no memory left.");
  }
}

template <typename Open>
tunefarm_status OpenPackage(tunefarm_package** package, tunefarm_error* error, const Open& open) {
  return Guarded(error, [&] {
    auto opened = std::make_unique<tunefarm_package>();
    const tunefarm_status status = open(&opened->package);
    if (status == TUNEFARM_OK) *package = opened.release();
    return status;
  });
}

tunefarm_status CheckDimCount(const Kernel& kernel, const int64_t* dims, size_t count, tunefarm_error* error) {
  const size_t needed = kernel.dims().of_launches().size();
  if (count == needed && (needed == 0 || dims != nullptr)) return TUNEFARM_OK;
  return Fail(error, TUNEFARM_INVALID_ARGUMENT, "%s: a launch gives %zu dims, not %zu.", kernel.name(), needed,
              dims == nullptr ? size_t{0} : count);
}

}  // namespace

uint32_t tunefarm_launch_version(void) { return kVersion; }

tunefarm_status tunefarm_package_open(const char* path, tunefarm_package** package, tunefarm_error* error) {
  if (package == nullptr) return Missing(error, "package");
  *package = nullptr;
  if (path == nullptr) return Missing(error, "path");
  return OpenPackage(package, error, [&](auto* opened) { return Package::Open(path, opened, error); });
}

tunefarm_status tunefarm_package_open_bytes(const void* bytes, size_t size, tunefarm_package** package,
                                            tunefarm_error* error) {
  if (package == nullptr) return Missing(error, "package");
  *package = nullptr;
  if (bytes == nullptr) return Missing(error, "bytes");
  return OpenPackage(package, error, [&](auto* opened) { return Package::Copy(bytes, size, opened, error); });
}

void tunefarm_package_close(tunefarm_package* package) { delete package; }

size_t tunefarm_package_kernel_count(const tunefarm_package* package) {
  return package == nullptr ? 0 : package->package->kernels().size();
}

const char* tunefarm_package_kernel_name(const tunefarm_package* package, size_t index) {
  if (index >= tunefarm_package_kernel_count(package)) return nullptr;
  return package->package->String(package->package->kernels()[index].name);
}

tunefarm_status tunefarm_kernel_load(const tunefarm_package* package, const char* name, const tunefarm_dim* dims,
                                     size_t dim_count, const tunefarm_load_options* options, tunefarm_kernel** kernel,
                                     tunefarm_error* error) {
  if (kernel == nullptr) return Missing(error, "kernel");
  *kernel = nullptr;
  if (package == nullptr) return Missing(error, "package");
  if (name == nullptr) return Missing(error, "name");
  if (dims == nullptr && dim_count > 0) return Missing(error, "dims");
  if (options != nullptr && options->size < sizeof(*options)) {
    return Fail(error, TUNEFARM_INVALID_ARGUMENT,
                "The tunefarm_load_options say that they have %zu bytes; initialise them with "
                "TUNEFARM_LOAD_OPTIONS_INIT.",
                options->size);
  }
  return Guarded(error, [&] {
    std::unique_ptr<Kernel> loaded;
    const int device = options == nullptr ? -1 : options->device;
    const tunefarm_status status = Kernel::Load(package->package, name, dims, dim_count, device, &loaded, error);
    if (status == TUNEFARM_OK) *kernel = new tunefarm_kernel(std::move(loaded));
    return status;
  });
}

tunefarm_status tunefarm_kernel_update(tunefarm_kernel* kernel, const tunefarm_package* package,
                                       tunefarm_error* error) {
  if (kernel == nullptr) return Missing(error, "kernel");
  if (package == nullptr) return Missing(error, "package");
  return Guarded(error, [&] { return kernel->kernel.Update(package->package, error); });
}

void tunefarm_kernel_close(tunefarm_kernel* kernel) { delete kernel; }

int32_t tunefarm_kernel_device(const tunefarm_kernel* kernel) {
  return kernel == nullptr || !kernel->kernel.newest().is_cuda() ? -1 : kernel->kernel.newest().device();
}

size_t tunefarm_kernel_dim_count(const tunefarm_kernel* kernel) {
  return kernel == nullptr ? 0 : kernel->kernel.newest().dims().of_launches().size();
}

const char* tunefarm_kernel_dim_name(const tunefarm_kernel* kernel, size_t index) {
  if (index >= tunefarm_kernel_dim_count(kernel)) return nullptr;
  const Kernel& loaded = kernel->kernel.newest();
  return loaded.dims().name(loaded.dims().of_launches()[index]);
}

size_t tunefarm_kernel_argument_count(const tunefarm_kernel* kernel) {
  return kernel == nullptr ? 0 : kernel->kernel.newest().argument_count();
}

tunefarm_status tunefarm_kernel_argument(const tunefarm_kernel* kernel, size_t index, tunefarm_argument* argument,
                                         tunefarm_error* error) {
  if (kernel == nullptr) return Missing(error, "kernel");
  if (argument == nullptr) return Missing(error, "argument");
  if (argument->size < sizeof(*argument)) {
    return Fail(error, TUNEFARM_INVALID_ARGUMENT,
                "The tunefarm_argument says that it has %zu bytes; initialise it with TUNEFARM_ARGUMENT_INIT.",
                argument->size);
  }
  const Kernel& loaded = kernel->kernel.newest();
  if (index >= loaded.argument_count()) {
    return Fail(error, TUNEFARM_INVALID_ARGUMENT, "%s has no argument %zu; it has %zu.", loaded.name(), index,
                loaded.argument_count());
  }
  const tunefarm::package::BufferRecord& buffer = loaded.argument(index);
  argument->name = loaded.package().String(buffer.name);
  argument->data_type = tunefarm::driver_step::NameOf(buffer.data_type);
  argument->access = static_cast<tunefarm_access>(buffer.access);
  return Succeed(error);
}

tunefarm_status tunefarm_kernel_plan(const tunefarm_kernel* kernel, const int64_t* dims, size_t dim_count,
                                     tunefarm_plan* plan, tunefarm_error* error) {
  if (kernel == nullptr) return Missing(error, "kernel");
  if (plan == nullptr) return Missing(error, "plan");
  if (plan->size < sizeof(*plan)) {
    return Fail(error, TUNEFARM_INVALID_ARGUMENT,
                "The tunefarm_plan says that it has %zu bytes; initialise it with TUNEFARM_PLAN_INIT.", plan->size);
  }
  plan->generation = 0;
  const Kernel& loaded = kernel->kernel.newest();
  tunefarm_status status = CheckDimCount(loaded, dims, dim_count, error);
  if (status != TUNEFARM_OK) return status;
  Selection selection;
  status = tunefarm::launch::Select(loaded, dims, &selection, error);
  if (status != TUNEFARM_OK) return status;
  const tunefarm::launch::LoadedChoice& choice = *selection.choice;
  plan->generation = choice.generation;
  plan->workspace_bytes = selection.workspace_bytes;
  plan->needs_prepare = choice.needs_prepare() ? 1 : 0;
  plan->match = selection.match;
  plan->distance = selection.distance;
  plan->median_ns = choice.record->median_ns;
  plan->config = choice.config.c_str();
  return Succeed(error);
}

tunefarm_status tunefarm_kernel_argument_length(const tunefarm_kernel* kernel, size_t index, const int64_t* dims,
                                                size_t dim_count, uint64_t* length, tunefarm_error* error) {
  if (kernel == nullptr) return Missing(error, "kernel");
  if (length == nullptr) return Missing(error, "length");
  *length = 0;
  const Kernel& loaded = kernel->kernel.newest();
  if (index >= loaded.argument_count()) {
    return Fail(error, TUNEFARM_INVALID_ARGUMENT, "%s has no argument %zu; it has %zu.", loaded.name(), index,
                loaded.argument_count());
  }
  tunefarm_status status = CheckDimCount(loaded, dims, dim_count, error);
  if (status != TUNEFARM_OK) return status;
  Selection selection;
  status = tunefarm::launch::Select(loaded, dims, &selection, error);
  if (status != TUNEFARM_OK) return status;
  *length = selection.lengths[index];
  return Succeed(error);
}

tunefarm_status tunefarm_kernel_prepare(const tunefarm_kernel* kernel, const tunefarm_launch* launch,
                                        tunefarm_error* error) {
  if (kernel == nullptr) return Missing(error, "kernel");
  if (launch == nullptr) return Missing(error, "launch");
  const tunefarm_status status = tunefarm::launch::Prepare(kernel->kernel.ForLaunch(*launch), *launch, error);
  return status == TUNEFARM_OK ? Succeed(error) : status;
}

tunefarm_status tunefarm_kernel_launch(const tunefarm_kernel* kernel, const tunefarm_launch* launch,
                                       tunefarm_error* error) {
  if (kernel == nullptr) return Missing(error, "kernel");
  if (launch == nullptr) return Missing(error, "launch");
  const tunefarm_status status = tunefarm::launch::Launch(kernel->kernel.ForLaunch(*launch), *launch, error);
  return status == TUNEFARM_OK ? Succeed(error) : status;
}
