#include "server/access/call_rules.h"

#include <string>
#include <unordered_map>

namespace tunefarm {
namespace {

constexpr bool kChange = true;
constexpr bool kRead = false;

}  // namespace

const std::vector<CallRule>& AllCallRules() {
  using enum Right;
  using enum CallRate;
  static const auto& rules = *new std::vector<CallRule>{
      {"tunefarm.v1.KernelService/CreateKernel", kKernels, kCalls, kChange},
      // Of the caller's own kernels, or as an administrator (KernelApi::DeleteKernel).
      {"tunefarm.v1.KernelService/DeleteKernel", kKernels, kCalls, kChange},
      {"tunefarm.v1.KernelService/GetKernel", kLookup, kCalls, kRead},
      {"tunefarm.v1.KernelService/ListKernels", kLookup, kCalls, kRead},
      {"tunefarm.v1.KernelService/CountSpace", kLookup, kCalls, kRead},
      {"tunefarm.v1.KernelService/CompileKernel", kKernels, kCalls, kRead},
      {"tunefarm.v1.PackageService/ExportPackage", kKernels, kCalls, kRead},
      // With a definition in it, the right to submit kernels too (TuningApi::CreateJob).
      {"tunefarm.v1.TuningService/CreateJob", kSubmit, kCalls, kChange},
      {"tunefarm.v1.TuningService/GetJob", kLookup, kCalls, kRead},
      {"tunefarm.v1.TuningService/ListJobs", kLookup, kCalls, kRead},
      {"tunefarm.v1.TuningService/CancelJob", kSubmit, kCalls, kChange},
      {"tunefarm.v1.TuningService/PauseJob", kSubmit, kCalls, kChange},
      {"tunefarm.v1.TuningService/ResumeJob", kSubmit, kCalls, kChange},
      {"tunefarm.v1.TuningService/DeleteJob", kSubmit, kCalls, kChange},
      {"tunefarm.v1.TuningService/WatchJob", kLookup, kCalls, kRead},
      {"tunefarm.v1.TuningService/ListTrials", kLookup, kCalls, kRead},
      {"tunefarm.v1.TuningService/GetTrial", kLookup, kCalls, kRead},
      {"tunefarm.v1.StudyService/GetStudyChart", kLookup, kCalls, kRead},
      {"tunefarm.v1.StudyService/AnalyzeStudy", kLookup, kCalls, kRead},
      {"tunefarm.v1.StudyService/GetParameterGrid", kLookup, kCalls, kRead},
      {"tunefarm.v1.DataFileService/GetDataFile", kSubmit, kCalls, kRead},
      // Many parts make one file, and only what is run of it matters: counted and written down as the reads are.
      {"tunefarm.v1.DataFileService/UploadDataFile", kSubmit, kLookups, kRead},
      // Callers get their own entries, and those of administrators (CacheApi). Many make one compiled kernel: counted
      // and written down as the reads are.
      {"tunefarm.v1.CacheService/GetCacheEntries", kLookup, kLookups, kRead},
      {"tunefarm.v1.CacheService/PutCacheEntry", kKernels, kLookups, kRead},
      {"tunefarm.v1.CacheService/ListCacheEntries", kLookup, kCalls, kRead},
      {"tunefarm.v1.LookupService/LookupConfig", kLookup, kLookups, kRead},
      {"tunefarm.v1.LookupService/BatchLookupConfigs", kLookup, kLookups, kRead},
      // Stores an answer that the caller may look up, for those who name the same run; counted as the look-ups are.
      {"tunefarm.v1.LookupService/AgreeConfig", kLookup, kLookups, kRead},
      {"tunefarm.v1.LookupService/ListBestConfigs", kLookup, kLookups, kRead},
      {"tunefarm.v1.CatalogService/WatchBestConfigs", kLookup, kCalls, kRead},
      {"tunefarm.v1.CatalogService/PinBestConfig", kAdmin, kCalls, kChange},
      {"tunefarm.v1.CatalogService/UnpinBestConfig", kAdmin, kCalls, kChange},
      {"tunefarm.v1.CatalogService/RetireBestConfig", kAdmin, kCalls, kChange},
      {"tunefarm.v1.CatalogService/AnnotateBestConfig", kAdmin, kCalls, kChange},
      {"tunefarm.v1.CatalogService/ListBestConfigChanges", kLookup, kCalls, kRead},
      {"tunefarm.v1.CatalogService/ListMisses", kLookup, kCalls, kRead},
      {"tunefarm.v1.CatalogService/SummarizeBestConfigs", kLookup, kCalls, kRead},
      {"tunefarm.v1.CatalogService/DeleteMisses", kAdmin, kCalls, kChange},
      {"tunefarm.v1.DeviceService/ListDevices", kLookup, kCalls, kRead},
      {"tunefarm.v1.DeviceService/ReleaseDevice", kAdmin, kCalls, kChange},
      {"tunefarm.v1.DeviceService/ListDeviceClasses", kLookup, kCalls, kRead},
      {"tunefarm.v1.FarmService/ListAgents", kLookup, kCalls, kRead},
      {"tunefarm.v1.FarmService/DrainAgent", kAdmin, kCalls, kChange},
      {"tunefarm.v1.FarmService/UndrainAgent", kAdmin, kCalls, kChange},
      {"tunefarm.v1.FarmService/QuarantineDevice", kAdmin, kCalls, kChange},
      {"tunefarm.v1.ServerService/GetServerInfo", kLookup, kCalls, kRead},
      // Sockets and administrators open it; others are told where it is served (ServerApi::OpenDashboard).
      {"tunefarm.v1.ServerService/OpenDashboard", kLookup, kCalls, kChange},
      {"tunefarm.v1.ServerService/CreateBackup", kAdmin, kCalls, kChange},
      {"tunefarm.v1.ServerService/Shutdown", kAdmin, kCalls, kChange},
      {"tunefarm.v1.AccessService/CreateToken", kAdmin, kCalls, kChange},
      {"tunefarm.v1.AccessService/ListTokens", kAdmin, kCalls, kRead},
      {"tunefarm.v1.AccessService/RevokeToken", kAdmin, kCalls, kChange},
      // Each for the caller itself, and never with more rights than it has.
      {"tunefarm.v1.AccessService/CreateLoginCode", kLookup, kCalls, kChange},
      {"tunefarm.v1.AccessService/CreateSession", kLookup, kCalls, kChange},
      {"tunefarm.v1.AccessService/EndSession", kLookup, kCalls, kChange},
      {"tunefarm.v1.AccessService/GetCaller", kLookup, kCalls, kRead},
      {"tunefarm.agent.v1.AgentService/Register", kAgent, kUnlimited, kChange},
      {"tunefarm.agent.v1.AgentService/Synchronize", kAgent, kUnlimited, kRead},
      {"tunefarm.agent.v1.AgentService/Wait", kAgent, kUnlimited, kRead},
      {"tunefarm.agent.v1.AgentService/ClaimWork", kAgent, kUnlimited, kRead},
      {"tunefarm.agent.v1.AgentService/ReportUnits", kAgent, kUnlimited, kRead},
      {"tunefarm.agent.v1.AgentService/FetchKernel", kAgent, kUnlimited, kRead},
      {"tunefarm.agent.v1.AgentService/TakeCompiles", kAgent, kUnlimited, kRead},
      {"tunefarm.agent.v1.AgentService/OfferBinary", kAgent, kUnlimited, kRead},
      {"tunefarm.agent.v1.AgentService/FetchBinary", kAgent, kUnlimited, kRead},
      {"tunefarm.agent.v1.AgentService/FetchDataFile", kAgent, kUnlimited, kRead},
      {"tunefarm.agent.v1.AgentService/Deregister", kAgent, kUnlimited, kChange},
  };
  return rules;
}

const CallRule* RuleOf(std::string_view call) {
  static const auto& by_name = *[] {
    auto* const map = new std::unordered_map<std::string_view, const CallRule*>;
    for (const CallRule& rule : AllCallRules()) map->emplace(rule.call, &rule);
    return map;
  }();
  const auto rule = by_name.find(call);
  return rule == by_name.end() ? nullptr : rule->second;
}

}  // namespace tunefarm
