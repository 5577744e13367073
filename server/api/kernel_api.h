// KernelApi: the calls of KernelService. Kernels are stored and shown, their search spaces counted, and some of their
// configs compiled.
//
// Thread-safe. CreateKernel and CountSpace may take seconds, CompileKernel minutes; CreateKernel returns when the
// kernel is durable.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "server/access/principal.h"
#include "server/base/clock.h"
#include "server/base/work_limit.h"
#include "server/data_files/data_file_store.h"
#include "server/definition/kernel_plan.h"
#include "server/farm/device_directory.h"
#include "server/records/kernel_registry.h"
#include "server/store/kernel_store.h"
#include "server/store/store.h"
#include "tunefarm/v1/kernel_service.pb.h"
#include "tunefarm/v1/trial.pb.h"

namespace tunefarm {

// What each certificate and each token may have stored, and the local sockets together; 0: no limit.
struct KernelQuota {
  int64_t kernels_max = 0;
  int64_t bytes_max = 0;  // of definitions with their sources
};

// Whom a kernel belongs to that the principal submits: its name; empty for the local sockets.
std::string KernelOwner(const Principal& principal);
// The row that stores a plan for its owner.
KernelRow OwnedKernel(const KernelPlan& plan, const std::string& owner, const KernelQuota& quota, int64_t now_ms);

// What CompileKernel and ExportPackage ask of the daemon's compile workers.
struct CompileOrder {
  std::shared_ptr<const KernelPlan> plan;
  std::shared_ptr<const ResolvedProblem> problem;
  DeviceClass device_class;
  std::vector<Config> configs;
  bool ptx = false;  // instead of what runs; CUDA only
  // Binaries come with the results while they have no more than this together; 0: none does.
  uint64_t binaries_bytes_max = 0;
  // Asked again and again while compile workers are waited for: an error ends the order with it. Null: the order ends
  // after 100 s.
  std::function<absl::Status()> check_wanted = nullptr;
};
struct CompiledConfig {
  v1::Outcome outcome = v1::OUTCOME_LOST;
  std::string message;
  std::string log;
  v1::ResourceUse resources;
  std::string binary_digest;  // empty: there is no binary
  uint64_t binary_bytes = 0;
  std::string binary;  // see CompileOrder::binaries_bytes_max; empty where it is one too many
  std::map<std::string, std::string> lowered_names;
  std::vector<std::string> compile_options;
  std::string toolchain;
};
// In the order of the configs; blocks. Any thread.
using CompileConfigs = std::function<absl::StatusOr<std::vector<CompiledConfig>>(const CompileOrder& order)>;

class KernelApi {
 public:
  // All outlive it. `data_files` may be null.
  KernelApi(Store* store, KernelRegistry* kernels, const DeviceDirectory* devices, const KernelQuota& quota,
            Clock* clock, CompileConfigs compile_configs, DataFileStore* data_files = nullptr)
      : store_(store),
        kernels_(kernels),
        devices_(devices),
        quota_(quota),
        clock_(clock),
        compile_configs_(std::move(compile_configs)),
        data_files_(data_files) {}

  // Answers without source contents. InvalidArgument with the definition's errors; ResourceExhausted (KERNEL_QUOTA);
  // unless it only validates, the errors of CheckDataFiles; Unavailable when the store cannot be written (nothing was
  // changed, repeat the call).
  absl::StatusOr<v1::CreateKernelResponse> CreateKernel(const Principal& principal,
                                                        const v1::CreateKernelRequest& request);
  // Answers when it is durable. InvalidArgument (NAME_INVALID), NotFound (KERNEL_NOT_FOUND), PermissionDenied
  // (KERNEL_OWNER), FailedPrecondition (KERNEL_IN_USE); the store's errors.
  absl::StatusOr<v1::DeleteKernelResponse> DeleteKernel(const Principal& principal,
                                                        const v1::DeleteKernelRequest& request);
  // By "kernels/{id}" or display name (the newest). NotFound (KERNEL_NOT_FOUND); the store's errors.
  absl::StatusOr<v1::GetKernelResponse> GetKernel(const v1::GetKernelRequest& request);
  // Without source contents. InvalidArgument (PAGE_SIZE_INVALID, PAGE_TOKEN_INVALID); the store's errors.
  absl::StatusOr<v1::ListKernelsResponse> ListKernels(const v1::ListKernelsRequest& request);
  // InvalidArgument for a request without a kernel or with two, and with the errors of the definition and the problem;
  // NotFound (KERNEL_NOT_FOUND), and the errors of DeviceDirectory::Resolve; Cancelled and ResourceExhausted
  // (WORK_LIMIT) as `grant` says.
  absl::StatusOr<v1::CountSpaceResponse> CountSpace(const v1::CountSpaceRequest& request, const WorkGrant& grant = {});
  // As CountSpace; FailedPrecondition (NO_COMPILER) without compile workers, ResourceExhausted (TOO_MANY_COMPILES)
  // while kCompileCallsMax other calls compile, InvalidArgument (CONFIGS_MAX_INVALID, CONFIG_INVALID,
  // BINARY_FORMAT_INVALID), ResourceExhausted (BINARIES_TOO_LARGE).
  absl::StatusOr<v1::CompileKernelResponse> CompileKernel(const v1::CompileKernelRequest& request,
                                                          const WorkGrant& grant = {});

 private:
  Store* const store_;
  KernelRegistry* const kernels_;
  const DeviceDirectory* const devices_;
  const KernelQuota quota_;
  Clock* const clock_;
  const CompileConfigs compile_configs_;
  DataFileStore* const data_files_;
  std::atomic<int> compile_calls_{0};
};

}  // namespace tunefarm
