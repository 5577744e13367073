// A definition of a CUDA kernel and a GPU to run it on, for tests in which nothing is compiled: what they differ in is
// given as text.
#pragma once

#include <string>
#include <string_view>

#include "server/base/check.h"
#include "server/base/status.h"
#include "server/definition/kernel_plan.h"
#include "server/device/device_class.h"
#include "tunefarm/v1/device.pb.h"
#include "tunefarm/v1/kernel.pb.h"

namespace tunefarm {

// One output buffer of N floats, one launch, checked by a reference. `parameters` is protobuf text.
inline tunefarm::v1::Kernel CudaDefinition(const std::string& name, std::string_view parameters,
                                           const std::string& grid, const std::string& block) {
  std::string text = "display_name: '" + name + "' language: LANGUAGE_CUDA sources { path: '" + name +
                     ".cu' content: '__global__ void " + name + "(float*) {}' }";
  text.append(parameters);
  text += "launches { kernel { entry: '" + name + "' grid: '" + grid + "' block: '" + block + "' arguments: 'y' } }";
  text += R"pb(
    dims {
      name: "N"
      default_value { int_value: 1024 }
    }
    arguments {
      name: "y"
      buffer { data_type: DATA_TYPE_F32 length: "N" access: ACCESS_OUT }
    }
    reference {
      steps {
        kernel {
          entry: "plain"
          grid: "1"
          block: "1"
          arguments: [ "y" ]
        }
      }
    })pb";
  auto kernel = ParseKernelText(text, "kernel.pbtxt");
  TUNEFARM_CHECK_OK(kernel);
  return *kernel;
}

inline tunefarm::v1::Device FakeGpu(const std::string& uuid) {
  tunefarm::v1::Device device;
  device.set_uuid(uuid);
  *device.mutable_device_class() = FindKnownClass("H200")->ToProto();
  device.set_memory_bytes(int64_t{100} << 30);
  device.set_toolkit_version("13.0");
  device.set_state(tunefarm::v1::DEVICE_STATE_READY);
  return device;
}

}  // namespace tunefarm
