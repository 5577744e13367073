// Runs configs of the sm_90a kernels on the machine and compares every bit.
//
// All values are small whole numbers and all block scales powers of two, so that sums are exact in any order and every
// result has one right rounding.
#include <gtest/gtest.h>
#include <string.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/unit/hopper/kernel_case.h"
#include "tests/unit/hopper/machine.h"

namespace tunefarm {

std::vector<KernelCase>& KernelCases() {
  static std::vector<KernelCase> cases;
  return cases;
}

namespace {

using hopper_machine::BoxMap;
using hopper_machine::MakeBoxMap;

struct Numbers {
  uint64_t state;
  uint32_t Next(uint32_t bound) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<uint32_t>((state >> 33) % bound);
  }
};

constexpr size_t kGuard = 4096;  // Elements in front of and behind the output.

// A matrix in memory that is aligned as cuMemAlloc's: elements of 1 or 2 bytes, and `guard` more on both sides.
struct Matrix {
  std::vector<uint8_t> memory;
  uint8_t* data = nullptr;
  size_t size = 0;
  size_t element_bytes;

  Matrix(size_t count, int bytes, size_t guard = 0, uint16_t fill = 0)
      : size(count), element_bytes(static_cast<size_t>(bytes)) {
    memory.resize((count + 2 * guard) * element_bytes + 256);
    data = memory.data() + (256 - reinterpret_cast<uintptr_t>(memory.data()) % 256) + guard * element_bytes;
    for (int64_t i = -static_cast<int64_t>(guard); i < static_cast<int64_t>(count + guard); ++i) Set(i, fill);
  }
  Matrix(Matrix&&) = default;

  uint16_t At(int64_t i) const {
    uint16_t bits = 0;
    memcpy(&bits, data + i * static_cast<int64_t>(element_bytes), element_bytes);
    return bits;
  }
  uint16_t operator[](size_t i) const { return At(static_cast<int64_t>(i)); }
  void Set(int64_t i, uint16_t bits) { memcpy(data + i * static_cast<int64_t>(element_bytes), &bits, element_bytes); }
  void Fill(size_t first, size_t count, uint16_t bits) {
    for (size_t i = first; i < first + count; ++i) Set(static_cast<int64_t>(i), bits);
  }
  hopper_machine::Span span() { return {data, size * element_bytes}; }
};

constexpr int kScaleBlock = 128;

struct Sizes {
  std::vector<int> m;
  int n;
  int k;
  int topk;
  int band;
};

// A map in the 128 bytes of a TensorMap.
struct alignas(64) MapWords {
  unsigned char bytes[128] = {};
  explicit MapWords(const BoxMap& map) { memcpy(bytes, &map, sizeof(map)); }
};

class Trial {
 public:
  Trial(const KernelCase& kernel, const Sizes& sizes, uint64_t seed) : kernel_(kernel), sizes_(sizes), numbers_{seed} {
    rows_ = std::accumulate(sizes.m.begin(), sizes.m.end(), 0);
    experts_ = static_cast<int>(sizes.m.size());
    gather_.resize(static_cast<size_t>(rows_));
    std::iota(gather_.begin(), gather_.end(), 0);
    for (size_t i = gather_.size(); i > 1; --i)
      std::swap(gather_[i - 1], gather_[numbers_.Next(static_cast<uint32_t>(i))]);
    for (int i = 0; i < rows_; ++i) weights_.push_back(static_cast<float>(numbers_.Next(5)) / 4 + 1.0f / 3);
  }

  // From now on the operands of one expert hold infinities, as far as no other expert has them, too.
  void MakeInfinite(int expert) { infinite_ = expert; }

