#include "server/worker/host/trial/brief_phases.h"

#include <utility>

namespace tunefarm {

void BriefPhases::Begin(tunefarm::v1::Phase phase) {
  held_back_ = phase;
  if (announces_ || clock_->Now() - start_ > kBrief) Announce();
}

void BriefPhases::Announce() {
  announces_ = true;
  const tunefarm::v1::Phase phase = std::exchange(held_back_, tunefarm::v1::PHASE_UNSPECIFIED);
  if (phase != tunefarm::v1::PHASE_UNSPECIFIED) reporter_->Begin(phase);
}

}  // namespace tunefarm
