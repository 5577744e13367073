#include "server/api/kernel_api.h"

#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/definition/kernel_plan.h"
#include "server/definition/space_size.h"
#include "server/records/resource_names.h"
#include "server/space/space.h"
#include "server/space/space_limit.h"
#include "server/store/kernel_store.h"

namespace tunefarm {

std::string KernelOwner(const Principal& principal) {
  return principal.kind == PrincipalKind::kSocket ? "" : principal.name;
}

KernelRow OwnedKernel(const KernelPlan& plan, const std::string& owner, const KernelQuota& quota, int64_t now_ms) {
  KernelRow row = KernelRegistry::RowOf(plan, now_ms);
  row.owner = owner;
  row.owner_kernels_max = quota.kernels_max;
  row.owner_bytes_max = quota.bytes_max;
  return row;
}

absl::StatusOr<v1::CreateKernelResponse> KernelApi::CreateKernel(const Principal& principal,
                                                                 const v1::CreateKernelRequest& request) {
  ASSIGN_OR_RETURN(const auto plan, KernelPlan::Compile(request.kernel()));
  v1::CreateKernelResponse response;
  *response.mutable_kernel() = WithoutSources(plan->kernel());
  response.mutable_kernel()->set_name(KernelName(plan->kernel_id()));
  if (request.validate_only()) return response;
  RETURN_IF_ERROR(store_->kernels()->PutKernel(OwnedKernel(*plan, KernelOwner(principal), quota_, clock_->WallMs())));
  kernels_->Stored(plan);
  return response;
}

absl::StatusOr<v1::DeleteKernelResponse> KernelApi::DeleteKernel(const Principal& principal,
                                                                 const v1::DeleteKernelRequest& request) {
  constexpr std::string_view kPrefix = "kernels/";
  const std::string_view name = request.name();
  if (name.substr(0, kPrefix.size()) != kPrefix || name.size() == kPrefix.size()) {
    return WithReason(
        InvalidArgument("'{}' does not name one stored definition; write kernels/ID", name.substr(0, 256)),
        "NAME_INVALID");
  }
  const std::string_view kernel_id = name.substr(kPrefix.size());
  const std::optional<std::string> owner =
      principal.Has(Right::kAdmin) ? std::nullopt : std::make_optional(KernelOwner(principal));
  const absl::Status deleted = store_->kernels()->DeleteKernel(kernel_id, owner, clock_->WallMs());
  if (absl::IsNotFound(deleted)) {
    return WithReason(NotFound("there is no kernel '{}'; it may have been deleted", name.substr(0, 256)),
                      "KERNEL_NOT_FOUND");
  }
  RETURN_IF_ERROR(deleted);
  kernels_->Deleted(kernel_id);
  return v1::DeleteKernelResponse();
}

absl::StatusOr<v1::GetKernelResponse> KernelApi::GetKernel(const v1::GetKernelRequest& request) {
  ASSIGN_OR_RETURN(const auto plan, kernels_->Get(request.name()));
  v1::GetKernelResponse response;
  *response.mutable_kernel() = request.include_sources() ? plan->kernel() : WithoutSources(plan->kernel());
  response.mutable_kernel()->set_name(KernelName(plan->kernel_id()));
  return response;
}

absl::StatusOr<v1::ListKernelsResponse> KernelApi::ListKernels(const v1::ListKernelsRequest& request) {
  ASSIGN_OR_RETURN(const int size, PageSize(request.page_size()));
  ASSIGN_OR_RETURN(const Page<KernelRow> page, store_->kernels()->ListKernels({size, request.page_token()}));
  v1::ListKernelsResponse response;
  for (const KernelRow& row : page.rows) {
    ASSIGN_OR_RETURN(v1::Kernel kernel, KernelRegistry::KernelOf(row));
    *response.add_kernels() = WithoutSources(std::move(kernel));
  }
  response.set_next_page_token(page.next_page_token);
  return response;
}

absl::StatusOr<v1::CountSpaceResponse> KernelApi::CountSpace(const v1::CountSpaceRequest& request,
                                                             const WorkGrant& grant) {
  if (request.has_kernel() == !request.name().empty()) {
    return WithReason(InvalidArgument("give either the name of a stored kernel or a definition"), "KERNEL_NOT_FOUND");
  }
  std::shared_ptr<const KernelPlan> plan;
  if (request.has_kernel()) {
    ASSIGN_OR_RETURN(plan, KernelPlan::Compile(request.kernel()));
  } else {
    ASSIGN_OR_RETURN(plan, kernels_->Get(request.name()));
  }
  ASSIGN_OR_RETURN(const SelectedDevice device, devices_->Resolve(request.device_selector(), *plan, true));
  ASSIGN_OR_RETURN(const ResolvedProblem problem, plan->ResolveProblem(request.problem()));
  ASSIGN_OR_RETURN(const Space space, plan->BuildSpace(problem, device.device_class,
                                                       {.limit = MakeSpaceLimit(plan->display_name(), grant)}));
  v1::CountSpaceResponse response;
  ASSIGN_OR_RETURN(*response.mutable_space(), SizeOfSpace(space));
  response.set_device_class_name(device.device_class.display_name);
  return response;
}

}  // namespace tunefarm
