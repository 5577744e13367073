// The binary of a kernel in Triton as the run worker reads it: what an interpreter says, which may be anything.
#include "server/worker/cuda/triton_binary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>

#include "server/base/random.h"
#include "server/base/status.h"
#include "server/exec/frame_codec.h"

namespace tunefarm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using tunefarm::worker::v1::TritonBinary;
using tunefarm::worker::v1::TritonDescriptor;
using tunefarm::worker::v1::TritonKernel;

TritonKernel GoodKernel(const std::string& signature = "mm(*bf16,i32=1,i32)") {
  TritonKernel kernel;
  kernel.set_signature(signature);
  kernel.set_symbol("mm_0d1d");
  kernel.set_cubin(
      "\x7f"
      "ELF" +
      std::string(100, '\0'));
  kernel.set_num_warps(5);
  kernel.set_num_ctas(1);
  kernel.set_shared_bytes(1000);
  for (const int parameter : {0, 2, -1, -2}) kernel.add_parameters(parameter);
  return kernel;
}

std::string BytesOf(const TritonKernel& kernel) {
  TritonBinary binary;
  *binary.add_kernels() = kernel;
  return *EncodeMessage(FrameCodec::kJson, binary);
}

StepPlan Step() {
  StepPlan step;
  step.entry = "mm";
  step.grid = {6, 2, 1};
  step.arguments = {"a", "one", "n"};
  step.scalars["one"].type = step.scalars["n"].type = v1::DATA_TYPE_I32;
  return step;
}

uint64_t AddressIn(const StepPlan& step, size_t argument) {
  uint64_t address = 0;
  std::memcpy(&address, step.scalars.at(step.arguments[argument]).bytes.data(), sizeof(address));
  return address;
}

TEST(TritonBinary, IsReadAsItWasWritten) {
  const auto kernels = ParseTritonBinary(BytesOf(GoodKernel()));
  ASSERT_TRUE(kernels.ok()) << kernels.status();
  ASSERT_EQ(kernels->size(), 1U);
  EXPECT_EQ(kernels->begin()->first, "mm(*bf16,i32=1,i32)");
  EXPECT_EQ(kernels->begin()->second.cubin(), GoodKernel().cubin());
  EXPECT_TRUE(ParseTritonBinary("{}")->empty());
}

TEST(TritonBinary, EveryFieldHasItsLimits) {
  const std::function<void(TritonKernel*)> spoilers[] = {
      [](TritonKernel* k) { k->clear_symbol(); },
      [](TritonKernel* k) { k->set_symbol(std::string(5000, 'x')); },
      [](TritonKernel* k) { k->set_symbol(std::string("a\0b", 3)); },
      [](TritonKernel* k) { k->set_signature(std::string(5000, 'x')); },
      [](TritonKernel* k) { k->clear_cubin(); },
      [](TritonKernel* k) { k->set_cubin(std::string(100, 'x')); },
      [](TritonKernel* k) {
        k->set_cubin(
            "\x7f"
            "ELF");
      },
      [](TritonKernel* k) { k->set_num_warps(0); },
      [](TritonKernel* k) { k->set_num_warps(33); },
      [](TritonKernel* k) { k->set_num_ctas(0); },
      [](TritonKernel* k) { k->set_num_ctas(17); },
      [](TritonKernel* k) { k->set_shared_bytes(-1); },
      [](TritonKernel* k) { k->set_shared_bytes((1 << 30) + 1); },
      [](TritonKernel* k) { k->set_global_scratch_bytes(-1); },
      [](TritonKernel* k) { k->set_profile_scratch_bytes((1 << 30) + 1); },
      [](TritonKernel* k) { k->set_global_scratch_alignment(3); },
      [](TritonKernel* k) { k->set_profile_scratch_alignment(8192); },
      [](TritonKernel* k) { k->set_profile_scratch_alignment(-2147483647 - 1); },
      [](TritonKernel* k) { k->add_parameters(-3); },
      [](TritonKernel* k) { k->add_parameters(64); },
      [](TritonKernel* k) {
        for (int i = 0; i < 70; ++i) k->add_parameters(0);
      },
  };
  for (size_t i = 0; i < std::size(spoilers); ++i) {
    TritonKernel kernel = GoodKernel();
    spoilers[i](&kernel);
    EXPECT_FALSE(ParseTritonBinary(BytesOf(kernel)).ok()) << i;
  }
}

