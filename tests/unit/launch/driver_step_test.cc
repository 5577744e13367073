// What tuning and launching tell the driver alike, by declarations that are neither's.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "server/driver_step/launch_attributes.h"
#include "server/driver_step/tensor_map.h"

namespace tunefarm::driver_step {
namespace {

struct Attribute {
  enum Id : int {} id;
  union {
    char bytes[64];
    uint32_t words[16];
  } value;
};

TEST(DriverStepTest, AttributesAreThoseThatAreSetInOneOrder) {
  Attribute attributes[kAttributesMax];
  EXPECT_EQ(WriteAttributes({}, attributes), 0U);
  const uint32_t cluster[] = {4, 2, 1};
  std::memset(attributes, 0xff, sizeof(attributes));
  ASSERT_EQ(WriteAttributes({cluster, true, true}, attributes), 3U);
  EXPECT_EQ(attributes[0].id, kClusterDimensionId);
  EXPECT_EQ(std::vector<uint32_t>(attributes[0].value.words, attributes[0].value.words + 4),
            (std::vector<uint32_t>{4, 2, 1, 0}));
  EXPECT_EQ(attributes[1].id, kCooperativeId);
  EXPECT_EQ(attributes[2].id, kProgrammaticStreamSerializationId);
  for (const Attribute& flag : {attributes[1], attributes[2]}) {
    EXPECT_EQ(flag.value.words[0], 1U);
    EXPECT_EQ(flag.value.words[1], 0U);
  }
  ASSERT_EQ(WriteAttributes({nullptr, false, true}, attributes), 1U);
  EXPECT_EQ(attributes[0].id, kProgrammaticStreamSerializationId);
}

enum Type : int {};
enum Interleave : int {};
enum Swizzle : int {};
enum Promotion : int {};
enum Fill : int {};

struct Map {
  int type, interleave, swizzle, promotion, fill;
  uint32_t rank, box, element_stride;
  uint64_t address, dim, byte_stride;
};

int Encode(Map* map, Type type, uint32_t rank, void* address, const uint64_t* dims, const uint64_t* byte_strides,
           const uint32_t* box, const uint32_t* element_strides, Interleave interleave, Swizzle swizzle,
           Promotion promotion, Fill fill) {
  *map = {type,
          interleave,
          swizzle,
          promotion,
          fill,
          rank,
          box[0],
          element_strides[0],
          reinterpret_cast<uintptr_t>(address),
          dims[0],
          byte_strides[0]};
  return 7;
}

TEST(DriverStepTest, ATensorMapIsEncodedFromItsValues) {
  TensorMapValues values;
  values.type = TensorMapTypeOf(10);  // bf16
  values.rank = 1;
  values.dims[0] = 1000;
  values.box[0] = 64;
  values.element_strides[0] = 2;
  values.swizzle = ModeOf(kSwizzles, "128B");
  values.interleave = ModeOf(kInterleaves, "16B");
  values.l2_promotion = ModeOf(kL2Promotions, "64B");
  values.oob_fill = 1;
  values.base_offset_bytes = -256;
  Map map = {};
  EXPECT_EQ(EncodeTensorMap(&Encode, values, TensorAddress(4096, values), &map), 7);
  EXPECT_EQ(map.type, 9);
  EXPECT_EQ(map.rank, 1U);
  EXPECT_EQ(map.address, 3840U);
  EXPECT_EQ(map.dim, 1000U);
  EXPECT_EQ(map.byte_stride, 0U);  // of a rank of 1 there are none, but an address
  EXPECT_EQ(map.box, 64U);
  EXPECT_EQ(map.element_stride, 2U);
  EXPECT_EQ(map.interleave, 1);
  EXPECT_EQ(map.swizzle, 3);
  EXPECT_EQ(map.promotion, 1);
  EXPECT_EQ(map.fill, 1);
  EXPECT_EQ(TensorMapTypeOf(0), -1);
  EXPECT_EQ(TensorMapTypeOf(13), -1);
  EXPECT_EQ(ModeOf(kInterleaves, "64B"), -1);
}

}  // namespace
}  // namespace tunefarm::driver_step
