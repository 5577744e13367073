// What tuning and launching tell the driver alike, by declarations that are neither's.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/driver_step/launch_config.h"
#include "server/driver_step/step_evaluator.h"
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

struct Config {
  unsigned int gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
  const int* hStream;
  Attribute* attrs;
  unsigned int numAttrs;
};

TEST(DriverStepTest, ALaunchIsWrittenWithTheAttributesThatAreSetInOneOrder) {
  const int stream = 0;
  Attribute attributes[kAttributesMax];
  Config config;
  LaunchValues values;
  values.grid = {7, 6, 5};
  values.block = {4, 3, 2};
  values.dynamic_shared_bytes = 1000;
  WriteConfig(values, {}, &stream, attributes, &config);
  EXPECT_EQ(std::vector<unsigned int>({config.gridDimX, config.gridDimY, config.gridDimZ}),
            (std::vector<unsigned int>{7, 6, 5}));
  EXPECT_EQ(std::vector<unsigned int>({config.blockDimX, config.blockDimY, config.blockDimZ}),
            (std::vector<unsigned int>{4, 3, 2}));
  EXPECT_EQ(config.sharedMemBytes, 1000U);
  EXPECT_EQ(config.hStream, &stream);
  EXPECT_EQ(config.numAttrs, 0U);
  values.cluster = {4, 2, 1};
  WriteConfig(values, {false, false, true}, &stream, attributes, &config);
  ASSERT_EQ(config.numAttrs, 2U);
  EXPECT_EQ(attributes[1].id, kClusterSchedulingPolicyPreferenceId);
  EXPECT_EQ(attributes[1].value.words[0], static_cast<uint32_t>(kClusterSchedulingPolicySpread));
  std::memset(attributes, 0xff, sizeof(attributes));
  WriteConfig(values, {true, true}, &stream, attributes, &config);
  ASSERT_EQ(config.numAttrs, 3U);
  EXPECT_EQ(config.attrs, attributes);
  EXPECT_EQ(attributes[0].id, kClusterDimensionId);
  EXPECT_EQ(std::vector<uint32_t>(attributes[0].value.words, attributes[0].value.words + 4),
            (std::vector<uint32_t>{4, 2, 1, 0}));
  EXPECT_EQ(attributes[1].id, kCooperativeId);
  EXPECT_EQ(attributes[2].id, kProgrammaticStreamSerializationId);
  for (const Attribute& flag : {attributes[1], attributes[2]}) {
    EXPECT_EQ(flag.value.words[0], 1U);
    EXPECT_EQ(flag.value.words[1], 0U);
  }
  values.cluster.reset();
  WriteConfig(values, {false, true, true}, &stream, attributes, &config);
  ASSERT_EQ(config.numAttrs, 1U);  // without clusters there is none to spread
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
  EXPECT_EQ(TensorMapTypeOf(14), 0);   // f8e4m3, as UINT8
  EXPECT_EQ(TensorMapTypeOf(13), -1);  // no type
  EXPECT_EQ(TensorMapTypeOf(15), -1);
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

// ---- Formulas that are their values ----

struct Formula {
  Formula(int64_t value, std::string_view mode = {})
      : number(value), text(mode) {}  // NOLINT(google-explicit-constructor)
  int64_t number;
  std::string_view text;
};
using Field = std::optional<Formula>;

struct StepFields {
  Field when, dynamic_shared_bytes;
  std::vector<Formula> grid, block, cluster;
};

struct MapFields {
  std::vector<Formula> dims, byte_strides, box, element_strides;
  Field swizzle, interleave, l2_promotion, base_offset_bytes;
  bool oob_fill_nan = false;
};

struct Values {
  const Formula* At(const Field& field) const { return field ? &*field : nullptr; }
  const Formula* At(const std::vector<Formula>& list, size_t number) const {
    return number < list.size() ? &list[number] : nullptr;
  }
  bool Int(const Formula& formula, const char*, int64_t* number) {
    *number = formula.number;
    return true;
  }
  bool Truth(const Formula& formula, bool* truth) {
    *truth = formula.number != 0;
    return true;
  }
  bool Text(const Formula& formula, const char*, std::string_view* text) {
    *text = formula.text;
    return true;
  }
  bool OutOfRange(const Formula&, const char* what, int64_t number, int64_t lowest, int64_t highest) {
    return Refuse(what, std::to_string(number) + " of " + std::to_string(lowest) + " to " + std::to_string(highest));
  }
  bool NoMultiple(const Formula&, const char* what, int64_t number, int64_t divisor) {
    return Refuse(what, std::to_string(number) + " by " + std::to_string(divisor));
  }
  bool NoMode(const Formula&, const char* what, std::string_view text, std::span<const std::string_view> modes) {
    return Refuse(what, std::string(text) + " of " + std::to_string(modes.size()));
  }
  bool Refuse(const char* what, const std::string& why) {
    error = std::string(what) + ": " + why;
    return false;
  }
  std::string error;
};

using Extents = std::array<uint32_t, 3>;

// What is wrong; empty if nothing is.
std::string Launch(const StepFields& step, LaunchValues* values) {
  Values source;
  StepEvaluator evaluator(&source);
  const bool has_values = evaluator.Launch(step, values);
  EXPECT_EQ(has_values, source.error.empty());
  return source.error;
}

std::string TensorMap(const MapFields& map, size_t rank, TensorMapValues* values) {
  Values source;
  StepEvaluator evaluator(&source);
  const bool has_values = evaluator.TensorMap(map, 11, rank, values);  // f32
  EXPECT_EQ(has_values, source.error.empty());
  return source.error;
}

TEST(DriverStepTest, AStepRunsUnlessItsConditionIsFalse) {
  Values source;
  StepEvaluator evaluator(&source);
  StepFields step;
  bool runs = false;
  EXPECT_TRUE(evaluator.Runs(step, &runs) && runs);
  step.when = Formula{0};
  EXPECT_TRUE(evaluator.Runs(step, &runs) && !runs);
  step.when = Formula{2};
  EXPECT_TRUE(evaluator.Runs(step, &runs) && runs);
}

TEST(DriverStepTest, ALaunchHasTheExtentsOfItsFormulasAndElseOnes) {
  StepFields step;
  step.grid = {{7}, {4}};
  step.block = {{32}};
  LaunchValues values;
  values.cluster = Extents{9, 9, 9};
  values.dynamic_shared_bytes = 9;
  EXPECT_EQ(Launch(step, &values), "");
  EXPECT_EQ(values.grid, (Extents{7, 4, 1}));
  EXPECT_EQ(values.block, (Extents{32, 1, 1}));
  EXPECT_FALSE(values.cluster.has_value());
  EXPECT_EQ(values.dynamic_shared_bytes, 0U);
  step.cluster = {{1}, {2}};
  step.dynamic_shared_bytes = Formula{INT32_MAX};
  EXPECT_EQ(Launch(step, &values), "");
  EXPECT_EQ(values.cluster, (Extents{1, 2, 1}));
  EXPECT_EQ(values.dynamic_shared_bytes, 0x7fffffffU);
  step.cluster = {{1}, {3}};
  EXPECT_EQ(Launch(step, &values), "the grid: 4 by 3");
  step.cluster = {{0}};
  EXPECT_EQ(Launch(step, &values), "the cluster: 0 of 1 to 2147483647");
  step.cluster = {{1}, {2}};
  step.dynamic_shared_bytes = Formula{-1};
  EXPECT_EQ(Launch(step, &values), "the dynamic shared memory: -1 of 0 to 2147483647");
  step.block = {{32}, {0}};
  EXPECT_EQ(Launch(step, &values), "the block: 0 of 1 to 2147483647");
  step.grid = {{int64_t{1} << 31}};
  EXPECT_EQ(Launch(step, &values), "the grid: 2147483648 of 1 to 2147483647");
}

TEST(DriverStepTest, ATensorMapHasTheValuesOfItsFormulas) {
  MapFields map;
  map.dims = {{64}, {kTensorExtentMax}};
  map.byte_strides = {{256}};
  map.box = {{16}, {kTensorBoxMax}};
  TensorMapValues values;
  values.base_offset_bytes = values.swizzle = 9;
  EXPECT_EQ(TensorMap(map, 2, &values), "");
  EXPECT_EQ(values.type, TensorMapTypeOf(11));
  EXPECT_EQ(values.rank, 2U);
  EXPECT_EQ(values.dims[1], uint64_t{1} << 32);
  EXPECT_EQ(values.byte_strides[0], 256U);
  EXPECT_EQ(values.byte_strides[1], 0U);
  EXPECT_EQ(values.box[1], 256U);
  EXPECT_EQ(values.element_strides[0], 1U);
  EXPECT_EQ(values.element_strides[1], 1U);
  EXPECT_EQ(values.swizzle, 0);
  EXPECT_EQ(values.oob_fill, 0);
  EXPECT_EQ(values.base_offset_bytes, 0);
  map.element_strides = {{2}, {8}};
  map.swizzle = Formula{0, "128B"};
  map.interleave = Formula{0, "16B"};
  map.l2_promotion = Formula{0, "256B"};
  map.base_offset_bytes = Formula{-16};
  map.oob_fill_nan = true;
  EXPECT_EQ(TensorMap(map, 2, &values), "");
  EXPECT_EQ(values.element_strides[1], 8U);
  EXPECT_EQ(values.swizzle, 3);
  EXPECT_EQ(values.interleave, 1);
  EXPECT_EQ(values.l2_promotion, 3);
  EXPECT_EQ(values.oob_fill, 1);
  EXPECT_EQ(values.base_offset_bytes, -16);
  map.l2_promotion->text = "32B";
  EXPECT_EQ(TensorMap(map, 2, &values), "the L2 promotion of a tensor map: 32B of 4");
  map.element_strides[1].number = 9;
  EXPECT_EQ(TensorMap(map, 2, &values), "an element stride of a tensor map: 9 of 1 to 8");
  map.byte_strides[0].number = 24;
  EXPECT_EQ(TensorMap(map, 2, &values), "a byte stride of a tensor map: 24 by 16");
  map.byte_strides[0].number = -16;
  EXPECT_EQ(TensorMap(map, 2, &values), "a byte stride of a tensor map: -16 of 0 to 1099511627775");
  map.box[0].number = 257;
  EXPECT_EQ(TensorMap(map, 2, &values), "a box of a tensor map: 257 of 1 to 256");
  map.dims[0].number = 0;
  EXPECT_EQ(TensorMap(map, 2, &values), "an extent of a tensor map: 0 of 1 to 4294967296");
}

}  // namespace
}  // namespace tunefarm::driver_step