  void Run() {
    const bool forward = kernel_.product == Product::kForward;
    const bool dx = kernel_.product == Product::kDx;
    const size_t m = static_cast<size_t>(rows_), n = static_cast<size_t>(sizes_.n), k = static_cast<size_t>(sizes_.k),
                 e = static_cast<size_t>(experts_);
    const size_t x_rows = kernel_.gather_x ? m / static_cast<size_t>(sizes_.topk) : m;
    Matrix x = Values(x_rows * k), dy = Values(m * n), w = Values(e * n * k);
    if (kernel_.out_bytes == 1) x.Fill(0, k, 0);  // A row of blocks of zeros.
    AddInfinities(x, dy, w);
    DrawScales(x_rows);
    const uint64_t out_cols = !forward ? k : kernel_.gate_up != 0 ? n / 2 : n;
    const uint16_t poison = kernel_.out_bytes == 1 ? kPoisonByte : kPoison;
    const size_t out_size = forward ? m * out_cols : dx ? m * k : e * n * k;
    Matrix out(out_size, kernel_.out_bytes, kGuard, poison);

    const uint64_t row_length = forward ? k : n;
    const int bytes = kernel_.element_bytes;
    const MapWords row_map(MakeBoxMap(forward ? x.data : dy.data, {row_length, forward ? x_rows : m},
                                      {x.element_bytes * row_length}, {kernel_.row_box.fast, kernel_.row_box.slow},
                                      kernel_.row_box.swizzle_bytes, bytes));
    const MapWords col_map(kernel_.product == Product::kDw
                               ? MakeBoxMap(x.data, {k, x_rows}, {2 * k}, {kernel_.col_box.fast, kernel_.col_box.slow},
                                            kernel_.col_box.swizzle_bytes)
                               : MakeBoxMap(w.data, {k, n, e}, {w.element_bytes * k, w.element_bytes * n * k},
                                            {kernel_.col_box.fast, kernel_.col_box.slow, 1},
                                            kernel_.col_box.swizzle_bytes, bytes));
    const MapWords out_map(kernel_.product == Product::kDw
                               ? MakeBoxMap(out.data, {k, n, e}, {2 * k, 2 * n * k},
                                            {kernel_.out_box.fast, kernel_.out_box.slow, 1},
                                            kernel_.out_box.swizzle_bytes)
                               : MakeBoxMap(out.data, {out_cols, m}, {out.element_bytes * out_cols},
                                            {kernel_.out_box.fast, kernel_.out_box.slow}, kernel_.out_box.swizzle_bytes,
                                            kernel_.out_bytes));
    // Groups are given by their sizes or by their ends.
    std::vector<int> ends(sizes_.m.size());
    std::partial_sum(sizes_.m.begin(), sizes_.m.end(), ends.begin());
    const bool group_ends = numbers_.Next(2) == 1;
    const KernelProblem problem{&row_map,
                                &col_map,
                                &out_map,
                                forward ? x.data : dy.data,
                                kernel_.product == Product::kDw ? x.data : w.data,
                                out.data,
                                group_ends ? ends.data() : sizes_.m.data(),
                                group_ends ? 1 : 0,
                                gather_.data(),
                                weights_.data(),
                                experts_,
                                sizes_.n,
                                sizes_.k,
                                sizes_.topk,
                                sizes_.band,
                                row_scales_.data(),
                                col_scales_.data(),
                                scale_row_stride_,
                                scale_block_stride_,
                                out_scales_.data(),
                                out_scale_row_stride_,
                                out_scale_block_stride_};
    const int blocks = kernel_.cluster * static_cast<int>(1 + numbers_.Next(3));
    const hopper_machine::Launch launch{blocks,          kernel_.cluster,
                                        kernel_.threads, kernel_.shared_bytes(experts_),
                                        numbers_.state,  numbers_.Next(2) == 1};
    ASSERT_NO_THROW_WITH_TEXT([&] {
      hopper_machine::Run(launch,
                          {x.span(),
                           dy.span(),
                           w.span(),
                           out.span(),
                           {row_scales_.data(), row_scales_.size() * sizeof(float)},
                           {col_scales_.data(), col_scales_.size() * sizeof(float)},
                           {out_scales_.data(), out_scales_.size() * sizeof(float)},
                           {gather_.data(), gather_.size() * sizeof(int)},
                           {weights_.data(), weights_.size() * sizeof(float)},
                           {ends.data(), ends.size() * sizeof(int)},
                           {sizes_.m.data(), sizes_.m.size() * sizeof(int)}},
                          [&] { kernel_.run(problem); });
    });

    Matrix expected(out_size, kernel_.out_bytes, kGuard, poison);
    std::vector<float> expected_scales(out_scales_.size(), kPoisonScale);
    Reference(x, dy, w, expected, expected_scales);
    int wrong = 0;
    const auto guard = static_cast<int64_t>(kGuard);
    for (int64_t i = -guard; i < static_cast<int64_t>(out_size) + guard; ++i) {
      const uint16_t is = out.At(i), wanted = expected.At(i);
      if (wanted == is) continue;
      if (std::isnan(kernel_.to_float(wanted)) && std::isnan(kernel_.to_float(is)) && wanted != poison) continue;
      if (++wrong > 5) continue;
      ADD_FAILURE() << kernel_.name << ": element " << i << " (row " << i / static_cast<int64_t>(out_cols)
                    << ", column " << i % static_cast<int64_t>(out_cols) << ") is " << kernel_.to_float(is) << ", not "
                    << kernel_.to_float(wanted);
    }
    for (size_t i = 0; i < expected_scales.size(); ++i) {
      if (expected_scales[i] == out_scales_[i]) continue;
      if (++wrong > 5) continue;
      ADD_FAILURE() << kernel_.name << ": scale " << i << " is " << out_scales_[i] << ", not " << expected_scales[i];
    }
    EXPECT_EQ(wrong, 0) << kernel_.name << " of " << out.size;
  }

