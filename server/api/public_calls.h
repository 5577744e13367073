// The public calls of a listener that have one answer each: which class of server/api gives it, and on which threads.
// Calls that have many answers are gRPC's alone (rpc/public_streams.h).
//
// Threads: Add by one thread, before the server starts. The calls end before it does.
#pragma once

#include <string>

#include "server/api/router.h"
#include "server/base/thread_pool.h"

namespace tunefarm {

class AccessApi;
class CacheApi;
class CatalogApi;
class DataFileApi;
class FarmApi;
class KernelApi;
class LookupApi;
class OpenCalls;
class PackageApi;
class ServerApi;
class StudyApi;
class TuningApi;

// What answers the calls. All are set and outlive the server.
struct RpcServices {
  OpenCalls* calls = nullptr;  // counts them, except those of GetServerInfo
  KernelApi* kernels = nullptr;
  PackageApi* packages = nullptr;
  DataFileApi* data_files = nullptr;
  CacheApi* caches = nullptr;
  TuningApi* tuning = nullptr;
  StudyApi* studies = nullptr;
  LookupApi* lookup = nullptr;
  CatalogApi* catalog = nullptr;
  FarmApi* farm = nullptr;
  ServerApi* server = nullptr;
  AccessApi* access = nullptr;
  TaskRunner* package_threads = nullptr;  // whose slow tasks make packages
};

class PublicCalls {
 public:
  // What `services` names outlives it. `transport`: what the threads' names begin with.
  PublicCalls(const RpcServices& services, const std::string& transport);
  PublicCalls(const PublicCalls&) = delete;
  PublicCalls& operator=(const PublicCalls&) = delete;

  void AddTo(Router* router);

  // For what reads the store.
  TaskRunner* read_threads() { return &reads_; }

 private:
  void AddKernels(Router* router);
  void AddDataFiles(Router* router);
  void AddCaches(Router* router);
  void AddTuning(Router* router);
  void AddStudies(Router* router);
  void AddLookup(Router* router);
  void AddCatalog(Router* router);
  void AddFarm(Router* router);
  void AddServer(Router* router);

  const RpcServices services_;
  ThreadPool slow_;    // for what writes to the store or compiles
  ThreadPool reads_;   // for what reads the store
  ThreadPool orders_;  // for what people order of a job, which waits for nothing else
  ThreadPool spaces_;  // for what searches a space
  ThreadPool files_;   // for parts of data files and entries of caches
};

}  // namespace tunefarm
