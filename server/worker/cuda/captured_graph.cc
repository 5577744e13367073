#include "server/worker/cuda/captured_graph.h"

namespace tunefarm::cuda {

CapturedGraph::~CapturedGraph() {
  if (graph_ != nullptr) (void)gpu_.driver().cuGraphExecDestroy(graph_);
}

Failure CapturedGraph::Capture(const std::function<Failure()>& enqueue) {
  const Driver& driver = gpu_.driver();
  CUgraph captured = nullptr;
  Failure failure = driver.Check(driver.cuStreamBeginCapture(gpu_.stream(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                                 "The stream could not be captured");
  if (!failure) {
    failure = enqueue();
    // Also after a failure: it is what ends the capture.
    const CUresult ended = driver.cuStreamEndCapture(gpu_.stream(), &captured);
    if (!failure) failure = driver.Check(ended, "The launch sequence could not be captured");
  }
  if (!failure) {
    failure = driver.Check(driver.cuGraphInstantiateWithFlags(&graph_, captured, 0), "The graph could not be made");
  }
  if (captured != nullptr) (void)driver.cuGraphDestroy(captured);
  if (!failure) return {};
  // Errors of capturing are the stream's. Whether the context is damaged, waiting tells.
  if (Failure damage = gpu_.Synchronize("The kernel crashed")) return damage;
  failure.sticky = false;
  return failure;
}

Failure CapturedGraph::Enqueue() const {
  return gpu_.driver().Check(gpu_.driver().cuGraphLaunch(graph_, gpu_.stream()), CallKind::kLaunch,
                             "The graph of the launch sequence was refused");
}

}  // namespace tunefarm::cuda
