// StudyLoader: makes the studies of one job from what is stored: before they begin, and with their history.
//
// Thread-safe, and holds no lock: to read a long history and to list a space may take as long as the limit allows that
// each of these functions is given: one that NewLimit made and that the calling thread has begun.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "server/base/work_limit.h"
#include "server/catalog/catalog.h"
#include "server/device/device_class.h"
#include "server/jobs/study.h"
#include "server/records/kernel_registry.h"
#include "server/store/job_store.h"
#include "server/store/store.h"
#include "tunefarm/v1/job.pb.h"

namespace tunefarm {

class StudyLoader {
 public:
  // All outlive the loader.
  struct Tools {
    Store* store = nullptr;
    KernelRegistry* kernels = nullptr;
    const Catalog* catalog = nullptr;
  };

  // Reads the job's request and its device classes. DataLoss, or the store's errors. Once `is_given_up` is true, all
  // work under the limits of this loader ends.
  static absl::StatusOr<std::shared_ptr<const StudyLoader>> Create(
      const Tools& tools, const JobRow& row, std::shared_ptr<const std::atomic<bool>> is_given_up);

  const tunefarm::v1::Job& spec() const { return spec_; }

  std::shared_ptr<WorkLimit> NewLimit() const;

  // With its history, if it has begun. DataLoss, or the errors of the store, of spaces and of strategies.
  absl::StatusOr<std::unique_ptr<Study>> Load(const StudyRow& row, std::shared_ptr<WorkLimit> limit) const;
  // The same from what is stored now. DataLoss as well where the study is not stored any more.
  absl::StatusOr<std::unique_ptr<Study>> LoadAgain(int64_t study_id, std::shared_ptr<WorkLimit> limit) const;
  // One that begins now, with what is known of others by now. The store's, the space's and the strategy's errors.
  absl::StatusOr<std::unique_ptr<Study>> Begin(StudyContext context, std::shared_ptr<WorkLimit> limit) const;

 private:
  StudyLoader(const Tools& tools, const JobRow& row, std::shared_ptr<const std::atomic<bool>> is_given_up)
      : tools_(tools), job_id_(row.job_id), kernel_id_(row.kernel_id), is_given_up_(std::move(is_given_up)) {}
  absl::StatusOr<StudyContext> ContextOf(const StudyRow& row) const;

  const Tools tools_;
  const int64_t job_id_;
  const std::string kernel_id_;
  const std::shared_ptr<const std::atomic<bool>> is_given_up_;
  tunefarm::v1::Job spec_;
  std::map<std::string, DeviceClass> classes_;  // of the job's studies, by class id
};

}  // namespace tunefarm
