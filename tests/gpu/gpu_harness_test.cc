// The worker's own kernels on the device give what the host's code gives.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/base/status.h"
#include "server/worker/cuda/harness.h"
#include "server/worker/verify/fill.h"

namespace tunefarm {
namespace {

struct FillCase {
  const char* name;
  v1::DataType type;
  v1::Fill fill;
  bool exact;
};

std::vector<v1::DataType> AllTypes() {
  std::vector<v1::DataType> types;
  for (int number = v1::DATA_TYPE_I8; number <= v1::DataType_MAX; ++number) {
    if (v1::DataType_IsValid(number)) types.push_back(static_cast<v1::DataType>(number));
  }
  return types;
}

// What a value of a normal fill may differ by, since logf and cosf do: neighbours of the type near 10.
double NormalDifferenceMax(v1::DataType type) {
  if (type == v1::DATA_TYPE_F8E4M3) return 1.01;
  return type == v1::DATA_TYPE_BF16 ? 0.07 : 0.01;
}

std::vector<FillCase> FillCases() {
  std::vector<FillCase> cases;
  for (const v1::DataType type : AllTypes()) {
    const int number = type;
    v1::Fill fill;
    fill.mutable_uniform()->set_low(-3);
    fill.mutable_uniform()->set_high(100);
    const bool is_unsigned = number <= v1::DATA_TYPE_U64 && number % 2 == 0;
    if (is_unsigned) fill.mutable_uniform()->set_low(3);
    cases.push_back({"uniform", type, fill, true});
    fill.mutable_iota()->set_start(1);
    fill.mutable_iota()->set_step(0.25);
    cases.push_back({"iota", type, fill, true});
    fill.mutable_constant()->set_value(42.5);
    cases.push_back({"constant", type, fill, true});
    if (number >= v1::DATA_TYPE_F16) {
      fill.mutable_normal()->set_deviation(2);
      cases.push_back({"normal", type, fill, false});
    }
  }
  return cases;
}

// The worker's own kernels, without a definition around them.
class DeviceHarness : public testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<std::unique_ptr<cuda::GpuContext>> gpu = cuda::GpuContext::Open("");
    ASSERT_TRUE(gpu.ok()) << MessageOf(gpu.status());
    gpu_ = *std::move(gpu);
    auto nvrtc = cuda::Nvrtc::Open(cuda::SearchPlaces(cuda::SearchEnvironment::FromProcess("")));
    ASSERT_TRUE(nvrtc.ok()) << MessageOf(nvrtc.status());
    absl::StatusOr<cuda::HarnessBinary> binary = cuda::HarnessBinary::Compile(gpu_->compute_capability(), **nvrtc);
    ASSERT_TRUE(binary.ok()) << MessageOf(binary.status());
    auto harness = cuda::Harness::Create(*gpu_, *binary);
    ASSERT_TRUE(harness.ok()) << MessageOf(harness.status());
    harness_ = *std::move(harness);
  }

  void Upload(const std::vector<std::byte>& bytes, cuda::GuardedBuffer* buffer) {
    ASSERT_FALSE(cuda::GuardedBuffer::Allocate(*gpu_, bytes.size(), buffer));
    ASSERT_EQ(gpu_->driver().cuMemcpyHtoDAsync(buffer->data(), bytes.data(), bytes.size(), gpu_->stream()),
              CUDA_SUCCESS);
    ASSERT_FALSE(gpu_->Synchronize("upload"));
  }

  std::unique_ptr<cuda::GpuContext> gpu_;
  std::unique_ptr<cuda::Harness> harness_;
};

TEST_F(DeviceHarness, FillsAreTheHostsBits) {
  constexpr uint64_t kElements = 100'003;
  for (const FillCase& test : FillCases()) {
    const absl::StatusOr<TunefarmFill> fill = PlanFill(test.fill, test.type, "x", 12345678901ull);
    ASSERT_TRUE(fill.ok()) << MessageOf(fill.status());
    std::vector<std::byte> host(kElements * SizeOf(test.type)), device(host.size());
    FillElements(*fill, 0, host);
    cuda::GuardedBuffer buffer;
    ASSERT_FALSE(cuda::GuardedBuffer::Allocate(*gpu_, host.size(), &buffer));
    ASSERT_FALSE(harness_->Fill(*fill, buffer.data(), kElements));
    ASSERT_FALSE(gpu_->CopyToHost(buffer.data(), device.data(), device.size()));
    if (test.exact) {
      EXPECT_EQ(std::memcmp(host.data(), device.data(), host.size()), 0) << test.name << " " << NameOf(test.type);
      continue;
    }
    double largest = 0;
    for (uint64_t i = 0; i < kElements; ++i) {
      const size_t at = i * SizeOf(test.type);
      const double difference = ElementToDouble(test.type, &host[at]) - ElementToDouble(test.type, &device[at]);
      largest = std::max(largest, std::abs(difference));
    }
    EXPECT_LT(largest, NormalDifferenceMax(test.type)) << test.name << " " << NameOf(test.type);
  }
}

