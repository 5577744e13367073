#include "server/farm/device_selector.h"

#include <map>

#include "server/base/status.h"

namespace tunefarm {

std::vector<std::string> SelectorNames(const tunefarm::v1::Device& device, std::string_view agent) {
  std::vector<std::string> names;
  for (const auto& [key, value] : std::map<std::string, std::string>(device.labels().begin(), device.labels().end())) {
    names.push_back(std::string(kLabelPrefix) + key + "=" + value);
  }
  if (!agent.empty()) names.push_back(std::string(kAgentPrefix) + std::string(agent));
  return names;
}

ManyDevices ParseManyDevices(std::string_view selector) {
  if (selector == kAllClasses) return {true, ""};
  const bool is_many = selector.substr(0, kLabelPrefix.size()) == kLabelPrefix ||
                       selector.substr(0, kAgentPrefix.size()) == kAgentPrefix;
  return {is_many, is_many ? std::string(selector) : std::string()};
}

absl::Status CheckPrefix(std::string_view selector) {
  const size_t colon = selector.find(':');
  if (colon == std::string_view::npos) return absl::OkStatus();
  const std::string_view prefix = selector.substr(0, colon + 1), rest = selector.substr(colon + 1);
  if (prefix == kLabelPrefix) {
    const size_t equals = rest.find('=');
    if (equals != std::string_view::npos && equals > 0 && equals + 1 < rest.size()) return absl::OkStatus();
    return WithReason(InvalidArgument("device selector '{}' names no label; write label:KEY=VALUE", selector),
                      "DEVICE_SELECTOR");
  }
  if (prefix == kAgentPrefix) {
    if (!rest.empty()) return absl::OkStatus();
    return WithReason(InvalidArgument("device selector '{}' names no agent; write agent:NAME", selector),
                      "DEVICE_SELECTOR");
  }
  return WithReason(
      InvalidArgument(
          "device selector '{}' begins with '{}', which is not known; there are label:KEY=VALUE and agent:NAME",
          selector, prefix),
      "DEVICE_SELECTOR");
}

}  // namespace tunefarm
