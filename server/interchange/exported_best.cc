#include "server/interchange/exported_best.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/definition/lookup_rules.h"
#include "server/definition/value_proto.h"

namespace tunefarm::interchange {
namespace {

template <typename Map>
absl::StatusOr<Config> FromMap(const Map& values, std::string_view what) {
  Config config;
  for (const auto& [name, proto] : values) {
    absl::StatusOr<Value> value = definition::FromProto(proto);
    if (!value.ok()) return DataLoss("{} '{}': {}", what, name, MessageOf(value.status()));
    config.Set(name, *std::move(value));
  }
  return config;
}

}  // namespace

double ExportedBest::speedup() const {
  const double own_ns = best.measurement().median_ns();
  return own_ns > 0 && best.baseline_ns() > 0 ? best.baseline_ns() / own_ns : 0;
}

bool ExportedBest::is_plain() const {
  const auto& seeds = best.problem().input_seeds();
  return best.problem().pinned().empty() && (seeds.empty() || (seeds.size() == 1 && seeds[0] == 1));
}

absl::StatusOr<ExportedBest> MakeExportedBest(v1::BestConfig best, v1::Match match) {
  ExportedBest exported;
  ASSIGN_OR_RETURN(exported.dims, FromMap(best.problem().dims(), "dim"));
  ASSIGN_OR_RETURN(exported.config, FromMap(best.config().values(), "parameter"));
  exported.best = std::move(best);
  exported.match = match;
  return exported;
}

bool ConfigLess(const Config& a, const Config& b) {
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.first != y.first ? x.first < y.first : ValueLess(x.second, y.second);
  });
}

void SortBests(std::vector<ExportedBest>* bests) {
  std::stable_sort(bests->begin(), bests->end(), [](const ExportedBest& a, const ExportedBest& b) {
    const auto names = [](const v1::BestConfig& best) {
      return std::tie(best.kernel_name(), best.device_class_name(), best.device_class_id());
    };
    if (names(a.best) != names(b.best)) return names(a.best) < names(b.best);
    if (ConfigLess(a.dims, b.dims) || ConfigLess(b.dims, a.dims)) return ConfigLess(a.dims, b.dims);
    if (a.best.problem().key() != b.best.problem().key()) return a.best.problem().key() < b.best.problem().key();
    // As a lookup prefers them: what another program found comes after the asked program's own.
    const auto is_of_another = [](const ExportedBest& best) { return best.match == v1::MATCH_STALE_SOURCE; };
    if (is_of_another(a) != is_of_another(b)) return is_of_another(b);
    return a.best.revision() > b.best.revision();
  });
}

void KeepNewest(std::vector<ExportedBest>* bests) {
  const auto same = [](const ExportedBest& a, const ExportedBest& b) {
    return a.best.kernel_name() == b.best.kernel_name() && a.best.device_class_id() == b.best.device_class_id() &&
           a.best.problem().key() == b.best.problem().key() && a.dims == b.dims;
  };
  bests->erase(std::unique(bests->begin(), bests->end(), same), bests->end());
}

void LeaveOutInputs(std::vector<ExportedBest>* bests) {
  // Another program's, dims that are off their defaults, then the newest.
  using Rank = std::tuple<bool, int, int64_t, int64_t>;
  std::map<std::string, std::pair<Rank, size_t>> chosen;
  std::vector<bool> is_left(bests->size(), true);
  for (size_t i = 0; i < bests->size(); ++i) {
    ExportedBest& exported = (*bests)[i];
    if (exported.inputs == nullptr) continue;
    Config rest;
    for (const auto& [name, value] : exported.dims) {
      if (exported.inputs->Find(name) == nullptr) rest.Set(name, value);
    }
    const int off_default = InputsOffDefault(*exported.inputs, exported.dims);
    exported.dims = std::move(rest);
    if (!exported.is_plain()) continue;
    const Rank rank(exported.match == v1::MATCH_STALE_SOURCE, off_default, -exported.best.promoted_at_ms(),
                    -exported.best.revision());
    const std::string key =
        exported.best.kernel_name() + "\n" + exported.best.device_class_id() + "\n" + exported.dims.ToText();
    const auto [at, is_new] = chosen.emplace(key, std::pair(rank, i));
    if (is_new) continue;
    is_left[rank < at->second.first ? at->second.second : i] = false;
    if (rank < at->second.first) at->second = {rank, i};
  }
  size_t next = 0;
  std::erase_if(*bests, [&](const ExportedBest&) { return !is_left[next++]; });
}

std::string MatchText(v1::Match match) {
  const std::string name = v1::Match_Name(match);
  constexpr std::string_view kPrefix = "MATCH_";
  return name.rfind(kPrefix, 0) == 0 ? name.substr(kPrefix.size()) : name;
}

std::string NumberText(double number) { return Value(number).ToText(); }

}  // namespace tunefarm::interchange
