// An agent's link to control daemons that only play, on a fake clock.
#pragma once

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "server/agent/control_list.h"
#include "server/agent/remote_link.h"
#include "server/base/check.h"
#include "server/base/status.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/fake_entropy.h"
#include "tests/fakes/manual_executor.h"
#include "tests/fakes/temporary_directory.h"

namespace tunefarm {

// What all control daemons of a farm share.
struct PlayedFarm {
  std::map<std::string, bool> away;  // by address
  bool store_away = false;
  absl::Status claim_status;  // of ClaimWork
  Duration claim_deadline{};  // of the last one
  std::vector<std::string> dialled;
  std::vector<std::string> calls;  // "address method"
  std::vector<tunefarm::agent::v1::ReportTrialsRequest> reports;
  std::vector<tunefarm::agent::v1::SynchronizeRequest> asked;
  std::vector<tunefarm::agent::v1::RegisterRequest> registered;
  std::vector<tunefarm::agent::v1::DeregisterRequest> ended;
  std::vector<tunefarm::agent::v1::Assignment> ready;
  std::vector<tunefarm::agent::v1::CompileTask> compiles;
  std::map<std::string, std::string> binaries;    // by key
  std::map<std::string, std::string> data_files;  // by digest
  std::map<std::string, bool> lacks_data_files;   // by address
  size_t data_file_part_bytes = 1 << 20;
  int fetches = 0;
  int gather_ms = 0;
  bool has_binaries = false, shares_work = false;
  std::string kernel;  // serialized; empty: none that could be read
  int64_t epoch = 0;
};

class PlayedChannel : public ControlChannel {
 public:
  PlayedChannel(PlayedFarm* farm, std::string address) : farm_(farm), address_(std::move(address)) {}

  absl::StatusOr<tunefarm::agent::v1::RegisterResponse> Register(const tunefarm::agent::v1::RegisterRequest& request,
                                                                 Duration) override {
    if (const auto status = Reach("Register"); !status.ok()) return status;
    farm_->registered.push_back(request);
    tunefarm::agent::v1::RegisterResponse response;
    response.set_epoch(++farm_->epoch);
    response.set_control("control of " + address_);
    return response;
  }
  absl::StatusOr<tunefarm::agent::v1::SynchronizeResponse> Synchronize(
      const tunefarm::agent::v1::SynchronizeRequest& request, Duration) override {
    if (const auto status = Reach("Synchronize"); !status.ok()) return status;
    farm_->asked.push_back(request);
    tunefarm::agent::v1::SynchronizeResponse response;
    response.set_gather_ms(farm_->gather_ms);
    response.set_has_binaries(farm_->has_binaries);
    response.set_shares_work(farm_->shares_work);
    response.set_control("control of " + address_);
    for (const auto& demand : request.demands()) {
      for (int i = 0; i < demand.units() && !farm_->ready.empty(); ++i) {
        *response.add_assignments() = farm_->ready.back();
        farm_->ready.pop_back();
      }
    }
    return response;
  }
  absl::StatusOr<tunefarm::agent::v1::WaitResponse> Wait(const tunefarm::agent::v1::WaitRequest&, Duration) override {
    return Cancelled("nobody waits in this test");
  }
  // All works are elsewhere.
  absl::StatusOr<tunefarm::agent::v1::ClaimWorkResponse> ClaimWork(const tunefarm::agent::v1::ClaimWorkRequest& request,
                                                                   Duration deadline) override {
    farm_->claim_deadline = deadline;
    if (const auto status = Reach("ClaimWork"); !status.ok()) return status;
    if (!farm_->claim_status.ok()) return farm_->claim_status;
    tunefarm::agent::v1::ClaimWorkResponse response;
    for (int i = 0; i < request.claims_size(); ++i) response.add_answers()->set_is_elsewhere(true);
    return response;
  }
  absl::StatusOr<tunefarm::agent::v1::ReportUnitsResponse> ReportUnits(
      const tunefarm::agent::v1::ReportUnitsRequest& request, Duration) override {
    if (const auto status = Reach("ReportUnits"); !status.ok()) return status;
    tunefarm::agent::v1::ReportUnitsResponse response;
    for (const auto& report : request.reports()) {
      if (farm_->store_away) {
        response.set_stopped_because("the disk is full");
        break;
      }
      farm_->reports.push_back(report);
      response.add_results()->set_verdict(tunefarm::agent::v1::REPORT_VERDICT_ACCEPTED);
    }
    return response;
  }
  absl::StatusOr<tunefarm::agent::v1::FetchKernelResponse> FetchKernel(
      const tunefarm::agent::v1::FetchKernelRequest& request, Duration) override {
    if (const auto status = Reach("FetchKernel"); !status.ok()) return status;
    ++farm_->fetches;
    tunefarm::agent::v1::FetchKernelResponse response;
    response.set_kernel(farm_->kernel.empty() ? "kernel " + request.kernel_id() : farm_->kernel);
    return response;
  }
  absl::StatusOr<tunefarm::agent::v1::TakeCompilesResponse> TakeCompiles(
      const tunefarm::agent::v1::TakeCompilesRequest& request, Duration) override {
    if (const auto status = Reach("TakeCompiles"); !status.ok()) return status;
    tunefarm::agent::v1::TakeCompilesResponse response;
    for (int i = 0; i < request.configs() && !farm_->compiles.empty(); ++i) {
      *response.add_tasks() = farm_->compiles.back();
      farm_->compiles.pop_back();
    }
    return response;
  }
  absl::StatusOr<tunefarm::agent::v1::OfferBinaryResponse> OfferBinary(
      const tunefarm::agent::v1::OfferBinaryRequest& request, Duration) override {
    if (const auto status = Reach("OfferBinary"); !status.ok()) return status;
    farm_->binaries[request.key()] = request.binary();
    return tunefarm::agent::v1::OfferBinaryResponse();
  }
  absl::StatusOr<tunefarm::agent::v1::FetchBinaryResponse> FetchBinary(
      const tunefarm::agent::v1::FetchBinaryRequest& request, Duration) override {
    if (const auto status = Reach("FetchBinary"); !status.ok()) return status;
    tunefarm::agent::v1::FetchBinaryResponse response;
    response.set_binary(farm_->binaries[request.key()]);
    return response;
  }
  absl::StatusOr<tunefarm::agent::v1::FetchDataFileResponse> FetchDataFile(
      const tunefarm::agent::v1::FetchDataFileRequest& request, Duration) override {
    if (const auto status = Reach("FetchDataFile"); !status.ok()) return status;
    const auto found = farm_->data_files.find(request.digest());
    if (found == farm_->data_files.end() || farm_->lacks_data_files[address_]) {
      return NotFound("there is no data file {}", request.digest());
    }
    tunefarm::agent::v1::FetchDataFileResponse response;
    response.set_total_bytes(static_cast<int64_t>(found->second.size()));
    response.set_part(found->second.substr(static_cast<size_t>(request.offset()), farm_->data_file_part_bytes));
    return response;
  }
  absl::StatusOr<tunefarm::agent::v1::DeregisterResponse> Deregister(
      const tunefarm::agent::v1::DeregisterRequest& request, Duration) override {
    if (const auto status = Reach("Deregister"); !status.ok()) return status;
    farm_->ended.push_back(request);
    return tunefarm::agent::v1::DeregisterResponse();
  }
  void Cancel() override {}

