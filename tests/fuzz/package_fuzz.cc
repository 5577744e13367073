// Fuzz target of the reader of packages: whatever the bytes, a package is refused with a sentence, or all of it can be
// read, its kernels load or say why not, and plans can be made.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "client/launch/include/tunefarm/launch.h"
#include "client/launch/package.h"
#include "tests/unit/launch/read_all.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto require = [](bool condition) {
    if (!condition) std::abort();
  };
  tunefarm_error error = TUNEFARM_ERROR_INIT;
  const auto require_status = [&](tunefarm_status status, bool has_result) {
    require((status == TUNEFARM_OK) == has_result && (status == TUNEFARM_OK) == (error.message[0] == '\0'));
    require(std::memchr(error.message, '\0', sizeof(error.message)) != nullptr);
  };
  std::shared_ptr<const tunefarm::launch::Package> checked;
  const tunefarm_status refused = tunefarm::launch::Package::Copy(data, size, &checked, &error);
  tunefarm_package* package = nullptr;
  const tunefarm_status opened = tunefarm_package_open_bytes(data, size, &package, &error);
  require_status(opened, package != nullptr);
  require(refused == opened);
  if (package == nullptr) return 0;
  tunefarm::launch::ReadAll(*checked);
  for (size_t i = 0; i < tunefarm_package_kernel_count(package); ++i) {
    tunefarm_kernel* kernel = nullptr;
    const char* const name = tunefarm_package_kernel_name(package, i);
    const tunefarm_status loaded = tunefarm_kernel_load(package, name, nullptr, 0, nullptr, &kernel, &error);
    require_status(loaded, kernel != nullptr);
    if (kernel == nullptr) continue;
    for (const int64_t value : {1, 64, 1000, 1024, 4096}) {
      const std::vector<int64_t> dims(tunefarm_kernel_dim_count(kernel), value);
      tunefarm_plan plan = TUNEFARM_PLAN_INIT;
      const tunefarm_status planned = tunefarm_kernel_plan(kernel, dims.data(), dims.size(), &plan, &error);
      require_status(planned, plan.generation != 0);
      for (size_t j = 0; j < tunefarm_kernel_argument_count(kernel); ++j) {
        tunefarm_argument argument = TUNEFARM_ARGUMENT_INIT;
        require(tunefarm_kernel_argument(kernel, j, &argument, &error) == TUNEFARM_OK && argument.name != nullptr);
        uint64_t length = 0;
        const tunefarm_status found =
            tunefarm_kernel_argument_length(kernel, j, dims.data(), dims.size(), &length, &error);
        require_status(found, length > 0);
      }
    }
    tunefarm_kernel_close(kernel);
  }
  tunefarm_package_close(package);
  return 0;
}
