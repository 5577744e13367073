// What strategies cost by themselves: processor time and memory for each proposal and its result, after 10^3, 10^4, ...
// results. A table with one line per strategy, space and number of results.
//
// Usage: strategy_overhead [--strategy NAMES] [--results N] [--window N]
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <sstream>

#include "server/base/random.h"
#include "server/base/status.h"
#include "server/search/strategy.h"

namespace tunefarm {
namespace {

struct Arguments {
  std::string strategies = "default,bayes,genetic,annealing,local,pack,random,exhaustive";
  int64_t results = 100'000;
  int window = 500;
};

double CpuSeconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double ResidentMiB() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmRSS:", 0) == 0) return std::stod(line.substr(6)) / 1024;
  }
  return 0;
}

// `parameters` of ten values each; one config in ten is against the rule.
absl::StatusOr<Space> MakeSpace(int parameters) {
  SpaceDefinition definition;
  for (int p = 0; p < parameters; ++p) {
    Parameter parameter;
    parameter.name = fmt::format("P{}", p);
    for (int64_t value = 0; value < 10; ++value) parameter.values.emplace_back(value);
    parameter.default_value = Value(int64_t{0});
    definition.parameters.push_back(std::move(parameter));
  }
  definition.constraints.push_back({"(P0 + P1) % 10 != 3", ""});
  return Space::Build(std::move(definition));
}

// A rugged bowl; one config in twenty fails.
Told Measure(uint64_t ordinal, const Config& config) {
  double slower = 1;
  int p = 0;
  for (const auto& [name, value] : config) {
    slower += 0.01 * (1 + p % 4) * std::pow(static_cast<double>(value.int_value()) - (3 + p) % 10, 2);
    ++p;
  }
  const uint64_t chance = config.Hash();
  const bool fails = chance % 20 == 0;
  return {ordinal, config, fails ? ToldOutcome::kFailed : ToldOutcome::kOk,
          1000 * slower * (1 + 0.02 * static_cast<double>(chance % 97) / 97)};
}

absl::Status RunOne(const Arguments& arguments, const std::string& name, int parameters) {
  auto space = MakeSpace(parameters);
  if (!space.ok()) return space.status();
  const double before = ResidentMiB();
  auto strategy = MakeStrategy(name, {}, *space, 1);
  if (absl::IsInvalidArgument(strategy.status())) return absl::OkStatus();  // it lists the space, which is too large
  if (!strategy.ok()) return strategy.status();
  const double made = ResidentMiB();
  std::vector<double> costs;
  int64_t next = 1000;
  double best = INFINITY;
  for (int64_t ordinal = 0; ordinal < arguments.results && !(*strategy)->Exhausted(); ++ordinal) {
    const double start = CpuSeconds();
    auto configs = (*strategy)->Ask(1);
    double cost = CpuSeconds() - start;
    if (!configs.ok()) return configs.status();
    if (configs->empty()) break;
    const Told told = Measure(static_cast<uint64_t>(ordinal), configs->front());
    if (told.outcome == ToldOutcome::kOk) best = std::min(best, told.objective_ns);
    const double tell = CpuSeconds();
    (*strategy)->Tell(told);
    cost += CpuSeconds() - tell;
    costs.push_back(cost);
    if (ordinal + 1 < next) continue;
    next *= 10;
    // Of the last thousands: a model that is fitted now and then must show.
    const size_t window = std::min(costs.size(), static_cast<size_t>(arguments.window));
    std::vector<double> last(costs.end() - static_cast<ptrdiff_t>(window), costs.end());
    double sum = 0;
    for (const double one : costs) sum += one;
    std::sort(last.begin(), last.end());
    fmt::print("{:<11} {:>6} {:>9} {:>9.3f} {:>9.3f} {:>9.2f} {:>9.3f} {:>9.1f} {:>9.1f} {:>9.1f}\n", name,
               fmt::format("10^{}", parameters), ordinal + 1, 1e3 * last[window / 2], 1e3 * last[window * 99 / 100],
               1e3 * *std::max_element(costs.begin(), costs.end()), 1e3 * sum / static_cast<double>(costs.size()),
               made - before, ResidentMiB() - before, best);
    std::fflush(stdout);
  }
  return absl::OkStatus();
}

absl::Status Run(const Arguments& arguments) {
  fmt::print("Processor time in ms for a proposal and its result; memory in MiB above that of the program.\n");
  fmt::print("{:<11} {:>6} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}\n", "strategy", "space", "results", "median",
             "99 %", "most", "mean", "made MiB", "MiB", "best ns");
  std::stringstream names(arguments.strategies);
  for (std::string name; std::getline(names, name, ',');) {
    for (const int parameters : {6, 12}) {
      const absl::Status status = RunOne(arguments, name, parameters);
      if (!status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace tunefarm

int main(int argc, char** argv) {
  tunefarm::Arguments arguments;
  CLI::App app("What search strategies cost by themselves.");
  app.add_option("--strategy", arguments.strategies, "Strategies, with commas between them.");
  app.add_option("--results", arguments.results, "How many results each is told.");
  app.add_option("--window", arguments.window, "The median is of so many of the last proposals.");
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = tunefarm::Run(arguments);
  if (status.ok()) return 0;
  fmt::print(stderr, "strategy_overhead: {}\n", tunefarm::MessageOf(status));
  return 1;
}
