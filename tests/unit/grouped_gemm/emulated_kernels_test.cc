// The portable kernels and the references of kernels/grouped_gemm, run on the CPU against plain loops: sizes that are
// no multiple of anything, groups without rows, outputs that must stay untouched, infinities next door.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "server/base/random.h"
#include "server/worker/verify/half.h"
#include "tests/unit/grouped_gemm/emulated_case.h"

namespace tunefarm::emulated {

std::vector<Case>& Cases() {
  static std::vector<Case> cases;
  return cases;
}

namespace {

constexpr uint16_t kUntouched = 0x7bcd;
constexpr size_t kGuard = 64;

struct Shape {
  std::string name;
  std::vector<int> sizes;
  int n, k, topk;
  int group_size_m;
  int infinite_group = -1;  // whose rows hold infinities
};

std::string NameOf(const Shape& shape) { return shape.name; }

std::vector<Shape> Shapes() {
  return {{"odd", {5, 0, 1, 70, 0, 34}, 72, 40, 2, 1},
          {"one_group", {66}, 136, 104, 1, 8},
          {"empty_ends", {0, 0, 37, 129, 0}, 64, 64, 2, 4},
          {"small", {1, 1, 1, 1, 0, 0, 0, 4}, 8, 8, 8, 8},
          {"infinite", {33, 3, 40, 8}, 72, 72, 4, 2, 1}};
}

class Matrices {
 public:
  Matrices(const Case& test, const Shape& shape) : test_(test), shape_(shape) {
    rows_ = std::accumulate(shape.sizes.begin(), shape.sizes.end(), 0);
    experts_ = static_cast<int>(shape.sizes.size());
    ends_.resize(shape.sizes.size());
    std::partial_sum(shape.sizes.begin(), shape.sizes.end(), ends_.begin());
    const bool has_tokens = test.permutes_x && test.op != Op::kDx;
    const int x_rows = has_tokens ? rows_ / shape.topk : rows_;
    // A permutation: flat rows in a mixed order, sorted within no group; the kernels must not care.
    indices_.resize(static_cast<size_t>(rows_));
    std::iota(indices_.begin(), indices_.end(), 0);
    for (size_t i = indices_.size(); i > 1; --i) std::swap(indices_[i - 1], indices_[random_.UniformInt(i)]);
    weights_.resize(static_cast<size_t>(rows_));
    for (float& weight : weights_) weight = static_cast<float>(random_.UniformInt(1000)) / 1000.0f;
    x_ = Filled(x_rows, shape.k);
    dy_ = Filled(rows_, shape.n);
    w_ = Filled(experts_ * shape.n, shape.k);
    MakeInfinite();
    const size_t outputs = test.op == Op::kForward ? Size(rows_, shape.n)
                           : test.op == Op::kDx    ? Size(rows_, shape.k)
                                                   : Size(experts_ * shape.n, shape.k);
    output_.assign(outputs + 2 * kGuard, kUntouched);
    ForgetReads();
    for (const std::vector<uint16_t>* operand : {&x_, &dy_, &w_}) AllowReads(operand->data(), operand->size() * 2);
  }

  Call MakeCall(bool group_ends) {
    Call call;
    call.a = test_.op == Op::kForward ? x_.data() : dy_.data();
    call.b = test_.op == Op::kDw ? x_.data() : w_.data();
    call.c = output_.data() + kGuard;
    call.m_sizes = group_ends ? ends_.data() : shape_.sizes.data();
    call.group_ends = group_ends ? 1 : 0;
    call.gather_indices = indices_.data();
    call.topk_weights = weights_.data();
    call.rows = rows_;
    call.experts = experts_;
    call.n = shape_.n;
    call.k = shape_.k;
    call.topk = shape_.topk;
    call.group_size_m = shape_.group_size_m;
    return call;
  }

  void ForgetOutput() { std::fill(output_.begin(), output_.end(), kUntouched); }

