#include "server/agent/plan_cache.h"

#include <algorithm>

#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm {

absl::StatusOr<std::shared_ptr<const KernelPlan>> PlanCache::Get(const std::string& kernel_id) {
  const auto found = plans_.find(kernel_id);
  if (found != plans_.end()) {
    found->second.used = ++uses_;
    return found->second.plan;
  }
  tunefarm::agent::v1::FetchKernelRequest request;
  request.set_kernel_id(kernel_id);
  ASSIGN_OR_RETURN(const tunefarm::agent::v1::FetchKernelResponse response, link_->FetchKernel(request));
  tunefarm::v1::Kernel kernel;
  if (!kernel.ParseFromString(response.kernel()))
    return Internal("{} arrived as something else than a kernel", kernel_id);
  const auto compiled = KernelPlan::Compile(kernel);
  if (!compiled.ok())
    return Internal("{} does not compile to a plan here: {}", kernel_id, MessageOf(compiled.status()));
  if (plans_.size() >= kPlansMax) {
    plans_.erase(std::min_element(plans_.begin(), plans_.end(),
                                  [](const auto& a, const auto& b) { return a.second.used < b.second.used; }));
  }
  plans_[kernel_id] = {*compiled, ++uses_};
  return *compiled;
}

}  // namespace tunefarm
