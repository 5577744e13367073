#include "server/catalog/best_summary.h"

#include <algorithm>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "server/measure/geometric_mean.h"

namespace tunefarm {
namespace {

using tunefarm::v1::BestConfigSummary;

struct Sum {
  BestConfigSummary summary;
  GeometricMean gain, floor_share;
};

void Add(const CatalogEntry& entry, bool is_stale, Sum* sum) {
  const tunefarm::v1::BestConfig& best = *entry.best;
  BestConfigSummary& summary = sum->summary;
  // The class has one name; bests from before it was known by that have another.
  if (best.promoted_at_ms() >= summary.promoted_at_ms()) {
    summary.set_promoted_at_ms(best.promoted_at_ms());
    summary.set_device_class_name(best.device_class_name());
  }
  summary.set_bests(summary.bests() + 1);
  summary.set_pinned(summary.pinned() + (best.pinned() ? 1 : 0));
  summary.set_stale_source(summary.stale_source() + (is_stale ? 1 : 0));
  const double best_ns = best.measurement().median_ns();
  sum->gain.Add(best.baseline_ns(), best_ns);
  sum->floor_share.Add(best.floor_ns(), best_ns);
  if (best.floor_ns() <= 0 || best_ns <= 0) return;
  const double share = best.floor_ns() / best_ns;
  summary.set_floor_share_min(summary.floor_share_min() > 0 ? std::min(summary.floor_share_min(), share) : share);
}

}  // namespace

tunefarm::v1::SummarizeBestConfigsResponse SummarizeBests(
    const Catalog& catalog, std::string_view kernel_name,
    const std::map<std::string, std::string, std::less<>>& newest_programs) {
  const std::vector<std::shared_ptr<const CatalogEntry>> entries = catalog.Entries();
  std::map<std::pair<std::string_view, std::string_view>, Sum> sums;  // by kernel name and class id of the entries
  for (const auto& entry : entries) {
    if (!kernel_name.empty() && entry->kernel_name != kernel_name) continue;
    const auto newest = newest_programs.find(entry->kernel_name);
    const bool is_stale = newest != newest_programs.end() && newest->second != entry->program_digest;
    Add(*entry, is_stale, &sums[{entry->kernel_name, entry->class_id}]);
  }
  std::vector<BestConfigSummary> summaries;
  for (auto& [key, sum] : sums) {
    sum.summary.set_kernel_name(std::string(key.first));
    sum.summary.set_device_class_id(std::string(key.second));
    sum.summary.set_gain(sum.gain.Value());
    sum.summary.set_floor_share(sum.floor_share.Value());
    summaries.push_back(std::move(sum.summary));
  }
  std::sort(summaries.begin(), summaries.end(), [](const BestConfigSummary& a, const BestConfigSummary& b) {
    return std::forward_as_tuple(a.kernel_name(), a.device_class_name(), a.device_class_id()) <
           std::forward_as_tuple(b.kernel_name(), b.device_class_name(), b.device_class_id());
  });
  tunefarm::v1::SummarizeBestConfigsResponse response;
  for (size_t i = 0; i < std::min(summaries.size(), kBestSummariesMax); ++i) {
    *response.add_summaries() = std::move(summaries[i]);
  }
  return response;
}

}  // namespace tunefarm
