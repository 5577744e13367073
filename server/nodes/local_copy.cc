#include "server/nodes/local_copy.h"

#include <fmt/core.h>

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "server/base/file.h"
#include "server/base/hash.h"
#include "server/base/log.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/best_store.h"

namespace tunefarm {

using tunefarm::jobs::v1::LocalBest;
using tunefarm::jobs::v1::LocalCopy;

namespace {

constexpr uint64_t kBytesMax = uint64_t{1} << 30;

// The first line: the format and the checksum of what follows.
std::string HeadOf(std::string_view body) { return fmt::format("tunefarm local copy 1 {:016x}\n", Xxh3(body)); }

}  // namespace

LocalCopy MakeLocalCopy(const Catalog& catalog, KernelRegistry* kernels) {
  LocalCopy copy;
  copy.set_revision(catalog.revision());
  for (const auto& entry : catalog.Entries()) {
    LocalBest* const best = copy.add_bests();
    best->set_kernel_name(std::string(entry->kernel_name));
    best->set_program_digest(std::string(entry->program_digest));
    best->set_problem_key(std::string(entry->problem_key));
    best->set_class_id(std::string(entry->class_id));
    best->set_config(std::string(entry->config));
    *best->mutable_best() = *entry->best;
  }
  for (const auto& [class_id, device_class] : catalog.Classes()) {
    tunefarm::v1::DeviceClass* const one = copy.add_classes();
    *one = device_class->ToProto();
    one->set_id(class_id);
  }
  for (const auto& plan : kernels->Named()) *copy.add_kernels() = plan->kernel();
  return copy;
}

absl::Status RestoreLocalCopy(const LocalCopy& copy, Catalog* catalog, KernelRegistry* kernels) {
  CatalogContents contents;
  contents.revision = copy.revision();
  for (const tunefarm::v1::DeviceClass& one : copy.classes()) {
    contents.classes.push_back({one.id(), one.display_name(), one.SerializeAsString()});
  }
  for (const LocalBest& best : copy.bests()) {
    BestRow row;
    row.kernel_name = best.kernel_name();
    row.program_digest = best.program_digest();
    row.problem_key = best.problem_key();
    row.class_id = best.class_id();
    row.config = best.config();
    row.detail = best.best().SerializeAsString();
    row.revision = best.best().revision();
    row.pinned = best.best().pinned();
    row.note = best.best().note();
    contents.bests.push_back(std::move(row));
  }
  RETURN_IF_ERROR(catalog->Load(contents));
  for (const tunefarm::v1::Kernel& kernel : copy.kernels()) {
    const auto plan = KernelPlan::Compile(kernel);
    if (plan.ok()) {
      kernels->Restore(*plan);
    } else {
      LogWarn("jobs", "kernel {} of the local copy cannot be used: {}", kernel.display_name(),
              MessageOf(plan.status()));
    }
  }
  return absl::OkStatus();
}

absl::Status WriteLocalCopy(const std::string& path, const LocalCopy& copy) {
  if (copy.ByteSizeLong() > kBytesMax) {
    return ResourceExhausted("the catalog has {} bytes, and at most {} are kept in a local copy", copy.ByteSizeLong(),
                             kBytesMax);
  }
  const std::string body = copy.SerializeAsString();
  return WriteFileAtomically(path, HeadOf(body) + body, 0600);
}

absl::StatusOr<LocalCopy> ReadLocalCopy(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path, kBytesMax + 4096));
  const size_t end = bytes.find('\n');
  const std::string_view body = end == std::string::npos ? std::string_view() : std::string_view(bytes).substr(end + 1);
  LocalCopy copy;
  if (end == std::string::npos || bytes.substr(0, end + 1) != HeadOf(body) ||
      !copy.ParseFromArray(body.data(), static_cast<int>(body.size()))) {
    return DataLoss("{} is damaged, or not a copy that this program made", path);
  }
  return copy;
}

}  // namespace tunefarm