TEST_F(DeviceHarness, PoisonIsTheHostsBits) {
  constexpr uint64_t kElements = 10'007;
  for (const v1::DataType type : AllTypes()) {
    for (const PoisonPattern pattern : {PoisonPattern::kFirst, PoisonPattern::kSecond}) {
      std::vector<std::byte> host(kElements * SizeOf(type)), device(host.size());
      Poison(type, pattern, host);
      cuda::GuardedBuffer buffer;
      ASSERT_FALSE(cuda::GuardedBuffer::Allocate(*gpu_, host.size(), &buffer));
      ASSERT_FALSE(harness_->Poison(type, pattern, buffer.data(), kElements));
      ASSERT_FALSE(gpu_->CopyToHost(buffer.data(), device.data(), device.size()));
      EXPECT_EQ(device, host) << NameOf(type);
      bool found = false;
      ASSERT_FALSE(harness_->HasBits(type, PoisonBits(type, pattern), buffer.data(), kElements, &found));
      EXPECT_TRUE(found) << NameOf(type);
      const PoisonPattern other = pattern == PoisonPattern::kFirst ? PoisonPattern::kSecond : PoisonPattern::kFirst;
      ASSERT_FALSE(harness_->HasBits(type, PoisonBits(type, other), buffer.data(), kElements, &found));
      EXPECT_FALSE(found) << NameOf(type);
    }
  }
}

// The device's comparison and the host's are one rule.
TEST_F(DeviceHarness, ComparesAsTheHostDoes) {
  TolerancePlan tolerance;
  tolerance.atol = 0.5;
  tolerance.rtol = 0.01;
  tolerance.catastrophic_bound = 0.5;
  tolerance.row_norm_bound = 0.2;
  constexpr uint64_t kElements = 200'001;
  for (const v1::DataType type : AllTypes()) {
    const size_t size = SizeOf(type);
    for (const int64_t row_length : {int64_t{0}, int64_t{1000}}) {
      tolerance.row_length = row_length;
      v1::Fill message;
      message.mutable_uniform()->set_low(0);
      message.mutable_uniform()->set_high(100);
      const absl::StatusOr<TunefarmFill> fill = PlanFill(message, type, "x", 3);
      ASSERT_TRUE(fill.ok());
      std::vector<std::byte> expected(kElements * size);
      FillElements(*fill, 0, expected);
      std::vector<std::byte> actual = expected;
      const uint64_t poison = PoisonBits(type, PoisonPattern::kFirst);
      const auto set = [&](std::vector<std::byte>* bytes, uint64_t index, uint64_t bits) {
        std::memcpy(bytes->data() + index * size, &bits, size);
      };
      const auto copy = [&](uint64_t to, uint64_t from) {
        std::memcpy(&actual[to * size], &expected[from * size], size);
      };
      copy(70'000, 70'001), copy(131'072, 5), copy(199'999, 17), copy(65'535, 65'537), copy(150'000, 150'001);
      set(&expected, 10, poison), set(&actual, 10, poison);  // untouched by both
      set(&expected, 11, poison);                            // overwritten
      set(&actual, 140'000, poison);                         // unwritten
      cuda::GuardedBuffer device_actual, device_expected;
      Upload(actual, &device_actual);
      Upload(expected, &device_expected);
      for (const bool expected_is_whole : {false, true}) {
        const BufferComparison host =
            Compare("x", type, actual, expected, PoisonPattern::kFirst, tolerance, expected_is_whole);
        cuda::Harness::CompareInput input;
        input.buffer = "x";
        input.type = type;
        input.elements = kElements;
        input.actual = device_actual.data();
        input.expected = device_expected.data();
        input.pattern = PoisonPattern::kFirst;
        if (!expected_is_whole) input.expected_pattern = PoisonPattern::kFirst;
        BufferComparison device;
        const cuda::Failure failure = harness_->Compare(input, tolerance, &device);
        ASSERT_FALSE(failure) << failure.message;
        SCOPED_TRACE(std::string(NameOf(type)) + " row_length " + std::to_string(row_length) +
                     (expected_is_whole ? " whole" : ""));
        EXPECT_GE(host.mismatches, 4u);
        EXPECT_EQ(device.elements, host.elements);
        EXPECT_EQ(device.mismatches, host.mismatches);
        EXPECT_EQ(device.hard_mismatches, host.hard_mismatches);
        EXPECT_EQ(device.max_absolute_error, host.max_absolute_error);
        EXPECT_DOUBLE_EQ(device.max_relative_error, host.max_relative_error);
        EXPECT_EQ(device.bad_row, host.bad_row);
        EXPECT_NEAR(device.bad_row_norm, host.bad_row_norm, 1e-9);
        ASSERT_EQ(device.first.size(), host.first.size());
        for (size_t i = 0; i < host.first.size(); ++i) EXPECT_EQ(device.first[i].index, host.first[i].index);
      }
    }
  }
}

TEST_F(DeviceHarness, GuardsAreFilledAndCheckedByteByByte) {
  for (const uint64_t bytes : {uint64_t{1}, uint64_t{4096}, uint64_t{12'347}}) {
    cuda::GuardedBuffer buffer;
    ASSERT_FALSE(cuda::GuardedBuffer::Allocate(*gpu_, bytes, &buffer));
    ASSERT_FALSE(harness_->FillGuards(buffer));
    std::vector<std::byte> zone(kGuardBytes), expected(kGuardBytes);
    FillGuard(expected);
    ASSERT_FALSE(gpu_->CopyToHost(buffer.guard_after(), zone.data(), zone.size()));
    EXPECT_EQ(std::memcmp(zone.data(), expected.data(), zone.size()), 0);
    ASSERT_EQ(gpu_->driver().cuMemsetD8Async(buffer.guard_after() + 100, 1, 7, gpu_->stream()), CUDA_SUCCESS);
    std::vector<std::optional<cuda::GuardDamage>> damages;
    ASSERT_FALSE(harness_->CheckGuards({buffer.guard_before(), buffer.guard_after()}, &damages));
    ASSERT_EQ(damages.size(), 2u);
    EXPECT_FALSE(damages[0].has_value());
    ASSERT_TRUE(damages[1].has_value());
    EXPECT_EQ(damages[1]->first, 100u);
    EXPECT_EQ(damages[1]->last, 106u);
  }
}

}  // namespace
}  // namespace tunefarm
