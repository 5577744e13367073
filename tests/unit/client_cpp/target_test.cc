#include "client/cpp/target.h"

#include <gtest/gtest.h>

namespace tunefarm::client {
namespace {

v1::Device MakeDevice(const std::string& uuid, const std::string& name, v1::DeviceKind kind, bool ready = true) {
  v1::Device device;
  device.set_uuid(uuid);
  device.mutable_device_class()->set_id(name + "-class");
  device.mutable_device_class()->set_display_name(name);
  device.mutable_device_class()->set_kind(kind);
  device.set_state(ready ? v1::DEVICE_STATE_READY : v1::DEVICE_STATE_QUARANTINED);
  device.set_toolkit_version("toolkit of " + uuid);
  return device;
}

TEST(ChooseDeviceTest, SelectorsMeanWhatTheyMeanToTheDaemon) {
  const std::vector<v1::Device> devices = {MakeDevice("GPU-1", "NVIDIA H200", v1::DEVICE_KIND_CUDA, false),
                                           MakeDevice("GPU-2", "NVIDIA T4", v1::DEVICE_KIND_CUDA),
                                           MakeDevice("GPU-3", "NVIDIA H200", v1::DEVICE_KIND_CUDA),
                                           MakeDevice("CPU-1", "Xeon", v1::DEVICE_KIND_HOST)};
  v1::KnownDeviceClass known;
  known.set_short_name("A100");
  known.mutable_device_class()->set_id("a100-class");
  known.mutable_device_class()->set_kind(v1::DEVICE_KIND_CUDA);
  const auto toolkit = [&](const std::string& selector, v1::Language language) {
    const auto chosen = ChooseDevice(selector, language, devices, {known});
    return chosen.ok() ? chosen->class_id + "/" + chosen->toolkit : chosen.status().reason;
  };
  EXPECT_EQ(toolkit("", v1::LANGUAGE_CUDA), "NVIDIA T4-class/toolkit of GPU-2");
  EXPECT_EQ(toolkit("", v1::LANGUAGE_HOST_CXX), "Xeon-class/toolkit of CPU-1");
  EXPECT_EQ(toolkit("cuda", v1::LANGUAGE_CUDA), "NVIDIA T4-class/toolkit of GPU-2");
  EXPECT_EQ(toolkit("HOST", v1::LANGUAGE_HOST_CXX), "Xeon-class/toolkit of CPU-1");
  EXPECT_EQ(toolkit("nvidia h200", v1::LANGUAGE_CUDA), "NVIDIA H200-class/toolkit of GPU-3");
  EXPECT_EQ(toolkit("NVIDIA H200-class", v1::LANGUAGE_CUDA), "NVIDIA H200-class/toolkit of GPU-3");
  EXPECT_EQ(toolkit("GPU-1", v1::LANGUAGE_CUDA), "NVIDIA H200-class/toolkit of GPU-1");
  EXPECT_EQ(toolkit("a100", v1::LANGUAGE_CUDA), "a100-class/");
  EXPECT_EQ(toolkit("host", v1::LANGUAGE_CUDA), "DEVICE_NOT_FOUND");
  EXPECT_EQ(toolkit("a100", v1::LANGUAGE_HOST_CXX), "DEVICE_NOT_FOUND");
  EXPECT_EQ(toolkit("B200", v1::LANGUAGE_CUDA), "DEVICE_NOT_FOUND");
}

}  // namespace
}  // namespace tunefarm::client
