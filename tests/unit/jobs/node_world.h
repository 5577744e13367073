// Two control daemons on one store, with one agent, on a fake clock.
#pragma once

#include <fmt/core.h>

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "server/base/status.h"
#include "server/nodes/node.h"
#include "server/store/job_store.h"
#include "server/store/store.h"
#include "tests/unit/jobs/farm.h"
#include "tests/unit/jobs/simulation.h"

namespace tunefarm {

inline constexpr Duration kNodeLease = std::chrono::seconds(6);

// What a program that is older than the others sees of their jobs: a field that it does not know.
class OlderProgram final : public FaultyStore {
 public:
  using FaultyStore::FaultyStore;

  JobStore* jobs() override { return &jobs_; }

 private:
  class Jobs : public FaultyJobs {
   public:
    using FaultyJobs::FaultyJobs;

    absl::StatusOr<JobRow> GetJob(int64_t job_id) override {
      absl::StatusOr<JobRow> row = FaultyJobs::GetJob(job_id);
      if (row.ok()) row->spec += kField1000;
      return row;
    }

   private:
    static constexpr char kField1000[] = "\xc0\x3e\x01";  // varint 1
  };

  Jobs jobs_{&state_, &Store::jobs};
};

class NodeWorld : public testing::Test, public AgentWorld {
 protected:
  struct Node {
    std::unique_ptr<OlderProgram> older;
    std::unique_ptr<FaultyStore> store;
    std::unique_ptr<ManualExecutor> control, lease;
    std::unique_ptr<TestService> service;
    bool stands_still = false;
    bool store_is_away = false;
    std::map<std::string, int> calls;
  };

  NodeWorld() {
    SqliteOptions sqlite;
    sqlite.path = directory_.path() + "/tunefarm.db";
    sqlite.backup_directory = directory_.path();
    sqlite.clock = &clock_;
    auto store = OpenSqliteStore(sqlite);
    TUNEFARM_CHECK_OK(store);
    store_ = *std::move(store);
  }
  ~NodeWorld() override {
    for (int i = 0; i < 2; ++i) Kill(i);
  }

  absl::Status Boot(int index, bool alone = false, bool store_is_away = false) {
    Node& node = nodes_[index];
    if (is_older_[index]) node.older = std::make_unique<OlderProgram>(store_.get());
    node.store = std::make_unique<FaultyStore>(is_older_[index] ? node.older.get() : store_.get());
    node.store_is_away = store_is_away;
    node.store->set_faults([&node](std::string_view call) {
      ++node.calls[std::string(call)];
      return node.store_is_away ? FaultyStore::Fault::kBefore : FaultyStore::Fault::kNone;
    });
    node.control = std::make_unique<ManualExecutor>(&clock_);
    node.lease = std::make_unique<ManualExecutor>(&clock_);
    ControlPlaneOptions options;
    options.store = node.store.get();
    options.control = options.job_watchers = options.watchers = options.lease = node.control.get();
    options.tasks = node.control.get();
    options.lease = node.lease.get();
    options.entropy = &entropy_;
    options.local_copy = directory_.File(fmt::format("copy-{}", index));
    const std::string id = fmt::format("n{}.{}", index, ++boots_);
    if (alone) {
      options.node = PermanentNode(id);
      const auto released = ReleaseEarlierProcess(node.store.get(), &clock_);
      if (!released.ok()) return released.status();
    } else {
      options.node.id = id;
      options.node.lease = kNodeLease;
    }
    node.service = std::make_unique<TestService>(options);
    const absl::Status devices = node.service->SetDevices({HostDevice("HOST-1")});
    if (!devices.ok()) return devices;
    return node.service->Start();
  }
  void BootBoth() {
    for (int i = 0; i < 2; ++i) TUNEFARM_CHECK_OK(Boot(i));
    RunFor(std::chrono::seconds(2));
  }
  void Kill(int index) {
    Node& node = nodes_[index];
    node.control = nullptr;
    node.lease = nullptr;
    node.service = nullptr;
    node.store = nullptr;
    node.stands_still = false;
  }

  Dice& dice() override { return dice_; }
  AgentLink* LinkTo(int*) override {
    Node& node = nodes_[agents_node_];
    return node.service == nullptr || node.stands_still ? nullptr : &node.service->link();
  }

  void RunFor(Duration time) {
    const MonotonicTime end = clock_.Now() + time;
    RunUntil([&] { return clock_.Now() >= end; });
  }
  template <typename Condition>
  bool RunUntil(Condition condition, Duration limit = std::chrono::minutes(5)) {
    const MonotonicTime end = clock_.Now() + limit;
    while (!condition()) {
      if (clock_.Now() > end) return false;
      for (Node& node : nodes_) {
        if (node.service == nullptr || node.stands_still) continue;
        node.lease->RunUntilIdle();
        node.control->RunUntilIdle();
      }
      if (agent_works_ && ++turn_ % agent_pace_ == 0) agent_.Act();
      clock_.Advance(std::chrono::milliseconds(10));
    }
    return true;
  }

  TestService& service(int index) { return *nodes_[index].service; }
  std::string Submit(int index, const std::string& strategy = "exhaustive") {
    tunefarm::v1::Job job;
    *job.add_problems() = TestProblem(1024);
    job.mutable_strategy()->set_strategy_name(strategy);
    const auto submitted = service(index).Submit(job, TestKernel(), "", false);
    TUNEFARM_CHECK_OK(submitted);
    return submitted->name();
  }
  tunefarm::v1::JobState StateOf(const std::string& name, int index) {
    const auto job = service(index).GetJob(name);
    return job.ok() ? job->state() : tunefarm::v1::JOB_STATE_UNSPECIFIED;
  }
  std::string DriverOf(int64_t job_id) { return store_->jobs()->JobStates({job_id})->at(0).driver; }
  bool Ended(const std::string& name, int index) {
    return StateOf(name, index) == tunefarm::v1::JOB_STATE_SUCCEEDED ||
           StateOf(name, index) == tunefarm::v1::JOB_STATE_CANCELLED;
  }
  tunefarm::v1::LookupConfigResponse Lookup(int index, int64_t n = 1024) {
    tunefarm::v1::LookupConfigRequest request;
    request.set_kernel("scale");
    *request.mutable_problem() = TestProblem(n);
    request.set_device_selector("HOST-1");
    const auto response = service(index).lookup_api().LookupConfig(request);
    EXPECT_TRUE(response.ok()) << response.status();
    return response.ok() ? *response : tunefarm::v1::LookupConfigResponse();
  }

  TemporaryDirectory directory_;
  FakeClock clock_;
  FakeEntropy entropy_;
  Dice dice_{1};
  std::unique_ptr<Store> store_;
  bool is_older_[2] = {};
  Node nodes_[2];
  int boots_ = 0;
  int agents_node_ = 0;
  bool agent_works_ = true;
  int agent_pace_ = 1, turn_ = 0;  // it acts every so many turns
  SimulatedAgent agent_{this, "agent", "HOST-1"};
};

}  // namespace tunefarm
