// Files many bests in the database of a stopped daemon: copies of the one that matmul_host has there, under other
// shapes.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "server/base/check.h"
#include "server/definition/kernel_plan.h"
#include "server/store/best_store.h"
#include "server/store/store.h"
#include "tests/bench/lookup/shapes.h"
#include "tunefarm/v1/best_config.pb.h"

namespace tunefarm {
namespace {

void Fill(const std::string& path, int entries) {
  SqliteOptions options;
  options.path = path;
  auto opened = OpenSqliteStore(options);
  TUNEFARM_CHECK_OK(opened);
  Store* const store = opened->get();
  const auto bests = store->bests()->LoadBests();
  TUNEFARM_CHECK_OK(bests);
  TUNEFARM_CHECK(!bests->empty());
  BestRow row = bests->front();
  tunefarm::v1::BestConfig best;
  TUNEFARM_CHECK(best.ParseFromString(row.detail));
  // The canonical key is the dims by name, as the daemon writes it.
  const std::string given = best.problem().key();
  TUNEFARM_CHECK(given.rfind("K=", 0) == 0);
  for (int i = 0; i < entries; ++i) {
    const Shape shape = ShapeOf(i);
    for (const auto& [name, value] : shape.dims()) (*best.mutable_problem()->mutable_dims())[name].set_int_value(value);
    row.problem_key = fmt::format("K={},M={},N={}", shape.k, shape.m, shape.n);
    best.mutable_problem()->set_key(row.problem_key);
    row.detail = best.SerializeAsString();
    TUNEFARM_CHECK_OK(store->bests()->PromoteBest(row));
  }
  fmt::print("{} bests like {}\n", entries, given);
}

}  // namespace
}  // namespace tunefarm

int main(int argc, char** argv) {
  CLI::App app("Files many bests in the database of a stopped daemon.");
  std::string path;
  int entries = 100'000;
  app.add_option("DATABASE", path, "tunefarm.db, in which matmul_host has a best.")->required();
  app.add_option("--entries", entries, "How many.");
  CLI11_PARSE(app, argc, argv);
  tunefarm::Fill(path, entries);
  return 0;
}
