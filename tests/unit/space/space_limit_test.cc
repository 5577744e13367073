// Spaces that take long are given up: all work on them ends with its limit, at whichever step it is.
#include "server/space/space_limit.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/base/random.h"
#include "server/base/status.h"
#include "server/space/space.h"

namespace tunefarm {
namespace {

std::vector<Value> Ints(int count) {
  std::vector<Value> values;
  for (int value = 1; value <= count; ++value) values.emplace_back(int64_t{value});
  return values;
}

// Between 0 and 1, no sums of which are equal.
std::vector<Value> Floats(int count) {
  std::vector<Value> values;
  for (int value = 0; value < count; ++value) values.emplace_back(std::fmod(7.31 * std::sqrt(value + 2.0), 1.0));
  return values;
}

void AddParameters(const std::vector<Value>& values, SpaceDefinition* definition) {
  for (const char* const name : {"a", "b", "c", "d", "e", "f", "g", "h"}) {
    definition->parameters.push_back({name, values, {}});
  }
}

// 18^8 points of which some per cent are valid; no two prefixes lead to the same sum.
SpaceDefinition Sums() {
  SpaceDefinition definition;
  AddParameters(Floats(18), &definition);
  definition.constraints = {{"a * b + c * d - e * f + g * h > 0.1 and a * b + c * d - e * f + g * h < 0.2", ""}};
  return definition;
}

// Nothing is known of the remainder before the last parameter.
SpaceDefinition Remainders() {
  SpaceDefinition definition;
  AddParameters(Ints(4096), &definition);
  definition.constraints = {{"(a * b + c * d * e + f * g * h) % 104729 == 17", ""}};
  return definition;
}

SpaceDefinition Strings() {
  SpaceDefinition definition;
  std::vector<Value> values;
  for (int value = 0; value < 40; ++value) values.emplace_back("s" + std::to_string(value));
  AddParameters(values, &definition);
  definition.constraints = {
      {"not (a == b and c == d) and (a != e or f != g) and (b != h or c == g) and ((a == f) != (h == e))", ""}};
  return definition;
}

// Judged by Expressions: values of several types have no place among the rules of ints and floats.
SpaceDefinition Mixed() {
  SpaceDefinition definition;
  std::vector<Value> values = Ints(30);
  for (const Value& value : Floats(30)) values.push_back(value);
  AddParameters(values, &definition);
  std::string sum = "0";
  for (int i = 0; i < 20; ++i) sum += " + (a if b > c else d * e - f) * (g - h)";
  definition.constraints = {{sum + " > 123456.5", ""}};
  return definition;
}

// Very many rules, of which each is large: to prepare their search takes long.
SpaceDefinition ManyRules() {
  SpaceDefinition definition;
  AddParameters(Ints(4096), &definition);
  for (int rule = 0; rule < 60; ++rule) {
    std::string text = "True";
    for (int i = 0; i < 60; ++i) {
      text += " and (a * " + std::to_string(rule + 2) + " + b * c + d * " + std::to_string(i + 3) + " + e * f) % " +
              std::to_string(rule + i + 5) + " != g * h";
    }
    definition.constraints.push_back({text, ""});
  }
  return definition;
}

// Rules on one parameter alone, with many values and long texts.
SpaceDefinition OneParameterAlone() {
  SpaceDefinition definition;
  definition.parameters.push_back({"a", Ints(60'000), {}});
  for (int rule = 0; rule < 100; ++rule) {
    std::string text = "a % 60001 > -" + std::to_string(rule + 1);
    for (int i = 0; i < 100; ++i) text += " and a * " + std::to_string(i + 2) + " != " + std::to_string(-rule - 1);
    definition.constraints.push_back({text, ""});
  }
  return definition;
}

// Several parameters more than fit into one number, where nothing is known before the last.
SpaceDefinition Wide() {
  SpaceDefinition definition;
  std::string sum = "0";
  for (int p = 0; p < 70; ++p) {
    const std::string name = "p" + std::to_string(p);
    definition.parameters.push_back({name, Floats(3), {}});
    sum += " + " + name + (p % 2 == 0 ? "" : " * p" + std::to_string(p - 1));
  }
  definition.constraints = {{sum + " < 25.0", ""}};
  return definition;
}

using Operation = std::function<absl::Status(const Space&)>;

std::vector<std::pair<std::string, Operation>> Operations() {
  return {
      {"count", [](const Space& space) { return space.CountValid().status(); }},
      {"list", [](const Space& space) { return space.Enumerate().status(); }},
      {"sample",
       [](const Space& space) {
         PhiloxStream random(1);
         return space.SampleUniform(random).status();
       }},
      {"rules", [](const Space& space) { return space.CountByRule().status(); }},
  };
}

struct Hostile {
  std::string name;
  SpaceDefinition definition;
};

std::vector<Hostile> HostileSpaces() {
  return {{"sums", Sums()},       {"remainders", Remainders()}, {"mixed", Mixed()},
          {"strings", Strings()}, {"many rules", ManyRules()},  {"alone", OneParameterAlone()},
          {"wide", Wide()}};
}

TEST(SpaceLimit, ACancelledSpaceIsNotSearched) {
  for (const auto& [name, definition] : HostileSpaces()) {
    const std::shared_ptr<WorkLimit> limit = MakeSpaceLimit("hostile", {});
    const auto space = Space::Build(definition, {.limit = limit});
    ASSERT_TRUE(space.ok()) << name << ": " << space.status();
    limit->Cancel();
    for (const auto& [what, operation] : Operations()) {
      const absl::Status status = operation(*space);
      EXPECT_TRUE(absl::IsCancelled(status)) << name << ", " << what << ": " << status;
    }
    EXPECT_TRUE(absl::IsCancelled(space->PrepareSampling())) << name;
  }
}

// Each of these has more work than any limit here: that these calls return is the test.
TEST(SpaceLimit, CountingEndsWithItsTimeWhereverItIs) {
  for (const auto& [name, definition] : HostileSpaces()) {
    if (name == "alone") continue;  // takes seconds only
    for (const auto time : {std::chrono::milliseconds(5), std::chrono::milliseconds(300)}) {
      const auto space = Space::Build(
          definition, {.nodes_max = UINT64_MAX, .limit = MakeSpaceLimit("hostile", {.processor_time = time})});
      ASSERT_TRUE(space.ok()) << name << ": " << space.status();
      const absl::Status counted = space->CountValid().status();
      EXPECT_EQ(ReasonOf(counted), kWorkLimitReason) << name << ": " << counted;
      EXPECT_NE(MessageOf(counted).find("kernel 'hostile'"), std::string_view::npos) << counted;
      EXPECT_EQ(ReasonOf(space->PrepareSampling()), kWorkLimitReason) << name;
    }
  }
}

// Cancelled by another thread, or by what the limit asks, while several threads list.
TEST(SpaceLimit, AListingOfSeveralThreadsEndsWhenItIsCancelled) {
  std::atomic<int> asked = 0;
  const auto limit = MakeSpaceLimit("hostile", {.is_cancelled = [&asked] { return ++asked > 500; }});
  const auto space = Space::Build(Sums(), {.nodes_max = UINT64_MAX, .threads = 4, .limit = limit});
  ASSERT_TRUE(space.ok()) << space.status();
  EXPECT_TRUE(absl::IsCancelled(space->Enumerate(UINT32_MAX).status()));
}

TEST(SpaceLimit, WhatIsGivenUpCanBeBegunAgain) {
  SpaceDefinition definition;
  definition.parameters = {{"a", Ints(40), {}}, {"b", Ints(40), {}}};
  definition.constraints = {{"a % 2 == 0", ""}, {"(a + b) % 3 == 0", ""}};
  const auto expected = Space::Build(definition)->CountValid();
  ASSERT_TRUE(expected.ok());
  const auto limit = MakeSpaceLimit("small", {.processor_time = Duration::zero()});
  while (limit->GoOn()) continue;
  const auto space = Space::Build(definition, {.limit = limit});
  EXPECT_EQ(ReasonOf(space->CountValid().status()), kWorkLimitReason);
  limit->Begin(Duration::max());
  EXPECT_EQ(*space->CountValid(), *expected);
  EXPECT_EQ(space->Enumerate()->size(), *expected);
}

// The parts of a limit that counting has are used up, and the space is estimated.
TEST(SpaceLimit, WhatCannotBeCountedInTimeIsEstimated) {
  const auto space =
      Space::Build(Sums(), {.limit = MakeSpaceLimit("sums", {.processor_time = std::chrono::minutes(5)})});
  ASSERT_TRUE(space.ok()) << space.status();
  const auto report = space->CountByRule();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_FALSE(report->exact);
  EXPECT_FALSE(report->is_valid_exact);
  EXPECT_GT(report->samples, 0u);
  EXPECT_GT(report->valid, 0);
  EXPECT_LT(report->valid, report->cartesian);
}

TEST(SpaceLimit, AListIsHeldOfTheMemoryUntilItIsGone) {
  SpaceDefinition definition;
  definition.parameters = {{"a", Ints(100), {}}, {"b", Ints(100), {}}, {"c", Ints(100), {}}};
  definition.constraints = {{"(a + b + c) % 2 == 0", ""}};
  const auto memory = std::make_shared<MemoryBudget>(64 << 20);
  WorkLimit::Bounds bounds;
  bounds.memory = memory;
  const auto space = Space::Build(definition, {.limit = std::make_shared<WorkLimit>(bounds)});
  ASSERT_TRUE(space.ok()) << space.status();
  ASSERT_TRUE(space->CountValid().ok());
  const uint64_t search = memory->used();
  EXPECT_LT(search, 100'000u);
  {
    const auto table = space->Enumerate();
    ASSERT_TRUE(table.ok()) << table.status();
    EXPECT_EQ(table->size(), 500'000u);
    EXPECT_EQ(memory->used() - search, table->size() * 3 * sizeof(uint16_t));
  }
  EXPECT_EQ(memory->used(), search);
}

TEST(SpaceLimit, AListThatTheMemoryHasNoRoomForIsRefused) {
  SpaceDefinition narrow;
  narrow.parameters = {{"a", Ints(100), {}}, {"b", Ints(100), {}}, {"c", Ints(100), {}}};
  narrow.constraints = {{"(a + b + c) % 2 == 0", ""}};
  SpaceDefinition free = narrow;
  free.constraints.clear();
  // 17 parameters that choose, and others that follow them: 2^17 configs that do not fit into one number.
  SpaceDefinition wide;
  for (int p = 0; p < 85; ++p) {
    wide.parameters.push_back({"p" + std::to_string(p), Ints(2), {}});
    if (p >= 17) wide.constraints.push_back({"p" + std::to_string(p) + " == p" + std::to_string(p - 17), ""});
  }
  for (const SpaceDefinition& definition : {narrow, free, wide}) {
    const auto memory = std::make_shared<MemoryBudget>(1 << 20);
    WorkLimit::Bounds bounds;
    bounds.memory = memory;
    const auto space = Space::Build(definition, {.limit = std::make_shared<WorkLimit>(bounds)});
    ASSERT_TRUE(space.ok()) << space.status();
    const absl::Status listed = space->Enumerate().status();
    EXPECT_EQ(ReasonOf(listed), "SPACE_MEMORY") << listed;
    EXPECT_NE(MessageOf(listed).find("(1 MiB,"), std::string_view::npos) << listed;
    EXPECT_LT(memory->used(), 100'000u) << "what the search itself holds";
    // It can be drawn from all the same.
    PhiloxStream random(1);
    const auto drawn = space->SampleUniform(random);
    ASSERT_TRUE(drawn.ok()) << drawn.status();
    EXPECT_TRUE(space->IsValid(*drawn));
    EXPECT_LE(memory->used(), memory->bytes_max());
  }
}

}  // namespace
}  // namespace tunefarm
