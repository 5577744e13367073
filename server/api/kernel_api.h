// KernelApi: the calls of KernelService. Kernels are stored and shown, and their search spaces counted.
//
// Thread-safe. CreateKernel and CountSpace may take seconds; CreateKernel returns when the kernel is durable.
#pragma once

#include "absl/status/statusor.h"
#include "server/base/clock.h"
#include "server/base/work_limit.h"
#include "server/farm/device_directory.h"
#include "server/records/kernel_registry.h"
#include "server/store/store.h"
#include "tunefarm/v1/kernel_service.pb.h"

namespace tunefarm {

class KernelApi {
 public:
  // All outlive it.
  KernelApi(Store* store, KernelRegistry* kernels, const DeviceDirectory* devices, Clock* clock)
      : store_(store), kernels_(kernels), devices_(devices), clock_(clock) {}

  // Answers without source contents. InvalidArgument with the definition's errors; Unavailable when the store cannot be
  // written (nothing was changed, repeat the call).
  absl::StatusOr<v1::CreateKernelResponse> CreateKernel(const v1::CreateKernelRequest& request);
  // By "kernels/{id}" or display name (the newest). NotFound (KERNEL_NOT_FOUND); the store's errors.
  absl::StatusOr<v1::GetKernelResponse> GetKernel(const v1::GetKernelRequest& request);
  // Without source contents. InvalidArgument (PAGE_SIZE_INVALID, PAGE_TOKEN_INVALID); the store's errors.
  absl::StatusOr<v1::ListKernelsResponse> ListKernels(const v1::ListKernelsRequest& request);
  // InvalidArgument for a request without a kernel or with two, and with the errors of the definition and the problem;
  // NotFound (KERNEL_NOT_FOUND), and the errors of DeviceDirectory::Resolve; Cancelled and ResourceExhausted
  // (WORK_LIMIT) as `grant` says.
  absl::StatusOr<v1::CountSpaceResponse> CountSpace(const v1::CountSpaceRequest& request, const WorkGrant& grant = {});

 private:
  Store* const store_;
  KernelRegistry* const kernels_;
  const DeviceDirectory* const devices_;
  Clock* const clock_;
};

}  // namespace tunefarm
