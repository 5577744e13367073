// ControlChannel: a way to one control daemon, call by call. gRPC's is in agent/remote; tests have their own.
//
// Threads: all methods may be called from any thread, several at once; they block until control has answered or the
// deadline has passed. Errors: Unavailable and DeadlineExceeded when control cannot be reached (or cannot write now),
// Cancelled after Cancel; control's own refusals with their reason.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/base/clock.h"
#include "tunefarm/agent/v1/agent.pb.h"

namespace tunefarm {

class ControlChannel {
 public:
  virtual ~ControlChannel() = default;

  virtual absl::StatusOr<tunefarm::agent::v1::RegisterResponse> Register(
      const tunefarm::agent::v1::RegisterRequest& request, Duration deadline) = 0;
  virtual absl::StatusOr<tunefarm::agent::v1::SynchronizeResponse> Synchronize(
      const tunefarm::agent::v1::SynchronizeRequest& request, Duration deadline) = 0;
  virtual absl::StatusOr<tunefarm::agent::v1::WaitResponse> Wait(const tunefarm::agent::v1::WaitRequest& request,
                                                                 Duration deadline) = 0;
  virtual absl::StatusOr<tunefarm::agent::v1::ClaimWorkResponse> ClaimWork(
      const tunefarm::agent::v1::ClaimWorkRequest& request, Duration deadline) = 0;
  virtual absl::StatusOr<tunefarm::agent::v1::ReportUnitsResponse> ReportUnits(
      const tunefarm::agent::v1::ReportUnitsRequest& request, Duration deadline) = 0;
  virtual absl::StatusOr<tunefarm::agent::v1::FetchKernelResponse> FetchKernel(
      const tunefarm::agent::v1::FetchKernelRequest& request, Duration deadline) = 0;
  virtual absl::StatusOr<tunefarm::agent::v1::TakeCompilesResponse> TakeCompiles(
      const tunefarm::agent::v1::TakeCompilesRequest& request, Duration deadline) = 0;
  virtual absl::StatusOr<tunefarm::agent::v1::OfferBinaryResponse> OfferBinary(
      const tunefarm::agent::v1::OfferBinaryRequest& request, Duration deadline) = 0;
  virtual absl::StatusOr<tunefarm::agent::v1::FetchBinaryResponse> FetchBinary(
      const tunefarm::agent::v1::FetchBinaryRequest& request, Duration deadline) = 0;
  virtual absl::StatusOr<tunefarm::agent::v1::FetchDataFileResponse> FetchDataFile(
      const tunefarm::agent::v1::FetchDataFileRequest& request, Duration deadline) = 0;
  virtual absl::StatusOr<tunefarm::agent::v1::DeregisterResponse> Deregister(
      const tunefarm::agent::v1::DeregisterRequest& request, Duration deadline) = 0;

  // Ends the calls under way, and every later one, with Cancelled.
  virtual void Cancel() = 0;
};

// Does not wait: whether somebody answers there shows the first call. "host:port" or "unix:/path".
using ControlDialer = std::function<std::shared_ptr<ControlChannel>(const std::string& address)>;

}  // namespace tunefarm
