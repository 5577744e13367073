// Values and configs as nlohmann's JSON. For the writers of this folder alone: it is not in the interface of any of
// them.
#pragma once

#include <nlohmann/json.hpp>

#include "server/expression/config.h"

namespace tunefarm::interchange {

inline nlohmann::ordered_json JsonOf(const Value& value) {
  switch (value.type()) {
    case ValueType::kBool:
      return value.bool_value();
    case ValueType::kInt:
      return value.int_value();
    case ValueType::kFloat:
      return value.float_value();
    case ValueType::kString:
      break;
  }
  return value.string_value();
}

inline nlohmann::ordered_json JsonOf(const Config& config) {
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  for (const auto& [name, value] : config) object[name] = JsonOf(value);
  return object;
}

}  // namespace tunefarm::interchange