  // The expected output by plain loops, and whether it is what the kernel wrote: nothing else, and everything.
  void Check() const {
    for (size_t i = 0; i < kGuard; ++i) {
      ASSERT_EQ(output_[i], kUntouched) << "before the output";
      ASSERT_EQ(output_[output_.size() - 1 - i], kUntouched) << "behind the output";
    }
    int first = 0;
    for (int group = 0; group < experts_; ++group) {
      const int rows = shape_.sizes[static_cast<size_t>(group)];
      if (test_.op == Op::kDw) {
        CheckMatrix(group, first, rows);
      } else {
        for (int row = first; row < first + rows; ++row) CheckRow(group, row);
      }
      first += rows;
    }
  }

 private:
  static size_t Size(int rows, int columns) { return static_cast<size_t>(rows) * static_cast<size_t>(columns); }

  std::vector<uint16_t> Filled(int rows, int columns) {
    std::vector<uint16_t> matrix(Size(rows, columns));
    for (uint16_t& element : matrix) {
      // Sums of products of small multiples of 1/8 are exact in single precision, in any order.
      element = Element(static_cast<float>(static_cast<int>(random_.UniformInt(17)) - 8) / 8.0f);
    }
    return matrix;
  }

  void MakeInfinite() {
    if (shape_.infinite_group < 0) return;
    int first = 0;
    for (int group = 0; group < shape_.infinite_group; ++group) first += shape_.sizes[static_cast<size_t>(group)];
    const int row = first;
    // Where topk divides the rows, a token of this group may be of another group too: only dX and dW's dY then.
    if (!test_.permutes_x || test_.op == Op::kDx) {
      for (int column = 0; column < shape_.k; ++column) x_[At(XRow(row), shape_.k, column)] = Element(INFINITY);
    }
    for (int column = 0; column < shape_.n; ++column) dy_[At(DyRow(row), shape_.n, column)] = Element(INFINITY);
  }

  size_t At(int row, int width, int column) const { return Size(row, width) + static_cast<size_t>(column); }
  int Flat(int row) const { return indices_[static_cast<size_t>(row)]; }
  int XRow(int row) const { return test_.permutes_x && test_.op != Op::kDx ? Flat(row) / shape_.topk : row; }
  int DyRow(int row) const { return test_.permutes_y ? Flat(row) : row; }

  uint16_t Element(float value) const {
    return test_.is_bf16 ? tunefarm_bf16_from_float(value) : tunefarm_half_from_float(value);
  }
  float Float(uint16_t element) const {
    return test_.is_bf16 ? tunefarm_float_from_bf16(element) : tunefarm_float_from_half(element);
  }
  float X(int row, int column) const { return Float(x_[At(row, shape_.k, column)]); }
  float Dy(int row, int column) const { return Float(dy_[At(row, shape_.n, column)]); }
  float W(int group, int n, int k) const { return Float(w_[At(group * shape_.n + n, shape_.k, k)]); }

  void Expect(size_t index, float expected, const std::string& where) const {
    const float got = Float(output_[kGuard + index]);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(got)) << where << ": " << got << " instead of not a number";
    } else {
      ASSERT_EQ(got, Float(Element(expected))) << where;
    }
  }

  void CheckRow(int group, int row) const {
    const bool forward = test_.op == Op::kForward;
    const int columns = forward ? shape_.n : shape_.k;
    const int output_row = (forward ? test_.permutes_y : test_.permutes_x) ? Flat(row) : row;
    for (int column = 0; column < columns; ++column) {
      float sum = 0;
      for (int term = 0; term < (forward ? shape_.k : shape_.n); ++term) {
        sum += forward ? X(XRow(row), term) * W(group, column, term) : Dy(DyRow(row), term) * W(group, term, column);
      }
      if (test_.multiplies) {
        sum = Float(Element(sum)) * Float(Element(weights_[static_cast<size_t>(output_row)]));
      }
      Expect(At(output_row, columns, column), sum,
             fmt::format("group {}, row {} (output row {}), column {}", group, row, output_row, column));
    }
  }

