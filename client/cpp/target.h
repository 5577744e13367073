// What a question's kernel and device come to: which bests of the catalog answer it exactly. Pure; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tunefarm/client/status.h"
#include "tunefarm/client/value.h"
#include "tunefarm/v1/device.pb.h"
#include "tunefarm/v1/device_service.pb.h"
#include "tunefarm/v1/kernel.pb.h"

namespace tunefarm::client {

// A class, and the conditions of the machine's device of it. Versions are empty where they are not known, and then
// nothing is stale.
struct ChosenDevice {
  std::string class_id, class_name, driver, toolkit;

  friend bool operator==(const ChosenDevice&, const ChosenDevice&) = default;
};

// As the daemon resolves the selector of a look-up. `devices` in the daemon's order. kNotFound.
Result<ChosenDevice> ChooseDevice(std::string_view selector, v1::Language language,
                                  const std::vector<v1::Device>& devices,
                                  const std::vector<v1::KnownDeviceClass>& known_classes);

struct Target {
  std::string display_name, program_digest;
  // With their defaults. Empty where another definition than the one that `program_digest` names is known: questions
  // that leave out a dim are then answered by the daemon alone.
  std::vector<std::pair<std::string, std::optional<Value>>> dims;
  ChosenDevice device;

  friend bool operator==(const Target&, const Target&) = default;
};

}  // namespace tunefarm::client
