#include "server/interchange/triton_config.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/interchange/json_document.h"

namespace tunefarm::interchange {
namespace {

constexpr int64_t kTileMin = 16;  // of an operand of tl.dot

bool IsPowerOfTwo(int64_t number) { return number > 0 && std::has_single_bit(static_cast<uint64_t>(number)); }

}  // namespace

absl::StatusOr<TritonConfig> TritonConfigOf(const Config& config, const std::map<std::string, std::string>& renamed) {
  const auto find = [&](const std::string& name) {
    const auto own = renamed.find(name);
    return config.Find(own == renamed.end() ? name : own->second);
  };
  const auto integer = [&](const std::string& name) -> absl::StatusOr<int64_t> {
    const Value* const value = find(name);
    if (value != nullptr && value->is_int()) return value->int_value();
    return WithReason(InvalidArgument("the config {} has no integer {}; name the parameter that is meant: "
                                      "--parameter {}=OWN_NAME",
                                      config.ToText(), name, name),
                      kNotMappable);
  };
  TritonConfig made;
  ASSIGN_OR_RETURN(made.block_m, integer("BLOCK_SIZE_M"));
  ASSIGN_OR_RETURN(made.block_n, integer("BLOCK_SIZE_N"));
  ASSIGN_OR_RETURN(made.block_k, integer("BLOCK_SIZE_K"));
  ASSIGN_OR_RETURN(made.num_warps, integer("num_warps"));
  ASSIGN_OR_RETURN(made.num_stages, integer("num_stages"));
  if (find("GROUP_SIZE_M") != nullptr) {
    ASSIGN_OR_RETURN(made.group_m, integer("GROUP_SIZE_M"));
  }
  for (const char* const name : {"waves_per_eu", "matrix_instr_nonkdim", "kpack"}) {
    if (find(name) == nullptr) continue;
    ASSIGN_OR_RETURN(const int64_t value, integer(name));
    made.more.emplace_back(name, value);
  }
  return made;
}

std::string WhyNotTriton(const TritonConfig& config, int64_t element_bytes, int64_t shared_bytes) {
  for (const auto& [name, size] : {std::pair<const char*, int64_t>{"BLOCK_SIZE_M", config.block_m},
                                   {"BLOCK_SIZE_N", config.block_n},
                                   {"BLOCK_SIZE_K", config.block_k}}) {
    if (!IsPowerOfTwo(size)) return fmt::format("{}={} is no power of two", name, size);
    if (size < kTileMin) return fmt::format("{}={} is below {}", name, size, kTileMin);
  }
  if (!IsPowerOfTwo(config.num_warps)) return fmt::format("num_warps={} is no power of two", config.num_warps);
  if (config.num_stages < 1) return fmt::format("num_stages={} is below 1", config.num_stages);
  if (config.group_m < 1) return fmt::format("GROUP_SIZE_M={} is below 1", config.group_m);
  // 64 bits hold what tiles of 2^20 need.
  const double needed = static_cast<double>(config.num_stages) * static_cast<double>(config.block_m + config.block_n) *
                        static_cast<double>(config.block_k) * static_cast<double>(element_bytes);
  if (shared_bytes > 0 && needed > static_cast<double>(shared_bytes)) {
    return fmt::format("its stages need {:.0f} bytes of shared memory, a block has {}", needed, shared_bytes);
  }
  return "";
}

std::vector<TritonResult> FastestOfEachM(const std::vector<TritonResult>& results) {
  std::vector<TritonResult> sorted = results;
  std::stable_sort(sorted.begin(), sorted.end(), [](const TritonResult& a, const TritonResult& b) {
    return a.m != b.m ? a.m < b.m : a.median_ns < b.median_ns;
  });
  sorted.erase(std::unique(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.m == b.m; }),
               sorted.end());
  return sorted;
}

std::string SeedNote(const TritonTable& table, std::string_view kernel, std::string_view device,
                     std::string_view dims) {
  nlohmann::ordered_json note;
  note["tool"] = "tunefarm";
  note["seed"] = true;
  note["meaning"] =
      "The configs won with another kernel than the one that reads the table: start a search from them, and measure "
      "before relying on them.";
  note["kernel"] = std::string(kernel);
  note["device"] = std::string(device);
  note["dims"] = std::string(dims);
  note["filled_by"] = "the nearest measured M by ratio, the smaller of two equally near";
  nlohmann::ordered_json keys = nlohmann::ordered_json::object();
  for (const TableKey& key : table.keys) keys[key.key] = {{"measured_m", key.measured_m}, {"filled", key.is_filled}};
  note["keys"] = std::move(keys);
  return note.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace tunefarm::interchange
