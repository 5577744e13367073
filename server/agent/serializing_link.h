// An AgentLink that writes every request and response to bytes and reads them back, as a network would. It proves that
// control and agent share nothing but messages.
//
// Threads: as AgentLink. Errors: those of the wrapped link, and Internal when a message does not survive.
#pragma once

#include "server/agent/agent_link.h"

namespace tunefarm {

class SerializingLink : public AgentLink {
 public:
  // `link` outlives this.
  explicit SerializingLink(AgentLink* link) : link_(link) {}

  absl::StatusOr<tunefarm::agent::v1::RegisterResponse> Register(
      const tunefarm::agent::v1::RegisterRequest& request) override;
  absl::StatusOr<tunefarm::agent::v1::SynchronizeResponse> Synchronize(
      const tunefarm::agent::v1::SynchronizeRequest& request) override;
  absl::StatusOr<tunefarm::agent::v1::ReportTrialsResponse> ReportTrials(
      const tunefarm::agent::v1::ReportTrialsRequest& request) override;
  absl::StatusOr<tunefarm::agent::v1::FetchKernelResponse> FetchKernel(
      const tunefarm::agent::v1::FetchKernelRequest& request) override;
  bool shares_work() const override { return link_->shares_work(); }
  void ClaimWork(const tunefarm::agent::v1::ClaimWorkRequest& request,
                 const std::function<void(absl::StatusOr<tunefarm::agent::v1::ClaimWorkResponse>)>& done) override;
  void SetWake(std::function<void()> wake) override { link_->SetWake(std::move(wake)); }

 private:
  AgentLink* const link_;
};

}  // namespace tunefarm
