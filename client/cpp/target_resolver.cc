#include "client/cpp/target_resolver.h"

#include <utility>

#include "client/cpp/wire.h"

namespace tunefarm::client {
namespace {

constexpr int kDevicesPage = 1000;

}  // namespace

TargetResolver::TargetResolver(std::string kernel, std::string program, std::string device, OpenCalls* calls,
                               Executor* executor, v1::KernelService::StubInterface* kernels,
                               v1::DeviceService::StubInterface* devices, const ResolverOptions& options,
                               std::function<void(const Target&)> on_target, std::function<bool()> is_wanted)
    : kernel_(std::move(kernel)),
      program_(std::move(program)),
      device_(std::move(device)),
      calls_(calls),
      executor_(executor),
      kernels_(kernels),
      devices_(devices),
      options_(options),
      on_target_(std::move(on_target)),
      is_wanted_(std::move(is_wanted)) {}

void TargetResolver::Refresh() {
  if (is_asking_) {
    again_ = true;
    return;
  }
  executor_->Cancel(timer_);
  is_asking_ = true;
  again_ = false;
  AskForKernel();
}

void TargetResolver::End(bool is_ok) {
  is_asking_ = false;
  if (!is_wanted_()) return;
  if (again_) {
    Refresh();
    return;
  }
  timer_ = executor_->PostAfter(is_ok ? options_.refresh_interval : options_.retry_interval,
                                [self = shared_from_this()] { self->Refresh(); });
}

void TargetResolver::AskForKernel() {
  v1::GetKernelRequest request;
  request.set_name(kernel_);
  StartCall<v1::GetKernelRequest, v1::GetKernelResponse>(
      calls_, executor_, options_.call_timeout, request,
      [this](auto* context, const auto& own, auto* queue) {
        return kernels_->PrepareAsyncGetKernel(context, own, queue);
      },
      [self = shared_from_this()](const grpc::Status& status, const v1::GetKernelResponse& response) {
        if (!status.ok()) return self->End(false);
        self->AskForDevices(response.kernel(), {}, "");
      });
}

void TargetResolver::AskForDevices(const v1::Kernel& kernel, std::vector<v1::Device> known,
                                   const std::string& page_token) {
  v1::ListDevicesRequest request;
  request.set_page_size(kDevicesPage);
  request.set_page_token(page_token);
  StartCall<v1::ListDevicesRequest, v1::ListDevicesResponse>(
      calls_, executor_, options_.call_timeout, request,
      [this](auto* context, const auto& own, auto* queue) {
        return devices_->PrepareAsyncListDevices(context, own, queue);
      },
      [self = shared_from_this(), kernel, known = std::move(known)](const grpc::Status& status,
                                                                    const v1::ListDevicesResponse& response) {
        if (!status.ok()) return self->End(false);
        std::vector<v1::Device> devices = known;
        devices.insert(devices.end(), response.devices().begin(), response.devices().end());
        if (!response.next_page_token().empty()) {
          return self->AskForDevices(kernel, std::move(devices), response.next_page_token());
        }
        if (ChooseDevice(self->device_, kernel.language(), devices, {}).ok()) return self->Choose(kernel, devices, {});
        self->AskForClasses(kernel, devices);
      });
}

void TargetResolver::AskForClasses(const v1::Kernel& kernel, const std::vector<v1::Device>& devices) {
  StartCall<v1::ListDeviceClassesRequest, v1::ListDeviceClassesResponse>(
      calls_, executor_, options_.call_timeout, v1::ListDeviceClassesRequest(),
      [this](auto* context, const auto& own, auto* queue) {
        return devices_->PrepareAsyncListDeviceClasses(context, own, queue);
      },
      [self = shared_from_this(), kernel, devices](const grpc::Status& status,
                                                   const v1::ListDeviceClassesResponse& response) {
        if (!status.ok()) return self->End(false);
        self->Choose(kernel, devices, {response.classes().begin(), response.classes().end()});
      });
}

void TargetResolver::Choose(const v1::Kernel& kernel, const std::vector<v1::Device>& devices,
                            const std::vector<v1::KnownDeviceClass>& classes) {
  const Result<ChosenDevice> chosen = ChooseDevice(device_, kernel.language(), devices, classes);
  // No device answers exactly, then; what the daemon says of the question is cached under it.
  if (!chosen.ok()) return End(false);
  Target target;
  target.display_name = kernel.display_name();
  target.program_digest = program_.empty() ? kernel.program_digest() : program_;
  if (target.program_digest == kernel.program_digest()) {
    for (const v1::Dim& dim : kernel.dims()) {
      target.dims.emplace_back(
          dim.name(), dim.has_default_value() ? std::optional<Value>(FromWire(dim.default_value())) : std::nullopt);
    }
  }
  target.device = *chosen;
  if (target_ != target) {
    target_ = std::move(target);
    on_target_(*target_);
  }
  End(true);
}

}  // namespace tunefarm::client
