#include "tests/unit/search/sample_spaces.h"

#include <fmt/core.h>

#include <cmath>

#include "server/base/check.h"

namespace tunefarm {
namespace {

double NumberOf(const Value& value) {
  if (value.is_bool()) return value.bool_value() ? 1 : 0;
  if (value.is_int()) return static_cast<double>(value.int_value());
  if (value.is_float()) return value.float_value();
  return static_cast<double>(value.string_value().size());
}

}  // namespace

Space SampleSpace() {
  SpaceDefinition definition;
  definition.parameters = {{"A", {1, 2, 4, 8, 16}, Value(2)},           {"B", {1, 2, 4, 8, 16}, Value(4)},
                           {"layout", {"row", "column"}, Value("row")}, {"cached", {false, true}, Value(false)},
                           {"share", {0.25, 0.5, 1.0}, Value(0.5)},     {"unroll", {0, 1, 2, 4}, Value(1)}};
  definition.constraints = {{"A * B <= 32", ""}, {"unroll <= A", ""}, {"not cached or B >= 2", ""}};
  auto space = Space::Build(definition);
  TUNEFARM_CHECK_OK(space);
  return *std::move(space);
}

Space LargeSampleSpace() {
  SpaceDefinition definition;
  for (int i = 0; i < 10; ++i) {
    Parameter parameter{fmt::format("P{}", i), {}, {}};
    for (int v = 0; v < 10; ++v) parameter.values.push_back(v);
    definition.parameters.push_back(parameter);
  }
  definition.constraints = {{"P0 + P1 <= 12", ""}, {"P2 * P3 <= 30", ""}, {"P4 != P5", ""}};
  auto space = Space::Build(definition);
  TUNEFARM_CHECK_OK(space);
  return *std::move(space);
}

double SampleObjective(const Config& config) {
  double time = 100;
  double before = 1;
  double place = 0;
  for (const auto& [name, value] : config) {
    const double number = NumberOf(value);
    const double wanted = 2.5 + place;
    time *= 1 + 0.08 * std::abs(number - wanted) + 0.02 * std::abs(number - before);
    before = number;
    place = place > 2 ? 0 : place + 0.75;
  }
  return time * (1 + 0.01 * static_cast<double>(config.Hash() % 8));
}

PriorSource SamplePrior(const Space& space, double roughness) {
  PriorSource source;
  source.label = "another device";
  const auto table = space.Enumerate();
  TUNEFARM_CHECK_OK(table);
  for (uint64_t row = 0; row < table->size(); ++row) {
    const Config config = space.ConfigAt(*table, row);
    const bool fails = config.Hash() % 11 == 0;
    const double rough = 1 + roughness * static_cast<double>(config.Hash() % 5);
    source.results.push_back(
        {config, fails ? ToldOutcome::kFailed : ToldOutcome::kOk, fails ? 0 : 3 * SampleObjective(config) * rough});
  }
  return source;
}

Recording SampleRecording() {
  SpaceDefinition definition;
  definition.parameters = {{"A", {1, 2, 4, 8, 16, 32}, {}}, {"B", {1, 2, 4, 8, 16, 32}, {}},
                           {"C", {0, 1, 2, 3}, {}},         {"D", {0, 1}, {}},
                           {"E", {1, 2, 3, 4, 5}, {}},      {"F", {"x", "y", "zz"}, {}}};
  definition.constraints = {{"A * B <= 256", ""}};
  const auto space = Space::Build(definition);
  TUNEFARM_CHECK_OK(space);
  const auto table = space->Enumerate();
  TUNEFARM_CHECK_OK(table);
  std::vector<RecordedTrial> trials;
  for (uint64_t row = 0; row < table->size(); ++row) {
    RecordedTrial trial;
    trial.config = space->ConfigAt(*table, row);
    const bool fails = trial.config.Hash() % 7 == 0;
    trial.result.outcome = fails ? ToldOutcome::kFailed : ToldOutcome::kOk;
    trial.result.objective_ns = fails ? 0 : SampleObjective(trial.config);
    trial.result.cost_seconds = fails ? 0.5 : 1 + 0.1 * static_cast<double>(trial.config.Hash() % 3);
    trials.push_back(std::move(trial));
  }
  auto recording = Recording::Make("sample", trials);
  TUNEFARM_CHECK_OK(recording);
  return *std::move(recording);
}

}  // namespace tunefarm
