// Lists of devices in pages, and what is refused about devices.
#include "server/api/farm_api.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/base/status.h"
#include "tests/unit/jobs/farm.h"

namespace tunefarm {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;

class FarmApiTest : public testing::Test {
 protected:
  FarmApi& api() { return farm_.service().farm_api(); }

  TemporaryDirectory directory_;
  Farm farm_{directory_.path(), {HostDevice("HOST-1"), HostDevice("HOST-2"), HostDevice("HOST-3")}};
};

TEST_F(FarmApiTest, DevicesComeInPages) {
  v1::ListDevicesRequest request;
  request.set_page_size(2);
  std::vector<std::string> uuids;
  std::vector<int> sizes;
  do {
    const auto page = api().ListDevices(request);
    ASSERT_TRUE(page.ok()) << page.status();
    for (const v1::Device& device : page->devices()) uuids.push_back(device.uuid());
    sizes.push_back(page->devices_size());
    request.set_page_token(page->next_page_token());
  } while (!request.page_token().empty());
  EXPECT_THAT(sizes, ElementsAre(2, 1));
  EXPECT_THAT(uuids, UnorderedElementsAre("HOST-1", "HOST-2", "HOST-3"));
  EXPECT_EQ(api().ListDevices({})->devices_size(), 3) << "without a size a page has room for 50";
  request.set_page_token("7");
  EXPECT_EQ(api().ListDevices(request)->devices_size(), 0) << "devices may have left since the last page";
  for (const char* token : {"x", "-1", "1234567890"}) {
    request.set_page_token(token);
    EXPECT_EQ(ReasonOf(api().ListDevices(request).status()), "PAGE_TOKEN_INVALID") << token;
  }
}

TEST_F(FarmApiTest, ADeviceIsTakenOutOfServiceForAReasonAndReleased) {
  v1::QuarantineDeviceRequest request;
  request.set_name("devices/HOST-2");
  for (const std::string& reason : {std::string(), std::string(1025, 'x')}) {
    request.set_reason(reason);
    EXPECT_EQ(ReasonOf(api().QuarantineDevice(request).status()), "REASON_INVALID");
  }
  request.set_reason("its fan is being replaced");
  const auto out = api().QuarantineDevice(request);
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ(out->device().state(), v1::DEVICE_STATE_QUARANTINED);
  EXPECT_EQ(out->device().state_reason(), request.reason());
  v1::ReleaseDeviceRequest release;
  release.set_name(request.name());
  EXPECT_EQ(api().ReleaseDevice(release)->device().state(), v1::DEVICE_STATE_QUARANTINED) << "as it was before";
  EXPECT_EQ(api().ReleaseDevice(release)->device().state(), v1::DEVICE_STATE_READY);
  request.set_name("devices/HOST-4");
  EXPECT_EQ(ReasonOf(api().QuarantineDevice(request).status()), "DEVICE_NOT_FOUND");
  release.set_name("devices/HOST-4");
  EXPECT_EQ(ReasonOf(api().ReleaseDevice(release).status()), "DEVICE_NOT_FOUND");
}

}  // namespace
}  // namespace tunefarm
