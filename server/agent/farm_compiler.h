// FarmCompiler: the work of an agent without devices. It takes from control configs that wait for the devices of others
// and compiles them; the owner of the evaluator's binaries (FarmBinaries) offers them.
//
// Start, and the destructor, from one thread. Everything else happens on the executor, whose thread blocks in calls to
// control.
#pragma once

#include <chrono>
#include <memory>

#include "server/agent/remote_link.h"
#include "server/base/executor.h"
#include "server/exec/evaluator.h"

namespace tunefarm {

struct FarmCompilerOptions {
  RemoteLink* link = nullptr;      // outlives it
  Evaluator* evaluator = nullptr;  // likewise
  Executor* executor = nullptr;    // its own; stops after it, before the evaluator
  // How often control is asked while nothing waits.
  Duration poll = std::chrono::milliseconds(250);
};

class FarmCompiler {
 public:
  explicit FarmCompiler(const FarmCompilerOptions& options);
  // Takes nothing more; what is compiled is dropped.
  ~FarmCompiler();

  void Start();

 private:
  class Session;
  std::shared_ptr<Session> session_;
};

}  // namespace tunefarm
