// Times of space construction and of expressions. Run as
//   space_bench --benchmark_repetitions=10 --benchmark_report_aggregates_only=true
// and read the medians of CPU time. Kernel Tuner's own times, where they are known, are shown as the counter kt_ratio:
// how many times faster this is than its compiled solver on a machine of the same kind.
#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <cstdlib>

#include "server/space/config_index.h"
#include "server/space/space.h"
#include "tests/unit/space/published_spaces.h"

namespace tunefarm {
namespace {

template <typename T>
T Must(absl::StatusOr<T> value) {
  if (!value.ok()) std::abort();
  return *std::move(value);
}

// From the definition to the listed space, the text of the rules included.
void Construct(benchmark::State& state, const PublishedSpace& space) {
  uint64_t size = 0;
  for (auto _ : state) {
    const Space built = Must(Space::Build(space.definition));
    const ConfigTable table = Must(built.Enumerate());
    size = table.size();
    benchmark::DoNotOptimize(table.size());
  }
  if (space.valid != 0 && size != space.valid) state.SkipWithError("wrong count");
  state.counters["configs"] = static_cast<double>(size);
  if (space.kernel_tuner_s > 0) {
    state.counters["kt_ratio"] =
        benchmark::Counter(space.kernel_tuner_s * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  state.counters["peak_MiB"] = static_cast<double>(usage.ru_maxrss) / 1024;
}

// Four parameters that no rule lets be searched apart, each of `count` values: most of the search is in vain.
SpaceDefinition SparseDefinition(int64_t count) {
  SpaceDefinition definition;
  for (const char* const name : {"a", "b", "c", "d"}) {
    Parameter parameter;
    parameter.name = name;
    for (int64_t value = 1; value <= count; ++value) parameter.values.emplace_back(value);
    definition.parameters.push_back(std::move(parameter));
  }
  definition.constraints.push_back({"(a * b + c * d) % 97 == 5", ""});
  definition.constraints.push_back({"(a + b * c + d) % 31 == 0", ""});
  return definition;
}

Parameter Numbered(int index, int64_t count) {
  Parameter parameter{"P" + std::to_string(index), {}, {}};
  for (int64_t value = 0; value < count; ++value) parameter.values.emplace_back(value);
  return parameter;
}

// A rule that divides by zero where a rule on a later parameter rejects.
SpaceDefinition GuardedDefinition() {
  SpaceDefinition definition;
  for (int i = 0; i < 4; ++i) definition.parameters.push_back(Numbered(i, 40));
  definition.constraints = {{"P0 % P1 < 9", ""}, {"P1 * (P2 + P3 + 1) % 41 != 0", ""}};
  return definition;
}

// 24 parameters of three bits, in pairs or in one chain: a config does not fit into 64 bits.
SpaceDefinition WideDefinition(bool is_chain) {
  SpaceDefinition definition;
  for (int i = 0; i < 24; ++i) definition.parameters.push_back(Numbered(i, 8));
  const auto name = [](int i) { return "P" + std::to_string(i); };
  for (int i = 1; i < 24 && is_chain; ++i) {
    definition.constraints.push_back({"(" + name(i) + " + 3 * " + name(i - 1) + ") % 8 < " + (i < 10 ? "3" : "1"), ""});
  }
  for (int i = 0; i < 12 && !is_chain; ++i) {
    definition.constraints.push_back({name(i) + " * 8 + " + name(23 - i) + " in (0, 27, 45)", ""});
  }
  return definition;
}

// One rule over all parameters of which nothing is known before the last one is bound; it holds for `share` of
// 1,000,003 points.
SpaceDefinition MixedDefinition(int parameters, int64_t values, int share) {
  SpaceDefinition definition;
  std::string mixed = "P0";
  for (int i = 0; i < parameters; ++i) {
    definition.parameters.push_back(Numbered(i, values));
    if (i > 0) mixed = "(" + mixed + " * 7919 + P" + std::to_string(i) + ") % 1000003";
  }
  definition.constraints = {{mixed + " < " + std::to_string(share), ""}};
  return definition;
}

void List(benchmark::State& state, const SpaceDefinition& definition) {
  uint64_t size = 0;
  for (auto _ : state) size = Must(Must(Space::Build(definition)).Enumerate()).size();
  state.counters["configs"] = static_cast<double>(size);
}

// With the counting that the first sample needs.
void FirstSample(benchmark::State& state, const SpaceDefinition& definition) {
  PhiloxStream random(1);
  for (auto _ : state) benchmark::DoNotOptimize(Must(Must(Space::Build(definition)).SampleUniform(random)));
}

// By wall time, and with the processor time of all threads.
void ConstructOnThreads(benchmark::State& state, const SpaceDefinition& definition) {
  SpaceOptions options;
  options.threads = static_cast<int>(state.range(0));
  uint64_t size = 0;
  for (auto _ : state) size = Must(Must(Space::Build(definition, options)).Enumerate()).size();
  state.counters["configs"] = static_cast<double>(size);
}

void Index(benchmark::State& state, const PublishedSpace& space) {
  const Space built = Must(Space::Build(space.definition));
  const ConfigTable table = Must(built.Enumerate());
  for (auto _ : state) benchmark::DoNotOptimize(ConfigIndex(table).Find(table.Row(0)));
}

void Count(benchmark::State& state, const SpaceDefinition& definition) {
  for (auto _ : state) {
    const Space built = Must(Space::Build(definition));
    state.counters["configs"] = static_cast<double>(Must(built.CountValid()));
  }
}

void Sample(benchmark::State& state, const SpaceDefinition& definition) {
  const Space space = Must(Space::Build(definition));
  PhiloxStream random(1);
  Must(space.SampleUniform(random));
  for (auto _ : state) benchmark::DoNotOptimize(Must(space.SampleUniform(random)));
}

// Every rule of a space at random points, one evaluation of Expression per check.
void Checks(benchmark::State& state, const PublishedSpace& space) {
  const SpaceDefinition& definition = space.definition;
  SymbolTable symbols;
  for (const Parameter& parameter : definition.parameters) {
    Must(symbols.AddVariable(parameter.name, parameter.values[0].type()));
  }
  std::vector<Expression> rules;
  for (const Rule& rule : definition.constraints) rules.push_back(Must(Expression::Compile(rule.text, symbols)));
  constexpr size_t kPoints = 256;
  const size_t width = definition.parameters.size();
  std::vector<Value> points;
  PhiloxStream random(1);
  for (size_t i = 0; i < kPoints; ++i) {
    for (const Parameter& parameter : definition.parameters) {
      points.push_back(parameter.values[random.UniformInt(parameter.values.size())]);
    }
  }
  int64_t held = 0;
  for (auto _ : state) {
    for (size_t i = 0; i < kPoints; ++i) {
      for (const Expression& rule : rules) held += Must(rule.EvaluateBool(points.data() + i * width));
    }
  }
  benchmark::DoNotOptimize(held);
  state.counters["checks"] =
      benchmark::Counter(static_cast<double>(kPoints * rules.size() * state.iterations()), benchmark::Counter::kIsRate);
}

void Register() {
  static const std::vector<PublishedSpace> spaces = PublishedSpaces();
  static const SpaceDefinition fft = FftLikeDefinition(false);
  static const SpaceDefinition fft_rules = FftLikeDefinition(true);
  for (const PublishedSpace& space : spaces) {
    benchmark::RegisterBenchmark(("construct/" + space.name).c_str(), Construct, space)->Unit(benchmark::kMillisecond);
  }
  static const SpaceDefinition sparse_50 = SparseDefinition(50), sparse_100 = SparseDefinition(100);
  for (const auto& [name, definition] : {std::pair("sparse_50", &sparse_50), std::pair("sparse_100", &sparse_100)}) {
    benchmark::RegisterBenchmark(("threads/" + std::string(name)).c_str(), ConstructOnThreads, *definition)
        ->Unit(benchmark::kMillisecond)
        ->MeasureProcessCPUTime()
        ->UseRealTime()
        ->Arg(1)
        ->Arg(2);
  }
  for (const PublishedSpace& space : spaces) {
    const auto name = [&space](const char* what) { return what + space.name; };
    const SpaceDefinition& definition = space.definition;
    benchmark::RegisterBenchmark(name("index/").c_str(), Index, space)->Unit(benchmark::kMillisecond);
    benchmark::RegisterBenchmark(name("count/").c_str(), Count, definition)->Unit(benchmark::kMillisecond);
    benchmark::RegisterBenchmark(name("sample/").c_str(), Sample, definition);
    benchmark::RegisterBenchmark(name("checks/").c_str(), Checks, space);
  }
  for (const auto& [name, definition] : {std::pair("fft", &fft), std::pair("fft_rules", &fft_rules)}) {
    benchmark::RegisterBenchmark(("count/" + std::string(name)).c_str(), Count, *definition)
        ->Unit(benchmark::kMillisecond);
    benchmark::RegisterBenchmark(("sample/" + std::string(name)).c_str(), Sample, *definition);
  }
  static const SpaceDefinition guarded = GuardedDefinition();
  static const SpaceDefinition wide_pairs = WideDefinition(false), wide_chain = WideDefinition(true);
  static const SpaceDefinition fair = MixedDefinition(8, 40, 300'000), rare = MixedDefinition(5, 41, 2'000);
  benchmark::RegisterBenchmark("count/guarded", Count, guarded)->Unit(benchmark::kMillisecond);
  benchmark::RegisterBenchmark("sample/guarded", Sample, guarded);
  benchmark::RegisterBenchmark("list/guarded", List, guarded)->Unit(benchmark::kMillisecond);
  benchmark::RegisterBenchmark("list/wide_pairs", List, wide_pairs)->Unit(benchmark::kMillisecond);
  benchmark::RegisterBenchmark("list/wide_chain", List, wide_chain)->Unit(benchmark::kMillisecond);
  benchmark::RegisterBenchmark("sample/fair", Sample, fair);
  benchmark::RegisterBenchmark("sample/rare", Sample, rare);
  benchmark::RegisterBenchmark("first_sample/rare", FirstSample, rare)->Unit(benchmark::kMillisecond);
}

}  // namespace
}  // namespace tunefarm

int main(int argc, char** argv) {
  tunefarm::Register();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
