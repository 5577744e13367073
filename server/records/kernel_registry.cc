#include "server/records/kernel_registry.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "server/base/edit_distance.h"
#include "server/base/log.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/records/resource_names.h"

namespace tunefarm {
namespace {

constexpr std::string_view kPrefix = "kernels/";

}  // namespace

absl::StatusOr<tunefarm::v1::Kernel> KernelRegistry::KernelOf(const KernelRow& row) {
  tunefarm::v1::Kernel kernel;
  if (!kernel.ParseFromString(row.definition))
    return DataLoss("the stored definition of kernel {} cannot be read", row.kernel_id);
  kernel.set_name(KernelName(row.kernel_id));
  kernel.set_program_digest(row.program_digest);
  return kernel;
}

KernelRow KernelRegistry::RowOf(const KernelPlan& plan, int64_t now_ms) {
  return {plan.kernel_id(), plan.program_digest(), plan.display_name(), plan.kernel().SerializeAsString(), now_ms, ""};
}

std::shared_ptr<const KernelPlan> KernelRegistry::Cached(Slots* slots, std::string_view key) {
  const auto found = slots->find(key);
  if (found == slots->end()) return nullptr;
  found->second.used = ++uses_;
  return found->second.plan;
}

void KernelRegistry::Keep(Slots* slots, const std::string& key, std::shared_ptr<const KernelPlan> plan) {
  if (slots->size() >= kPlansMax && slots->count(key) == 0) {
    slots->erase(std::min_element(slots->begin(), slots->end(),
                                  [](const auto& a, const auto& b) { return a.second.used < b.second.used; }));
  }
  (*slots)[key] = {std::move(plan), ++uses_};
}

absl::StatusOr<std::shared_ptr<const KernelPlan>> KernelRegistry::Compile(const KernelRow& row) {
  {
    MutexLock lock(&mutex_);
    if (auto plan = Cached(&by_id_, row.kernel_id)) return plan;
  }
  ASSIGN_OR_RETURN(const tunefarm::v1::Kernel kernel, KernelOf(row));
  ASSIGN_OR_RETURN(std::shared_ptr<const KernelPlan> plan, KernelPlan::Compile(kernel));
  MutexLock lock(&mutex_);
  Keep(&by_id_, row.kernel_id, plan);
  return plan;
}

absl::Status KernelRegistry::UnknownKernel(std::string_view name) {
  std::vector<std::string> names;
  if (const auto page = store_->kernels()->ListKernels({1000, ""}); page.ok()) {
    for (const KernelRow& row : page->rows) names.push_back(row.display_name);
  }
  const auto closest = ClosestMatch(name, names);
  // Which kernels are built in is known to the command line alone.
  return WithReason(
      NotFound("there is no kernel '{}' in the daemon; {}", name.substr(0, 256),
               closest.has_value() ? fmt::format("did you mean '{}'?", *closest)
                                   : "it stores a kernel, a built-in one too, when it is tuned (tunefarm tune "
                                     "KERNEL); tunefarm kernels list shows those there are"),
      "KERNEL_NOT_FOUND");
}

absl::StatusOr<std::shared_ptr<const KernelPlan>> KernelRegistry::GetById(std::string_view kernel_id) {
  {
    MutexLock lock(&mutex_);
    if (auto plan = Cached(&by_id_, kernel_id)) return plan;
  }
  const auto row = store_->kernels()->GetKernel(kernel_id);
  if (ReasonOf(row.status()) == "KERNEL_DELETED") return row.status();
  if (row.status().code() == absl::StatusCode::kNotFound) return UnknownKernel(KernelName(kernel_id));
  RETURN_IF_ERROR(row.status());
  return Compile(*row);
}

absl::StatusOr<std::shared_ptr<const KernelPlan>> KernelRegistry::FindProgram(std::string_view display_name,
                                                                              std::string_view program_digest) {
  const std::string key = fmt::format("{} {}", display_name, program_digest);
  uint64_t generation;
  {
    MutexLock lock(&mutex_);
    if (auto plan = Cached(&by_program_, key)) return plan;
    generation = generation_;
  }
  const auto row = store_->kernels()->FindProgram(display_name, program_digest);
  if (row.status().code() == absl::StatusCode::kNotFound) return nullptr;
  RETURN_IF_ERROR(row.status());
  ASSIGN_OR_RETURN(std::shared_ptr<const KernelPlan> plan, Compile(*row));
  MutexLock lock(&mutex_);
  if (generation == generation_) Keep(&by_program_, key, plan);
  return plan;
}

absl::StatusOr<std::shared_ptr<const KernelPlan>> KernelRegistry::Get(std::string_view name) {
  if (name.empty()) return WithReason(InvalidArgument("no kernel is named"), "KERNEL_NOT_FOUND");
  if (name.substr(0, kPrefix.size()) == kPrefix) return GetById(name.substr(kPrefix.size()));
  uint64_t generation;
  {
    MutexLock lock(&mutex_);
    if (auto plan = Cached(&by_name_, name)) return plan;
    generation = generation_;
  }
  const auto row = store_->kernels()->FindKernel(name);
  if (row.status().code() == absl::StatusCode::kNotFound) return UnknownKernel(name);
  RETURN_IF_ERROR(row.status());
  ASSIGN_OR_RETURN(std::shared_ptr<const KernelPlan> plan, Compile(*row));
  MutexLock lock(&mutex_);
  // A newer definition may have been stored since the row was read.
  if (generation == generation_) Keep(&by_name_, std::string(name), plan);
  return plan;
}

bool KernelRegistry::IsCached(std::string_view name, std::string_view program_digest) {
  MutexLock lock(&mutex_);
  const bool is_id = name.substr(0, kPrefix.size()) == kPrefix;
  const auto plan = is_id ? Cached(&by_id_, name.substr(kPrefix.size())) : Cached(&by_name_, name);
  if (plan == nullptr) return false;
  if (program_digest.empty() || program_digest == plan->program_digest()) return true;
  return Cached(&by_program_, fmt::format("{} {}", plan->display_name(), program_digest)) != nullptr;
}

absl::Status KernelRegistry::FollowName(const std::string& name) {
  uint64_t generation;
  {
    MutexLock lock(&mutex_);
    generation = generation_;
  }
  const auto row = store_->kernels()->FindKernel(name);
  if (absl::IsNotFound(row.status())) {
    MutexLock lock(&mutex_);
    if (const auto gone = by_name_.find(name); gone != by_name_.end()) by_name_.erase(gone);
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(row.status());
  absl::StatusOr<std::shared_ptr<const KernelPlan>> plan = Compile(*row);
  if (!plan.ok()) {
    // Perhaps of a newer program than this one.
    LogWarn("jobs", "the newest kernel {} cannot be used here: {}", name, MessageOf(plan.status()));
    return absl::OkStatus();
  }
  MutexLock lock(&mutex_);
  if (generation == generation_) Keep(&by_name_, name, *std::move(plan));
  return absl::OkStatus();
}

absl::Status KernelRegistry::FollowNames(int names_max) {
  std::vector<std::string> names;
  {
    MutexLock lock(&mutex_);
    auto next = by_name_.upper_bound(followed_);
    for (size_t i = 0; i < by_name_.size() && static_cast<int>(names.size()) < names_max; ++i) {
      if (next == by_name_.end()) next = by_name_.begin();
      names.push_back(next->first);
      ++next;
    }
    if (!names.empty()) followed_ = names.back();
  }
  for (const std::string& name : names) RETURN_IF_ERROR(FollowName(name));
  return absl::OkStatus();
}

std::vector<std::shared_ptr<const KernelPlan>> KernelRegistry::Named() {
  MutexLock lock(&mutex_);
  std::vector<std::shared_ptr<const KernelPlan>> plans;
  for (const auto& [name, slot] : by_name_) plans.push_back(slot.plan);
  return plans;
}

void KernelRegistry::Restore(const std::shared_ptr<const KernelPlan>& plan) {
  MutexLock lock(&mutex_);
  Keep(&by_id_, plan->kernel_id(), plan);
  Keep(&by_name_, plan->display_name(), plan);
}

void KernelRegistry::Stored(const std::shared_ptr<const KernelPlan>& plan) {
  MutexLock lock(&mutex_);
  ++generation_;
  Keep(&by_id_, plan->kernel_id(), plan);
  // Not necessarily this one: another daemon may have stored one since.
  by_name_.erase(plan->display_name());
  by_program_.erase(fmt::format("{} {}", plan->display_name(), plan->program_digest()));
}

void KernelRegistry::Deleted(std::string_view kernel_id) {
  MutexLock lock(&mutex_);
  ++generation_;
  for (Slots* const slots : {&by_id_, &by_name_, &by_program_}) {
    std::erase_if(*slots, [&](const auto& slot) { return slot.second.plan->kernel_id() == kernel_id; });
  }
}

tunefarm::v1::Kernel WithoutSources(tunefarm::v1::Kernel kernel) {
  for (auto& source : *kernel.mutable_sources()) source.clear_content();
  return kernel;
}

}  // namespace tunefarm