TEST(TritonBinary, NamesAreUniqueAndThereAreFewOfThem) {
  TritonBinary binary;
  for (int i = 0; i < 2; ++i) *binary.add_kernels() = GoodKernel();
  EXPECT_FALSE(ParseTritonBinary(*EncodeMessage(FrameCodec::kJson, binary)).ok());
  binary.Clear();
  for (int i = 0; i < 97; ++i) *binary.add_kernels() = GoodKernel("k" + std::to_string(i));
  EXPECT_FALSE(ParseTritonBinary(*EncodeMessage(FrameCodec::kJson, binary)).ok());
}

TEST(TritonBinary, BytesThatAreNoneAreRefused) {
  for (const std::string_view bytes :
       {"", "{", "null", "[]",
        "\x7f"
        "ELF",
        "{\"kernel\": []}", "{\"kernels\": [{\"cubin\": \"*\"}]}", "{\"kernels\": [{\"num_warps\": 1e99}]}"}) {
    EXPECT_FALSE(ParseTritonBinary(bytes).ok()) << bytes;
  }
  const std::string good = BytesOf(GoodKernel());
  PhiloxStream random(7);
  for (int i = 0; i < 2000; ++i) {
    std::string bytes = good.substr(0, random.UniformInt(3) == 0 ? random.UniformInt(good.size()) : good.size());
    for (uint64_t left = random.UniformInt(4); left > 0 && !bytes.empty(); --left) {
      bytes[random.UniformInt(bytes.size())] = static_cast<char>(random.UniformInt(256));
    }
    const auto kernels = ParseTritonBinary(bytes);
    if (!kernels.ok()) continue;
    for (const auto& [signature, kernel] : *kernels) {
      EXPECT_GE(kernel.cubin().size(), 64U);
      StepPlan step = Step();
      if (!CompleteTritonStep(kernel, 0, 0, &step).ok()) continue;
      EXPECT_LE(step.block[0], 1024);
    }
  }
}

TEST(TritonBinary, AStepGetsWhatTheFunctionSays) {
  TritonKernel kernel = GoodKernel();
  StepPlan step = Step();
  ASSERT_TRUE(CompleteTritonStep(kernel, 0, 4096, &step).ok());
  EXPECT_EQ(step.entry, kernel.signature());
  EXPECT_EQ(step.block, (std::array<uint32_t, 3>{160, 1, 1}));
  EXPECT_EQ(step.grid, (std::array<uint32_t, 3>{6, 2, 1}));
  EXPECT_FALSE(step.cluster.has_value());
  EXPECT_FALSE(step.spread_clusters);
  EXPECT_EQ(step.dynamic_shared_bytes, 1000);
  ASSERT_EQ(step.arguments.size(), 4U);
  EXPECT_EQ(step.arguments[0], "a");
  EXPECT_EQ(step.arguments[1], "n");
  EXPECT_EQ(AddressIn(step, 2), 0U);
  EXPECT_EQ(AddressIn(step, 3), 4096U);
  EXPECT_FALSE(step.attributes.cooperative());
  EXPECT_EQ(step.attributes.shared_memory_carveout_percent(), 0);
  kernel.set_shared_bytes((48 << 10) + 16);
  step = Step();
  ASSERT_TRUE(CompleteTritonStep(kernel, 0, 0, &step).ok());
  EXPECT_EQ(step.attributes.shared_memory_carveout_percent(), 100);
}

TEST(TritonBinary, ProgramsOfSeveralBlocksAreClusters) {
  TritonKernel kernel = GoodKernel();
  kernel.set_cooperative(true);
  kernel.set_programmatic_launch(true);
  for (const uint32_t ctas : {2, 8, 16}) {
    kernel.set_num_ctas(ctas);
    StepPlan step = Step();
    ASSERT_TRUE(CompleteTritonStep(kernel, 0, 0, &step).ok());
    EXPECT_EQ(step.grid, (std::array<uint32_t, 3>{6 * ctas, 2, 1}));
    EXPECT_EQ(*step.cluster, (std::array<uint32_t, 3>{ctas, 1, 1}));
    EXPECT_EQ(step.attributes.non_portable_cluster(), ctas == 16);
    EXPECT_TRUE(step.spread_clusters);
    EXPECT_TRUE(step.attributes.cooperative());
    EXPECT_TRUE(step.attributes.programmatic_stream_serialization());
  }
}

TEST(TritonBinary, AnArgumentThatIsNotPassedIsRefused) {
  TritonKernel kernel = GoodKernel();
  kernel.add_parameters(3);
  StepPlan step = Step();
  EXPECT_THAT(MessageOf(CompleteTritonStep(kernel, 0, 0, &step)), HasSubstr("mm takes argument 3, but 3 are passed"));
}

