#include "server/agent/compile_forecast.h"

#include <cmath>

namespace tunefarm {
namespace {

// A value's mean counts as if so many more compiles with it had taken as long as all do.
constexpr double kPriorCount = 2;

}  // namespace

void CompileForecast::Note(const Config& config, double compile_ms) {
  if (!std::isfinite(compile_ms) || compile_ms <= 0) return;
  const double log_ms = std::log(compile_ms);
  all_.sum += log_ms;
  ++all_.count;
  for (const auto& [name, value] : config) {
    std::pair<std::string, std::string> key(name, value.ToText());
    auto found = by_value_.find(key);
    if (found == by_value_.end()) {
      if (by_value_.size() >= kFactorsMax) continue;
      found = by_value_.emplace(std::move(key), Logs()).first;
    }
    found->second.sum += log_ms;
    ++found->second.count;
  }
}

double CompileForecast::ExpectMs(const Config& config) const {
  if (all_.count == 0) return 0;
  const double mean = all_.sum / all_.count;
  double log_ms = mean;
  for (const auto& [name, value] : config) {
    const auto found = by_value_.find({name, value.ToText()});
    if (found == by_value_.end()) continue;
    const Logs& logs = found->second;
    log_ms += (logs.sum - logs.count * mean) / (logs.count + kPriorCount);
  }
  return std::exp(log_ms);
}

}  // namespace tunefarm
