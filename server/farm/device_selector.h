// What a device selector says, and what of it a device answers to. Pure.
//
// A selector is the name of a device or of a class, for one study per problem, or it stands for many devices, for one
// study per problem and class: "all-classes", "label:KEY=VALUE", "agent:NAME". The last two are names that a device
// answers to, and only those that do run such a study.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "tunefarm/v1/device.pb.h"

namespace tunefarm {

inline constexpr std::string_view kAllClasses = "all-classes";
inline constexpr std::string_view kLabelPrefix = "label:";
inline constexpr std::string_view kAgentPrefix = "agent:";

// What the device answers to besides its UUID: one name per label, and its agent's.
std::vector<std::string> SelectorNames(const tunefarm::v1::Device& device, std::string_view agent);

// Whether it stands for many devices, and the name that each of them answers to; empty: all do.
struct ManyDevices {
  bool is_many = false;
  std::string name;
};
ManyDevices ParseManyDevices(std::string_view selector);

// InvalidArgument (DEVICE_SELECTOR) for a selector with a prefix that is not one, or with nothing behind it.
absl::Status CheckPrefix(std::string_view selector);

}  // namespace tunefarm
