// The table of calls against the services as they are defined.
#include "server/access/call_rules.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <gtest/gtest.h>

#include <set>

#include "tunefarm/agent/v1/agent.pb.h"
#include "tunefarm/v1/access_service.pb.h"
#include "tunefarm/v1/cache_service.pb.h"
#include "tunefarm/v1/catalog_service.pb.h"
#include "tunefarm/v1/data_file_service.pb.h"
#include "tunefarm/v1/device_service.pb.h"
#include "tunefarm/v1/farm_service.pb.h"
#include "tunefarm/v1/kernel_service.pb.h"
#include "tunefarm/v1/lookup_service.pb.h"
#include "tunefarm/v1/package_service.pb.h"
#include "tunefarm/v1/server_service.pb.h"
#include "tunefarm/v1/study_service.pb.h"
#include "tunefarm/v1/tuning_service.pb.h"

namespace tunefarm {
namespace {

// A file with a service that is not listed here is found by the adapter's test of what it serves (unit_rpc).
std::vector<const google::protobuf::FileDescriptor*> ServiceFiles() {
  return {v1::CreateTokenRequest::descriptor()->file(),    v1::PinBestConfigRequest::descriptor()->file(),
          v1::ListDevicesRequest::descriptor()->file(),    v1::CreateKernelRequest::descriptor()->file(),
          v1::LookupConfigRequest::descriptor()->file(),   v1::GetServerInfoRequest::descriptor()->file(),
          v1::CreateJobRequest::descriptor()->file(),      v1::ListAgentsRequest::descriptor()->file(),
          v1::GetDataFileRequest::descriptor()->file(),    v1::ExportPackageRequest::descriptor()->file(),
          v1::GetStudyChartRequest::descriptor()->file(),  v1::PutCacheEntryRequest::descriptor()->file(),
          agent::v1::RegisterRequest::descriptor()->file()};
}

TEST(CallRulesTest, EveryMethodOfEveryServiceIsInTheTable) {
  std::set<std::string> found;
  for (const auto* const file : ServiceFiles()) {
    for (int s = 0; s < file->service_count(); ++s) {
      const auto* const service = file->service(s);
      for (int m = 0; m < service->method_count(); ++m) {
        const std::string call = service->full_name() + "/" + service->method(m)->name();
        EXPECT_NE(RuleOf(call), nullptr) << call << " is missing in server/access/call_rules.cc";
        found.insert(call);
      }
    }
  }
  EXPECT_GE(found.size(), 39u);
  for (const CallRule& rule : AllCallRules()) {
    if (rule.call.substr(0, 12) == "tunefarm.v1.") {
      EXPECT_TRUE(found.count(std::string(rule.call)) == 1) << rule.call << " is in the table and in no service";
    }
  }
}

// What messages say of a call: words, and not its name.
TEST(CallRulesTest, EveryCallHasWordsForAUser) {
  for (const CallRule& rule : AllCallRules()) {
    EXPECT_THAT(std::string(rule.does), testing::MatchesRegex("[a-z]+( [a-z]+)*")) << rule.call;
  }
}

TEST(CallRulesTest, CallsAreListedOnce) {
  std::set<std::string_view> seen;
  for (const CallRule& rule : AllCallRules()) EXPECT_TRUE(seen.insert(rule.call).second) << rule.call;
}

TEST(CallRulesTest, WhatOnlyReadsSaysSoInItsDefinition) {
  for (const auto* const file : ServiceFiles()) {
    for (int s = 0; s < file->service_count(); ++s) {
      for (int m = 0; m < file->service(s)->method_count(); ++m) {
        const auto* const method = file->service(s)->method(m);
        const CallRule* const rule = RuleOf(file->service(s)->full_name() + "/" + method->name());
        const bool only_reads =
            method->options().idempotency_level() == google::protobuf::MethodOptions::NO_SIDE_EFFECTS;
        if (rule != nullptr && only_reads) {
          EXPECT_FALSE(rule->is_change) << rule->call;
        }
        // Nothing that changes anything is open to those who may only look, but to fix answers for a run of theirs, and
        // to look by the dashboard.
        const std::set<std::string> open = {"AgreeConfig", "OpenDashboard", "CreateLoginCode", "CreateSession",
                                            "EndSession"};
        if (rule != nullptr && rule->right == Right::kLookup && open.count(method->name()) == 0) {
          EXPECT_TRUE(only_reads) << rule->call;
        }
      }
    }
  }
}

TEST(CallRulesTest, WhatIsNotInTheTableHasNoRule) {
  EXPECT_EQ(RuleOf(""), nullptr);
  EXPECT_EQ(RuleOf("tunefarm.v1.TuningService/Nothing"), nullptr);
  EXPECT_EQ(RuleOf("tunefarm.v1.NoService/CreateJob"), nullptr);
  EXPECT_EQ(RuleOf("tunefarm.v1.KernelService/CreateKernel")->right, Right::kKernels);
  EXPECT_EQ(RuleOf("tunefarm.agent.v1.AgentService/Register")->right, Right::kAgent);
  EXPECT_EQ(RuleOf("tunefarm.v1.CacheService/PutCacheEntry")->right, Right::kKernels);
  EXPECT_EQ(RuleOf("tunefarm.v1.CacheService/GetCacheEntries")->right, Right::kLookup);
}

}  // namespace
}  // namespace tunefarm
