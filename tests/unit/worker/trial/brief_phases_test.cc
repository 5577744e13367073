#include "server/worker/host/trial/brief_phases.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/fake_clock.h"
#include "tests/unit/worker/host_kernel.h"

namespace tunefarm {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class BriefPhasesTest : public testing::Test {
 protected:
  FakeClock clock_;
  RecordingReporter daemon_;
  BriefPhases phases_{&daemon_, &clock_};
};

TEST_F(BriefPhasesTest, ShortPhasesAreNotAnnounced) {
  phases_.Begin(v1::PHASE_LOAD);
  clock_.Advance(BriefPhases::kBrief);
  phases_.Begin(v1::PHASE_FIRST_LAUNCH);
  EXPECT_THAT(daemon_.phases, IsEmpty());
}

TEST_F(BriefPhasesTest, AWaitAnnouncesThePhaseThatItIsInAndThoseThatFollow) {
  phases_.Begin(v1::PHASE_LOAD);
  phases_.Begin(v1::PHASE_FIRST_LAUNCH);
  phases_.Announce();
  phases_.Announce();  // the same phase: nothing new
  EXPECT_THAT(daemon_.phases, ElementsAre(v1::PHASE_FIRST_LAUNCH));
  phases_.Begin(v1::PHASE_VERIFY);
  EXPECT_THAT(daemon_.phases, ElementsAre(v1::PHASE_FIRST_LAUNCH, v1::PHASE_VERIFY));
}

TEST_F(BriefPhasesTest, ATrialThatIsNotShortAnnouncesWhatBegins) {
  phases_.Begin(v1::PHASE_LOAD);
  clock_.Advance(BriefPhases::kBrief + std::chrono::milliseconds(1));
  phases_.Begin(v1::PHASE_FIRST_LAUNCH);
  phases_.Begin(v1::PHASE_VERIFY);
  EXPECT_THAT(daemon_.phases, ElementsAre(v1::PHASE_FIRST_LAUNCH, v1::PHASE_VERIFY));
}

TEST_F(BriefPhasesTest, BeforeAPhaseThereIsNothingToAnnounce) {
  phases_.Announce();
  EXPECT_THAT(daemon_.phases, IsEmpty());
  phases_.Begin(v1::PHASE_LOAD);
  EXPECT_THAT(daemon_.phases, ElementsAre(v1::PHASE_LOAD));
}

}  // namespace
}  // namespace tunefarm
