#pragma once

// What a worker is asked to do, and the frames that ask for it. Pure, but for the memfds.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/base/unique_fd.h"
#include "server/definition/kernel_plan.h"
#include "server/exec/data_file_handle.h"
#include "server/exec/evaluator.h"
#include "server/exec/expected_outputs.h"
#include "server/exec/frame_codec.h"
#include "server/exec/outcome_table.h"
#include "tunefarm/worker/v1/worker.pb.h"

namespace tunefarm {

// What a worker needs to know before it can evaluate. Equal keys need no second Prepare.
struct WorkerPreparation {
  std::string key;
  std::shared_ptr<const KernelPlan> plan;
  std::shared_ptr<const ResolvedProblem> resolved_problem;
  tunefarm::v1::Problem problem;
  tunefarm::v1::DeviceClass device_class;
  uint64_t input_seed = 1;
  std::shared_ptr<const Artifact> reference_artifact;  // part of the identity
  std::vector<std::string> compile_options;
  // Those that the kernel names, each once; for run workers. The kernel names them by their content, so the key does.
  std::vector<DataFileHandle> data_files;
};

// How a task ended. Without a frame the verdict is all there is.
struct WorkerTaskEnd {
  Verdict verdict;
  tunefarm::v1::Phase phase = tunefarm::v1::PHASE_UNSPECIFIED;
  bool preparing = false;  // it ended before its evaluation began: the verdict is about the inputs and the reference
  std::optional<tunefarm::worker::v1::Result> result;
  std::string artifact;   // compile workers, with OK
  std::string output;     // what the process wrote to stdout and stderr during the task; printable
  std::string toolchain;  // of the worker that did it, as its Hello told; empty: none began
  double wall_ms = 0;
  bool out_of_service = false;  // LOST since the pool takes no work
  // LOST by a worker that could not do it: not by a wish, nor by what was asked for.
  bool lost_by_machine = false;
  // See IsKilledFromOutside: the verdict holds if it happens again.
  bool killed_from_outside = false;
};

struct WorkerTask {
  std::shared_ptr<const WorkerPreparation> preparation;
  tunefarm::worker::v1::Evaluate evaluate;  // evaluation_id, has_artifact and the like are filled in
  std::shared_ptr<const Artifact> artifact;
  std::shared_ptr<const Artifact> yardstick;  // where `evaluate` has one
  double expected_ms = 0;                     // how long it will probably take; 0: not known
  std::function<void(WorkerTaskEnd)> done;    // exactly once, on the loop, not from within Assign
};

// A frame and the descriptors that go with it; those in `owned` are its own, others those of what it was made from.
struct WorkerRequest {
  tunefarm::worker::v1::Frame frame;
  std::vector<int> fds;
  std::vector<UniqueFd> owned;
};

// The binary that a worker was sent last: many trials in a row may share one.
struct SentBinary {
  std::shared_ptr<const Artifact> artifact;
  UniqueFd memfd;
};

// For kernels in Python and Triton, whose interpreters read no expressions; nothing for others. The error is an
// expression's.
absl::Status AddDerivedValues(const KernelPlan& plan, const ResolvedProblem& problem, const Config& config,
                              const DeviceClass& device, tunefarm::worker::v1::Evaluate* evaluate);

// ResourceExhausted for a kernel, binary or number of data files beyond its limit, or without memory. `codec` is that
// of the worker's channel. `expected` may be null.
absl::StatusOr<WorkerRequest> PrepareRequest(const WorkerPreparation& preparation, FrameCodec codec,
                                             const SharedMemfd* expected);
absl::StatusOr<WorkerRequest> EvaluateRequest(const WorkerTask& task, uint64_t evaluation_id, SentBinary* sent);

}  // namespace tunefarm
