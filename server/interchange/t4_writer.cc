// Our results as T4. Written by hand: the order of a file is for people too.
#include <fmt/core.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "server/interchange/json_value.h"
#include "server/interchange/recorded_file.h"

namespace tunefarm::interchange {
namespace {

using Json = nlohmann::ordered_json;

Json RowToJson(const std::vector<std::string>& parameters, const T4Row& row) {
  Json configuration = Json::object();
  for (const std::string& name : parameters) {
    if (const Value* value = row.config.Find(name); value != nullptr) configuration[name] = JsonOf(*value);
  }
  Json runtimes = Json::array();
  for (const double runtime : row.runtimes_ms) {
    if (std::isfinite(runtime)) runtimes.push_back(runtime);
  }
  const auto number = [](double value) { return std::isfinite(value) ? value : 0.0; };
  Json times;
  times["compilation_time"] = number(row.compile_ms);
  times["runtimes"] = std::move(runtimes);
  times["framework"] = number(row.framework_ms);
  times["search_algorithm"] = 0;
  times["validation"] = number(row.validation_ms);
  Json measurements = Json::array();
  for (const T4Row::Measurement& measurement : row.measurements) {
    if (!std::isfinite(measurement.value)) continue;
    measurements.push_back(Json{{"name", measurement.name}, {"value", measurement.value}, {"unit", measurement.unit}});
  }
  Json json;
  json["timestamp"] = row.timestamp;
  json["configuration"] = std::move(configuration);
  json["objectives"] = Json::array({"time"});
  json["times"] = std::move(times);
  json["invalidity"] = std::string(InvalidityName(row.invalidity));
  json["correctness"] = number(row.correctness);
  json["measurements"] = std::move(measurements);
  return json;
}

}  // namespace

std::string WriteT4(const std::vector<std::string>& parameters, const std::vector<T4Row>& rows) {
  std::string text =
      "{\n  \"schema_version\": \"1.0.0\",\n  \"metadata\": {\"timeunit\": \"milliseconds\"},\n  \"results\": [";
  const char* separator = "\n    ";
  for (const T4Row& row : rows) {
    // Text that is no UTF-8 cannot be in JSON; replaced, it is at least seen.
    text += separator + RowToJson(parameters, row).dump(-1, ' ', false, Json::error_handler_t::replace);
    separator = ",\n    ";
  }
  return text + "\n  ]\n}\n";
}

}  // namespace tunefarm::interchange
