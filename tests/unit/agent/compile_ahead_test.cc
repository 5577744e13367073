#include "server/agent/compile_ahead.h"

#include <cmath>

#include "gtest/gtest.h"

namespace tunefarm {
namespace {

TEST(CompileAhead, WhatIsNotKnownGivesEveryWorkerOne) {
  CompileAhead ahead;
  EXPECT_EQ(ahead.Bound(0, 16), 16);
  EXPECT_EQ(ahead.Bound(20, 16), 16);
  ahead.Note(100);
  EXPECT_EQ(ahead.Bound(0, 16), 16);
  EXPECT_EQ(ahead.Bound(0, 0), 1);
  EXPECT_EQ(ahead.Bound(0, 500), 64);
}

TEST(CompileAhead, AsManyAsEndWhileOneIsCompiledThreeTimes) {
  CompileAhead ahead;
  ahead.Note(100);
  EXPECT_EQ(ahead.Bound(25, 16), 12);
  EXPECT_EQ(ahead.Bound(1000, 16), 1);
  // Compilers are the bound.
  EXPECT_EQ(ahead.Bound(1, 16), 48);
  EXPECT_EQ(ahead.Bound(1, 0), 1);
}

TEST(CompileAhead, BinariesThatAreThereNeedNoTime) {
  CompileAhead ahead;
  ahead.Note(0);
  EXPECT_EQ(ahead.Bound(25, 16), 1);
  // One that is not says that others may not be.
  ahead.Note(400);
  EXPECT_EQ(ahead.Bound(25, 16), 48);
  for (int i = 0; i < 16; ++i) ahead.Note(0);
  EXPECT_LT(ahead.Bound(25, 16), 20);
  for (int i = 0; i < 100; ++i) ahead.Note(0);
  EXPECT_EQ(ahead.Bound(25, 16), 1);
}

TEST(CompileAhead, NoNumbersDoNotCount) {
  CompileAhead ahead;
  ahead.Note(std::nan(""));
  ahead.Note(-1);
  EXPECT_EQ(ahead.Bound(25, 16), 16);
}

}  // namespace
}  // namespace tunefarm
