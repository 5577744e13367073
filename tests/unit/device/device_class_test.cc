#include "server/device/device_class.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "server/base/status.h"

namespace tunefarm {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

DeviceClass Known(std::string_view name) { return FindKnownClass(name).value(); }

TEST(DeviceClassTest, FindsKnownClassesWhateverTheCase) {
  EXPECT_EQ(Known("h200").display_name, "NVIDIA H200");
  EXPECT_EQ(Known("A100").shared_bytes_per_block_optin, 166912);
  EXPECT_EQ(Known("L40S").shared_bytes_per_block_optin, 101376);
  EXPECT_EQ(Known("T4").shared_bytes_per_block_optin, 65536);
  EXPECT_EQ(Known("B200").shared_bytes_per_block_optin, 232448);
}

// What the driver reports on an H200.
TEST(DeviceClassTest, H200IsAsTheDriverReportsIt) {
  const DeviceClass device = Known("H200");
  EXPECT_EQ(device.compute_capability, 90);
  EXPECT_EQ(device.sm_count, 132);
  EXPECT_EQ(device.registers_per_sm, 65536);
  EXPECT_EQ(device.shared_bytes_per_sm, 233472);
  EXPECT_EQ(device.shared_bytes_per_block, 49152);
  EXPECT_EQ(device.shared_bytes_per_block_optin, 232448);
  EXPECT_EQ(device.reserved_shared_bytes_per_block, 1024);
  EXPECT_EQ(device.threads_per_sm, 2048);
  EXPECT_EQ(device.blocks_per_sm, 32);
  EXPECT_EQ(device.l2_bytes, 62914560);
  EXPECT_EQ(device.memory_gib, 140);
  EXPECT_EQ(device.grid_max, (std::array<int64_t, 3>{2147483647, 65535, 65535}));
  EXPECT_EQ(device.block_max, (std::array<int, 3>{1024, 1024, 64}));
}

TEST(DeviceClassTest, UnknownNameSuggestsAndLists) {
  const absl::Status status = FindKnownClass("H20").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(MessageOf(status)), HasSubstr("did you mean 'H200'"));
  EXPECT_THAT(std::string(MessageOf(status)), HasSubstr("T4, A100, L40S, H100, H200, B200"));
  EXPECT_EQ(ReasonOf(status), "UNKNOWN_DEVICE");
}

// Results are filed under ids: one that changes orphans them. If this fails, the id has changed, not the test.
TEST(DeviceClassTest, IdsAreStable) {
  EXPECT_EQ(Known("H200").Id(), "nvidia_h200-sm90-132x-140g-8a461c49");
  EXPECT_EQ(Known("A100").Id(), "nvidia_a100_sxm4_80gb-sm80-108x-79g-bc935e45");
  DeviceClass host;
  host.kind = DeviceKind::kHost;
  host.display_name = "Intel(R) Xeon(R) CPU @ 2.20GHz";
  host.sm_count = 2;
  host.memory_gib = 8;
  host.compiler = "g++ 12.2.0";
  EXPECT_EQ(host.Id(), "intel_r_xeon_r_cpu_2_20ghz-host-2x-8g-a1e432bb");
}

TEST(DeviceClassTest, EveryPropertyChangesTheId) {
  const std::vector<std::function<void(DeviceClass*)>> changes = {
      [](DeviceClass* d) { d->kind = DeviceKind::kHost; },
      [](DeviceClass* d) { d->display_name += " NVL"; },
      [](DeviceClass* d) { d->compute_capability = 91; },
      [](DeviceClass* d) { ++d->sm_count; },
      [](DeviceClass* d) { ++d->registers_per_sm; },
      [](DeviceClass* d) { ++d->registers_per_block; },
      [](DeviceClass* d) { ++d->shared_bytes_per_sm; },
      [](DeviceClass* d) { ++d->shared_bytes_per_block; },
      [](DeviceClass* d) { ++d->shared_bytes_per_block_optin; },
      [](DeviceClass* d) { ++d->reserved_shared_bytes_per_block; },
      [](DeviceClass* d) { ++d->threads_per_sm; },
      [](DeviceClass* d) { ++d->threads_per_block; },
      [](DeviceClass* d) { ++d->warp_size; },
      [](DeviceClass* d) { ++d->blocks_per_sm; },
      [](DeviceClass* d) { ++d->l2_bytes; },
      [](DeviceClass* d) { ++d->l1_bytes; },
      [](DeviceClass* d) { ++d->memory_gib; },
      [](DeviceClass* d) { d->mig_profile = "1g.18gb"; },
      [](DeviceClass* d) { d->compiler = "g++"; },
      [](DeviceClass* d) { ++d->grid_max[2]; },
      [](DeviceClass* d) { ++d->block_max[1]; },
  };
  std::set<std::string> ids = {Known("H200").Id()};
  for (const auto& change : changes) {
    DeviceClass device = Known("H200");
    change(&device);
    EXPECT_TRUE(ids.insert(device.Id()).second) << "a property is not part of the id: " << device.Id();
    // And none of them is lost on the way through the message.
    EXPECT_EQ(DeviceClass::FromProto(device.ToProto())->Id(), device.Id());
  }
}

TEST(DeviceClassTest, ConstantsNameEveryNumber) {
  const ValueMap constants = Known("H100").Constants();
  EXPECT_EQ(constants.find("device.kind")->second, Value("cuda"));
  EXPECT_EQ(constants.find("device.sm_count")->second, Value(132));
  EXPECT_EQ(constants.find("device.compute_capability")->second, Value(90));
  EXPECT_EQ(constants.find("device.l2_bytes")->second, Value(int64_t{50} << 20));
  EXPECT_EQ(constants.find("device.grid_max_y")->second, Value(65535));
  EXPECT_EQ(constants.find("device.block_max_z")->second, Value(64));
  std::vector<Value> values;
  for (const auto& [name, value] : constants) {
    EXPECT_THAT(name, StartsWith("device."));
    values.push_back(value);
  }
  EXPECT_EQ(Known("H100").ConstantValues(), values);
}

TEST(DeviceClassTest, RefusesBadMessages) {
  const auto refused = [](const std::function<void(v1::DeviceClass*)>& change) {
    v1::DeviceClass proto = Known("T4").ToProto();
    change(&proto);
    const absl::Status status = DeviceClass::FromProto(proto).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(MessageOf(status));
  };
  EXPECT_THAT(refused([](v1::DeviceClass* d) { d->clear_kind(); }), HasSubstr("kind"));
  EXPECT_THAT(refused([](v1::DeviceClass* d) { d->set_sm_count(-1); }), HasSubstr("sm_count = -1"));
  EXPECT_THAT(refused([](v1::DeviceClass* d) { d->set_l2_bytes(-5); }), HasSubstr("l2_bytes = -5"));
  EXPECT_THAT(refused([](v1::DeviceClass* d) { d->set_display_name(std::string(257, 'x')); }), HasSubstr("257 bytes"));
  EXPECT_THAT(refused([](v1::DeviceClass* d) { d->add_grid_max(1); }), HasSubstr("4 extents"));
}

}  // namespace
}  // namespace tunefarm
