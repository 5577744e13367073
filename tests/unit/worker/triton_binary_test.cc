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

using testing::HasSubstr;
using tunefarm::worker::v1::TritonBinary;
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
