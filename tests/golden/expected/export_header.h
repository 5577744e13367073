// Best configs of tuned kernels, written by tunefarm. C++17, no dependencies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace my_project::tuned {

namespace gemm {

struct Dims {
  std::int64_t K{};
  std::int64_t M{};
  std::int64_t N{};
  std::string_view dtype{};
};

struct Config {
  std::int64_t BK{};
  std::int64_t BM{};
  std::int64_t BN{};
  std::int64_t GROUP_SIZE_M{};
  std::int64_t num_stages{};
  std::int64_t num_warps{};
};

struct Entry {
  std::string_view device_class{};
  Dims dims{};
  Config config{};
  double median_ns{};
};

// Sorted by device_class, then by dims in the order of their members.
inline constexpr Entry kTable[] = {
    {"nvidia_h200-1", {1024, 8, 4096, "bf16"}, {64, 16, 64, 1, 4, 4}, 9000.0},
    {"nvidia_h200-1", {1024, 500, 4096, "bf16"}, {64, 64, 128, 4, 3, 8}, 15000.0},
    {"nvidia_h200-1", {1024, 512, 512, "bf16"}, {32, 64, 64, 8, 3, 4}, 5500.0},
    {"nvidia_h200-1", {1024, 512, 4096, "bf16"}, {64, 128, 128, 8, 3, 8}, 15500.0},
};

constexpr int Compare(std::string_view a_class, const Dims& a, std::string_view b_class, const Dims& b) noexcept {
  if (a_class != b_class) return a_class < b_class ? -1 : 1;
  if (a.K != b.K) return a.K < b.K ? -1 : 1;
  if (a.M != b.M) return a.M < b.M ? -1 : 1;
  if (a.N != b.N) return a.N < b.N ? -1 : 1;
  if (a.dtype != b.dtype) return a.dtype < b.dtype ? -1 : 1;
  return 0;
}

// The entry of exactly these dims on this device class; null if there is none. Binary search.
constexpr const Entry* Find(std::string_view device_class, const Dims& dims) noexcept {
  std::size_t low = 0, high = sizeof(kTable) / sizeof(kTable[0]);
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    const int order = Compare(kTable[middle].device_class, kTable[middle].dims, device_class, dims);
    if (order == 0) return &kTable[middle];
    if (order < 0) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return nullptr;
}

}  // namespace gemm

namespace grouped_gemm_forward {

struct Dims {
  std::int64_t E{};
  std::int64_t K{};
  std::int64_t N{};
  std::string_view dtype{};
  bool fuse_mul_post{};
  bool permute_x{};
  bool permute_y{};
  std::int64_t tokens{};
  std::int64_t topk{};
};

struct Config {
  std::int64_t BLOCK_SIZE_K{};
  std::int64_t BLOCK_SIZE_M{};
  std::int64_t BLOCK_SIZE_N{};
  std::int64_t GROUP_SIZE_M{};
  std::int64_t num_stages{};
  std::int64_t num_warps{};
  std::string_view path{};
  bool use_tma_load_w{};
  bool use_tma_load_x{};
  bool use_tma_store{};
};

struct Entry {
  std::string_view device_class{};
  Dims dims{};
  Config config{};
  double median_ns{};
};

// Sorted by device_class, then by dims in the order of their members.
inline constexpr Entry kTable[] = {
    {"nvidia_h200-1", {128, 2048, 1536, "bf16", false, true, false, 1, 8}, {64, 16, 64, 8, 5, 4, "portable", false, false, false}, 40000.0},
    {"nvidia_h200-1", {128, 2048, 1536, "bf16", false, true, false, 64, 4}, {64, 32, 128, 8, 4, 4, "portable", false, false, false}, 120000.0},
    {"nvidia_h200-1", {128, 2048, 1536, "bf16", false, true, false, 64, 8}, {64, 16, 128, 8, 4, 4, "portable", false, false, false}, 210000.0},
    {"nvidia_h200-1", {128, 2048, 1536, "bf16", false, true, false, 1024, 8}, {64, 128, 192, 8, 4, 12, "hopper", true, false, false}, 480000.0},
    {"nvidia_h200-1", {128, 2048, 1536, "bf16", false, true, false, 4096, 8}, {64, 128, 256, 8, 3, 8, "hopper", true, false, false}, 1450000.0},
};

constexpr int Compare(std::string_view a_class, const Dims& a, std::string_view b_class, const Dims& b) noexcept {
  if (a_class != b_class) return a_class < b_class ? -1 : 1;
  if (a.E != b.E) return a.E < b.E ? -1 : 1;
  if (a.K != b.K) return a.K < b.K ? -1 : 1;
  if (a.N != b.N) return a.N < b.N ? -1 : 1;
  if (a.dtype != b.dtype) return a.dtype < b.dtype ? -1 : 1;
  if (a.fuse_mul_post != b.fuse_mul_post) return a.fuse_mul_post < b.fuse_mul_post ? -1 : 1;
  if (a.permute_x != b.permute_x) return a.permute_x < b.permute_x ? -1 : 1;
  if (a.permute_y != b.permute_y) return a.permute_y < b.permute_y ? -1 : 1;
  if (a.tokens != b.tokens) return a.tokens < b.tokens ? -1 : 1;
  if (a.topk != b.topk) return a.topk < b.topk ? -1 : 1;
  return 0;
}

// The entry of exactly these dims on this device class; null if there is none. Binary search.
constexpr const Entry* Find(std::string_view device_class, const Dims& dims) noexcept {
  std::size_t low = 0, high = sizeof(kTable) / sizeof(kTable[0]);
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    const int order = Compare(kTable[middle].device_class, kTable[middle].dims, device_class, dims);
    if (order == 0) return &kTable[middle];
    if (order < 0) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return nullptr;
}

}  // namespace grouped_gemm_forward

namespace scale_host {

struct Dims {
  std::int64_t N{};
};

struct Config {
  std::int64_t CHUNK{};
  std::int64_t UNROLL{};
};

struct Entry {
  std::string_view device_class{};
  Dims dims{};
  Config config{};
  double median_ns{};
};

// Sorted by device_class, then by dims in the order of their members.
inline constexpr Entry kTable[] = {
    {"cpu-1", {4096}, {256, 8}, 1250.0},
    {"cpu-1", {1048576}, {8192, 4}, 41200.0},
    {"cpu-2", {4096}, {512, 8}, 2500.0},
};

constexpr int Compare(std::string_view a_class, const Dims& a, std::string_view b_class, const Dims& b) noexcept {
  if (a_class != b_class) return a_class < b_class ? -1 : 1;
  if (a.N != b.N) return a.N < b.N ? -1 : 1;
  return 0;
}

// The entry of exactly these dims on this device class; null if there is none. Binary search.
constexpr const Entry* Find(std::string_view device_class, const Dims& dims) noexcept {
  std::size_t low = 0, high = sizeof(kTable) / sizeof(kTable[0]);
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    const int order = Compare(kTable[middle].device_class, kTable[middle].dims, device_class, dims);
    if (order == 0) return &kTable[middle];
    if (order < 0) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return nullptr;
}

}  // namespace scale_host

}  // namespace my_project::tuned
