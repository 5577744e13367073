#include "server/interchange/fused_moe_json.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "server/base/format.h"
#include "server/interchange/triton_json.h"

namespace tunefarm::interchange {
namespace {

// Runs of white space and slashes become one underscore.
std::string VllmDevice(std::string_view device) {
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
  return ("_" + token + "_").find("_H200_") == std::string::npos ? token : "NVIDIA_H200";
}

std::string SglangDevice(std::string device) {
  std::replace(device.begin(), device.end(), ' ', '_');
  return device;
}

TritonConfig Made(int64_t block_m, int64_t block_n, int64_t block_k, int64_t group_m, int64_t num_warps,
                  int64_t num_stages) {
  TritonConfig config;
  config.block_m = block_m;
  config.block_n = block_n;
  config.block_k = block_k;
  config.group_m = group_m;
  config.num_warps = num_warps;
  config.num_stages = num_stages;
  return config;
}

TritonConfig VllmDefault(bool is_fp8, int64_t m, int64_t experts) {
  if (is_fp8) return Made(m <= 64 ? 16 : 64, 128, 128, m <= 16 ? 1 : 32, 4, 3);
  return Made(m <= 32    ? 16
              : m <= 96  ? 32
              : m <= 512 ? 64
                         : 128,
              m <= 64 ? 64 : 128, m <= 64 ? 128 : 64, m / std::max<int64_t>(experts, 1) > 128 ? 16 : 1,
              m <= 128 ? 4 : 8, m <= 32 ? 4 : 3);
}

TritonConfig SglangDefault(bool is_fp8, int64_t m, int64_t experts) {
  if (is_fp8) return Made(64, 128, 128, 32, 4, 3);
  return m <= experts ? Made(16, 32, 64, 1, 4, 3) : Made(64, 64, 32, 8, 4, 3);
}

std::string ShortText(const TritonConfig& config) {
  return fmt::format("{}x{}x{}, group {}, {} warps, {} stages", config.block_m, config.block_n, config.block_k,
                     config.group_m, config.num_warps, config.num_stages);
}

std::string TimeText(double ns) { return ns > 0 ? FormatDuration(ns) : "-"; }

}  // namespace

std::string FusedMoeFileName(const FusedMoeLayer& layer) {
  const bool is_vllm = layer.reader == FusedMoeReader::kVllm;
  std::string type;
  if (layer.is_fp8) type = fmt::format(",dtype=fp8_w8a8,block_shape=[128,{}128]", is_vllm ? "" : " ");
  return fmt::format("E={},N={},device_name={}{}{}.json", layer.experts, layer.intermediate,
                     is_vllm ? VllmDevice(layer.device) : SglangDevice(layer.device), type,
                     layer.is_down && !is_vllm ? "_down" : "");
}

TritonConfig FusedMoeDefault(FusedMoeReader reader, bool is_fp8, int64_t m, int64_t experts) {
  return reader == FusedMoeReader::kVllm ? VllmDefault(is_fp8, m, experts) : SglangDefault(is_fp8, m, experts);
}

std::string FusedMoeJson(const std::vector<FusedMoeRow>& rows, std::string_view triton_version) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (!triton_version.empty()) json["triton_version"] = std::string(triton_version);
  for (const FusedMoeRow& row : rows) json[std::to_string(row.m)] = JsonOf(row.kept());
  return json.dump(4) + "\n";
}

std::string FusedMoeReport(const std::vector<FusedMoeRow>& rows, std::string_view title,
                           const std::vector<std::string>& facts) {
  std::string text = fmt::format("# {}\n\n", title);
  for (const std::string& fact : facts) text += fmt::format("- {}\n", fact);
  text +=
      "\n| tokens | without the table | time | tuned | time | gain | written |\n|---:|---|---:|---|---:|---:|---|\n";
  for (const FusedMoeRow& row : rows) {
    const bool has_both = row.tuned_ns > 0 && row.untuned_ns > 0;
    text += fmt::format("| {} | {} | {} | {} | {} | {} | {} |\n", row.m, ShortText(row.untuned),
                        row.untuned_fails ? "fails" : TimeText(row.untuned_ns), ShortText(row.tuned),
                        TimeText(row.tuned_ns), has_both ? fmt::format("{:.2f}x", row.untuned_ns / row.tuned_ns) : "-",
                        row.keeps_tuned() ? "tuned" : "as without");
  }
  return text;
}

}  // namespace tunefarm::interchange
