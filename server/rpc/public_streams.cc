#include "server/rpc/public_streams.h"

#include <memory>

#include "server/api/catalog_api.h"
#include "server/api/package_api.h"
#include "server/api/tuning_api.h"
#include "server/rpc/catalog_watch_stream.h"
#include "server/rpc/job_watch_stream.h"
#include "server/rpc/package_stream.h"
#include "server/rpc/raw_call.h"

namespace tunefarm {

void AddPublicStreams(const RpcServices& services, TaskRunner* read_threads, Router* router) {
  AddStream<v1::ExportPackageRequest>(router, "tunefarm.v1.PackageService/ExportPackage",
                                      [api = services.packages, threads = services.package_threads](
                                          RawCall* call, const v1::ExportPackageRequest& request) {
                                        return std::make_unique<PackageStream>(call, api, threads,
                                                                               call->caller().principal.name, request);
                                      });
  AddStream<v1::WatchJobRequest>(
      router, "tunefarm.v1.TuningService/WatchJob",
      [api = services.tuning, read_threads](RawCall* call, const v1::WatchJobRequest& request) {
        return std::make_unique<JobWatchStream>(call, api, read_threads, call->caller().principal.name, request);
      });
  AddStream<v1::WatchBestConfigsRequest>(
      router, "tunefarm.v1.CatalogService/WatchBestConfigs",
      [api = services.catalog](RawCall* call, const v1::WatchBestConfigsRequest& request) {
        return std::make_unique<CatalogWatchStream>(call, api, request);
      });
}

}  // namespace tunefarm