 private:
  absl::Status Reach(const std::string& method) {
    farm_->calls.push_back(address_ + " " + method);
    if (farm_->away[address_]) return Unavailable("connection refused");
    return absl::OkStatus();
  }

  PlayedFarm* const farm_;
  const std::string address_;
};

class RemoteLinkTest : public testing::Test {
 protected:
  RemoteLinkTest() { Start({"a:1", "b:1"}); }

  std::unique_ptr<ControlList> NewList(std::vector<std::string> addresses) {
    return std::make_unique<ControlList>(
        [this](const std::string& address) {
          farm_.dialled.push_back(address);
          return std::make_shared<PlayedChannel>(&farm_, address);
        },
        std::move(addresses), &clock_, &entropy_);
  }
  void Start(std::vector<std::string> addresses, uint64_t spool_bytes_max = 1 << 20) {
    link_ = nullptr;
    spool_ = nullptr;
    controls_ = NewList(std::move(addresses));
    auto spool = ReportSpool::Open(directory_.File("spool"), spool_bytes_max);
    TUNEFARM_CHECK_OK(spool);
    spool_ = *std::move(spool);
    link_ = std::make_unique<RemoteLink>(RemoteLinkOptions{controls_.get(), spool_.get(), &calls_, &reports_, &waits_});
    link_->SetWake([this] { ++wakes_; });
  }

  void Register(const std::string& agent_id = "agent") {
    tunefarm::agent::v1::RegisterRequest request;
    request.set_agent_id(agent_id);
    const auto response = link_->Register(request);
    ASSERT_TRUE(response.ok()) << response.status();
    request_.set_agent_id(agent_id);
    request_.set_epoch(response->epoch());
  }

  // Everything that is ready; the waits are left alone.
  void Run() {
    while (calls_.RunOne() || reports_.RunOne()) continue;
  }
  void RunFor(Duration time) {
    const MonotonicTime end = clock_.Now() + time;
    Run();
    while (true) {
      std::optional<MonotonicTime> due = calls_.NextDue();
      if (const auto other = reports_.NextDue(); other.has_value() && (!due.has_value() || *other < *due)) due = other;
      if (!due.has_value() || *due > end) break;
      clock_.AdvanceTo(*due);
      Run();
    }
    clock_.AdvanceTo(end);
  }

  void Report(int64_t unit_id, int64_t ordinal, bool done = false) {
    tunefarm::agent::v1::ReportTrialsRequest report;
    report.set_agent_id(request_.agent_id());
    report.set_epoch(request_.epoch());
    report.set_unit_id(unit_id);
    report.set_token(7);
    auto* trial = report.add_trials();
    trial->set_ordinal(ordinal);
    trial->set_device_uuid("GPU-1");
    report.set_unit_done(done);
    const auto response = link_->ReportTrials(report);
    ASSERT_TRUE(response.ok()) << response.status();
    EXPECT_EQ(response->verdict(), tunefarm::agent::v1::REPORT_VERDICT_ACCEPTED);
  }

  std::vector<int64_t> Ordinals() const {
    std::vector<int64_t> ordinals;
    for (const auto& report : farm_.reports) {
      for (const auto& trial : report.trials()) ordinals.push_back(trial.ordinal());
    }
    return ordinals;
  }

  tunefarm::agent::v1::SynchronizeRequest Demand(int units) {
    tunefarm::agent::v1::SynchronizeRequest request = request_;
    request.add_demands()->set_device_uuid("GPU-1");
    request.mutable_demands(0)->set_units(units);
    return request;
  }

  FakeClock clock_;
  FakeEntropy entropy_;
  TemporaryDirectory directory_;
  PlayedFarm farm_;
  ManualExecutor calls_{&clock_}, reports_{&clock_}, waits_{&clock_};
  std::unique_ptr<ControlList> controls_;
  std::unique_ptr<ReportSpool> spool_;
  std::unique_ptr<RemoteLink> link_;
  tunefarm::agent::v1::SynchronizeRequest request_;
  int wakes_ = 0;
};

}  // namespace tunefarm
