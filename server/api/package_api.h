// PackageApi: the call of PackageService. Best configs are compiled and written as one file.
//
// Thread-safe. ExportPackage takes as long as compiling does, up to half an hour.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "server/api/kernel_api.h"
#include "server/base/clock.h"
#include "server/catalog/catalog.h"
#include "server/farm/device_directory.h"
#include "server/records/kernel_registry.h"
#include "tunefarm/v1/package_service.pb.h"

namespace tunefarm {

struct MadePackage {
  v1::PackageContents contents;  // without a file: what was left out
  absl::StatusOr<std::string> file;
};

class PackageApi {
 public:
  // All outlive it. An empty `compile_configs`: there are no compile workers.
  PackageApi(KernelRegistry* kernels, const DeviceDirectory* devices, const Catalog* catalog, Clock* clock,
             CompileConfigs compile_configs)
      : kernels_(kernels),
        devices_(devices),
        catalog_(catalog),
        clock_(clock),
        compile_configs_(std::move(compile_configs)) {}

  // The errors of package_service.proto, those of definitions, and NotFound (KERNEL_NOT_FOUND). Cancelled once
  // `is_cancelled` says so, when what is being compiled has ended. It is asked on several threads at once.
  MadePackage ExportPackage(const v1::ExportPackageRequest& request, const std::function<bool()>& is_cancelled);

 private:
  KernelRegistry* const kernels_;
  const DeviceDirectory* const devices_;
  const Catalog* const catalog_;
  Clock* const clock_;
  const CompileConfigs compile_configs_;
};

}  // namespace tunefarm