  void CheckMatrix(int group, int first, int rows) const {
    for (int n = 0; n < shape_.n; ++n) {
      for (int k = 0; k < shape_.k; ++k) {
        float sum = 0;
        for (int row = first; row < first + rows; ++row) sum += Dy(DyRow(row), n) * X(XRow(row), k);
        Expect(At(group * shape_.n + n, shape_.k, k), sum, fmt::format("group {}, n {}, k {}", group, n, k));
      }
    }
  }

  const Case& test_;
  const Shape& shape_;
  PhiloxStream random_{20261121};
  int rows_ = 0, experts_ = 0;
  std::vector<int> ends_, indices_;
  std::vector<float> weights_;
  std::vector<uint16_t> x_, dy_, w_, output_;
};

int CeilDiv(int a, int b) { return (a + b - 1) / b; }

// As the definitions bound it.
unsigned TilesMax(const Case& test, const Call& call) {
  if (test.op == Op::kDw) {
    return static_cast<unsigned>(call.experts * CeilDiv(call.n, test.tile_m) * CeilDiv(call.k, test.tile_n));
  }
  const int rows = (call.rows + std::min(call.rows, call.experts) * (test.tile_m - 1)) / test.tile_m;
  return static_cast<unsigned>(rows * CeilDiv(test.op == Op::kForward ? call.n : call.k, test.tile_n));
}

class EmulatedKernels : public testing::TestWithParam<std::tuple<size_t, Shape>> {};

TEST_P(EmulatedKernels, ComputeWhatTheLoopsCompute) {
  const Case& test = Cases()[std::get<0>(GetParam())];
  const Shape& shape = std::get<1>(GetParam());
  Matrices matrices(test, shape);
  const size_t experts = shape.sizes.size();
  const size_t shared = static_cast<size_t>(std::max(test.operand_bytes, test.staged_bytes)) + 8 * (experts + 1);
  for (const Schedule& schedule : {Schedule{true, false}, Schedule{false, true}}) {
    SCOPED_TRACE(schedule.copies_late ? "late copies" : "early copies, last warp first");
    // Groups are given by their sizes in one run and by their ends in the other.
    const Call call = matrices.MakeCall(schedule.copies_late);
    matrices.ForgetOutput();
    test.run(call, test.is_persistent ? 3 : TilesMax(test, call), shared, schedule);
    EXPECT_THAT(TakeFaults(), testing::IsEmpty());
    ASSERT_NO_FATAL_FAILURE(matrices.Check());
  }
}

TEST_P(EmulatedKernels, ReferencesComputeWhatTheLoopsCompute) {
  const Case& test = Cases()[std::get<0>(GetParam())];
  Matrices matrices(test, std::get<1>(GetParam()));
  const auto tiles = [](int extent) { return static_cast<unsigned>(CeilDiv(extent, 64)); };
  for (const bool group_ends : {false, true}) {
    const Call call = matrices.MakeCall(group_ends);
    Extent grid;
    if (test.op == Op::kDw) {
      grid = {tiles(call.k), tiles(call.n), static_cast<unsigned>(call.experts)};
    } else {
      grid.x = tiles(test.op == Op::kForward ? call.n : call.k);
      grid.y = static_cast<unsigned>((call.rows + std::min(call.rows, call.experts) * 63) / 64);
    }
    matrices.ForgetOutput();
    test.run_reference(call, grid);
    ASSERT_NO_FATAL_FAILURE(matrices.Check());
  }
}

std::vector<size_t> CaseNumbers() {
  std::vector<size_t> numbers(Cases().size());
  std::iota(numbers.begin(), numbers.end(), size_t{0});
  return numbers;
}

// Evaluated when the tests are made, after every case has registered itself.
INSTANTIATE_TEST_SUITE_P(Cases, EmulatedKernels,
                         testing::Combine(testing::ValuesIn(CaseNumbers()), testing::ValuesIn(Shapes())),
                         [](const testing::TestParamInfo<std::tuple<size_t, Shape>>& instance) {
                           return Cases()[std::get<0>(instance.param)].name + "_" + NameOf(std::get<1>(instance.param));
                         });

}  // namespace
}  // namespace tunefarm::emulated