// A function of a descriptor of 3 dimensions, a number and a descriptor of 1; each taken as a tensor map or as a
// pointer.
TritonKernel KernelOfDescriptors(bool is_map) {
  TritonKernel kernel = GoodKernel("mm(tensordesc<bf16[2,64,128]>,i32,tensordesc<fp32[32]>)");
  kernel.clear_parameters();
  for (const int parameter : {0, 1, 2, -1, -2}) kernel.add_parameters(parameter);
  for (const auto& [argument, rank] : {std::pair{0, 3}, std::pair{2, 1}}) {
    TritonDescriptor* descriptor = kernel.add_descriptors();
    descriptor->set_argument(argument);
    descriptor->set_rank(rank);
    if (!is_map) continue;
    for (int i = 0; i < rank; ++i) descriptor->add_box(rank == 1 ? 32 : 1 << (2 * i + 1));  // 2, 8, 32
    descriptor->set_swizzle(argument == 0 ? 3 : 0);
    descriptor->set_element_type(argument == 0 ? 9 : 7);
  }
  return kernel;
}

StepPlan StepOfDescriptors() {
  StepPlan step = Step();
  step.arguments = {"x", "n", "y"};
  step.tensor_descriptors["x"] = {"a", v1::DATA_TYPE_BF16, {5, 70, 200}, {16000, 208, 1}, {2, 64, 128}, false};
  step.tensor_descriptors["y"] = {"b", v1::DATA_TYPE_F32, {1000}, {1}, {32}, true};
  return step;
}

TEST(TritonBinary, ATensorDescriptorIsPassedAsATensorMapAndItsSizes) {
  TritonKernel kernel = KernelOfDescriptors(true);
  EXPECT_EQ(PassedParameters(kernel), 7 + 1 + 3 + 2);
  StepPlan step = StepOfDescriptors();
  ASSERT_TRUE(CompleteTritonStep(kernel, 0, 0, &step).ok());
  EXPECT_THAT(step.arguments,
              ElementsAre("x map", "x extent 0", "x extent 1", "x extent 2", "x stride 0", "x stride 1", "x stride 2",
                          "n", "y map", "y extent 0", "y stride 0", "global scratch", "profile scratch"));
  for (const auto& [argument, number] : {std::pair{1, 5}, std::pair{3, 200}, std::pair{4, 16000}, std::pair{5, 208},
                                         std::pair{6, 1}, std::pair{9, 1000}, std::pair{10, 1}}) {
    EXPECT_EQ(AddressIn(step, static_cast<size_t>(argument)), static_cast<uint64_t>(number)) << argument;
  }
  const TensorMapPlan& x = step.tensor_maps.at("x map");
  EXPECT_EQ(x.buffer, "a");
  EXPECT_EQ(x.values.type, 9);
  EXPECT_EQ(x.values.rank, 3U);
  EXPECT_THAT(x.values.dims, ElementsAre(200, 70, 5, 0, 0));
  EXPECT_THAT(x.values.byte_strides, ElementsAre(416, 32000, 0, 0));
  EXPECT_THAT(x.values.box, ElementsAre(32, 8, 2, 0, 0));
  EXPECT_THAT(x.values.element_strides, ElementsAre(1, 1, 1, 0, 0));
  EXPECT_EQ(x.values.swizzle, 3);
  EXPECT_EQ(x.values.interleave, 0);
  EXPECT_EQ(x.values.l2_promotion, driver_step::ModeOf(driver_step::kL2Promotions, "128B"));
  EXPECT_EQ(x.values.oob_fill, 0);
  const TensorMapPlan& y = step.tensor_maps.at("y map");
  EXPECT_EQ(y.values.oob_fill, 1);
  EXPECT_EQ(y.values.rank, 1U);
  // Two elements of 4 bits each lie in what is one of the tensor's.
  kernel.mutable_descriptors(0)->set_fp4_padded(true);
  step = StepOfDescriptors();
  ASSERT_TRUE(CompleteTritonStep(kernel, 0, 0, &step).ok());
  EXPECT_THAT(step.tensor_maps.at("x map").values.dims, ElementsAre(400, 70, 5, 0, 0));
  EXPECT_EQ(AddressIn(step, 3), 200U);
}

