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

std::vector<BestConfigSummary> Summarize(const Catalog& catalog, const BestSummaries::NewestPrograms& newest_programs) {
  const std::vector<std::shared_ptr<const CatalogEntry>> entries = catalog.Entries();
  std::map<std::pair<std::string_view, std::string_view>, Sum> sums;  // by kernel name and class id of the entries
  for (const auto& entry : entries) {
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
  return summaries;
}

}  // namespace

std::shared_ptr<const std::vector<BestConfigSummary>> BestSummaries::All(const NewestPrograms& newest_programs) {
  MutexLock lock(&mutex_);
  // Before the pass: what changes meanwhile makes the next call count again.
  const int64_t version = catalog_->version();
  if (all_ == nullptr || version != version_ || newest_programs != newest_programs_) {
    all_ = std::make_shared<const std::vector<BestConfigSummary>>(Summarize(*catalog_, newest_programs));
    version_ = version;
    newest_programs_ = newest_programs;
  }
  return all_;
}

tunefarm::v1::SummarizeBestConfigsResponse BestSummaries::Of(std::string_view kernel_name,
                                                             const NewestPrograms& newest_programs) {
  const auto all = All(newest_programs);
  tunefarm::v1::SummarizeBestConfigsResponse response;
  for (const BestConfigSummary& summary : *all) {
    if (!kernel_name.empty() && summary.kernel_name() != kernel_name) continue;
    if (response.summaries_size() == static_cast<int>(kBestSummariesMax)) break;
    *response.add_summaries() = summary;
  }
  return response;
}

}  // namespace tunefarm
