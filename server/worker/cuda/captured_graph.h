// Work of the context's stream, captured once and run any number of times without the host's cost per launch.
//
// One thread. What the work uses (functions, buffers, events) must outlive it.
#pragma once

#include <functional>

#include "server/worker/cuda/gpu_context.h"

namespace tunefarm::cuda {

class CapturedGraph {
 public:
  explicit CapturedGraph(const GpuContext& gpu) : gpu_(gpu) {}
  ~CapturedGraph();
  CapturedGraph(const CapturedGraph&) = delete;
  CapturedGraph& operator=(const CapturedGraph&) = delete;

  // Captures what `enqueue` puts on the stream; nothing runs yet. Fails where something in it cannot be captured (a
  // library that allocates, an attribute that graphs do not know); the stream is then usable as before, unless the
  // failure is sticky.
  Failure Capture(const std::function<Failure()>& enqueue);
  Failure Enqueue() const;

 private:
  const GpuContext& gpu_;
  CUgraphExec graph_ = nullptr;
};

}  // namespace tunefarm::cuda