 private:
  static constexpr uint16_t kPoison = 0x7FA5;
  static constexpr uint16_t kPoisonByte = 0xFF;
  static constexpr float kPoisonScale = -7.0f;

  template <typename Work>
  void ASSERT_NO_THROW_WITH_TEXT(const Work& work) {
    try {
      work();
    } catch (const hopper_machine::MachineError& error) {
      FAIL() << kernel_.name << ": " << error.what();
    }
  }

  Matrix Values(size_t count) {
    uint16_t bits[5];
    for (int i = 0; i < 5; ++i) bits[i] = kernel_.to_operand(static_cast<float>(i) - 2.0f);
    Matrix operand(count, kernel_.element_bytes);
    for (size_t i = 0; i < count; ++i) operand.Fill(i, 1, bits[numbers_.Next(5)]);
    return operand;
  }

  // Powers of two; the rows' blocks are next to each other, or the blocks' rows are, from a multiple of 16 bytes on.
  void DrawScales(size_t x_rows) {
    if (kernel_.element_bytes != 1) return;
    const auto blocks = [](int extent) { return static_cast<size_t>((extent + kScaleBlock - 1) / kScaleBlock); };
    const bool by_row = numbers_.Next(2) == 0;
    const size_t pitch = (x_rows + 3) / 4 * 4;
    scale_row_stride_ = by_row ? static_cast<int>(blocks(sizes_.k)) : 1;
    scale_block_stride_ = by_row ? 1 : static_cast<int>(pitch);
    const auto fill = [this](std::vector<float>* scales, size_t count) {
      for (size_t i = 0; i < count; ++i) scales->push_back(std::ldexp(1.0f, static_cast<int>(numbers_.Next(4)) - 2));
    };
    if (kernel_.out_bytes == 1) {
      const size_t out_rows = static_cast<size_t>(rows_), out_blocks = blocks(sizes_.n / 2);
      const size_t out_pitch = (out_rows + 3) / 4 * 4;
      out_scale_row_stride_ = by_row ? static_cast<int>(out_blocks) : 1;
      out_scale_block_stride_ = by_row ? 1 : static_cast<int>(out_pitch);
      out_scales_.assign(out_pitch * out_blocks, kPoisonScale);
    }
    fill(&row_scales_, pitch * blocks(sizes_.k));
    fill(&col_scales_, sizes_.m.size() * blocks(sizes_.n) * blocks(sizes_.k));
    // Results near 2^-117, below which a block counts as one of zeros.
    for (size_t block = 0; kernel_.out_bytes == 1 && x_rows > 1 && block < blocks(sizes_.k); ++block) {
      row_scales_[static_cast<size_t>(scale_row_stride_) + block * static_cast<size_t>(scale_block_stride_)] =
          std::ldexp(1.0f, -64);
    }
  }

  void AddInfinities(Matrix& x, Matrix& dy, Matrix& w) const {
    if (infinite_ < 0) return;
    const size_t n = static_cast<size_t>(sizes_.n), k = static_cast<size_t>(sizes_.k);
    const uint16_t infinity = kernel_.to_operand(INFINITY);
    w.Fill(static_cast<size_t>(infinite_) * n * k, n * k, infinity);
    const int first = std::accumulate(sizes_.m.begin(), sizes_.m.begin() + infinite_, 0);
    for (int row = first; row < first + sizes_.m[static_cast<size_t>(infinite_)]; ++row) {
      const size_t place = static_cast<size_t>(gather_[static_cast<size_t>(row)]);
      dy.Fill((kernel_.gather_y ? place : static_cast<size_t>(row)) * n, n, infinity);
      if (!kernel_.gather_x) x.Fill(static_cast<size_t>(row) * k, k, infinity);
    }
  }

  // What the scales of row `x_row` and of column `column` of expert `expert` make of term `term`.
  float Scale(size_t x_row, size_t expert, size_t column, size_t term) const {
    if (row_scales_.empty()) return 1.0f;
    const auto blocks = [](int extent) { return static_cast<size_t>((extent + kScaleBlock - 1) / kScaleBlock); };
    const size_t block = term / kScaleBlock;
    return row_scales_[x_row * static_cast<size_t>(scale_row_stride_) +
                       block * static_cast<size_t>(scale_block_stride_)] *
           col_scales_[(expert * blocks(sizes_.n) + column / kScaleBlock) * blocks(sizes_.k) + block];
  }

