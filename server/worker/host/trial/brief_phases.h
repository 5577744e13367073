// BriefPhases: a PhaseReporter that keeps the first phases of a trial to itself while they are short. Most trials of
// small kernels end within a millisecond, and each announcement wakes the daemon, on a core that may be measuring.
//
// Until the first announcement the daemon's deadline is the one of loading, which starts with the evaluation. So what
// runs into a deadline must be announced before: code that waits for a kernel calls Announce when the wait gets long.
//
// One thread. Reporter and clock must outlive it.
#pragma once

#include <chrono>
#include <string_view>

#include "server/base/clock.h"
#include "server/worker/backend.h"

namespace tunefarm {

class BriefPhases final : public PhaseReporter {
 public:
  // How long a trial, or one wait within it, may go on without the daemon knowing where it is.
  static constexpr std::chrono::milliseconds kBrief{5};

  explicit BriefPhases(PhaseReporter* reporter, const Clock* clock = Clock::Real())
      : reporter_(reporter), clock_(clock), start_(clock->Now()) {}

  void Begin(tunefarm::v1::Phase phase) override;
  // The phase that began last, if the daemon does not know of it; those that follow are announced as they begin.
  void Announce();
  void Log(std::string_view text) override { reporter_->Log(text); }
  void TakeDevice() override { reporter_->TakeDevice(); }
  void YieldDevice() override { reporter_->YieldDevice(); }

 private:
  PhaseReporter* const reporter_;
  const Clock* const clock_;
  const MonotonicTime start_;
  tunefarm::v1::Phase held_back_ = tunefarm::v1::PHASE_UNSPECIFIED;
  bool announces_ = false;
};

}  // namespace tunefarm
