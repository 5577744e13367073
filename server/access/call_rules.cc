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
      {"tunefarm.v1.KernelService/CreateKernel", "store kernels", kKernels, kCalls, kChange},
      // Of the caller's own kernels, or as an administrator (KernelApi::DeleteKernel).
      {"tunefarm.v1.KernelService/DeleteKernel", "delete kernels", kKernels, kCalls, kChange},
      {"tunefarm.v1.KernelService/GetKernel", "see kernels", kLookup, kCalls, kRead},
      {"tunefarm.v1.KernelService/ListKernels", "see kernels", kLookup, kCalls, kRead},
      {"tunefarm.v1.KernelService/CountSpace", "count search spaces", kLookup, kCalls, kRead},
      {"tunefarm.v1.KernelService/CompileKernel", "compile kernels", kKernels, kCalls, kRead},
      {"tunefarm.v1.PackageService/ExportPackage", "export packages", kKernels, kCalls, kRead},
      // With a definition in it, the right to submit kernels too (TuningApi::CreateJob).
      {"tunefarm.v1.TuningService/CreateJob", "submit jobs", kSubmit, kCalls, kChange},
      {"tunefarm.v1.TuningService/GetJob", "see jobs", kLookup, kCalls, kRead},
      {"tunefarm.v1.TuningService/ListJobs", "see jobs", kLookup, kCalls, kRead},
      {"tunefarm.v1.TuningService/CancelJob", "cancel jobs", kSubmit, kCalls, kChange},
      {"tunefarm.v1.TuningService/PauseJob", "pause jobs", kSubmit, kCalls, kChange},
      {"tunefarm.v1.TuningService/ResumeJob", "resume jobs", kSubmit, kCalls, kChange},
      {"tunefarm.v1.TuningService/DeleteJob", "delete jobs", kSubmit, kCalls, kChange},
      {"tunefarm.v1.TuningService/WatchJob", "follow jobs", kLookup, kCalls, kRead},
      {"tunefarm.v1.TuningService/ListTrials", "see results", kLookup, kCalls, kRead},
      {"tunefarm.v1.TuningService/GetTrial", "see results", kLookup, kCalls, kRead},
      {"tunefarm.v1.StudyService/GetStudyChart", "see results", kLookup, kCalls, kRead},
      {"tunefarm.v1.StudyService/AnalyzeStudy", "see results", kLookup, kCalls, kRead},
      {"tunefarm.v1.StudyService/GetParameterGrid", "see results", kLookup, kCalls, kRead},
      {"tunefarm.v1.DataFileService/GetDataFile", "see data files", kSubmit, kCalls, kRead},
      // Many parts make one file, and only what is run of it matters: counted and written down as the reads are.
      {"tunefarm.v1.DataFileService/UploadDataFile", "upload data files", kSubmit, kLookups, kRead},
      // Callers get their own entries, and those of administrators (CacheApi). Many make one compiled kernel: counted
      // and written down as the reads are.
      {"tunefarm.v1.CacheService/GetCacheEntries", "read the remote cache", kLookup, kLookups, kRead},
      {"tunefarm.v1.CacheService/PutCacheEntry", "write to the remote cache", kKernels, kLookups, kRead},
      {"tunefarm.v1.CacheService/ListCacheEntries", "read the remote cache", kLookup, kCalls, kRead},
      {"tunefarm.v1.LookupService/LookupConfig", "look up configs", kLookup, kLookups, kRead},
      {"tunefarm.v1.LookupService/BatchLookupConfigs", "look up configs", kLookup, kLookups, kRead},
      // Stores an answer that the caller may look up, for those who name the same run; counted as the look-ups are.
      {"tunefarm.v1.LookupService/AgreeConfig", "look up configs", kLookup, kLookups, kRead},
      {"tunefarm.v1.LookupService/ListBestConfigs", "see best configs", kLookup, kLookups, kRead},
      {"tunefarm.v1.CatalogService/WatchBestConfigs", "follow best configs", kLookup, kCalls, kRead},
      {"tunefarm.v1.CatalogService/PinBestConfig", "pin best configs", kAdmin, kCalls, kChange},
      {"tunefarm.v1.CatalogService/UnpinBestConfig", "unpin best configs", kAdmin, kCalls, kChange},
      {"tunefarm.v1.CatalogService/RetireBestConfig", "retire best configs", kAdmin, kCalls, kChange},
      {"tunefarm.v1.CatalogService/AnnotateBestConfig", "attach notes to best configs", kAdmin, kCalls, kChange},
      {"tunefarm.v1.CatalogService/ListBestConfigChanges", "see the history of best configs", kLookup, kCalls, kRead},
      {"tunefarm.v1.CatalogService/ListMisses", "see misses", kLookup, kCalls, kRead},
      {"tunefarm.v1.CatalogService/SummarizeBestConfigs", "see best configs", kLookup, kCalls, kRead},
      {"tunefarm.v1.CatalogService/DeleteMisses", "clear misses", kAdmin, kCalls, kChange},
      {"tunefarm.v1.DeviceService/ListDevices", "see devices", kLookup, kCalls, kRead},
      {"tunefarm.v1.DeviceService/ReleaseDevice", "release devices", kAdmin, kCalls, kChange},
      {"tunefarm.v1.DeviceService/ListDeviceClasses", "see devices", kLookup, kCalls, kRead},
      {"tunefarm.v1.FarmService/ListAgents", "see agents", kLookup, kCalls, kRead},
      {"tunefarm.v1.FarmService/DrainAgent", "drain agents", kAdmin, kCalls, kChange},
      {"tunefarm.v1.FarmService/UndrainAgent", "drain agents", kAdmin, kCalls, kChange},
      {"tunefarm.v1.FarmService/QuarantineDevice", "take devices out of service", kAdmin, kCalls, kChange},
      {"tunefarm.v1.ServerService/GetServerInfo", "see the status of the daemon", kLookup, kCalls, kRead},
      // Sockets and administrators open it; others are told where it is served (ServerApi::OpenDashboard).
      {"tunefarm.v1.ServerService/OpenDashboard", "open the dashboard", kLookup, kCalls, kChange},
      {"tunefarm.v1.ServerService/CreateBackup", "back up the database", kAdmin, kCalls, kChange},
      {"tunefarm.v1.ServerService/Shutdown", "stop the daemon", kAdmin, kCalls, kChange},
      {"tunefarm.v1.AccessService/CreateToken", "create tokens", kAdmin, kCalls, kChange},
      {"tunefarm.v1.AccessService/ListTokens", "see tokens", kAdmin, kCalls, kRead},
      {"tunefarm.v1.AccessService/RevokeToken", "revoke tokens", kAdmin, kCalls, kChange},
      // Each for the caller itself, and never with more rights than it has.
      {"tunefarm.v1.AccessService/CreateLoginCode", "log in", kLookup, kCalls, kChange},
      {"tunefarm.v1.AccessService/CreateSession", "log in", kLookup, kCalls, kChange},
      {"tunefarm.v1.AccessService/EndSession", "log out", kLookup, kCalls, kChange},
      {"tunefarm.v1.AccessService/GetCaller", "ask for its own name", kLookup, kCalls, kRead},
      {"tunefarm.agent.v1.AgentService/Register", "be an agent", kAgent, kUnlimited, kChange},
      {"tunefarm.agent.v1.AgentService/Synchronize", "be an agent", kAgent, kUnlimited, kRead},
      {"tunefarm.agent.v1.AgentService/Wait", "be an agent", kAgent, kUnlimited, kRead},
      {"tunefarm.agent.v1.AgentService/ClaimWork", "be an agent", kAgent, kUnlimited, kRead},
      {"tunefarm.agent.v1.AgentService/ReportUnits", "be an agent", kAgent, kUnlimited, kRead},
      {"tunefarm.agent.v1.AgentService/FetchKernel", "be an agent", kAgent, kUnlimited, kRead},
      {"tunefarm.agent.v1.AgentService/TakeCompiles", "be an agent", kAgent, kUnlimited, kRead},
      {"tunefarm.agent.v1.AgentService/OfferBinary", "be an agent", kAgent, kUnlimited, kRead},
      {"tunefarm.agent.v1.AgentService/FetchBinary", "be an agent", kAgent, kUnlimited, kRead},
      {"tunefarm.agent.v1.AgentService/FetchDataFile", "be an agent", kAgent, kUnlimited, kRead},
      {"tunefarm.agent.v1.AgentService/Deregister", "be an agent", kAgent, kUnlimited, kChange},
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
