// TargetResolver: what one kernel, or a definition of it, and a device come to, asked of the daemon, and again from
// time to time.
//
// Threads: one (the client's executor).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/cpp/calls.h"
#include "client/cpp/target.h"
#include "tunefarm/v1/device_service.grpc.pb.h"
#include "tunefarm/v1/kernel_service.grpc.pb.h"

namespace tunefarm::client {

struct ResolverOptions {
  Duration call_timeout{}, refresh_interval{}, retry_interval{};
};

class TargetResolver : public std::enable_shared_from_this<TargetResolver> {
 public:
  // `program`: the program_digest of the definition that is asked for; empty: that of `kernel`.
  // `on_target` is called when there is a target and when it has changed; while `is_wanted` says so, it is looked up
  // again.
  TargetResolver(std::string kernel, std::string program, std::string device, OpenCalls* calls, Executor* executor,
                 v1::KernelService::StubInterface* kernels, v1::DeviceService::StubInterface* devices,
                 const ResolverOptions& options, std::function<void(const Target&)> on_target,
                 std::function<bool()> is_wanted);

  // Looks it up now, or once more if that is being done.
  void Refresh();
  const std::optional<Target>& target() const { return target_; }

 private:
  void AskForKernel();
  void AskForDevices(const v1::Kernel& kernel, std::vector<v1::Device> known, const std::string& page_token);
  void AskForClasses(const v1::Kernel& kernel, const std::vector<v1::Device>& devices);
  void Choose(const v1::Kernel& kernel, const std::vector<v1::Device>& devices,
              const std::vector<v1::KnownDeviceClass>& classes);
  void End(bool is_ok);

  const std::string kernel_, program_, device_;
  OpenCalls* const calls_;
  Executor* const executor_;
  v1::KernelService::StubInterface* const kernels_;
  v1::DeviceService::StubInterface* const devices_;
  const ResolverOptions options_;
  const std::function<void(const Target&)> on_target_;
  const std::function<bool()> is_wanted_;
  bool is_asking_ = false, again_ = false;
  TimerId timer_ = 0;
  std::optional<Target> target_;
};

}  // namespace tunefarm::client
