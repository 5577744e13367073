#include "client/cli/misses/miss_list.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "server/base/status_macros.h"
#include "server/device/device_class.h"

namespace tunefarm::cli {
namespace {

constexpr int64_t kPageMax = 1000;

bool IsMeant(const v1::Device& device, const std::string& text) {
  const v1::DeviceClass& device_class = device.device_class();
  if (text == device.uuid() || text == device.name() || text == device_class.id()) return true;
  if (absl::EqualsIgnoreCase(text, "host")) return device_class.kind() == v1::DEVICE_KIND_HOST;
  if (absl::EqualsIgnoreCase(text, "cuda")) return device_class.kind() == v1::DEVICE_KIND_CUDA;
  return absl::EqualsIgnoreCase(text, device_class.display_name());
}

}  // namespace

absl::StatusOr<v1::ListMissesResponse> FetchMisses(Connection* connection, const MissFilter& filter, int64_t limit) {
  v1::ListMissesRequest request;
  request.set_kernel(filter.kernel);
  request.set_device_class_id(filter.device_class_id);
  v1::ListMissesResponse all;
  do {
    const int64_t wanted = limit == 0 ? kPageMax : std::min(kPageMax, limit - all.misses_size());
    request.set_page_size(static_cast<int32_t>(wanted));
    request.set_page_token(all.next_page_token());
    ASSIGN_OR_RETURN(v1::ListMissesResponse page,
                     Connection::Call(connection->catalog(), &v1::CatalogService::StubInterface::ListMisses, request));
    all.set_not_counted(page.not_counted());
    all.set_next_page_token(page.next_page_token());
    for (v1::Miss& miss : *page.mutable_misses()) *all.add_misses() = std::move(miss);
  } while (!all.next_page_token().empty() && (limit == 0 || all.misses_size() < limit));
  return all;
}

absl::StatusOr<std::string> ClassIdOf(Connection* connection, const std::string& device) {
  if (device.empty()) return device;
  ASSIGN_OR_RETURN(const v1::ListDevicesResponse response,
                   Connection::Call(connection->devices(), &v1::DeviceService::StubInterface::ListDevices,
                                    v1::ListDevicesRequest()));
  for (const v1::Device& known : response.devices()) {
    if (IsMeant(known, device)) return known.device_class().id();
  }
  if (const auto known_class = FindKnownClass(device); known_class.ok()) return known_class->Id();
  return device;
}

}  // namespace tunefarm::cli
