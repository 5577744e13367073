#include "client/cli/moe/moe_tables.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "client/cli/options/kernel_argument.h"
#include "server/base/format.h"
#include "server/base/status_macros.h"

namespace tunefarm::cli {
namespace {

using interchange::FusedMoeLayer;
using interchange::FusedMoeReader;
using interchange::FusedMoeRow;

// Of a table and its report, without the endings.
std::string PathOf(const TuneMoeOptions& options, const FusedMoeLayer& layer) {
  std::string folder;
  if (layer.reader != FusedMoeReader::kVllm) {
    folder = "configs/triton_" + (options.triton.empty() ? "3.6.0" : options.triton) + "/";
    std::replace(folder.begin(), folder.end(), '.', '_');
  }
  const std::string name = interchange::FusedMoeFileName(layer);
  return folder + name.substr(0, name.size() - std::string_view(".json").size());
}

}  // namespace

absl::Status CheckMoeTablesAreNew(const TuneMoeOptions& options, FusedMoeLayer layer) {
  for (const bool is_down : {false, true}) {
    layer.is_down = is_down;
    for (const char* const ending : {".json", ".md"}) {
      RETURN_IF_ERROR(options.target.CheckIsNew(PathOf(options, layer) + ending));
    }
  }
  return absl::OkStatus();
}

void AddMoeTable(const TuneMoeOptions& options, const FusedMoeLayer& layer, const v1::Kernel& kernel,
                 const MoeCompiles& compiles, const std::vector<FusedMoeRow>& rows, std::vector<ExportedFile>* files) {
  const bool is_vllm = layer.reader == FusedMoeReader::kVllm;
  const std::string path = PathOf(options, layer);
  const std::string title = path.substr(path.rfind('/') + 1);
  const std::string_view without = layer.is_down ? "the config of the first product's table"
                                   : is_vllm     ? "vLLM's default"
                                                 : "SGLang's default";
  std::vector<std::string> facts = {
      fmt::format("{}: {} experts, {} of them for each token, hidden size (K) {}, intermediate size (N) {}, {}",
                  is_vllm ? "vLLM" : "SGLang", options.experts, options.topk, options.hidden, options.intermediate,
                  layer.is_fp8 ? "fp8_w8a8 with scales of 128x128 blocks" : "bf16"),
      fmt::format("{}, kernel {}", layer.device, VersionText(kernel.display_name(), kernel.name())),
      options.histogram.empty() ? "experts are drawn with equal probability"
                                : "experts are drawn by the histogram " + options.histogram,
      fmt::format("times are those of {}: medians of one interleaved final on routings that the search has not seen",
                  is_vllm         ? "both products together"
                  : layer.is_down ? "the second product"
                                  : "the first product"),
      fmt::format("without the table: {}; the winner is written where it takes at most 99 % of that time", without)};
  if (!options.kernel_file.empty()) facts.push_back("the kernel is fused_moe_kernel of " + options.kernel_file);
  if (options.ranks > 1) {
    facts.push_back(
        fmt::format("tokens are routed to the {} experts of {} ranks; the kernel writes zeros for rows of the others",
                    options.all_experts(), options.ranks));
  }
  if (compiles.trials > 0) {
    facts.push_back(fmt::format("this command compiled {} in {} so far", FormatCount(compiles.compiled, "config"),
                                FormatCount(compiles.trials, "trial")));
  }
  files->push_back({path + ".json", interchange::FusedMoeJson(rows, is_vllm ? options.triton : ""), ""});
  files->push_back({path + ".md", interchange::FusedMoeReport(rows, title, facts), ""});
}

}  // namespace tunefarm::cli