TEST(TritonBinary, ATensorDescriptorIsPassedAsAPointerAndItsSizes) {
  const TritonKernel kernel = KernelOfDescriptors(false);
  EXPECT_EQ(PassedParameters(kernel), 14 + 1 + 6 + 2);
  StepPlan step = StepOfDescriptors();
  ASSERT_TRUE(CompleteTritonStep(kernel, 0, 0, &step).ok());
  EXPECT_THAT(step.arguments,
              ElementsAre("a", "x extent 0", "x extent 1", "x extent 2", "x stride 0", "x stride 1", "x stride 2",
                          "x padding", "x extent 0", "x extent 1", "x extent 2", "x stride 0", "x stride 1",
                          "x stride 2", "n", "b", "y extent 0", "y stride 0", "y padding", "y extent 0", "y stride 0",
                          "global scratch", "profile scratch"));
  EXPECT_EQ(AddressIn(step, 7), 0U);
  EXPECT_EQ(AddressIn(step, 18), 1U);
  EXPECT_TRUE(step.tensor_maps.empty());
}

TEST(TritonBinary, ADescriptorIsTakenAsOneOfItsRank) {
  StepPlan step = StepOfDescriptors();
  TritonKernel kernel = KernelOfDescriptors(false);
  kernel.mutable_descriptors(0)->set_rank(2);
  EXPECT_THAT(MessageOf(CompleteTritonStep(kernel, 0, 0, &step)),
              HasSubstr("mm takes argument 0 as a tensor descriptor with 2 dimensions, but 'x' has 3"));
  kernel.mutable_descriptors()->RemoveLast();
  kernel.mutable_descriptors(0)->set_rank(3);
  EXPECT_THAT(MessageOf(CompleteTritonStep(kernel, 0, 0, &step)), HasSubstr("with 0 dimensions, but 'y' has 1"));
  kernel = KernelOfDescriptors(false);
  kernel.mutable_descriptors(0)->set_argument(1);
  EXPECT_FALSE(CompleteTritonStep(kernel, 0, 0, &step).ok());
}

TEST(TritonBinary, EveryFieldOfADescriptorHasItsLimits) {
  ASSERT_TRUE(ParseTritonBinary(BytesOf(KernelOfDescriptors(true))).ok());
  ASSERT_TRUE(ParseTritonBinary(BytesOf(KernelOfDescriptors(false))).ok());
  const std::function<void(TritonDescriptor*)> spoilers[] = {
      [](TritonDescriptor* d) { d->set_argument(-1); },     [](TritonDescriptor* d) { d->set_argument(64); },
      [](TritonDescriptor* d) { d->set_argument(2); },      [](TritonDescriptor* d) { d->set_rank(0); },
      [](TritonDescriptor* d) { d->set_rank(6); },          [](TritonDescriptor* d) { d->set_rank(2); },
      [](TritonDescriptor* d) { d->set_box(0, 0); },        [](TritonDescriptor* d) { d->set_box(0, 257); },
      [](TritonDescriptor* d) { d->add_box(1); },           [](TritonDescriptor* d) { d->set_swizzle(4); },
      [](TritonDescriptor* d) { d->set_swizzle(-1); },      [](TritonDescriptor* d) { d->set_element_type(-1); },
      [](TritonDescriptor* d) { d->set_element_type(16); },
  };
  for (size_t i = 0; i < std::size(spoilers); ++i) {
    TritonKernel kernel = KernelOfDescriptors(true);
    spoilers[i](kernel.mutable_descriptors(0));
    EXPECT_FALSE(ParseTritonBinary(BytesOf(kernel)).ok()) << i;
  }
}

TEST(TritonBinary, ScratchIsForEveryBlock) {
  TritonKernel kernel = GoodKernel();
  EXPECT_EQ(GlobalScratchOf(kernel, Step()).bytes, 0U);
  kernel.set_global_scratch_bytes(100);
  kernel.set_global_scratch_alignment(128);
  kernel.set_profile_scratch_bytes(8);
  kernel.set_num_ctas(2);
  EXPECT_EQ(GlobalScratchOf(kernel, Step()).bytes, 100U * 12 * 2);
  EXPECT_EQ(GlobalScratchOf(kernel, Step()).alignment, 128U);
  EXPECT_EQ(ProfileScratchOf(kernel, Step()).bytes, 8U * 12 * 2);
  EXPECT_EQ(ProfileScratchOf(kernel, Step()).alignment, 1U);
  StepPlan huge = Step();
  huge.grid = {(int64_t{1} << 31) - 1, (int64_t{1} << 31) - 1, (int64_t{1} << 31) - 1};
  EXPECT_EQ(GlobalScratchOf(kernel, huge).bytes, uint64_t{1} << 50);  // no memory is that large, and nothing wraps
}

}  // namespace
}  // namespace tunefarm
