// Agents on other machines, from control's side: played call by call, on a fake clock; store and services are real.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>

#include "server/base/check.h"
#include "server/farm/control_link.h"
#include "server/store/store.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/fake_entropy.h"
#include "tests/fakes/manual_executor.h"
#include "tests/fakes/temporary_directory.h"
#include "tests/unit/jobs/farm.h"
#include "tests/unit/jobs/test_service.h"

namespace tunefarm {

// A control daemon without devices of its own; with a node id, one of several.
struct Control {
  Control(Store* store, FakeClock* clock, FakeEntropy* entropy, const std::string& node = "") : executor(clock) {
    ControlPlaneOptions options;
    options.store = store;
    options.control = options.job_watchers = options.watchers = options.lease = &executor;
    options.tasks = &executor;
    options.entropy = entropy;
    options.agent_lease_ms = 30'000;
    options.has_own_agent = false;
    options.abilities.runs_python = true;  // agents report what they do
    if (node.empty()) {
      options.node = PermanentNode(NewUuid(entropy));
      TUNEFARM_CHECK_OK(ReleaseEarlierProcess(store, clock));
    } else {
      options.node.id = node;
      options.own_agent_lease_ms = options.agent_lease_ms;
    }
    options.sentinel_tolerance = 0.05;
    service = std::make_unique<TestService>(options);
    TUNEFARM_CHECK_OK(service->Start());
  }
  ControlLink& link() { return service->link(); }

  ManualExecutor executor;
  std::unique_ptr<TestService> service;
};

class ControlAgentsTest : public testing::Test {
 protected:
  ControlAgentsTest() {
    SqliteOptions options;
    options.path = directory_.File("tunefarm.db");
    options.backup_directory = directory_.File("backups");
    options.clock = &clock_;
    auto store = OpenSqliteStore(options);
    TUNEFARM_CHECK_OK(store);
    store_ = *std::move(store);
    control_ = std::make_unique<Control>(store_.get(), &clock_, &entropy_);
  }

  // The daemon dies without a word and comes back.
  void Restart() {
    control_ = nullptr;
    control_ = std::make_unique<Control>(store_.get(), &clock_, &entropy_);
  }

  static tunefarm::agent::v1::RegisterRequest About(const std::string& id, const std::string& device) {
    tunefarm::agent::v1::RegisterRequest about;
    about.set_agent_id(id);
    about.set_display_name("name of " + id);
    about.set_host("host");
    about.set_protocol(ControlLink::kProtocol);
    about.set_runs_python(true);
    *about.add_devices() = HostDevice(device);
    return about;
  }
  absl::StatusOr<tunefarm::agent::v1::RegisterResponse> Register(const std::string& id, const std::string& device) {
    auto response = control_->link().Register(About(id, device));
    if (response.ok()) epochs_[id] = response->epoch();
    return response;
  }
  tunefarm::agent::v1::SynchronizeRequest Request(const std::string& id, const std::string& device, int units) {
    tunefarm::agent::v1::SynchronizeRequest request;
    request.set_agent_id(id);
    request.set_epoch(epochs_[id]);
    if (units > 0) {
      request.add_demands()->set_device_uuid(device);
      request.mutable_demands(0)->set_units(units);
    }
    return request;
  }
  tunefarm::agent::v1::SynchronizeResponse Ask(const std::string& id, const std::string& device, int units = 1) {
    auto response = control_->link().Synchronize(Request(id, device, units));
    TUNEFARM_CHECK_OK(response);
    return *std::move(response);
  }
  std::string Submit(const tunefarm::v1::Kernel& kernel = TestKernel()) {
    *job_.add_problems() = TestProblem(1024);
    job_.mutable_strategy()->set_strategy_name("exhaustive");
    const auto submitted = control_->service->Submit(job_, kernel, "", false);
    TUNEFARM_CHECK_OK(submitted);
    control_->executor.RunUntilIdle();
    return submitted->name();
  }
  tunefarm::agent::v1::ReportTrialsRequest ReportOf(const std::string& id,
                                                    const tunefarm::agent::v1::Assignment& assignment) {
    tunefarm::agent::v1::ReportTrialsRequest report;
    report.set_agent_id(id);
    report.set_epoch(epochs_[id]);
    report.set_unit_id(assignment.unit_id());
    report.set_token(assignment.token());
    report.set_unit_done(true);
    for (const auto& spec : assignment.trials()) {
      auto* trial = report.add_trials();
      trial->set_ordinal(spec.ordinal());
      trial->set_outcome(tunefarm::v1::OUTCOME_OK);
      trial->set_device_uuid(assignment.device_uuid());
      trial->mutable_measurement()->set_median_ns(1000);
    }
    return report;
  }
  tunefarm::agent::v1::ReportVerdict Report(const std::string& id, const tunefarm::agent::v1::Assignment& assignment) {
    const auto response = control_->link().ReportTrials(ReportOf(id, assignment));
    TUNEFARM_CHECK_OK(response);
    return response->verdict();
  }
  void RunFor(Duration time) { control_->executor.AdvanceBy(time); }

  TemporaryDirectory directory_;
  FakeClock clock_;
  FakeEntropy entropy_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<Control> control_;
  std::map<std::string, int64_t> epochs_;
  tunefarm::v1::Job job_;
};

}  // namespace tunefarm
