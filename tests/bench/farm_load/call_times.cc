#include "tests/bench/farm_load/call_times.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace tunefarm {

namespace wire = tunefarm::agent::v1;

namespace {

std::string Quantiles(std::vector<float> ms) {
  std::sort(ms.begin(), ms.end());
  const auto at = [&](double q) {
    return ms.empty() ? 0.0F : ms[static_cast<size_t>(q * static_cast<double>(ms.size() - 1))];
  };
  return fmt::format("{{\"calls\": {}, \"p50\": {:.3f}, \"p99\": {:.3f}}}", ms.size(), at(0.5), at(0.99));
}

class CountingChannel : public ControlChannel {
 public:
  CountingChannel(std::shared_ptr<ControlChannel> channel, CallTimes* times)
      : channel_(std::move(channel)), times_(times) {}

  absl::StatusOr<wire::RegisterResponse> Register(const wire::RegisterRequest& request, Duration deadline) override {
    return channel_->Register(request, deadline);
  }
  absl::StatusOr<wire::SynchronizeResponse> Synchronize(const wire::SynchronizeRequest& request,
                                                        Duration deadline) override {
    const MonotonicTime begin = Clock::Real()->Now();
    auto response = channel_->Synchronize(request, deadline);
    const bool claimed = response.ok() && response->assignments_size() > 0;
    Note(claimed ? CallTimes::Call::kClaim : CallTimes::Call::kSynchronize, begin, response.ok());
    return response;
  }
  absl::StatusOr<wire::WaitResponse> Wait(const wire::WaitRequest& request, Duration deadline) override {
    return channel_->Wait(request, deadline);
  }
  absl::StatusOr<wire::ClaimWorkResponse> ClaimWork(const wire::ClaimWorkRequest& request, Duration deadline) override {
    return channel_->ClaimWork(request, deadline);
  }
  absl::StatusOr<wire::ReportUnitsResponse> ReportUnits(const wire::ReportUnitsRequest& request,
                                                        Duration deadline) override {
    const MonotonicTime begin = Clock::Real()->Now();
    auto response = channel_->ReportUnits(request, deadline);
    Note(CallTimes::Call::kReport, begin, response.ok());
    if (!response.ok()) return response;
    for (int i = 0; i < std::min(response->results_size(), request.reports_size()); ++i) {
      if (response->results(i).verdict() == wire::REPORT_VERDICT_ACCEPTED) {
        times_->AddTrials(request.reports(i).trials_size());
      } else {
        times_->AddStale();
      }
    }
    return response;
  }
  absl::StatusOr<wire::FetchKernelResponse> FetchKernel(const wire::FetchKernelRequest& request,
                                                        Duration deadline) override {
    return channel_->FetchKernel(request, deadline);
  }
  absl::StatusOr<wire::TakeCompilesResponse> TakeCompiles(const wire::TakeCompilesRequest& request,
                                                          Duration deadline) override {
    return channel_->TakeCompiles(request, deadline);
  }
  absl::StatusOr<wire::OfferBinaryResponse> OfferBinary(const wire::OfferBinaryRequest& request,
                                                        Duration deadline) override {
    return channel_->OfferBinary(request, deadline);
  }
  absl::StatusOr<wire::FetchBinaryResponse> FetchBinary(const wire::FetchBinaryRequest& request,
                                                        Duration deadline) override {
    return channel_->FetchBinary(request, deadline);
  }
  absl::StatusOr<wire::FetchDataFileResponse> FetchDataFile(const wire::FetchDataFileRequest& request,
                                                            Duration deadline) override {
    return channel_->FetchDataFile(request, deadline);
  }
  absl::StatusOr<wire::DeregisterResponse> Deregister(const wire::DeregisterRequest& request,
                                                      Duration deadline) override {
    return channel_->Deregister(request, deadline);
  }
  void Cancel() override { channel_->Cancel(); }

 private:
  void Note(CallTimes::Call call, MonotonicTime begin, bool ok) {
    if (ok) {
      times_->Add(call, Clock::Real()->Now() - begin);
    } else {
      times_->AddFailure();
    }
  }

  const std::shared_ptr<ControlChannel> channel_;
  CallTimes* const times_;
};

}  // namespace

void CallTimes::Add(Call call, Duration took) {
  MutexLock lock(&mutex_);
  ms_[static_cast<int>(call)].push_back(std::chrono::duration<float, std::milli>(took).count());
}

void CallTimes::Reset() {
  trials_ = stale_ = failures_ = 0;
  MutexLock lock(&mutex_);
  for (std::vector<float>& ms : ms_) ms.clear();
}

std::string CallTimes::Report() const {
  MutexLock lock(&mutex_);
  return fmt::format(
      "{{\"trials\": {}, \"stale\": {}, \"failures\": {}, \"synchronize\": {}, \"claim\": {}, \"report\": {}}}",
      trials_.load(), stale_.load(), failures_.load(), Quantiles(ms_[static_cast<int>(Call::kSynchronize)]),
      Quantiles(ms_[static_cast<int>(Call::kClaim)]), Quantiles(ms_[static_cast<int>(Call::kReport)]));
}

std::shared_ptr<ControlChannel> CountCalls(std::shared_ptr<ControlChannel> channel, CallTimes* times) {
  return std::make_shared<CountingChannel>(std::move(channel), times);
}

}  // namespace tunefarm
