#include "client/cpp/best_mirror.h"

#include <gtest/gtest.h>

#include "tests/unit/client_cpp/fake_daemon.h"

namespace tunefarm::client {
namespace {

v1::WatchBestConfigsResponse Part(const std::vector<v1::BestConfig>& bests, bool reset = false) {
  v1::WatchBestConfigsResponse part;
  part.set_reset(reset);
  for (const v1::BestConfig& best : bests) *part.add_bests() = best;
  return part;
}

v1::WatchBestConfigsResponse Retired(const v1::BestConfig& best) {
  v1::WatchBestConfigsResponse part;
  v1::BestConfigKey* const key = part.add_retired();
  key->set_program_digest(best.program_digest());
  key->set_problem_key(best.problem().key());
  key->set_device_class_id(best.device_class_id());
  return part;
}

TEST(BestMirrorTest, ChangesTakeEffectWhenTheyAreCommitted) {
  CacheBudget budget{100, 1 << 20};
  BestMirror mirror(&budget);
  mirror.Stage(Part({MakeBest(1, 1, 1)}));
  mirror.Stage(Part({MakeBest(2, 1, 2)}));
  EXPECT_TRUE(mirror.bests().empty());
  MirrorChange change = mirror.Commit();
  EXPECT_EQ(change.added.size(), 2u);
  EXPECT_EQ(mirror.bests().size(), 2u);
  mirror.Stage(Part({MakeBest(1, 1, 9)}));
  mirror.Stage(Retired(MakeBest(2, 1, 0)));
  change = mirror.Commit();
  EXPECT_EQ(change.added.size(), 1u);
  EXPECT_EQ(change.removed.size(), 2u);
  EXPECT_EQ(mirror.bests().size(), 1u);
  EXPECT_EQ(budget.bests, 1u);
  EXPECT_EQ(budget.bytes, mirror.bytes());
}

TEST(BestMirrorTest, ABrokenChangeLeavesNothing) {
  CacheBudget budget{100, 1 << 20};
  BestMirror mirror(&budget);
  mirror.Stage(Part({MakeBest(1, 1, 1)}));
  mirror.Commit();
  mirror.Stage(Part({MakeBest(2, 1, 2)}, true));
  mirror.DropStaged();
  const MirrorChange change = mirror.Commit();
  EXPECT_FALSE(change.reset);
  EXPECT_EQ(mirror.bests().size(), 1u);
}

TEST(BestMirrorTest, AResetForgetsWhatCameBeforeItEvenInTheSameChange) {
  CacheBudget budget{100, 1 << 20};
  BestMirror mirror(&budget);
  mirror.Stage(Part({MakeBest(1, 1, 1)}));
  mirror.Commit();
  mirror.Stage(Part({MakeBest(3, 1, 3)}));
  mirror.Stage(Part({MakeBest(2, 1, 2)}, true));
  const MirrorChange change = mirror.Commit();
  EXPECT_TRUE(change.reset);
  ASSERT_EQ(mirror.bests().size(), 1u);
  EXPECT_EQ(mirror.bests().begin()->second->exact->answer.config.Int("TILE"), 2);
}

TEST(BestMirrorTest, BoundsHoldAndAnOldBestNeverStandsForOneThatDidNotFit) {
  CacheBudget budget{2, 1 << 20};
  {
    BestMirror mirror(&budget);
    BestMirror other(&budget);
    other.Stage(Part({MakeBest(9, 1, 9)}));
    other.Commit();
    mirror.Stage(Part({MakeBest(1, 1, 1)}));
    mirror.Stage(Part({MakeBest(2, 1, 2)}));
    mirror.Commit();
    EXPECT_EQ(mirror.bests().size(), 1u);
    EXPECT_EQ(mirror.left_out(), 1u);
    budget.bytes_max = budget.bytes - 1;
    mirror.Stage(Part({MakeBest(1, 1, 3)}));
    const MirrorChange change = mirror.Commit();
    EXPECT_EQ(change.removed.size(), 1u);
    EXPECT_TRUE(change.added.empty());
    EXPECT_TRUE(mirror.bests().empty());
    mirror.Stage(Part({}, true));
    mirror.Commit();
    EXPECT_EQ(mirror.left_out(), 0u);
  }
  EXPECT_EQ(budget.bests, 0u);
  EXPECT_EQ(budget.bytes, 0u);
}

}  // namespace
}  // namespace tunefarm::client
