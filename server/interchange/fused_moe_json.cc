#include "server/interchange/fused_moe_json.h"

#include <fmt/core.h>

#include <algorithm>

#include "server/base/status.h"
#include "server/interchange/json_document.h"
#include "server/interchange/triton_json.h"

namespace tunefarm::interchange {
namespace {

// Runs of white space and slashes become one underscore.
std::string DeviceToken(std::string_view device) {
  std::string token;
  bool is_gap = false;
  for (const char c : device) {
    if (c == ' ' || c == '\t' || c == '/') {
      is_gap = true;
      continue;
    }
    if (is_gap) token += '_';
    is_gap = false;
    token += c;
  }
  return token;
}

bool HasToken(std::string_view text, std::string_view token) {
  const std::string whole = "_" + std::string(text) + "_";
  return whole.find("_" + std::string(token) + "_") != std::string::npos;
}

}  // namespace

absl::StatusOr<TritonTable> WriteFusedMoeJson(const std::vector<TritonResult>& results) {
  if (results.empty()) return WithReason(InvalidArgument("there is no config to write"), kNotMappable);
  const std::vector<TritonResult> sorted = FastestOfEachM(results);
  TritonTable table;
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const int64_t m : kTokenLadder) {
    const TritonResult& nearest = NearestByRatio(sorted, m);
    json[std::to_string(m)] = JsonOf(nearest.config);
    table.keys.push_back({std::to_string(m), nearest.m, nearest.m != m});
  }
  table.text = json.dump(4) + "\n";
  return table;
}

std::string FusedMoeFileName(const FusedMoeName& name, FusedMoeReader reader) {
  std::string device = DeviceToken(name.device);
  if (reader == FusedMoeReader::kVllm && HasToken(device, "H200")) device = "NVIDIA_H200";
  return fmt::format("E={},N={},device_name={}{}{}.json", name.experts, name.intermediate, device,
                     name.dtype.empty() ? "" : ",dtype=" + name.dtype,
                     name.is_down && reader == FusedMoeReader::kSglang ? "_down" : "");
}

}  // namespace tunefarm::interchange
