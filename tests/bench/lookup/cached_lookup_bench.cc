// What a look-up costs that the C++ client answers from its cache, at 1 to 8 threads, among 100,000 shapes; and what it
// allocates: nothing, or the run fails. No daemon: the answers come from a snapshot, by the same table.
//
//   cached_lookup_bench [--benchmark_filter=...]
#include <benchmark/benchmark.h>
#include <fmt/core.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include "client/cpp/snapshot/snapshot_writer.h"
#include "server/base/check.h"
#include "server/base/file.h"
#include "server/base/random.h"
#include "tests/bench/lookup/shapes.h"
#include "tunefarm/client/client.h"

namespace {

thread_local int64_t allocations = 0;

}  // namespace

// Not inlined: g++ would take the pair for a mismatched one.
[[gnu::noinline]] void* operator new(size_t bytes) {
  ++allocations;
  if (void* const memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace tunefarm {
namespace {

constexpr int kShapes = 100'000;
constexpr size_t kQuestions = 4096;

std::string WriteSnapshot() {
  snapshot::Contents contents;
  snapshot::Kernel kernel{"matmul", "id", "program", {{"M", {}}, {"N", {}}, {"K", {}}}, {}};
  for (int i = 0; i < kShapes; ++i) {
    const Shape shape = ShapeOf(i);
    snapshot::Best best;
    best.class_id = best.class_name = "H200";
    best.dims = {{"M", shape.m}, {"N", shape.n}, {"K", shape.k}};
    best.problem = fmt::format("K={},M={},N={}", shape.k, shape.m, shape.n);
    best.config = {{"TILE_M", int64_t{64}}, {"TILE_N", int64_t{i}}, {"ORDER", std::string("nkm")}};
    kernel.bests.push_back(std::move(best));
  }
  contents.kernels.push_back(std::move(kernel));
  const std::string path = fmt::format("/tmp/tunefarm_bench_{}.tfsnap", getpid());
  const auto bytes = snapshot::Encode(contents);
  TUNEFARM_CHECK_OK(bytes);
  TUNEFARM_CHECK_OK(WriteFileAtomically(path, *bytes));
  return path;
}

client::Question Prepare() {
  const std::string path = WriteSnapshot();
  client::ClientOptions options;
  options.snapshot = path;
  const auto opened = client::Client::Open(options);
  TUNEFARM_CHECK_OK(RemoveTree(path));
  TUNEFARM_CHECK(opened.ok());
  client::QuestionSpec spec;
  spec.kernel = "matmul";
  spec.varying_dims = {"M", "N", "K"};
  const auto question = opened->Prepare(spec);
  TUNEFARM_CHECK(question.ok());
  return *question;
}

const client::Question& TheQuestion() {
  static const auto* const question = new client::Question(Prepare());
  return *question;
}

// Problems drawn from the first `range` shapes.
std::vector<std::array<int64_t, 3>> Problems(uint64_t stream, uint64_t range) {
  PhiloxStream random(3, stream);
  std::vector<std::array<int64_t, 3>> problems(kQuestions);
  for (auto& problem : problems) {
    const Shape shape = ShapeOf(static_cast<int64_t>(random.UniformInt(range)));
    problem = {shape.m, shape.n, shape.k};
  }
  return problems;
}

// `range`: of how many shapes an engine makes use; few stay in the processor's caches.
void Find(benchmark::State& state) {
  client::Reader reader = TheQuestion().NewReader();
  const auto problems = Problems(static_cast<uint64_t>(state.thread_index()), static_cast<uint64_t>(state.range(0)));
  size_t next = 0;
  reader.Find(client::DimValues(problems[0].data(), 3));
  const int64_t before = allocations;
  for (auto _ : state) {
    const auto& problem = problems[next++ % kQuestions];
    const client::Answer* const answer = reader.Find(client::DimValues(problem.data(), 3));
    if (answer == nullptr) state.SkipWithError("an answer is not there");
    benchmark::DoNotOptimize(answer);
  }
  if (allocations != before) state.SkipWithError("a cached look-up allocates");
  state.counters["allocations"] = static_cast<double>(allocations - before);
}

// The config's value, too: what a launch needs.
void FindAndRead(benchmark::State& state) {
  client::Reader reader = TheQuestion().NewReader();
  const auto problems = Problems(static_cast<uint64_t>(state.thread_index()), static_cast<uint64_t>(state.range(0)));
  size_t next = 0;
  for (auto _ : state) {
    const auto& problem = problems[next++ % kQuestions];
    benchmark::DoNotOptimize(reader.Find(client::DimValues(problem.data(), 3))->config.Int("TILE_N"));
  }
}

// For comparison: the call that copies the answer and says its age.
void Lookup(benchmark::State& state) {
  const auto problems = Problems(static_cast<uint64_t>(state.thread_index()), static_cast<uint64_t>(state.range(0)));
  size_t next = 0;
  for (auto _ : state) {
    const auto& problem = problems[next++ % kQuestions];
    benchmark::DoNotOptimize(TheQuestion().Lookup(client::DimValues(problem.data(), 3)));
  }
}

BENCHMARK(Find)->Arg(64)->Arg(kShapes)->Threads(1)->Threads(2)->Threads(8);
BENCHMARK(FindAndRead)->Arg(64)->Arg(kShapes)->Threads(1)->Threads(8);
BENCHMARK(Lookup)->Arg(64)->Threads(1)->Threads(8);

}  // namespace
}  // namespace tunefarm

BENCHMARK_MAIN();
