// The public calls of a listener: which class of server/api answers each, and on which threads.
//
// Threads: Add by one thread, before the server starts. The calls end before it does.
#pragma once

#include <string_view>

#include "server/base/thread_pool.h"
#include "server/rpc/router.h"

namespace tunefarm {

struct RpcServices;

class PublicCalls {
 public:
  // What `services` names outlives it.
  explicit PublicCalls(const RpcServices& services);
  PublicCalls(const PublicCalls&) = delete;
  PublicCalls& operator=(const PublicCalls&) = delete;

  void AddTo(Router* router);

 private:
  void AddKernels(Router* router);
  void AddPackages(Router* router);
  void AddDataFiles(Router* router);
  void AddTuning(Router* router);
  void AddStudies(Router* router);
  void AddLookup(Router* router);
  void AddCatalog(Router* router);
  void AddFarm(Router* router);
  void AddServer(Router* router);

  const RpcServices& services_;
  ThreadPool slow_;    // for what writes to the store or compiles
  ThreadPool reads_;   // for what reads the store
  ThreadPool orders_;  // for what people order of a job, which waits for nothing else
  ThreadPool spaces_;  // for what searches a space
  ThreadPool files_;   // for parts of data files
};

}  // namespace tunefarm