  // Row `row` of the output: `values` divided by the largest magnitude of each block / 448, which is the block's scale.
  void Quantize(const std::vector<float>& values, size_t row, Matrix& out, std::vector<float>& scales) const {
    for (size_t block = 0; block * kScaleBlock < values.size(); ++block) {
      const size_t first = block * kScaleBlock, end = std::min(first + kScaleBlock, values.size());
      float largest = 0;
      for (size_t j = first; j < end; ++j) {
        if (!std::isnan(values[j])) largest = std::max(largest, std::abs(values[j]));
      }
      const float scale = largest >= std::ldexp(1.0f, -117) ? largest / 448 : 1;
      scales[row * static_cast<size_t>(out_scale_row_stride_) + block * static_cast<size_t>(out_scale_block_stride_)] =
          scale;
      for (size_t j = first; j < end; ++j) out.Fill(row * values.size() + j, 1, kernel_.to_element(values[j] / scale));
    }
  }

  void Reference(const Matrix& x, const Matrix& dy, const Matrix& w, Matrix& out, std::vector<float>& scales) const {
    const size_t n = static_cast<size_t>(sizes_.n), k = static_cast<size_t>(sizes_.k);
    size_t row = 0;
    for (size_t e = 0; e < sizes_.m.size(); ++e) {
      std::vector<float> dw(kernel_.product == Product::kDw ? n * k : 0);
      for (int i = 0; i < sizes_.m[e]; ++i, ++row) {
        const size_t place = static_cast<size_t>(gather_[row]);
        const size_t x_row = kernel_.gather_x ? place / static_cast<size_t>(sizes_.topk) : row;
        const size_t dy_row = kernel_.gather_y ? place : row;
        const auto x_of = [&](size_t t) { return Value(x[x_row * k + t]); };
        const auto dy_of = [&](size_t t) { return Value(dy[dy_row * n + t]); };
        const auto w_of = [&](size_t j, size_t t) { return Value(w[(e * n + j) * k + t]); };
        if (kernel_.product == Product::kForward) {
          const auto product = [&](size_t j) {
            float sum = 0;
            for (size_t t = 0; t < k; ++t) sum += x_of(t) * w_of(j, t) * Scale(x_row, e, j, t);
            return sum;
          };
          const size_t columns = kernel_.gate_up != 0 ? n / 2 : n;
          std::vector<float> values;
          for (size_t j = 0; j < columns; ++j) {
            const size_t gate = kernel_.gate_up == 2 ? j / 128 * 256 + j % 128 : j;
            const size_t up = gate + (kernel_.gate_up == 2 ? 128 : columns);
            values.push_back(kernel_.gate_up != 0 ? kernel_.silu_multiply(product(gate), product(up)) : product(j));
            uint16_t result = kernel_.to_element(values.back());
            if (kernel_.multiply)
              result =
                  kernel_.to_element(kernel_.to_float(result) * kernel_.to_float(kernel_.to_element(weights_[place])));
            if (kernel_.out_bytes != 1) out.Fill((kernel_.gather_y ? place : row) * columns + j, 1, result);
          }
          if (kernel_.out_bytes == 1) Quantize(values, kernel_.gather_y ? place : row, out, scales);
        } else if (kernel_.product == Product::kDx) {
          for (size_t j = 0; j < k; ++j) {
            float sum = 0;
            for (size_t t = 0; t < n; ++t) sum += dy_of(t) * w_of(t, j);
            out.Fill((kernel_.gather_x ? place : row) * k + j, 1, kernel_.to_element(sum));
          }
        } else {
          for (size_t a = 0; a < n; ++a) {
            for (size_t b = 0; b < k; ++b) dw[a * k + b] += dy_of(a) * x_of(b);
          }
        }
      }
      for (size_t j = 0; j < dw.size(); ++j) out.Fill(e * n * k + j, 1, kernel_.to_element(dw[j]));
    }
  }
  float Value(uint16_t bits) const { return kernel_.operand_to_float(bits); }

