#include "server/exec/worker_request.h"

#include <string_view>
#include <utility>

#include "server/base/memfd.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/exec/frame_limits.h"

namespace tunefarm {
namespace {

absl::Status Attach(std::string_view name, std::string_view bytes, uint64_t bytes_max, WorkerRequest* request) {
  if (bytes.size() > bytes_max)
    return ResourceExhausted("the {} has {} bytes, the limit is {}", name, bytes.size(), bytes_max);
  ASSIGN_OR_RETURN(UniqueFd memfd, CreateSealedMemfd(name, bytes));
  request->fds.push_back(memfd.get());
  request->owned.push_back(std::move(memfd));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<WorkerRequest> PrepareRequest(const WorkerPreparation& preparation, const SharedMemfd* expected) {
  WorkerRequest request;
  tunefarm::worker::v1::Prepare* prepare = request.frame.mutable_prepare();
  RETURN_IF_ERROR(Attach("kernel", preparation.plan->kernel().SerializeAsString(), kKernelBytesMax, &request));
  prepare->set_kernel_fd_index(0);
  *prepare->mutable_problem() = preparation.problem;
  *prepare->mutable_device_class() = preparation.device_class;
  prepare->set_input_seed(preparation.input_seed);
  if (preparation.reference_artifact != nullptr) {
    const Artifact& reference = *preparation.reference_artifact;
    RETURN_IF_ERROR(Attach("reference binary", reference.bytes, kArtifactBytesMax, &request));
    prepare->set_has_reference_artifact(true);
    prepare->mutable_reference_lowered_names()->insert(reference.lowered_names.begin(), reference.lowered_names.end());
  }
  for (const std::string& option : preparation.compile_options) prepare->add_compile_options(option);
  if (expected != nullptr) {
    prepare->set_has_expected_outputs(true);
    request.fds.push_back(expected->fd.get());
  }
  return request;
}

absl::StatusOr<WorkerRequest> EvaluateRequest(const WorkerTask& task, uint64_t evaluation_id, SentBinary* sent) {
  WorkerRequest request;
  tunefarm::worker::v1::Evaluate* evaluate = request.frame.mutable_evaluate();
  *evaluate = task.evaluate;
  evaluate->set_evaluation_id(evaluation_id);
  if (task.artifact == nullptr) return request;
  if (sent->artifact != task.artifact) {
    WorkerRequest attached;
    RETURN_IF_ERROR(Attach("binary", task.artifact->bytes, kArtifactBytesMax, &attached));
    *sent = {task.artifact, std::move(attached.owned.back())};
  }
  request.fds.push_back(sent->memfd.get());
  evaluate->set_has_artifact(true);
  evaluate->mutable_lowered_names()->insert(task.artifact->lowered_names.begin(), task.artifact->lowered_names.end());
  return request;
}

}  // namespace tunefarm
