// What the writer of packages writes is what their reader reads.
#include "server/package/package_writer.h"

#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "client/launch/package.h"
#include "server/base/hash.h"
#include "server/definition/launch_sequence.h"
#include "tests/unit/definition/sample_kernel.h"

namespace tunefarm {
namespace {

using launch::Package;
using testing::HasSubstr;
namespace pack = tunefarm::package;

// The least that passes for a binary.
std::string Elf(char mark) {
  Elf64_Ehdr header = {};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  return std::string(reinterpret_cast<const char*>(&header), sizeof(header)) + mark;
}

class PackageWriterTest : public testing::Test {
 protected:
  PackageWriterTest() : plan_(SamplePlan()) {}

  PackagedChoice Choice(int stages, char binary) const {
    PackagedChoice choice;
    const ResolvedProblem problem = SampleProblem(*plan_);
    choice.device_class = FindKnownClass("H200").value();
    choice.dims = problem.dims;
    choice.config = plan_->DefaultConfig(problem);
    choice.config.Set("STAGES", Value(stages));
    const auto sequence =
        MakeLaunchSequence(*plan_, problem, choice.config, choice.device_class, {{"scale<BLOCK>", "_Z1s"}});
    EXPECT_TRUE(sequence.ok()) << Message(sequence.status());
    if (sequence.ok()) choice.sequence = *sequence;
    choice.binary = Elf(binary);
    choice.toolchain = "NVRTC 13.0";
    choice.median_ns = 1500;
    return choice;
  }

  static std::string Written(const std::vector<PackagedKernel>& kernels) {
    const auto bytes = WritePackage(kernels, 1);
    EXPECT_TRUE(bytes.ok()) << Message(bytes.status());
    return bytes.value_or("");
  }

  static std::shared_ptr<const Package> Read(const std::string& bytes) {
    std::shared_ptr<const Package> package;
    tunefarm_error error = TUNEFARM_ERROR_INIT;
    EXPECT_EQ(Package::Copy(bytes.data(), bytes.size(), &package, &error), TUNEFARM_OK) << error.message;
    return package;
  }

  // A formula with N in the place of the dim, on a device with 100 multiprocessors and 3 blocks on each.
  static int64_t Evaluated(const Package& package, const pack::KernelRecord& kernel, uint32_t formula, int64_t n) {
    std::array<expression::Cell, launch::kSlotsMax> slots;
    slots.fill(expression::Cell::Int(-1));
    slots[0] = expression::Cell::Int(n);
    slots[kernel.dims + pack::kSmCount] = expression::Cell::Int(100);
    slots[kernel.dims + pack::kDeviceSlots + pack::kMaxActiveBlocks] = expression::Cell::Int(3);
    expression::Cell result = expression::Cell::Int(0);
    expression::Fault fault = expression::Fault::kNone;
    EXPECT_TRUE(launch::Evaluate(package.Formula(formula), slots.data(), &result, &fault));
    return result.int_value;
  }

