// tunefarm-worker: compiles, runs or probes in a process that may crash. Started by tunefarmd, never by hand.

#include "server/worker/python/python_worker.h"
#include "server/worker/session.h"

int main(int argc, char** argv) {
  return tunefarm::WorkerMain(argc, argv, [](const tunefarm::WorkerArguments& arguments) {
    if (arguments.is_python()) {
      tunefarm::WorkerBackends python;
      python.become = tunefarm::BecomePythonWorker;
      return python;
    }
    if (arguments.backend == tunefarm::kHostBackend) {
      return tunefarm::WorkerBackends{
          tunefarm::MakeHostCompileBackend, tunefarm::MakeHostRunBackend, tunefarm::MakeHostProbeBackend, {}};
    }
    return tunefarm::WorkerBackends{
        tunefarm::MakeCudaCompileBackend, tunefarm::MakeCudaRunBackend, tunefarm::MakeCudaProbeBackend, {}};
  });
}
