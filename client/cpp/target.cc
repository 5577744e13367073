#include "client/cpp/target.h"

#include "absl/strings/ascii.h"

namespace tunefarm::client {
namespace {

Status NoDevice(std::string_view selector) {
  return {Code::kNotFound, "there is no device '" + std::string(selector) + "'", "DEVICE_NOT_FOUND"};
}

bool Selects(std::string_view selector, const std::string& lower, v1::DeviceKind kind, const v1::Device& device) {
  const v1::DeviceClass& device_class = device.device_class();
  if (selector.empty()) return device_class.kind() == kind;
  if (lower == "cuda") return device_class.kind() == v1::DEVICE_KIND_CUDA;
  if (lower == "host") return device_class.kind() == v1::DEVICE_KIND_HOST;
  return device_class.id() == selector || absl::AsciiStrToLower(device_class.display_name()) == lower;
}

}  // namespace

Result<ChosenDevice> ChooseDevice(std::string_view selector, v1::Language language,
                                  const std::vector<v1::Device>& devices,
                                  const std::vector<v1::KnownDeviceClass>& known_classes) {
  const v1::DeviceKind kind = language == v1::LANGUAGE_HOST_CXX ? v1::DEVICE_KIND_HOST : v1::DEVICE_KIND_CUDA;
  const std::string lower = absl::AsciiStrToLower(std::string(selector));
  const v1::Device* chosen = nullptr;
  for (const v1::Device& device : devices) {
    if (!selector.empty() && device.uuid() == selector) {
      chosen = &device;
      break;
    }
    if (!Selects(selector, lower, kind, device)) continue;
    // The first that is ready, else the first.
    const bool is_better = chosen == nullptr || (chosen->state() == v1::DEVICE_STATE_QUARANTINED &&
                                                 device.state() != v1::DEVICE_STATE_QUARANTINED);
    if (is_better) chosen = &device;
  }
  if (chosen != nullptr) {
    if (chosen->device_class().kind() != kind) return NoDevice(selector);
    return ChosenDevice{chosen->device_class().id(), chosen->device_class().display_name(), chosen->driver_version(),
                        chosen->toolkit_version()};
  }
  for (const v1::KnownDeviceClass& known : known_classes) {
    if (absl::AsciiStrToLower(known.short_name()) != lower || known.device_class().kind() != kind) continue;
    return ChosenDevice{known.device_class().id(), known.device_class().display_name(), "", ""};
  }
  return NoDevice(selector);
}

}  // namespace tunefarm::client
