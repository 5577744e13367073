#include "client/cli/options/cost_option.h"

#include <fmt/core.h>

#include <charconv>
#include <cmath>

#include "client/cli/options/problem_options.h"
#include "server/base/format.h"
#include "server/base/saturating.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/cost/cost_guide.h"

namespace tunefarm::cli {
namespace {

constexpr std::string_view kPruneBy = "prune=";

std::string ShapeText(const v1::CostPrediction& prediction) {
  std::string text = fmt::format("{} threads", FormatCount(prediction.threads_per_block()));
  if (prediction.blocks() > 0) text += fmt::format(", {} blocks", FormatCount(prediction.blocks()));
  if (prediction.shared_bytes() > 0) {
    text += fmt::format(", {} shared", FormatBytes(static_cast<uint64_t>(prediction.shared_bytes())));
  }
  text += fmt::format("; {} blocks/SM by {}, {:.0f} % of the warps", prediction.blocks_per_sm(),
                      prediction.limited_by(), 100 * prediction.occupancy());
  if (prediction.waves() > 0) text += fmt::format(", {:.2f} waves", prediction.waves());
  return text;
}

std::string PredictionText(std::string_view title, const v1::CostPrediction& prediction, double least) {
  return fmt::format("  {}, {:.2f} x the least predicted time\n    {}\n    {}\n", title,
                     least > 0 ? prediction.relative_time() / least : 1, ConfigText(prediction.config()),
                     ShapeText(prediction)) +
         fmt::format("    shares of the full speed: lanes {:.2f}, tiles {:.2f}, hiding {:.2f}, waves {:.2f}\n",
                     prediction.lane_efficiency(), prediction.tile_efficiency(), prediction.latency_hiding(),
                     prediction.wave_efficiency());
}

}  // namespace

void AddCostOption(CLI::App* command, std::string* text) {
  command
      ->add_option("--cost-model", *text,
                   "Predict times from launch geometry before compiling: off (default), rank (guide the search) or "
                   "prune[=FACTOR] (leave out what is predicted FACTOR times slower than the best; default 1.5).")
      ->type_name("MODE");
}

absl::StatusOr<v1::CostModel> ParseCostModel(std::string_view text) {
  v1::CostModel model;
  if (text.empty()) return model;
  if (text == "off") {
    model.set_mode(v1::COST_MODEL_MODE_OFF);
  } else if (text == "rank") {
    model.set_mode(v1::COST_MODEL_MODE_RANK);
  } else if (text == "prune" || text.starts_with(kPruneBy)) {
    model.set_mode(v1::COST_MODEL_MODE_PRUNE);
    if (text == "prune") return model;
    const std::string_view number = text.substr(kPruneBy.size());
    double factor = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), factor);
    if (error != std::errc() || end != number.data() + number.size() || !(factor >= 1) || !std::isfinite(factor)) {
      return InvalidArgument("--cost-model {}: the factor must be a number of at least 1", text);
    }
    model.set_factor(factor);
  } else {
    return InvalidArgument("--cost-model {}: write off, rank, prune or prune=FACTOR", text);
  }
  return model;
}

std::string CostModelText(const v1::Job& job) {
  const v1::CostModel& model = job.strategy().cost_model();
  if (model.mode() == v1::COST_MODEL_MODE_RANK) return "rank: predicted times guide the search";
  if (model.mode() != v1::COST_MODEL_MODE_PRUNE) return "off";
  std::string text = fmt::format("prune: at most {} x the least predicted time", model.factor());
  bool is_estimate = false;
  int64_t left_out = 0;
  for (const v1::Study& study : job.studies()) {
    for (const v1::RuleCount& rule : study.space().rules()) {
      if (!rule.rule().starts_with(kCostRulePrefix)) continue;
      left_out = SaturatingAdd<int64_t>(left_out, rule.removed());
      is_estimate = is_estimate || study.space().approximate();
    }
  }
  if (job.studies().empty()) return text;
  return text + fmt::format("; {}{} configs left out", is_estimate ? "≈" : "", FormatCount(left_out));
}

std::string PredictionsText(const v1::CountSpaceResponse& response) {
  if (!response.has_predicted_best()) return {};
  const double least = response.predicted_best().relative_time();
  std::string text = "cost model\n" + PredictionText("best", response.predicted_best(), least);
  if (response.has_predicted_default()) text += PredictionText("default", response.predicted_default(), least);
  return text;
}

}  // namespace tunefarm::cli