  const KernelCase& kernel_;
  Sizes sizes_;
  Numbers numbers_;
  int rows_ = 0;
  int experts_ = 0;
  int infinite_ = -1;
  std::vector<int> gather_;
  std::vector<float> weights_;
  std::vector<float> row_scales_;
  std::vector<float> col_scales_;
  int scale_row_stride_ = 0;
  int scale_block_stride_ = 0;
  std::vector<float> out_scales_;
  int out_scale_row_stride_ = 0;
  int out_scale_block_stride_ = 0;
};

// Group sizes around a tile's height: none, one, a few, whole tiles, one over, several tiles.
std::vector<int> GroupSizes(Numbers& numbers, int tile, int topk) {
  const int pool[] = {0, 1, 3, 17, tile - 1, tile, tile + 1, 2 * tile + 5};
  std::vector<int> sizes;
  const uint32_t count = 2 + numbers.Next(3);
  for (uint32_t i = 0; i < count; ++i) sizes.push_back(pool[numbers.Next(8)]);
  sizes.push_back(0);
  const int sum = std::accumulate(sizes.begin(), sizes.end(), 0);
  sizes.front() += (topk - sum % topk) % topk + (sum == 0 ? topk : 0);
  return sizes;
}

class HopperKernel : public testing::TestWithParam<size_t> {
 protected:
  static Sizes DrawSizes(const KernelCase& kernel, Numbers& numbers) {
    Sizes sizes;
    sizes.topk = 2;
    sizes.band = static_cast<int>(1 + numbers.Next(4));
    const auto extent = [&](int tile) {
      return 8 * static_cast<int>(1 + numbers.Next(static_cast<uint32_t>(tile * 5 / 32)));
    };
    if (kernel.product == Product::kDw) {
      sizes.m = GroupSizes(numbers, 64, sizes.topk);
      sizes.n = extent(kernel.tile_rows);
      sizes.k = extent(kernel.tile_cols);
    } else {
      sizes.m = GroupSizes(numbers, kernel.tile_rows, sizes.topk);
      (kernel.product == Product::kForward ? sizes.n : sizes.k) = extent(kernel.tile_cols);
      (kernel.product == Product::kForward ? sizes.k : sizes.n) = extent(128);
      // Rows of operands in fp8 are multiples of 16 bytes, too, and several blocks of scales long.
      // Gate and up have whole pieces of 16 bytes each, or whole blocks.
      if (kernel.gate_up != 0) sizes.n *= 2;
      if (kernel.gate_up == 2 || (kernel.gate_up == 1 && kernel.element_bytes == 1)) {
        sizes.n = 256 * static_cast<int>(1 + numbers.Next(3));
      }
      if (kernel.element_bytes == 1) sizes.k = 16 * static_cast<int>(1 + numbers.Next(35));
    }
    return sizes;
  }
};

TEST_P(HopperKernel, EveryBitIsRight) {
  const KernelCase& kernel = KernelCases()[GetParam()];
  const char* const nightly = getenv("TUNEFARM_NIGHTLY");
  const uint64_t rounds = nightly != nullptr && *nightly == '1' ? 20 : 1;
  for (uint64_t round = 0; round < rounds; ++round) {
    Numbers numbers{GetParam() * 1000 + round};
    const Sizes sizes = DrawSizes(kernel, numbers);
    SCOPED_TRACE(testing::Message() << "round " << round << " n " << sizes.n << " k " << sizes.k);
    Trial(kernel, sizes, numbers.state).Run();
    if (HasFailure()) return;
  }
}

// What lies beside a group, or past the end of a matrix, is multiplied by nothing: zero times infinity is not zero.
TEST_P(HopperKernel, InfinitiesStayWithTheirExpert) {
  const KernelCase& kernel = KernelCases()[GetParam()];
  Numbers numbers{GetParam() * 77 + 5};
  const Sizes sizes = DrawSizes(kernel, numbers);
  Trial trial(kernel, sizes, numbers.state);
  trial.MakeInfinite(1);
  trial.Run();
}

// Experts are found by lanes that look at several each.
TEST(HopperKernels, FindTheirPlaceAmongManyExperts) {
  for (const KernelCase& kernel : KernelCases()) {
    if (kernel.name != "fwd_direct" && kernel.name != "fwd_swap_scatter_mul" && kernel.name != "dw_direct") continue;
    Numbers numbers{31};
    Sizes sizes{{}, 24, 40, 1, 8};
    const int experts = kernel.product == Product::kDw ? 37 : 100;
    for (int i = 0; i < experts; ++i) sizes.m.push_back(static_cast<int>(numbers.Next(2) * numbers.Next(4)));
    Trial(kernel, sizes, 5).Run();
  }
}

INSTANTIATE_TEST_SUITE_P(Configs, HopperKernel, testing::Range(size_t{0}, KernelCases().size()),
                         [](const testing::TestParamInfo<size_t>& of) { return KernelCases()[of.param].name; });

}  // namespace
}  // namespace tunefarm
