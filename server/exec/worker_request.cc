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

absl::Status AddDerivedValues(const KernelPlan& plan, const ResolvedProblem& problem, const Config& config,
                              const DeviceClass& device, tunefarm::worker::v1::Evaluate* evaluate) {
  if (!NeedsInterpreter(plan.language())) return absl::OkStatus();
  ASSIGN_OR_RETURN(const auto derived, plan.DerivedValues(problem, config, device));
  for (const auto& [name, value] : derived) {
    tunefarm::v1::Value& wire = (*evaluate->mutable_derived())[name];
    if (value.is_bool()) {
      wire.set_bool_value(value.bool_value());
    } else if (value.is_float()) {
      wire.set_double_value(value.float_value());
    } else if (value.is_string()) {
      wire.set_string_value(value.string_value());
    } else {
      wire.set_int_value(value.int_value());
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<WorkerRequest> PrepareRequest(const WorkerPreparation& preparation, FrameCodec codec,
                                             const SharedMemfd* expected) {
  WorkerRequest request;
  tunefarm::worker::v1::Prepare* prepare = request.frame.mutable_prepare();
  ASSIGN_OR_RETURN(const std::string kernel, EncodeMessage(codec, preparation.plan->kernel()));
  RETURN_IF_ERROR(Attach("kernel", kernel, kKernelBytesMax, &request));
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
  if (preparation.plan->language() == tunefarm::v1::LANGUAGE_PYTHON) {
    const TolerancePlan tolerance = preparation.plan->Tolerance(*preparation.resolved_problem);
    tunefarm::v1::Tolerance* wire = prepare->mutable_tolerance();
    wire->set_atol(tolerance.atol);
    wire->set_rtol(tolerance.rtol);
    wire->set_max_mismatch_fraction(tolerance.max_mismatch_fraction);
    wire->set_catastrophic_bound(tolerance.catastrophic_bound);
    wire->set_row_norm_bound(tolerance.row_norm_bound);
    if (tolerance.row_length > 0) wire->set_row_length(fmt::format("{}", tolerance.row_length));
  }
  for (const std::string& option : preparation.compile_options) prepare->add_compile_options(option);
  if (expected != nullptr) {
    prepare->set_has_expected_outputs(true);
    request.fds.push_back(expected->fd.get());
  }
  if (preparation.data_files.size() > kFrameDataFilesMax) {
    return ResourceExhausted("the kernel names {} data files, the limit is {}", preparation.data_files.size(),
                             kFrameDataFilesMax);
  }
  for (const DataFileHandle& file : preparation.data_files) {
    prepare->add_data_file_digests(file.digest);
    request.fds.push_back(file.file->get());
  }
  return request;
}

absl::StatusOr<WorkerRequest> EvaluateRequest(const WorkerTask& task, uint64_t evaluation_id, SentBinary* sent) {
  WorkerRequest request;
  tunefarm::worker::v1::Evaluate* evaluate = request.frame.mutable_evaluate();
  *evaluate = task.evaluate;
  evaluate->set_evaluation_id(evaluation_id);
  if (task.artifact != nullptr) {
    if (sent->artifact != task.artifact) {
      WorkerRequest attached;
      RETURN_IF_ERROR(Attach("binary", task.artifact->bytes, kArtifactBytesMax, &attached));
      *sent = {task.artifact, std::move(attached.owned.back())};
    }
    request.fds.push_back(sent->memfd.get());
    evaluate->set_has_artifact(true);
    evaluate->mutable_lowered_names()->insert(task.artifact->lowered_names.begin(), task.artifact->lowered_names.end());
  }
  if (task.yardstick != nullptr) {
    RETURN_IF_ERROR(Attach("yardstick's binary", task.yardstick->bytes, kArtifactBytesMax, &request));
    evaluate->mutable_yardstick()->mutable_lowered_names()->insert(task.yardstick->lowered_names.begin(),
                                                                   task.yardstick->lowered_names.end());
  }
  return request;
}

}  // namespace tunefarm
