#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "server/base/status.h"
#include "server/worker/backend.h"
#include "server/worker/host/host_memory.h"
#include "server/worker/host/host_topology.h"
#include "server/worker/host/kernel_calls.h"
#include "server/worker/host/library_gemm.h"
#include "server/worker/host/mapped_buffer.h"
#include "tests/fakes/temporary_directory.h"

namespace tunefarm {
namespace {

TEST(MappedBufferTest, FindsDamageByteForByte) {
  // No multiple of a page, a word or a cache line.
  absl::StatusOr<MappedBuffer> buffer = MappedBuffer::Create(1001);
  ASSERT_TRUE(buffer.ok());
  std::memset(buffer->data(), 1, buffer->bytes());
  EXPECT_EQ(buffer->FindDamage(), std::nullopt);
  buffer->data()[-3] = std::byte{0};
  EXPECT_EQ(buffer->FindDamage(), "3 bytes before its start");
  buffer->RestoreGuards();
  EXPECT_EQ(buffer->FindDamage(), std::nullopt);
  buffer->data()[1001] = std::byte{0};
  EXPECT_EQ(buffer->FindDamage(), "0 bytes past its end");
  buffer->RestoreGuards();
  buffer->data()[1001 + 65535] = std::byte{0};
  EXPECT_EQ(buffer->FindDamage(), "65535 bytes past its end");
  buffer->RestoreGuards();
  buffer->data()[-65536] = std::byte{0};
  EXPECT_EQ(buffer->FindDamage(), "65536 bytes before its start");
}

TEST(MappedBufferTest, NobodyReachesBeyondTheGuards) {
  absl::StatusOr<MappedBuffer> buffer = MappedBuffer::Create(4096);
  ASSERT_TRUE(buffer.ok());
  EXPECT_DEATH(buffer->data()[4096 + 65536] = std::byte{0}, "");
  EXPECT_DEATH(buffer->data()[-65537] = std::byte{0}, "");
}

TEST(MappedBufferTest, LocatesAddresses) {
  absl::StatusOr<MappedBuffer> buffer = MappedBuffer::Create(100);
  ASSERT_TRUE(buffer.ok());
  const uintptr_t data = reinterpret_cast<uintptr_t>(buffer->data());
  EXPECT_EQ(buffer->Locate(data + 7), "at byte 7");
  EXPECT_EQ(buffer->Locate(data - 8), "8 bytes before its start");
  EXPECT_EQ(buffer->Locate(data + 108), "8 bytes past its end");
  EXPECT_EQ(buffer->Locate(8), std::nullopt);
  MappedBuffer moved = *std::move(buffer);
  EXPECT_EQ(moved.Locate(data), "at byte 0");
}

TEST(MappedBufferTest, TooLargeIsAnError) {
  EXPECT_EQ(MappedBuffer::Create(size_t{1} << 60).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(TopologyTest, CacheSizes) {
  EXPECT_EQ(ParseCacheSize("32K"), 32 << 10);
  EXPECT_EQ(ParseCacheSize("32M"), 32 << 20);
  EXPECT_EQ(ParseCacheSize("512"), 512);
  EXPECT_EQ(ParseCacheSize(""), 0);
  EXPECT_EQ(ParseCacheSize("big"), 0);
  EXPECT_EQ(ParseCacheSize("-4K"), 0);
  EXPECT_EQ(ParseCacheSize("4X"), 0);
}

TEST(TopologyTest, ModelNames) {
  EXPECT_EQ(CpuModelName("processor\t: 0\nmodel\t\t: 17\nmodel name\t: AMD EPYC\nmodel name\t: other\n"), "AMD EPYC");
  EXPECT_EQ(CpuModelName("Hardware\t: BCM2835\n"), "BCM2835");
  EXPECT_EQ(CpuModelName(""), "CPU");
  EXPECT_EQ(CpuModelName("model name\t:\n"), "CPU");
}

TEST(TopologyTest, ReadsTheLevelsThatHoldData) {
  TemporaryDirectory root;
  const auto add = [&root](int index, const char* level, const char* type, const char* size) {
    const std::string directory = root.File("index" + std::to_string(index));
    ASSERT_TRUE(MakeDirectories(directory).ok());
    ASSERT_TRUE(WriteFileAtomically(directory + "/level", level).ok());
    ASSERT_TRUE(WriteFileAtomically(directory + "/type", type).ok());
    ASSERT_TRUE(WriteFileAtomically(directory + "/size", size).ok());
  };
  add(0, "1\n", "Data\n", "48K\n");
  add(1, "1\n", "Instruction\n", "32K\n");
  add(2, "2\n", "Unified\n", "2048K\n");
  add(3, "3\n", "Unified\n", "30720K\n");
  const CpuCaches caches = ReadCpuCaches(root.path());
  EXPECT_EQ(caches.l1_data_bytes, 48 << 10);
  EXPECT_EQ(caches.last_level_bytes, 30 << 20);
  EXPECT_EQ(ReadCpuCaches(root.File("missing")).last_level_bytes, 0);
}

TEST(TopologyTest, AFlushWalksTwiceTheLastLevel) {
  const auto flush_mebibytes = [](int64_t last_level_mebibytes) {
    CpuCaches caches;
    caches.last_level_bytes = last_level_mebibytes << 20;
    return FlushBytes(caches) >> 20;
  };
  EXPECT_EQ(flush_mebibytes(0), 8);
  EXPECT_EQ(flush_mebibytes(32), 64);
  EXPECT_EQ(flush_mebibytes(105), 210);
  EXPECT_EQ(flush_mebibytes(1024), 512);
}

TEST(ProbeTest, FindsOneHost) {
  worker::v1::ProbeReport report;
  MakeHostProbeBackend(WorkerOptions())->Probe(&report);
  ASSERT_EQ(report.devices_size(), 1);
  const v1::Device& device = report.devices(0);
  EXPECT_EQ(device.device_class().kind(), v1::DEVICE_KIND_HOST);
  EXPECT_FALSE(device.device_class().display_name().empty());
  EXPECT_GE(device.device_class().sm_count(), 1);
  EXPECT_FALSE(device.device_class().compiler().empty());
  EXPECT_GT(device.memory_bytes(), 0);
  EXPECT_LE(device.memory_free_bytes(), device.memory_bytes());
  EXPECT_EQ(device.state(), v1::DEVICE_STATE_READY);
  EXPECT_TRUE(device.uuid().empty());
  EXPECT_EQ(report.notes_size(), 1);
}

TEST(ProbeTest, AHostWithoutACompilerIsNotReady) {
  WorkerOptions options;
  options.host_compiler = "no-such-compiler";
  worker::v1::ProbeReport report;
  MakeHostProbeBackend(options)->Probe(&report);
  ASSERT_EQ(report.devices_size(), 1);
  EXPECT_EQ(report.devices(0).state(), v1::DEVICE_STATE_QUARANTINED);
  EXPECT_THAT(report.devices(0).state_reason(), ::testing::HasSubstr("no-such-compiler"));
}

// Matrices 2 x 3 and 3 x 2 in every layout.
TEST(HostGemmTest, MultipliesInEveryLayout) {
  std::vector<float> a = {1, 2, 3, 4, 5, 6}, a_transposed = {1, 4, 2, 5, 3, 6};
  std::vector<float> b = {1, 2, 3, 4, 5, 6}, b_transposed = {1, 3, 5, 2, 4, 6};
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      std::vector<double> c(4);
      const auto view = [](auto& values, v1::DataType type) {
        return BufferView{type, std::as_writable_bytes(std::span(values))};
      };
      const BufferViews views = {{"a", view(transpose_a ? a_transposed : a, v1::DATA_TYPE_F32)},
                                 {"b", view(transpose_b ? b_transposed : b, v1::DATA_TYPE_F32)},
                                 {"c", view(c, v1::DATA_TYPE_F64)}};
      StepPlan step;
      step.kind = StepPlan::Kind::kLibraryOp;
      step.library_op.set_op(v1::LIBRARY_OP_KIND_GEMM);
      step.library_op.set_a("a");
      step.library_op.set_b("b");
      step.library_op.set_c("c");
      step.library_op.set_transpose_a(transpose_a);
      step.library_op.set_transpose_b(transpose_b);
      step.m = 2;
      step.n = 2;
      step.k = 3;
      const absl::StatusOr<HostGemm> gemm = PlanHostGemm(step, views);
      ASSERT_TRUE(gemm.ok()) << gemm.status();
      RunHostGemm(*gemm);
      EXPECT_EQ(c, (std::vector<double>{22, 28, 49, 64}));
      step.k = 4;
      EXPECT_EQ(PlanHostGemm(step, views).status().code(), absl::StatusCode::kInvalidArgument);
    }
  }
}

TEST(HostGemmTest, RoundsProductsOfF8E4M3) {
  std::vector<uint8_t> a = {0x38, 0x40}, b = {0x39, 0x01}, c(1);  // 1 and 2, 1.125 and 2^-9
  const auto view = [](std::vector<uint8_t>& values) {
    return BufferView{v1::DATA_TYPE_F8E4M3, std::as_writable_bytes(std::span(values))};
  };
  const BufferViews views = {{"a", view(a)}, {"b", view(b)}, {"c", view(c)}};
  StepPlan step;
  step.kind = StepPlan::Kind::kLibraryOp;
  step.library_op.set_op(v1::LIBRARY_OP_KIND_GEMM);
  step.library_op.set_a("a");
  step.library_op.set_b("b");
  step.library_op.set_c("c");
  step.m = step.n = 1;
  step.k = 2;
  const absl::StatusOr<HostGemm> gemm = PlanHostGemm(step, views);
  ASSERT_TRUE(gemm.ok()) << gemm.status();
  RunHostGemm(*gemm);
  EXPECT_EQ(c[0], 0x39);  // of 1.12890625
}

TEST(HostMemoryTest, AvailableIsPartOfPhysical) {
  EXPECT_GT(AvailableMemoryBytes(), 0u);
  EXPECT_LE(AvailableMemoryBytes(), PhysicalMemoryBytes());
}

}  // namespace
}  // namespace tunefarm