  const std::shared_ptr<const KernelPlan> plan_;
};

TEST_F(PackageWriterTest, IsReadBack) {
  PackagedKernel kernel{plan_, {Choice(4, 'a'), Choice(2, 'b'), Choice(4, 'a')}};
  kernel.choices[2].is_default = true;
  const auto package = Read(Written({kernel}));
  ASSERT_NE(package, nullptr);
  ASSERT_EQ(package->kernels().size(), 1U);
  const pack::KernelRecord& record = package->kernels()[0];
  EXPECT_STREQ(package->String(record.name), "sample");
  EXPECT_EQ(package->String(record.kernel_id), plan_->kernel_id());
  EXPECT_EQ(record.lookup_distance_max, 4);
  ASSERT_EQ(record.dims, 4U);
  EXPECT_EQ(package->dims()[0].bind, pack::kRun);
  EXPECT_EQ(package->dims()[0].rule, pack::kLog);
  EXPECT_EQ(package->dims()[0].max, 1048576);
  EXPECT_EQ(package->dims()[1].bind, pack::kBaked);
  EXPECT_EQ(package->dims()[2].values, 2U);
  // A dim of bind RUN that is no int is fixed with the config.
  EXPECT_EQ(package->dims()[3].bind, pack::kBaked);
  ASSERT_EQ(record.choices, 3U);
  const pack::ChoiceRecord& first = package->choices()[0];
  EXPECT_EQ(first.kind, pack::kTuned);
  EXPECT_EQ(first.median_ns, 1500);
  EXPECT_EQ(package->ValueOf(first.first_dim_value + 1).int_value, 64);
  ASSERT_EQ(first.buffers, 5U);
  const pack::BufferRecord& table = package->buffers()[first.first_buffer + 3];
  EXPECT_STREQ(package->String(table.symbol), "table");
  const pack::BufferRecord& work = package->buffers()[first.first_buffer + 4];
  EXPECT_EQ(work.access, pack::kScratch);
  EXPECT_EQ(work.init, pack::kZero);
  EXPECT_EQ(Evaluated(*package, record, work.length, 1), 512 * 100);
  ASSERT_EQ(first.steps, 2U);
  const pack::StepRecord& scale = package->steps()[first.first_step];
  EXPECT_STREQ(package->String(scale.entry), "_Z1s");
  EXPECT_EQ(Evaluated(*package, record, scale.grid[0], 1025), 3);
  EXPECT_EQ(Evaluated(*package, record, scale.grid[1], 1025), 2);
  ASSERT_EQ(scale.arguments, 5U);
  const pack::ArgumentRecord& map = package->arguments()[scale.first_argument + 4];
  ASSERT_EQ(map.kind, pack::kTensorMapArgument);
  EXPECT_EQ(package->tensor_maps()[map.target].rank, 2U);
  EXPECT_EQ(Evaluated(*package, record, package->tensor_maps()[map.target].dims[1], 77), 77);
  EXPECT_EQ(Evaluated(*package, record, scale.dynamic_shared_bytes, 1), 32768);
  const pack::StepRecord& finish = package->steps()[first.first_step + 1];
  EXPECT_EQ(Evaluated(*package, record, finish.grid[0], 1), 300);
  EXPECT_EQ(finish.dynamic_shared_bytes, pack::kNone);
}

TEST_F(PackageWriterTest, WhatIsEqualIsStoredOnce) {
  PackagedKernel kernel{plan_, {Choice(4, 'a'), Choice(2, 'b'), Choice(4, 'a')}};
  kernel.choices[2].is_default = true;
  const auto package = Read(Written({kernel}));
  ASSERT_NE(package, nullptr);
  ASSERT_EQ(package->binaries().size(), 2U);
  const pack::BinaryRecord& binary = package->binaries()[0];
  EXPECT_EQ(package->String(binary.digest), Sha256(Elf('a')).Hex());
  EXPECT_EQ(binary.compute_capability, 90U);
  EXPECT_EQ(binary.is_specific, 0U);
  EXPECT_EQ(binary.driver_version_min, 13000U);
  EXPECT_EQ(package->classes().size(), 1U);
  const auto choices = package->choices();
  EXPECT_EQ(choices[0].binary, choices[2].binary);
  EXPECT_EQ(choices[0].first_step, choices[2].first_step);
  // A layout is that of the binary that makes it.
  EXPECT_EQ(choices[0].layout, choices[2].layout);
  EXPECT_NE(choices[0].layout, choices[1].layout);
  EXPECT_NE(choices[0].layout, 0U);
}

TEST_F(PackageWriterTest, TheSameArgumentsGiveTheSameBytes) {
  const auto write = [&] { return Written({{plan_, {Choice(4, 'a'), Choice(2, 'b')}}}); };
  EXPECT_EQ(write(), write());
}

TEST_F(PackageWriterTest, WhatIsBeyondTheLimitsIsRefused) {
  PackagedChoice choice = Choice(4, 'a');
  while (choice.sequence.buffers_size() <= 64) *choice.sequence.add_buffers() = choice.sequence.buffers(0);
  const auto written = WritePackage({{plan_, {choice}}}, 1);
  EXPECT_TRUE(absl::IsInvalidArgument(written.status()));
  EXPECT_THAT(Message(written.status()), HasSubstr("65 buffers are too many"));
  PackagedChoice many = Choice(4, 'a');
  for (int i = 0; i <= 256; ++i) many.config.Set("P" + std::to_string(i), Value(i));
  EXPECT_THAT(Message(WritePackage({{plan_, {many}}}, 1).status()), HasSubstr("parameters are too many"));
  PackagedChoice strict = Choice(4, 'a');
  while (strict.sequence.constraints_size() <= 1024) strict.sequence.add_constraints("N > 0");
  EXPECT_THAT(Message(WritePackage({{plan_, {strict}}}, 1).status()), HasSubstr("1025 constraints are too many"));
  PackagedChoice wrong = Choice(4, 'a');
  wrong.sequence.mutable_launches(0)->mutable_kernel()->mutable_arguments(0)->set_buffer("absent");
  EXPECT_THAT(Message(WritePackage({{plan_, {wrong}}}, 1).status()), HasSubstr("'absent', which is no buffer"));
}

}  // namespace
}  // namespace tunefarm
