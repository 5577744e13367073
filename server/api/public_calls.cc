#include "server/api/public_calls.h"

#include <chrono>

#include "server/api/access_api.h"
#include "server/api/cache_api.h"
#include "server/api/catalog_api.h"
#include "server/api/data_file_api.h"
#include "server/api/farm_api.h"
#include "server/api/kernel_api.h"
#include "server/api/lookup_api.h"
#include "server/api/server_api.h"
#include "server/api/study_api.h"
#include "server/api/tuning_api.h"
#include "server/base/thread.h"

namespace tunefarm {
namespace {

constexpr int kThreads = 4;  // of each kind
// Where there is too little processor time, what is asked for comes after what runs: the search for running jobs has a
// nice value of 5. What is read, looked up or ordered is as urgent as trials are.
constexpr int kSlowNice = 10, kSpaceNice = 10, kLargeSpaceNice = 15;
// A call without a deadline, or with a longer one, is answered as if it had this one.
constexpr Duration kWaitMax = std::chrono::seconds(60);

// The methods of the APIs are alike, so one line per call says all there is to say.
template <typename Api, typename Request, typename Response>
void AddCall(Router* router, std::string_view call, Lane lane, Api* api,
             absl::StatusOr<Response> (Api::*method)(const Principal&, const Request&)) {
  router->Add<Request>(call, CallKind::kCall, lane, [api, method](const CallContext& context, const Request& request) {
    return (api->*method)(context.principal, request);
  });
}

template <typename Api, typename Request, typename Response>
void AddCall(Router* router, std::string_view call, Lane lane, Api* api,
             absl::StatusOr<Response> (Api::*method)(const Request&), bool counts = true) {
  router->Add<Request>(
      call, CallKind::kCall, lane,
      [api, method](const CallContext& /*context*/, const Request& request) { return (api->*method)(request); },
      counts);
}

// On the transport's own threads, which are few: for what is answered from memory.
constexpr Lane kFast;

}  // namespace

PublicCalls::PublicCalls(const RpcServices& services, const std::string& transport)
    : services_(services),
      slow_(transport + "-slow", kThreads, [] { LowerPriority(kSlowNice); }),
      reads_(transport + "-read", kThreads),
      orders_(transport + "-order", kThreads),
      spaces_(
          transport + "-space", kThreads, [] { LowerPriority(kSpaceNice); },
          SlowThreads{transport + "-large", kThreads, [] { LowerPriority(kLargeSpaceNice); }}),
      files_(transport + "-file", kThreads) {}

void PublicCalls::AddTo(Router* router) {
  AddKernels(router);
  AddDataFiles(router);
  AddCaches(router);
  AddTuning(router);
  AddStudies(router);
  AddLookup(router);
  AddCatalog(router);
  AddFarm(router);
  AddServer(router);
}

void PublicCalls::AddKernels(Router* router) {
  const Lane reads{&reads_, kWaitMax};
  const Lane slow{&slow_, kWaitMax};
  KernelApi* const api = services_.kernels;
  router->Add<v1::CreateKernelRequest>("tunefarm.v1.KernelService/CreateKernel", CallKind::kCall, slow,
                                       [api](const CallContext& context, const v1::CreateKernelRequest& request) {
                                         return api->CreateKernel(context.principal, request);
                                       });
  router->Add<v1::DeleteKernelRequest>("tunefarm.v1.KernelService/DeleteKernel", CallKind::kCall, slow,
                                       [api](const CallContext& context, const v1::DeleteKernelRequest& request) {
                                         return api->DeleteKernel(context.principal, request);
                                       });
  AddCall(router, "tunefarm.v1.KernelService/GetKernel", reads, api, &KernelApi::GetKernel);
  AddCall(router, "tunefarm.v1.KernelService/ListKernels", reads, api, &KernelApi::ListKernels);
  router->AddOfSpace<v1::CountSpaceRequest>("tunefarm.v1.KernelService/CountSpace", Lane{&spaces_, kWaitMax},
                                            [api](const CallContext& context, const v1::CountSpaceRequest& request) {
                                              return api->CountSpace(request, context.grant);
                                            });
  router->Add<v1::CompileKernelRequest>("tunefarm.v1.KernelService/CompileKernel", CallKind::kCall, slow,
                                        [api](const CallContext& /*context*/, const v1::CompileKernelRequest& request) {
                                          return api->CompileKernel(request, {.processor_time = kSpaceTimeMax});
                                        });
}

void PublicCalls::AddDataFiles(Router* router) {
  DataFileApi* const api = services_.data_files;
  AddCall(router, "tunefarm.v1.DataFileService/GetDataFile", Lane{&slow_, kWaitMax}, api, &DataFileApi::GetDataFile);
  router->Add<v1::UploadDataFileRequest>("tunefarm.v1.DataFileService/UploadDataFile", CallKind::kCall,
                                         Lane{&files_, kWaitMax},
                                         [api](const CallContext& context, const v1::UploadDataFileRequest& request) {
                                           return api->UploadDataFile(context.principal, request);
                                         });
}

void PublicCalls::AddCaches(Router* router) {
  const Lane files{&files_, kWaitMax};
  CacheApi* const api = services_.caches;
  AddCall(router, "tunefarm.v1.CacheService/GetCacheEntries", files, api, &CacheApi::GetCacheEntries);
  AddCall(router, "tunefarm.v1.CacheService/PutCacheEntry", files, api, &CacheApi::PutCacheEntry);
  AddCall(router, "tunefarm.v1.CacheService/ListCacheEntries", files, api, &CacheApi::ListCacheEntries);
}

void PublicCalls::AddTuning(Router* router) {
  const Lane reads{&reads_, kWaitMax};
  const Lane slow{&slow_, kWaitMax};
  const Lane orders{&orders_, kWaitMax};
  TuningApi* const api = services_.tuning;
  router->AddOfSpace<v1::CreateJobRequest>("tunefarm.v1.TuningService/CreateJob", Lane{&spaces_, kWaitMax},
                                           [api](const CallContext& context, const v1::CreateJobRequest& request) {
                                             return api->CreateJob(context.principal, request, context.grant);
                                           });
  router->AddRead<v1::GetJobRequest>(
      "tunefarm.v1.TuningService/GetJob", reads,
      [api](const v1::GetJobRequest& request) { return api->GetDrivenJob(request); },
      [api](const v1::GetJobRequest& request) { return api->GetJob(request); });
  AddCall(router, "tunefarm.v1.TuningService/ListJobs", reads, api, &TuningApi::ListJobs);
  AddCall(router, "tunefarm.v1.TuningService/CancelJob", orders, api, &TuningApi::CancelJob);
  AddCall(router, "tunefarm.v1.TuningService/PauseJob", orders, api, &TuningApi::PauseJob);
  AddCall(router, "tunefarm.v1.TuningService/ResumeJob", orders, api, &TuningApi::ResumeJob);
  AddCall(router, "tunefarm.v1.TuningService/DeleteJob", slow, api, &TuningApi::DeleteJob);
  AddCall(router, "tunefarm.v1.TuningService/ListTrials", reads, api, &TuningApi::ListTrials);
  AddCall(router, "tunefarm.v1.TuningService/GetTrial", reads, api, &TuningApi::GetTrial);
}

void PublicCalls::AddStudies(Router* router) {
  const Lane reads{&reads_, kWaitMax};
  StudyApi* const api = services_.studies;
  AddCall(router, "tunefarm.v1.StudyService/GetStudyChart", reads, api, &StudyApi::GetStudyChart);
  AddCall(router, "tunefarm.v1.StudyService/AnalyzeStudy", reads, api, &StudyApi::AnalyzeStudy);
  AddCall(router, "tunefarm.v1.StudyService/GetParameterGrid", reads, api, &StudyApi::GetParameterGrid);
}

void PublicCalls::AddLookup(Router* router) {
  LookupApi* const api = services_.lookup;
  router->AddRead<v1::LookupConfigRequest>(
      "tunefarm.v1.LookupService/LookupConfig", Lane{&reads_, kWaitMax},
      [api](const v1::LookupConfigRequest& request) { return api->LookupInMemory(request); },
      [api](const v1::LookupConfigRequest& request) { return api->LookupConfig(request); });
  AddCall(router, "tunefarm.v1.LookupService/BatchLookupConfigs", Lane{&reads_, kWaitMax}, api,
          &LookupApi::BatchLookupConfigs);
  router->Add<v1::AgreeConfigRequest>("tunefarm.v1.LookupService/AgreeConfig", CallKind::kCall, Lane{&slow_, kWaitMax},
                                      [api](const CallContext& context, const v1::AgreeConfigRequest& request) {
                                        return api->AgreeConfig(context.principal, request);
                                      });
  AddCall(router, "tunefarm.v1.LookupService/ListBestConfigs", kFast, api, &LookupApi::ListBestConfigs);
}

void PublicCalls::AddCatalog(Router* router) {
  const Lane reads{&reads_, kWaitMax};
  const Lane slow{&slow_, kWaitMax};
  CatalogApi* const api = services_.catalog;
  AddCall(router, "tunefarm.v1.CatalogService/PinBestConfig", slow, api, &CatalogApi::PinBestConfig);
  AddCall(router, "tunefarm.v1.CatalogService/UnpinBestConfig", slow, api, &CatalogApi::UnpinBestConfig);
  AddCall(router, "tunefarm.v1.CatalogService/RetireBestConfig", slow, api, &CatalogApi::RetireBestConfig);
  AddCall(router, "tunefarm.v1.CatalogService/AnnotateBestConfig", slow, api, &CatalogApi::AnnotateBestConfig);
  AddCall(router, "tunefarm.v1.CatalogService/ListBestConfigChanges", reads, api, &CatalogApi::ListBestConfigChanges);
  AddCall(router, "tunefarm.v1.CatalogService/ListMisses", reads, api, &CatalogApi::ListMisses);
  AddCall(router, "tunefarm.v1.CatalogService/SummarizeBestConfigs", reads, api, &CatalogApi::SummarizeBestConfigs);
  AddCall(router, "tunefarm.v1.CatalogService/DeleteMisses", slow, api, &CatalogApi::DeleteMisses);
}

void PublicCalls::AddFarm(Router* router) {
  const Lane reads{&reads_, kWaitMax};
  const Lane slow{&slow_, kWaitMax};
  FarmApi* const api = services_.farm;
  AddCall(router, "tunefarm.v1.DeviceService/ListDevices", kFast, api, &FarmApi::ListDevices);
  AddCall(router, "tunefarm.v1.DeviceService/ListDeviceClasses", kFast, api, &FarmApi::ListDeviceClasses);
  AddCall(router, "tunefarm.v1.DeviceService/ReleaseDevice", slow, api, &FarmApi::ReleaseDevice);
  AddCall(router, "tunefarm.v1.FarmService/ListAgents", reads, api, &FarmApi::ListAgents);
  AddCall(router, "tunefarm.v1.FarmService/DrainAgent", slow, api, &FarmApi::DrainAgent);
  AddCall(router, "tunefarm.v1.FarmService/UndrainAgent", slow, api, &FarmApi::UndrainAgent);
  AddCall(router, "tunefarm.v1.FarmService/QuarantineDevice", slow, api, &FarmApi::QuarantineDevice);
}

void PublicCalls::AddServer(Router* router) {
  const Lane reads{&reads_, kWaitMax};
  const Lane slow{&slow_, kWaitMax};
  ServerApi* const api = services_.server;
  // Does not count: to ask whether the daemon is idle does not keep it from its idle exit.
  AddCall(router, "tunefarm.v1.ServerService/GetServerInfo", reads, api, &ServerApi::GetServerInfo, false);
  AddCall(router, "tunefarm.v1.ServerService/OpenDashboard", slow, api, &ServerApi::OpenDashboard);
  AddCall(router, "tunefarm.v1.ServerService/CreateBackup", slow, api, &ServerApi::CreateBackup);
  AddCall(router, "tunefarm.v1.ServerService/Shutdown", kFast, api, &ServerApi::Shutdown);
  AccessApi* const access = services_.access;
  AddCall(router, "tunefarm.v1.AccessService/CreateToken", slow, access, &AccessApi::CreateToken);
  AddCall(router, "tunefarm.v1.AccessService/ListTokens", slow, access, &AccessApi::ListTokens);
  AddCall(router, "tunefarm.v1.AccessService/RevokeToken", slow, access, &AccessApi::RevokeToken);
  AddCall(router, "tunefarm.v1.AccessService/CreateLoginCode", kFast, access, &AccessApi::CreateLoginCode);
  AddCall(router, "tunefarm.v1.AccessService/CreateSession", kFast, access, &AccessApi::CreateSession);
  AddCall(router, "tunefarm.v1.AccessService/EndSession", kFast, access, &AccessApi::EndSession);
  AddCall(router, "tunefarm.v1.AccessService/GetCaller", kFast, access, &AccessApi::GetCaller);
}

}  // namespace tunefarm
