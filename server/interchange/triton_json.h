// A TritonConfig as JSON. For the writers of this folder alone: it is not in the interface of any of them.
#pragma once

#include <nlohmann/json.hpp>

#include "server/interchange/triton_config.h"

namespace tunefarm::interchange {

inline nlohmann::ordered_json JsonOf(const TritonConfig& config) {
  nlohmann::ordered_json object;
  object["BLOCK_SIZE_M"] = config.block_m;
  object["BLOCK_SIZE_N"] = config.block_n;
  object["BLOCK_SIZE_K"] = config.block_k;
  object["GROUP_SIZE_M"] = config.group_m;
  object["num_warps"] = config.num_warps;
  object["num_stages"] = config.num_stages;
  for (const auto& [name, value] : config.more) object[name] = value;
  return object;
}

}  // namespace tunefarm::interchange
